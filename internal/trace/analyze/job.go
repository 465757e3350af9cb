package analyze

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// JobWaits holds the waits in the collectives of a job. A rank waits from its own arrival at a collective to the
// arrival of the last rank; the rest of the collective is the transfer.
type JobWaits struct {
	Collectives int // number of collectives that several ranks recorded
	Ranks       []RankWaits
	// Stragglers lists the ranks for which the others wait, as indexes into Ranks, the longest wait first.
	Stragglers []int
}

// RankWaits holds the waits of one rank, which is a device of one trace.
type RankWaits struct {
	Input, Device int // indices of the trace file and of the device in Trace.Devices
	// For maps a rank (index into Ranks) to the time in which this rank waits for that rank in collectives. AloneNS is
	// the part of For in which the device has no other work. Both cover only the steps that are not dropped.
	For     map[int]model.Spans
	AloneNS map[int]int64
	// Last counts the collectives at which this rank arrives last, clearly later than the others.
	Last int
	// MoreNS is the extra time that this rank takes between collectives, ns per step, compared with ranks that do the
	// same work. The step can become at most MoreNS shorter if this rank becomes as fast as those ranks.
	MoreNS int64
	// Kinds counts the collectives at which this rank arrives last, by kind such as "all-reduce".
	Kinds map[string]int
}

// All returns the time in which the rank waits for any other rank.
func (r *RankWaits) All() (all model.Spans) {
	for _, w := range r.For {
		all = all.Or(w)
	}
	return all
}

// findWaits finds the waits between the ranks of a job and stores the waits of each trace in its index. It returns nil
// if fewer than two devices have collectives.
func (o Options) findWaits(indexes []*Index) *JobWaits {
	if o.Waits == nil {
		return nil
	}
	devices := 0
	for _, x := range indexes {
		devices += len(x.Devices)
	}
	if devices < 2 {
		return nil
	}
	var parts []Collectives
	for i, x := range indexes {
		for _, d := range x.Devices {
			if c := x.collectivesOf(d, isGroupCollective); c != nil {
				c.input, c.device = i, d.Device
				parts = append(parts, *c)
			}
		}
	}
	if len(parts) < 2 {
		return nil
	}
	job := o.Waits(parts)
	if job == nil {
		return nil
	}
	for i := range job.Ranks {
		r := &job.Ranks[i]
		r.Input, r.Device = parts[i].input, parts[i].device
		x := indexes[r.Input]
		if x.waits == nil {
			x.waits = map[int]model.Spans{}
		}
		x.waits[r.Device] = r.All()
		r.limitToSteady(x)
	}
	return job
}

// limitToSteady limits the waits to the steps that findings cover, and computes AloneNS.
func (r *RankWaits) limitToSteady(x *Index) {
	d := x.Device(r.Device)
	work := d.Compute.Or(d.Memcpy).Or(d.Memset)
	r.AloneNS = map[int]int64{}
	for by, w := range r.For {
		w = w.And(x.Steady)
		r.For[by], r.AloneNS[by] = w, w.Minus(work).Total()
	}
}

// Waits returns the time in which a device waits in collectives for ranks that arrive later; known is false if
// findWaits did not determine it.
func (x *Index) Waits(device int) (w model.Spans, known bool) {
	w, known = x.waits[device]
	return w, known
}

// Begin returns the start of the first step by the clock of the trace; Start and Moments are relative to it.
func (c *Collectives) Begin() int64 { return c.begin }

// Costs precedes the claimed time at the end of a finding's title.
const Costs = ", which costs up to "

// capClaims limits the time that the findings of a job claim, because the ranks are one program. A rule counts once,
// with its largest claim, and all rules together claim at most one step. The time for which other ranks wait for the
// straggler counts for the straggler rule, so it is subtracted from the other findings of the straggler.
func capClaims(indexes []*Index, found []Found) []Found {
	shareOf := func(f *Found) float64 { return float64(f.ClaimNS) / float64(max(1, indexes[f.Input].Steady.Total())) }
	left := 1.0
	for at := range found {
		s := &found[at]
		if s.Rule != gpuprof.RuleStraggler {
			continue
		}
		s.reduceClaim(indexes[s.Input], max(0, left))
		charged := shareOf(s)
		left -= charged
		for i := range found {
			f := &found[i]
			if f.Rule == s.Rule || f.Input != s.ByInput || f.Device >= 0 && f.Device != s.ByDevice || charged <= 0 {
				continue
			}
			own := shareOf(f)
			f.reduceClaim(indexes[f.Input], max(0, own-charged))
			charged -= own
		}
	}
	most := map[string]float64{}
	for i := range found {
		most[found[i].Rule] = max(most[found[i].Rule], shareOf(&found[i]))
	}
	delete(most, gpuprof.RuleStraggler)
	for _, f := range slices.Clone(found) { // in the order in which the rules made their findings
		share, ok := most[f.Rule]
		if !ok {
			continue
		}
		delete(most, f.Rule)
		for i := range found {
			if g := &found[i]; g.Rule == f.Rule && shareOf(g) > left {
				g.reduceClaim(indexes[g.Input], max(0, left))
			}
		}
		left -= min(share, max(0, left))
	}
	return slices.DeleteFunc(found, func(f Found) bool { return f.reduced && f.ClaimNS == 0 })
}

// reduceClaim lowers the time that a finding claims to at most the given share of x.Steady, and updates severity, title
// and caveats. A claim that is smaller already does not change.
func (f *Found) reduceClaim(x *Index, share float64) {
	claim := int64(share * float64(x.Steady.Total()))
	if claim >= f.ClaimNS {
		return
	}
	before := gpuprof.FormatNS(f.StepNS)
	f.Spans = model.Spans(f.Spans).First(claim)
	f.ClaimNS = model.Spans(f.Spans).Total()
	f.StepNS, f.Share = f.ClaimNS/int64(x.SteadySteps()), share
	f.Severity = SeverityOf(f.ClaimNS, f.Share)
	f.Title = strings.Replace(f.Title, Costs+before, Costs+gpuprof.FormatNS(f.StepNS), 1)
	f.reduced = true
	f.Caveats = append(f.Caveats, fmt.Sprintf("without the claims of other findings of the job, it is up to %s %s", before, PerStepWord(x.Stepped())))
}
