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

// gpu is one device of one rank.
type gpu struct {
	from *Object
	card *health.Card
}

// health brings the health reports of the nodes to the report: each GPU's figures
// beside those of all its siblings in the fleet, and what a GPU says of itself.
func (r *Report) health(job *Job, o Options) {
	gpus := r.gpus(job)
	var values []value
	for i, g := range gpus {
		for _, s := range health.Scores(g.card) {
			values = append(values, valueOf(i, g.card, &s))
		}
		r.kinds[g.from.Node] = append(r.kinds[g.from.Node], g.card.Siblings())
	}
	all := judge(values)
	r.GPUs, r.Reference = len(gpus), norms(values, gpus)
	for _, name := range health.Names() {
		if row, ok := gpuMetric(name, all, gpus); ok {
			r.Metrics = append(r.Metrics, row)
		}
	}
	off, own := []Off{}, r.Off // own by the nodes' own reports
	for _, j := range all {
		r.compared = max(r.compared, j.siblings)
		g := gpus[j.of]
		if !j.off {
			r.hold(&j, fmt.Sprintf("%s of rank %d", g.card.Device, g.from.Rank))
			continue
		}
		m, _ := g.card.Metric(j.metric)
		cause, evidence, fix := health.Explain(g.card, j.metric, typical(&j, all, gpus))
		// The fleet's word counts where the node's own report has one on the same figure.
		own = slices.DeleteFunc(own, func(o Off) bool { return o.of == j.of && o.Metric == j.metric })
		off = append(off, Off{Rank: g.from.Rank, Node: g.from.Node, Device: g.card.Device, Metric: j.metric, Unit: m.Unit, Value: m.Value,
			Worse: gpuprof.Number(j.worse(j.median)), P: gpuprof.Number(j.p), Siblings: j.siblings, Cause: cause, Evidence: evidence, Fix: fix, of: j.of})
	}
	r.Off = nil
	if len(o.Again) > 0 {
		off, own = r.confirmed(off, own, gpus, values, o)
	}
	r.Off = slices.Concat(r.Off, own, byNode(off, gpus))
}

// confirmed are those of the figures that further measurements find off too.
func (r *Report) confirmed(off, own []Off, gpus []gpu, values []value, o Options) (offLeft, ownLeft []Off) {
	suspects, first := map[[2]string]bool{}, map[kin]norm{}
	for _, f := range slices.Concat(off, own) {
		suspects[[2]string{gpus[f.of].identity(), f.Metric}] = true
	}
	for of, at := range grouped(values) {
		first[of] = normOf(values, at)
	}
	repeats := r.repeats(o.Again, o, suspects, first)
	var said told
	gone := func(f Off) bool {
		ok, note := stays(repeats, &f, gpus[f.of].identity())
		said.add(&f, note)
		return !ok
	}
	off, own = slices.DeleteFunc(off, gone), slices.DeleteFunc(own, gone)
	r.Notes = append(r.Notes, said.text()...)
	return off, own
}

// typical is the sibling of a value whose figure is nearest to the median.
func typical(of *judged, all []judged, gpus []gpu) *health.Card {
	nearest, at := math.Inf(1), of.of
	for _, j := range all {
		if far := math.Abs(j.log - of.median); j.of != of.of && j.group == of.group && j.metric == of.metric && far < nearest {
			nearest, at = far, j.of
		}
	}
	return gpus[at].card
}

// gpus are the devices of all health reports, each once. What a report says of a device
// alone is taken over.
func (r *Report) gpus(job *Job) []gpu {
	var out []gpu
	seen := map[string]gpu{}
	for _, obj := range job.of(document.Health) {
		var rep health.Report
		if err := document.Decode(obj.Payload, obj.name, &rep, document.Health); err != nil {
			r.leaveOut(obj, err.Error())
			continue
		}
		r.judged = r.judged || rep.Verdict == health.Healthy || rep.Verdict == health.Unhealthy
		for i := range rep.Devices {
			g := gpu{obj, &rep.Devices[i]}
			if g.card.Error != "" {
				r.leaveOut(obj, fmt.Sprintf("rank %d%s, %s: %s", obj.Rank, onNode(obj.Node), g.card.Device, g.card.Error))
			} else if len(g.card.Sources) > 0 && !g.card.Checked() { // an older gpuprof recorded no sources
				r.unchecked++
				r.Notes = append(r.Notes, fmt.Sprintf("%s of rank %d%s was not checked for faults: %s",
					g.card.Device, obj.Rank, onNode(obj.Node), g.card.Silent()))
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

// onNode is " on n7", "" where the node has no name.
func onNode(node string) string {
	if node == "" {
		return ""
	}
	return " on " + NodeText(node)
}

// gpuMetric is the row of a metric over all GPUs.
func gpuMetric(name string, all []judged, gpus []gpu) (Metric, bool) {
	t := tally{nodes: map[string][]float64{}}
	for _, j := range all {
		if j.metric == name {
			g := gpus[j.of]
			m, _ := g.card.Metric(name)
			t.add(&j, RankValue{Rank: g.from.Rank, Node: g.from.Node, Device: g.card.Device, Value: m.Value})
		}
	}
	return t.row(name, health.Unit(name))
}

// byNode makes one finding of those of one metric about half of a node's GPUs or more:
// then the node is slow.
func byNode(off []Off, gpus []gpu) []Off {
	on := map[int]int{} // GPUs by rank
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
