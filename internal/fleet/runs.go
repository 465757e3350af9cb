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

// runSlack is the tolerated excess of a rank's time over its siblings' median, a share; it equals the default threshold
// of compare.
const runSlack = 0.05

const slowest = 5

// Metric is one figure over all ranks or GPUs.
type Metric struct {
	Name   string         `json:"name"`
	Unit   string         `json:"unit"`
	Count  int            `json:"count"`  // ranks or GPUs with the metric
	Median gpuprof.Number `json:"median"` // of the ranks' medians
	// WithinNodes and BetweenNodes are robust standard deviations as shares of the median: of values about their node's
	// median, and of the nodes' medians. Null if no node has 2 values, or with fewer than 2 nodes.
	WithinNodes  gpuprof.Number `json:"within_nodes"`
	BetweenNodes gpuprof.Number `json:"between_nodes"`
	Slowest      []RankValue    `json:"slowest"` // at most 5, the worst first
}

// RankValue is the figure of a rank or GPU in comparison with its siblings.
type RankValue struct {
	Rank   int            `json:"rank"`
	Node   string         `json:"node,omitempty"`
	Device string         `json:"device,omitempty"`
	Value  gpuprof.Number `json:"value"`
	Worse  gpuprof.Number `json:"worse_by"` // as a share of the siblings' median; negative if better
}

// tally collects the values of one metric over ranks or GPUs.
type tally struct {
	values []float64
	nodes  map[string][]float64 // logarithms by node
	rows   []RankValue
}

func (t *tally) add(j *judged, v RankValue) {
	v.Worse = gpuprof.Number(j.worseShare(j.median))
	t.values = append(t.values, float64(v.Value))
	t.nodes[v.Node] = append(t.nodes[v.Node], j.log)
	t.rows = append(t.rows, v)
}

func (t *tally) metricRow(name, unit string) (Metric, bool) {
	if len(t.rows) == 0 {
		return Metric{}, false
	}
	slices.SortStableFunc(t.rows, func(a, b RankValue) int { return cmp.Compare(b.Worse, a.Worse) })
	within, between := nodeSpreads(t.nodes)
	return Metric{Name: name, Unit: unit, Count: len(t.rows), Median: gpuprof.Number(stats.Median(t.values)), WithinNodes: gpuprof.Number(within), BetweenNodes: gpuprof.Number(between),
		Slowest: t.rows[:min(slowest, len(t.rows))]}, true
}

type rankResult struct {
	from *Object
	*compare.Result
}

func (r *Report) judgeRuns(job *Job, o Options) {
	results := r.dropMismatched(r.readResults(job), o)
	if len(results) == 0 {
		return
	}
	var values []value
	floor := stageFloor(results)
	for i, res := range results {
		for _, m := range res.Metrics {
			v := metricMedian(&m)
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
	all := judgeValues(values)
	r.Workload = strings.Trim(results[0].Workload+" "+results[0].Preset, " ")
	for _, m := range results[0].Metrics {
		t := tally{nodes: map[string][]float64{}}
		for _, j := range all {
			if j.metric == m.Name {
				from := results[j.of].from
				t.add(&j, RankValue{Rank: from.Rank, Node: from.Node, Device: from.device, Value: gpuprof.Number(metricMedian(results[j.of].Metric(m.Name)))})
			}
		}
		if row, ok := t.metricRow(m.Name, m.Unit); ok {
			r.Metrics = append(r.Metrics, row)
		}
	}
	r.listOff(all, results)
}

// stageFloor returns the smallest stage time to compare, s: a share of the median step. Shorter times count as equal. 0
// if unknown.
func stageFloor(results []rankResult) float64 {
	var steps []float64
	for _, res := range results {
		if m := res.Metric(res.Total); m != nil {
			if v := metricMedian(m); v > 0 {
				steps = append(steps, v)
			}
		}
	}
	if len(steps) == 0 {
		return 0
	}
	return compare.StageFloor * stats.Median(steps)
}

func (r *Report) readResults(job *Job) []rankResult {
	var out []rankResult
	for _, obj := range job.objectsOf(document.Run) {
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
		case !hasTime(result):
			r.leaveOut(obj, fmt.Sprintf("rank %d: its %s has a sample of 0 or none, so it cannot be compared", obj.Rank, cmp.Or(result.Total, "run")))
		default:
			out = append(out, rankResult{obj, result})
		}
	}
	return out
}

// hasTime reports whether a result's total has a positive median; without a total, whether any metric has.
func hasTime(res *compare.Result) bool {
	if total := res.Metric(res.Total); total != nil {
		return metricMedian(total) > 0
	}
	return slices.ContainsFunc(res.Metrics, func(m compare.MetricData) bool { return metricMedian(&m) > 0 })
}

// metricMedian returns the median over processes of a metric's medians; NaN without samples.
func metricMedian(m *compare.MetricData) float64 {
	logs := stats.LogMedians(m.Runs)
	if len(logs) == 0 {
		return math.NaN()
	}
	return math.Exp(stats.Median(logs))
}

// leastSamples is the number of samples from which a single process has an interval.
const leastSamples = 6

// halfWidth returns the larger half of the 95 % interval of a metric's logarithm; infinite with too few samples.
// Devices that were measured in rounds use ratios to each round's median, in which a round's disturbance cancels.
func (r *Report) halfWidth(m *compare.MetricData, results []rankResult) float64 {
	runs := m.Runs
	if r.Devices != nil {
		runs = [][]float64{roundRatios(m, results)}
	}
	s := stats.Summarise(m.Unit, runs...)
	if s == nil || len(runs) == 1 && s.N() < leastSamples || !(s.CI95[0] > 0) {
		return math.Inf(1)
	}
	return math.Log(max(s.CI95[1]/s.Median, s.Median/s.CI95[0]))
}

// roundRatios divides a metric's samples, one per round, by the median of all devices in the round.
func roundRatios(m *compare.MetricData, results []rankResult) (ratios []float64) {
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

// comparedSettings returns the settings that must agree between ranks: workload, options and version.
func comparedSettings(res *compare.Result, o Options) map[string]string {
	out := map[string]string{"workload": res.Workload, "preset": res.Preset, "mode": res.Env["mode"], "version": res.Code["version"], "commit": res.Code["commit"]}
	for name, k := range res.Knobs {
		out[name] = k.Value
	}
	for _, field := range o.AllowMismatch {
		delete(out, field)
	}
	return out
}

// dropMismatched leaves out the ranks whose settings differ from the majority.
func (r *Report) dropMismatched(results []rankResult, o Options) []rankResult {
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
		s := comparedSettings(res.Result, o)
		if text := sign(s); most == nil || count[text]+1 > count[sign(most)] {
			most = s
		}
		count[sign(s)]++
	}
	return slices.DeleteFunc(results, func(res rankResult) bool {
		own := comparedSettings(res.Result, o)
		if maps.Equal(own, most) {
			return false
		}
		var fields, words []string
		either := maps.Clone(own)
		maps.Copy(either, most)
		for _, f := range slices.Sorted(maps.Keys(either)) {
			if own[f] != most[f] {
				fields = append(fields, "--allow-mismatch "+f)
				words = append(words, fmt.Sprintf("%s is %s, on most ranks %s", f, orNone(own[f]), orNone(most[f])))
			}
		}
		r.leaveOut(res.from, fmt.Sprintf("rank %d measured something else: %s; start every rank with the same gpuprof and settings, or give %s", res.from.Rank, strings.Join(words, ", "), strings.Join(fields, " ")))
		return true
	})
}

func orNone(v string) string { return cmp.Or(v, "not known") }

// identities names facts that differ between any two GPUs, and so explain nothing.
var identities = []string{"uuid_hash", "pci_bus_hash"}

// listOff lists the figures that are off, with the facts in which a rank's machine differs from the median rank's.
func (r *Report) listOff(all []judged, results []rankResult) {
	typical := medianRank(all, results)
	for _, j := range all {
		r.compared = max(r.compared, j.siblings)
		if !j.off {
			r.noteUndecided(&j, cmp.Or(results[j.of].from.device, fmt.Sprintf("rank %d", results[j.of].from.Rank)))
			continue
		}
		obj, m := results[j.of].from, results[j.of].Metric(j.metric)
		off := Off{Rank: obj.Rank, Node: obj.Node, Device: obj.device, Metric: j.metric, Unit: m.Unit, Value: gpuprof.Number(metricMedian(m)),
			Worse: gpuprof.Number(j.worseShare(j.median)), P: gpuprof.Number(j.p), Siblings: j.siblings}
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

func medianRank(all []judged, results []rankResult) *compare.Result {
	best, at := math.Inf(1), 0
	for _, j := range all {
		if far := math.Abs(j.log - j.median); j.metric == results[0].Total && far < best {
			best, at = far, j.of
		}
	}
	return results[at].Result
}
