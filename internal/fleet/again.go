package fleet

import (
	"fmt"
	"math"
	"regexp"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/health"
)

// A second measurement of the nodes that are off, beside as many healthy ones: only what is
// off in both stays off.

// repeat is what a further measurement found.
type repeat struct {
	where string
	at    map[string]int // its GPUs, by identity
	off   map[figureOf]bool
	has   map[figureOf]bool
}

// figureOf is a figure of one of the GPUs.
type figureOf struct {
	gpu    int
	metric string
}

// identity is the same text for a GPU in every measurement.
func (g *gpu) identity() string {
	if g.card.UUID != "" {
		return g.card.UUID
	}
	return g.from.Node + "\x00" + g.card.Device
}

// repeats judges what further buckets hold. suspects are what the first one found off, by
// identity and metric. A suspect is judged beside the GPUs that are none, so that of two
// nodes of which one is slow neither hides in the middle; where none of those was measured,
// beside the first measurement. What else is off there is a note.
func (r *Report) repeats(jobs []*Job, o Options, suspects map[[2]string]bool, first map[kin]norm) []*repeat {
	var out []*repeat
	for _, job := range jobs {
		second := &Report{}
		gpus := second.gpus(job)
		for _, why := range slices.Concat(job.Problems, second.Problems) {
			r.Problems = append(r.Problems, fmt.Sprintf("in %s %s", job.where, why))
		}
		if len(job.Missing) > 0 {
			text := fmt.Sprintf("in %s %d of %d ranks left no object: %s", job.where, len(job.Missing), job.World, RanksText(job.Missing))
			if o.AllowMissing {
				r.Notes = append(r.Notes, text)
			} else {
				r.Problems = append(r.Problems, text)
			}
		}
		p := &repeat{where: job.where, at: map[string]int{}, off: map[figureOf]bool{}, has: map[figureOf]bool{}}
		var values []value
		for i, g := range gpus {
			p.at[g.identity()] = i
			for _, s := range health.Scores(g.card) {
				values = append(values, valueOf(i, g.card, &s))
			}
		}
		for _, f := range second.Off { // by their own account, or beyond a range
			p.off[figureOf{f.of, f.Metric}] = true
			if f.own && !suspects[[2]string{gpus[f.of].identity(), f.Metric}] {
				r.Off = append(r.Off, f)
			}
		}
		p.judge(r, values, gpus, suspects, first)
		out = append(out, p)
	}
	return out
}

// judge fills in which figures are off.
func (p *repeat) judge(r *Report, values []value, gpus []gpu, suspects map[[2]string]bool, first map[kin]norm) {
	var healthy, suspected []judged
	for of, at := range grouped(values) {
		controls := slices.DeleteFunc(slices.Clone(at), func(i int) bool {
			return suspects[[2]string{gpus[values[i].of].identity(), of.metric}]
		})
		n, ok := first[of]
		if sound := n.sound(values, controls); len(sound) > 0 {
			n, ok = n.moved(normOf(values, sound)), true
		}
		for _, i := range at {
			switch {
			case !ok:
			case slices.Contains(controls, i):
				healthy = append(healthy, n.beside(values[i]))
			default:
				suspected = append(suspected, n.beside(values[i]))
			}
		}
	}
	name(healthy)
	var said told
	for _, j := range healthy {
		if g := gpus[j.of]; j.off && j.siblings > 1 {
			said.add(&Off{Rank: g.from.Rank, Node: g.from.Node, Device: g.card.Device, Metric: j.metric}, "is off in "+p.where+", and was not before: measure it once more")
		}
	}
	r.Notes = append(r.Notes, said.text()...)
	for _, j := range suspected {
		f := figureOf{j.of, j.metric}
		p.has[f] = true
		// A figure that was named once needs no correction for the number of those that were not.
		if j.off || j.siblings >= LeastSiblings && j.p <= falseRate && j.beyond() {
			p.off[f] = true
		}
	}
}

// moved is the norm of a second measurement. Of few controls its spread is that of the first one,
// about their median, which is known as well as so many tell.
func (n norm) moved(second norm) norm {
	if second.n >= LeastSiblings || n.n < LeastSiblings {
		return second
	}
	n.c, n.s = second.c, n.s*math.Sqrt(1+1/float64(second.n))
	return n
}

// sound are the places of those values that are not off beside a first norm. Where most are,
// the whole measurement was disturbed: then they are all of them.
func (n *norm) sound(values []value, at []int) []int {
	if n.n == 0 {
		return at
	}
	out := slices.DeleteFunc(slices.Clone(at), func(i int) bool { return values[i].worse(n.c) > values[i].slack })
	if 2*len(out) < len(at) {
		return at
	}
	return out
}

// stays reports whether a figure that the first measurement found off stays off, and what is
// to be said of it behind its name. id names its GPU.
func stays(all []*repeat, f *Off, id string) (ok bool, note string) {
	for _, p := range all {
		i, there := p.at[id]
		k := figureOf{i, f.Metric}
		switch {
		case !there:
			note = "stays off: " + p.where + " does not hold it"
		case !f.own && !p.has[k]:
			note = "stays off: it was not measured in " + p.where
		case !p.off[k]:
			return false, "was off, and is not in " + p.where + ": it is not called off"
		}
	}
	return true, note
}

// told are the notes on figures, one for all GPUs of a rank of which the same is said.
type told struct {
	order []Off // the first of each
	notes []string
	gpus  []int
}

func (t *told) add(f *Off, note string) {
	if note == "" {
		return
	}
	i := slices.IndexFunc(t.order, func(o Off) bool { return o.Rank == f.Rank && o.Metric == f.Metric })
	if i < 0 || t.notes[i] != note {
		t.order, t.notes, t.gpus = append(t.order, *f), append(t.notes, note), append(t.gpus, 1)
		return
	}
	t.gpus[i]++
}

func (t *told) text() []string {
	var out []string
	for i, o := range t.order {
		if t.gpus[i] > 1 {
			o.Device = fmt.Sprint(t.gpus[i], " GPUs")
		}
		out = append(out, fmt.Sprintf("%s of %s of rank %d on %s %s", o.Metric, o.Device, o.Rank, NodeText(o.Node), t.notes[i]))
	}
	return out
}

// hostName is what may stand in a list of hosts that a shell reads.
var hostName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// Again are the nodes to measure again, by name: those that are off or waited for, and as
// many healthy ones with the same GPUs, from all over the list. A node whose name no list of
// hosts can have is left out.
func (r *Report) Again() (off, healthy []string) {
	bad := map[string]bool{}
	for _, rank := range r.Failed {
		bad[r.nodeOf[rank]] = true
	}
	add := func(node string) {
		if hostName.MatchString(node) && !slices.Contains(off, node) {
			off = append(off, node)
		}
	}
	for _, o := range r.Off {
		add(o.Node)
	}
	if r.Waiting != nil {
		for _, s := range r.Waiting.Stragglers {
			for _, rank := range s.Ranks {
				add(r.nodeOf[rank])
			}
		}
	}
	slices.Sort(off)
	for _, node := range off {
		bad[node] = true
	}
	for _, node := range off {
		var like []string
		for _, other := range r.Nodes {
			if !bad[other] && !slices.Contains(healthy, other) && hostName.MatchString(other) && r.alikeNodes(node, other) {
				like = append(like, other)
			}
		}
		if len(like) > 0 {
			healthy = append(healthy, like[len(like)/2])
		}
	}
	slices.Sort(healthy)
	return off, healthy
}

// alikeNodes reports whether two nodes have GPUs that can be compared, or none that are known.
func (r *Report) alikeNodes(a, b string) bool {
	return len(r.kinds[a]) == 0 || slices.ContainsFunc(r.kinds[a], func(k string) bool { return slices.Contains(r.kinds[b], k) })
}

// checkAgain is an error if further buckets are given where they say nothing.
func checkAgain(job *Job, further []*Job) error {
	for _, j := range further {
		if where := lacksHealth(job, j); where != "" {
			return gpuprof.Errorf(gpuprof.ErrInput, "merging %s and %s: %s holds no health report, and a second folder confirms what gpuprof doctor --bench measured", job.where, j.where, where).WithFix("give one folder, or two of gpuprof doctor --bench -o DIR/")
		}
		if len(j.Objects) > 0 && j.where == job.where {
			return gpuprof.Errorf(gpuprof.ErrUsage, "merging %s and %s: they are one folder", job.where, j.where).WithFix("give the folder of the second measurement")
		}
	}
	return nil
}

func lacksHealth(jobs ...*Job) string {
	for _, j := range jobs {
		if len(j.of(document.Health)) == 0 {
			return j.where
		}
	}
	return ""
}
