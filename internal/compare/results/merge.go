package results

import (
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
)

// Process merges all runs of every metric into one run. A gate calls it for the output of each process of a block,
// because go test -count or hyperfine repeat within that process.
func Process(r *compare.Result) *compare.Result {
	out := *r
	out.Metrics = slices.Clone(r.Metrics)
	for i := range out.Metrics {
		out.Metrics[i].Runs = [][]float64{slices.Concat(r.Metrics[i].Runs...)}
	}
	if len(out.RunInfo) > 1 {
		out.RunInfo = out.RunInfo[:1]
	}
	return &out
}

// Merge combines results of the same program, each adding its runs. A metric that a result lacks gets empty runs for
// that result, so that the n-th run of every metric belongs to the same process. Fields that differ keep both values,
// and so differ from the other side. A count that varies between results stops being exact, unless gpuprof counted it.
func Merge(rs ...*compare.Result) (*compare.Result, error) {
	if len(rs) == 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "putting results together: there is none").WithFix("give at least one file")
	}
	out := compare.JoinHeads(rs)
	at, total, timed := map[string]int{}, 0, true
	for _, r := range rs {
		runs := countRuns(r)
		for _, m := range r.Metrics {
			i, ok := at[m.Name]
			if !ok {
				i, at[m.Name] = len(out.Metrics), len(out.Metrics)
				first := m
				first.Runs, first.Sites = nil, nil
				out.Metrics = append(out.Metrics, first)
			}
			into := &out.Metrics[i]
			if m.Rate != into.Rate {
				return nil, gpuprof.Errorf(gpuprof.ErrInput, "putting results together: %s was measured at %g and at %g requests per second", m.Name, into.Rate, m.Rate).WithFix("measure all at one rate, --set rate=%g", into.Rate)
			}
			into.SenderLate = into.SenderLate || m.SenderLate
			into.Runs = append(padRuns(into.Runs, total), m.Runs...)
			into.Sites = mergeSites(into.Sites, m.Sites)
		}
		total += runs
		timed = timed && len(r.RunInfo) == runs
		out.RunInfo = append(out.RunInfo, r.RunInfo...)
		out.Failed = append(out.Failed, r.Failed...)
		for _, w := range r.Warnings {
			if !slices.Contains(out.Warnings, w) {
				out.Warnings = append(out.Warnings, w)
			}
		}
	}
	if !timed {
		out.RunInfo = nil
	}
	for i := range out.Metrics {
		m := &out.Metrics[i]
		m.Runs = padRuns(m.Runs, total)
		m.Exact = m.Exact && (out.Tool == "gpuprof" || isSteady(m.Runs))
	}
	return out, nil
}

func countRuns(r *compare.Result) int {
	n := 0
	for _, m := range r.Metrics {
		n = max(n, len(m.Runs))
	}
	return n
}

func padRuns(runs [][]float64, n int) [][]float64 {
	for len(runs) < n {
		runs = append(runs, nil)
	}
	return runs
}

func mergeSites(a, b []gpuprof.Site) []gpuprof.Site {
	for _, s := range b {
		i := slices.IndexFunc(a, func(o gpuprof.Site) bool { return o.Where == s.Where })
		if i < 0 {
			a = append(a, s)
			continue
		}
		a[i].Count += s.Count
	}
	return a
}
