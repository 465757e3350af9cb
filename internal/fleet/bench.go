package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/health"
)

type gpu struct {
	from *Object
	card *health.Card
}

// judgeHealth judges the health reports of the nodes: it compares each GPU's figures with its siblings in the whole
// fleet, and keeps the faults that a GPU reports itself.
func (r *Report) judgeHealth(job *Job, o Options) {
	gpus := r.collectGPUs(job)
	var values []value
	for i, g := range gpus {
		for _, s := range health.Scores(g.card) {
			values = append(values, valueOf(i, g.card, &s))
		}
		r.kinds[g.from.Node] = append(r.kinds[g.from.Node], g.card.Siblings())
	}
	all := judgeValues(values)
	r.GPUs, r.Reference = len(gpus), fleetNorms(values, gpus)
	for _, name := range health.Names() {
		if row, ok := gpuMetricRow(name, all, gpus); ok {
			r.Metrics = append(r.Metrics, row)
		}
	}
	off, own := []Off{}, r.Off // own: findings of the nodes' reports
	for _, j := range all {
		r.compared = max(r.compared, j.siblings)
		g := gpus[j.of]
		if !j.off {
			r.noteUndecided(&j, fmt.Sprintf("%s of rank %d", g.card.Device, g.from.Rank))
			continue
		}
		m, _ := g.card.Metric(j.metric)
		cause, evidence, fix := health.Explain(g.card, j.metric, typicalSibling(&j, all, gpus))
		// The fleet's comparison replaces the node's finding on the same figure.
		own = slices.DeleteFunc(own, func(o Off) bool { return o.of == j.of && o.Metric == j.metric })
		off = append(off, Off{Rank: g.from.Rank, Node: g.from.Node, Device: g.card.Device, Metric: j.metric, Unit: m.Unit, Value: m.Value,
			Worse: gpuprof.Number(j.worseShare(j.median)), P: gpuprof.Number(j.p), Siblings: j.siblings, Cause: cause, Evidence: evidence, Fix: fix, of: j.of})
	}
	r.Off = nil
	if len(o.Again) > 0 {
		off, own = r.keepConfirmed(off, own, gpus, values, o)
	}
	r.Off = slices.Concat(r.Off, own, groupByNode(off, gpus))
}

// keepConfirmed drops the worse figures that a further measurement does not confirm.
func (r *Report) keepConfirmed(off, own []Off, gpus []gpu, values []value, o Options) (offLeft, ownLeft []Off) {
	suspects, first := map[[2]string]bool{}, map[siblingMetric]norm{}
	for _, f := range slices.Concat(off, own) {
		suspects[[2]string{gpus[f.of].gpuID(), f.Metric}] = true
	}
	for of, at := range groupBySiblings(values) {
		first[of] = normOf(values, at)
	}
	repeats := r.judgeRepeats(o.Again, o, suspects, first)
	var notes noteList
	gone := func(f Off) bool {
		ok, note := staysOff(repeats, &f, gpus[f.of].gpuID())
		notes.add(&f, note)
		return !ok
	}
	off, own = slices.DeleteFunc(off, gone), slices.DeleteFunc(own, gone)
	r.Notes = append(r.Notes, notes.formatNotes()...)
	return off, own
}

func typicalSibling(of *judged, all []judged, gpus []gpu) *health.Card {
	nearest, at := math.Inf(1), of.of
	for _, j := range all {
		if far := math.Abs(j.log - of.median); j.of != of.of && j.group == of.group && j.metric == of.metric && far < nearest {
			nearest, at = far, j.of
		}
	}
	return gpus[at].card
}

// collectGPUs returns the devices of all health reports, each once, and adds the findings that need no siblings to r.
func (r *Report) collectGPUs(job *Job) []gpu {
	var out []gpu
	seen := map[string]gpu{}
	for _, obj := range job.objectsOf(document.Health) {
		var rep health.Report
		if err := document.Decode(obj.Payload, obj.name, &rep, document.Health); err != nil {
			r.leaveOut(obj, err.Error())
			continue
		}
		r.judged = r.judged || rep.Verdict == health.Healthy || rep.Verdict == health.Unhealthy
		for i := range rep.Devices {
			g := gpu{obj, &rep.Devices[i]}
			if g.card.Error != "" {
				r.leaveOut(obj, fmt.Sprintf("rank %d%s, %s: %s", obj.Rank, nodeSuffix(obj.Node), g.card.Device, g.card.Error))
			} else if len(g.card.Sources) > 0 && !g.card.Checked() { // reports of an older gpuprof have no sources
				r.unchecked++
				r.Notes = append(r.Notes, fmt.Sprintf("%s of rank %d%s was not checked for faults: %s",
					g.card.Device, obj.Rank, nodeSuffix(obj.Node), g.card.Silent()))
			}
			if twin, twice := seen[g.card.UUID]; g.card.UUID != "" && twice {
				r.leaveOut(obj, fmt.Sprintf("ranks %d and %d measured the same GPU (%s), so that each disturbed the other; start one process per node with --ntasks-per-node=1", twin.from.Rank, obj.Rank, g.card.UUID))
				continue
			}
			seen[g.card.UUID] = g
			out = append(out, g)
		}
		for _, o := range rep.Off {
			i := slices.IndexFunc(out, func(g gpu) bool { return g.from == obj && g.card.Device == o.Device })
			if o.Against != "siblings" && i >= 0 {
				r.Off = append(r.Off, Off{Rank: obj.Rank, Node: obj.Node, Device: out[i].card.Identity(), Metric: o.Metric, Unit: o.Unit, Value: o.Value, Worse: o.Worse,
					Cause: o.Cause, Evidence: o.Evidence, Fix: o.Fix, of: i, own: o.Against == "itself"})
			}
		}
	}
	return out
}

// nodeSuffix returns " on n7", or "" without a node's name.
func nodeSuffix(node string) string {
	if node == "" {
		return ""
	}
	return " on " + NodeText(node)
}

func gpuMetricRow(name string, all []judged, gpus []gpu) (Metric, bool) {
	t := tally{nodes: map[string][]float64{}}
	for _, j := range all {
		if j.metric == name {
			g := gpus[j.of]
			m, _ := g.card.Metric(name)
			t.add(&j, RankValue{Rank: g.from.Rank, Node: g.from.Node, Device: g.card.Device, Value: m.Value})
		}
	}
	return t.metricRow(name, health.Unit(name))
}

// groupByNode merges a node's findings on a metric into one if at least half of its GPUs have such findings: then the
// whole node is slow.
func groupByNode(off []Off, gpus []gpu) []Off {
	on := map[int]int{} // number of GPUs per rank
	for _, g := range gpus {
		on[g.from.Rank]++
	}
	type key struct {
		rank   int
		metric string
	}
	count, worst := map[key]int{}, map[key]Off{}
	for _, o := range off {
		k := key{o.Rank, o.Metric}
		if count[k]++; count[k] == 1 || o.Worse > worst[k].Worse {
			worst[k] = o
		}
	}
	var out []Off
	for _, o := range off {
		k := key{o.Rank, o.Metric}
		switch n := count[k]; {
		case n < 2 || 2*n < on[o.Rank]:
			out = append(out, o)
		case o == worst[k]:
			o.Device = fmt.Sprintf("%d of %d GPUs", n, on[o.Rank])
			out = append(out, o)
		}
	}
	slices.SortStableFunc(out, func(a, b Off) int { return cmp.Compare(a.Rank, b.Rank) })
	return out
}
