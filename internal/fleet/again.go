package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/internal/lazyregexp"
)

// A further measurement covers the suspect nodes and as many healthy ones. A figure stays off only if every measurement
// finds it off.

// repeatFindings holds the result of one further measurement: its GPUs, and the figures that are off in it.
type repeatFindings struct {
	where    string
	gpuIndex map[string]int // GPU index by gpuID
	off      map[gpuFigure]bool
	measured map[gpuFigure]bool
}

// gpuFigure identifies a metric of a GPU within one measurement.
type gpuFigure struct {
	gpu    int
	metric string
}

// gpuID returns the identity of a GPU across measurements: its UUID, or its node and device name.
func (g *gpu) gpuID() string {
	return cmp.Or(g.card.UUID, g.from.Node+"\x00"+g.card.Device)
}

// judgeRepeats judges further measurements. suspects are the figures that the first measurement found off, by gpuID and
// metric. A suspect is compared with healthy GPUs only, since the slower of two nodes would shift a common median.
// Without healthy GPUs it is compared with the norms of the first measurement. Other figures that are off become notes.
func (r *Report) judgeRepeats(jobs []*Job, o Options, suspects map[[2]string]bool, first map[siblingMetric]norm) []*repeatFindings {
	var out []*repeatFindings
	for _, job := range jobs {
		second := &Report{}
		gpus := second.collectGPUs(job)
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
		p := &repeatFindings{where: job.where, gpuIndex: map[string]int{}, off: map[gpuFigure]bool{}, measured: map[gpuFigure]bool{}}
		var values []value
		for i, g := range gpus {
			p.gpuIndex[g.gpuID()] = i
			for _, s := range health.Scores(g.card) {
				values = append(values, valueOf(i, g.card, &s))
			}
		}
		for _, f := range second.Off { // faults that the GPU reports, and figures outside of the shipped range
			p.off[gpuFigure{f.of, f.Metric}] = true
			if f.own && !suspects[[2]string{gpus[f.of].gpuID(), f.Metric}] {
				r.Off = append(r.Off, f)
			}
		}
		p.judgeSuspects(r, values, gpus, suspects, first)
		out = append(out, p)
	}
	return out
}

// judgeSuspects records in p which suspects were measured again, and which of them were significantly worse than their
// siblings both times. A figure that is off only in the second measurement becomes a note of r.
func (p *repeatFindings) judgeSuspects(r *Report, values []value, gpus []gpu, suspects map[[2]string]bool, first map[siblingMetric]norm) {
	var healthy, suspected []judged
	for of, at := range groupBySiblings(values) {
		controls := slices.DeleteFunc(slices.Clone(at), func(i int) bool {
			return suspects[[2]string{gpus[values[i].of].gpuID(), of.metric}]
		})
		n, ok := first[of]
		if sound := n.selectHealthy(values, controls); len(sound) > 0 {
			n, ok = n.recentre(normOf(values, sound)), true
		}
		for _, i := range at {
			switch {
			case !ok:
			case slices.Contains(controls, i):
				healthy = append(healthy, n.judgeAgainst(values[i]))
			default:
				suspected = append(suspected, n.judgeAgainst(values[i]))
			}
		}
	}
	markOff(healthy)
	var notes noteList
	for _, j := range healthy {
		if g := gpus[j.of]; j.off && j.siblings > 1 {
			notes.add(&Off{Rank: g.from.Rank, Node: g.from.Node, Device: g.card.Device, Metric: j.metric}, "is off in "+p.where+", and was not before: measure it once more")
		}
	}
	r.Notes = append(r.Notes, notes.formatNotes()...)
	for _, j := range suspected {
		f := gpuFigure{j.of, j.metric}
		p.measured[f] = true
		// A suspect's figure was selected beforehand, so it needs no correction for multiple tests.
		if j.off || j.siblings >= LeastSiblings && j.p <= falseRate && j.exceedsSlack() {
			p.off[f] = true
		}
	}
}

// recentre returns the norm for a second measurement. n is the norm of the first measurement; second is the norm of the
// healthy GPUs in the second one. If second has enough GPUs, or n too few, the result is second. Otherwise it is n with
// second's median, and with a spread widened by that median's standard error.
func (n norm) recentre(second norm) norm {
	if second.n >= LeastSiblings || n.n < LeastSiblings {
		return second
	}
	n.c, n.s = second.c, n.s*math.Sqrt(1+1/float64(second.n))
	return n
}

// selectHealthy returns the indices of values that are worse than the norm's median by at most their slack (a tolerated
// share). If most values are worse than that, a disturbance affected the whole measurement, and all indices are
// returned.
func (n *norm) selectHealthy(values []value, at []int) []int {
	if n.n == 0 {
		return at
	}
	out := slices.DeleteFunc(slices.Clone(at), func(i int) bool { return values[i].worseShare(n.c) > values[i].slack })
	if 2*len(out) < len(at) {
		return at
	}
	return out
}

// staysOff reports whether every further measurement also finds a figure off (worse than its siblings). id is the GPU's
// gpuID. note follows the figure's name in the report.
func staysOff(all []*repeatFindings, f *Off, id string) (ok bool, note string) {
	for _, p := range all {
		i, there := p.gpuIndex[id]
		k := gpuFigure{i, f.Metric}
		switch {
		case !there:
			note = "stays off: " + p.where + " does not hold it"
		case !f.own && !p.measured[k]:
			note = "stays off: it was not measured in " + p.where
		case !p.off[k]:
			return false, "was off, and is not in " + p.where + ": it is not called off"
		}
	}
	return true, note
}

// noteList collects notes on figures, and joins equal notes on GPUs of one rank.
type noteList struct {
	order []Off // the first figure of each note
	notes []string
	gpus  []int
}

func (t *noteList) add(f *Off, note string) {
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

func (t *noteList) formatNotes() []string {
	var out []string
	for i, o := range t.order {
		if t.gpus[i] > 1 {
			o.Device = fmt.Sprint(t.gpus[i], " GPUs")
		}
		out = append(out, fmt.Sprintf("%s of %s of rank %d on %s %s", o.Metric, o.Device, o.Rank, NodeText(o.Node), t.notes[i]))
	}
	return out
}

// hostName matches node names that are safe to put into a shell command.
var hostName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// Again returns the nodes to measure again, sorted by name: those that are off or delay others, and for each a healthy
// node with the same GPU model. It omits nodes whose name does not match hostName.
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

// alikeNodes reports whether two nodes have a GPU model in common, or the model of a is unknown.
func (r *Report) alikeNodes(a, b string) bool {
	return len(r.kinds[a]) == 0 || slices.ContainsFunc(r.kinds[a], func(k string) bool { return slices.Contains(r.kinds[b], k) })
}

// checkRepeats returns an error if a folder has no health report, or a further folder is the job's own.
func checkRepeats(job *Job, further []*Job) error {
	for _, j := range further {
		if where := firstWithoutHealth(job, j); where != "" {
			return gpuprof.Errorf(gpuprof.ErrInput, "merging %s and %s: %s holds no health report, and a second folder confirms what gpuprof doctor --bench measured", job.where, j.where, where).WithFix("give one folder, or two of gpuprof doctor --bench -o DIR/")
		}
		if len(j.Objects) > 0 && j.where == job.where {
			return gpuprof.Errorf(gpuprof.ErrUsage, "merging %s and %s: they are one folder", job.where, j.where).WithFix("give the folder of the second measurement")
		}
	}
	return nil
}

func firstWithoutHealth(jobs ...*Job) string {
	for _, j := range jobs {
		if len(j.objectsOf(document.Health)) == 0 {
			return j.where
		}
	}
	return ""
}
