package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// runSlack is the share by which a rank's time may be longer than its siblings': the
// default threshold of compare and gate.
const runSlack = 0.05

// slowest is how many ranks a metric's row names.
const slowest = 5

// Metric is one figure over all ranks or GPUs.
type Metric struct {
	Name   string         `json:"name"`
	Unit   string         `json:"unit"`
	Count  int            `json:"count"`  // ranks or GPUs that have it
	Median gpuprof.Number `json:"median"` // over them, of each one's median
	// WithinNodes and BetweenNodes are robust standard deviations as shares of the
	// median: about the median of the node, and of the nodes' medians. Null where there
	// are too few of either (2 on a node, 2 nodes).
	WithinNodes  gpuprof.Number `json:"within_nodes"`
	BetweenNodes gpuprof.Number `json:"between_nodes"`
	Slowest      []RankValue    `json:"slowest"` // at most 5, the worst first
}

// RankValue is the figure of a rank or GPU beside its siblings'.
type RankValue struct {
	Rank   int            `json:"rank"`
	Node   string         `json:"node,omitempty"`
	Device string         `json:"device,omitempty"`
	Value  gpuprof.Number `json:"value"`
	Worse  gpuprof.Number `json:"worse_by"` // share of the siblings' median; negative where it is better
}

// tally gathers the row of a metric.
type tally struct {
	values []float64
	nodes  map[string][]float64 // logarithms
	rows   []RankValue
}

func (t *tally) add(j *judged, v RankValue) {
	v.Worse = gpuprof.Number(j.worse(j.median))
	t.values = append(t.values, float64(v.Value))
	t.nodes[v.Node] = append(t.nodes[v.Node], j.log)
	t.rows = append(t.rows, v)
}

func (t *tally) row(name, unit string) (Metric, bool) {
	if len(t.rows) == 0 {
		return Metric{}, false
	}
	slices.SortStableFunc(t.rows, func(a, b RankValue) int { return cmp.Compare(b.Worse, a.Worse) })
	within, between := spreads(t.nodes)
	return Metric{Name: name, Unit: unit, Count: len(t.rows), Median: gpuprof.Number(stats.Median(t.values)), WithinNodes: gpuprof.Number(within), BetweenNodes: gpuprof.Number(between),
		Slowest: t.rows[:min(slowest, len(t.rows))]}, true
}

// ran is the result of one rank.
type ran struct {
	from *Object
	*compare.Result
}

// runs brings the runs of the ranks to the report.
func (r *Report) runs(job *Job, o Options) {
	results := r.alike(r.results(job), o)
	if len(results) == 0 {
		return
	}
	var values []value
	floor := stageFloor(results)
	for i, res := range results {
		for _, m := range res.Metrics {
			v := middleOf(&m)
			if m.Exact || m.Undirected || !(v > 0) {
				continue
			}
			if slices.Contains(res.Stages, m.Name) {
				v = math.Max(v, floor)
			}
			log := -math.Log(v)
			if m.HigherIsBetter {
				log = -log
			}
			values = append(values, value{of: i, group: res.Env["device"], metric: m.Name, log: log, more: m.HigherIsBetter, slack: runSlack, half: func() float64 { return r.halfWidth(&m, results) }})
		}
	}
	all := judge(values)
	r.Workload = strings.Trim(results[0].Workload+" "+results[0].Preset, " ")
	for _, m := range results[0].Metrics {
		t := tally{nodes: map[string][]float64{}}
		for _, j := range all {
			if j.metric == m.Name {
				from := results[j.of].from
				t.add(&j, RankValue{Rank: from.Rank, Node: from.Node, Device: from.device, Value: gpuprof.Number(middleOf(results[j.of].Metric(m.Name)))})
			}
		}
		if row, ok := t.row(m.Name, m.Unit); ok {
			r.Metrics = append(r.Metrics, row)
		}
	}
	r.offRanks(all, results)
}

// stageFloor is the time that stages are raised to, so that one below it everywhere is
// equal everywhere: a share of the median step, 0 where that is unknown.
func stageFloor(results []ran) float64 {
	var steps []float64
	for _, res := range results {
		if m := res.Metric(res.Total); m != nil {
			if v := middleOf(m); v > 0 {
				steps = append(steps, v)
			}
		}
	}
	if len(steps) == 0 {
		return 0
	}
	return compare.StageFloor * stats.Median(steps)
}

// results are those of the runs that can be used.
func (r *Report) results(job *Job) []ran {
	var out []ran
	for _, obj := range job.of(document.Run) {
		runs, err := document.Runs(obj.Payload, obj.name)
		if err == nil && len(runs) > 1 {
			err = fmt.Errorf("reading %s: it holds a sweep", obj.name)
		}
		var result *compare.Result
		if err == nil {
			result, err = compare.FromRun(runs[0])
		}
		switch {
		case err != nil:
			r.leaveOut(obj, err.Error())
		case len(result.Failed) > 0 || result.Status != gpuprof.Complete:
			why := append([]string{}, result.Failed...)
			if len(why) == 0 {
				why = []string{cmp.Or(result.Reason, "its run is "+string(result.Status))}
			}
			r.leaveOut(obj, fmt.Sprintf("rank %d: %s", obj.Rank, strings.Join(why, "; ")))
		case !timed(result):
			r.leaveOut(obj, fmt.Sprintf("rank %d: its %s has a sample of 0 or none, so it cannot be compared", obj.Rank, cmp.Or(result.Total, "run")))
		default:
			out = append(out, ran{obj, result})
		}
	}
	return out
}

// timed reports whether a result has a figure of its total, or of anything where it has none.
func timed(res *compare.Result) bool {
	if total := res.Metric(res.Total); total != nil {
		return middleOf(total) > 0
	}
	return slices.ContainsFunc(res.Metrics, func(m compare.MetricData) bool { return middleOf(&m) > 0 })
}

// middleOf is the median of the medians of a metric's processes, NaN where it has none.
func middleOf(m *compare.MetricData) float64 {
	logs := stats.LogMedians(m.Runs)
	if len(logs) == 0 {
		return math.NaN()
	}
	return math.Exp(stats.Median(logs))
}

// leastSamples is the number of samples of one process from which they have an interval.
const leastSamples = 6

// halfWidth is the larger half of the 95 % interval of a metric's logarithm, by its own samples;
// infinite where they are too few. Of devices that were measured in rounds it is that of the ratio
// to the round's median, in which the disturbance of a whole round cancels.
func (r *Report) halfWidth(m *compare.MetricData, results []ran) float64 {
	runs := m.Runs
	if r.Devices != nil {
		runs = [][]float64{besideRounds(m, results)}
	}
	s := stats.Summarise(m.Unit, runs...)
	if s == nil || len(runs) == 1 && s.N() < leastSamples || !(s.CI95[0] > 0) {
		return math.Inf(1)
	}
	return math.Log(max(s.CI95[1]/s.Median, s.Median/s.CI95[0]))
}

// besideRounds are the samples of a metric, one a round, over the median of all devices in the round.
func besideRounds(m *compare.MetricData, results []ran) (ratios []float64) {
	for k, v := range slices.Concat(m.Runs...) {
		var round []float64
		for _, res := range results {
			if other := res.Metric(m.Name); other != nil {
				if all := slices.Concat(other.Runs...); k < len(all) {
					round = append(round, all[k])
				}
			}
		}
		ratios = append(ratios, v/stats.Median(round))
	}
	return ratios
}

// settings are what must agree between ranks, by field: what was measured and by which program.
func settings(res *compare.Result, o Options) map[string]string {
	out := map[string]string{"workload": res.Workload, "preset": res.Preset, "mode": res.Env["mode"], "version": res.Code["version"], "commit": res.Code["commit"]}
	for name, k := range res.Knobs {
		out[name] = k.Value
	}
	for _, field := range o.AllowMismatch {
		delete(out, field)
	}
	return out
}

// alike leaves out the ranks that measured something else than most.
func (r *Report) alike(results []ran, o Options) []ran {
	count := map[string]int{}
	sign := func(m map[string]string) string {
		var b strings.Builder
		for _, k := range slices.Sorted(maps.Keys(m)) {
			fmt.Fprintf(&b, "%q=%q ", k, m[k])
		}
		return b.String()
	}
	var most map[string]string
	for _, res := range results {
		s := settings(res.Result, o)
		if text := sign(s); most == nil || count[text]+1 > count[sign(most)] {
			most = s
		}
		count[sign(s)]++
	}
	return slices.DeleteFunc(results, func(res ran) bool {
		own := settings(res.Result, o)
		if maps.Equal(own, most) {
			return false
		}
		var fields, words []string
		for _, f := range slices.Sorted(maps.Keys(union(own, most))) {
			if own[f] != most[f] {
				fields = append(fields, "--allow-mismatch "+f)
				words = append(words, fmt.Sprintf("%s is %s, on most ranks %s", f, orNone(own[f]), orNone(most[f])))
			}
		}
		r.leaveOut(res.from, fmt.Sprintf("rank %d measured something else: %s; start every rank with the same gpuprof and settings, or give %s", res.from.Rank, strings.Join(words, ", "), strings.Join(fields, " ")))
		return true
	})
}

func union(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

func orNone(v string) string { return cmp.Or(v, "not known") }

// identities are facts in which two GPUs always differ, so that they are no cause.
var identities = []string{"uuid_hash", "pci_bus_hash"}

// offRanks lists the figures that are off, with what is different where they were measured.
func (r *Report) offRanks(all []judged, results []ran) {
	typical := middling(all, results)
	for _, j := range all {
		r.compared = max(r.compared, j.siblings)
		if !j.off {
			r.hold(&j, cmp.Or(results[j.of].from.device, fmt.Sprintf("rank %d", results[j.of].from.Rank)))
			continue
		}
		obj, m := results[j.of].from, results[j.of].Metric(j.metric)
		off := Off{Rank: obj.Rank, Node: obj.Node, Device: obj.device, Metric: j.metric, Unit: m.Unit, Value: gpuprof.Number(middleOf(m)),
			Worse: gpuprof.Number(j.worse(j.median)), P: gpuprof.Number(j.p), Siblings: j.siblings}
		var differs []string
		for _, d := range compare.Differences(typical, results[j.of].Result) {
			if slices.Contains(identities, d.Field) {
				continue
			}
			differs = append(differs, fmt.Sprintf("%s is %s, elsewhere %s", d.Field, orNone(d.New), orNone(d.Old)))
		}
		if len(differs) > 0 {
			off.Cause, off.Evidence = strings.Join(differs[:min(len(differs), 6)], "; "), true
			off.Fix = "make this node like the others, or look at it with gpuprof doctor --bench"
		} else {
			off.Cause, off.Fix = "nothing that is known of the rank's machine differs from the others", "look at the node with gpuprof doctor --bench, and at what else runs there"
		}
		r.Off = append(r.Off, off)
	}
}

// middling is the rank whose step is the median one: what is different from it is special.
func middling(all []judged, results []ran) *compare.Result {
	best, at := math.Inf(1), 0
	for _, j := range all {
		if far := math.Abs(j.log - j.median); j.metric == results[0].Total && far < best {
			best, at = far, j.of
		}
	}
	return results[at].Result
}
