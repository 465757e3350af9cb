package rules

import (
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

const (
	// longestGaps limits the number of idle gaps that sumGapActivity evaluates, gapPieces the total number of pieces
	// into which host events divide these gaps. Both bound the cost on long traces.
	longestGaps = 4096
	gapPieces   = 1 << 15
)

// gapSites holds the host activity during the longest gaps of a device, by place and by kind.
type gapSites struct {
	*sites
	gaps                      int   // number of all gaps
	longest                   int64 // length of the longest gap, ns
	inOps, inCalls, elsewhere int64 // host time in operators, in other API calls and elsewhere during evaluated gaps, ns
	// computing is the time, ns, in each operator that computes on the host.
	computing map[model.NameID]int64
	// inner is the time, ns, by place and by the innermost Python frame there.
	inner map[string]map[model.NameID]int64
	last  map[string]int // by place: number of the last gap that was counted for the place
	// phrases maps each place to a phrase for a sentence, such as "at aten::mm", with long names cut.
	phrases map[string]string
}

// totalNS returns the time of the evaluated gaps, ns.
func (g *gapSites) totalNS() int64 { return g.inOps + g.inCalls + g.elsewhere }

// sumGapActivity adds up the host activity during idle gaps of a device. In each gap it takes the thread whose launch
// ended the gap.
func (c *ruleContext) sumGapActivity(d *ruleDevice, gaps model.Spans) *gapSites {
	out := &gapSites{sites: c.newSites("gap"), gaps: len(gaps), inner: map[string]map[model.NameID]int64{}, last: map[string]int{},
		computing: map[model.NameID]int64{}, phrases: map[string]string{}}
	least := longSpanLimit(gaps, longestGaps)
	computes := c.findHostComputing()
	long := 0
	for _, gap := range gaps {
		if gap.Len() >= least {
			long++
		}
	}
	// Every gap has the same limit of pieces. Otherwise a polling loop in the first gap would use all of them.
	mostInGap := max(1, gapPieces/max(1, min(long, longestGaps)))
	seen := 0
	for _, gap := range gaps {
		if out.longest = max(out.longest, gap.Len()); gap.Len() < least || seen == longestGaps {
			continue
		}
		seen++
		pieces := 0
		lane := c.x.Main
		if i := firstOp(c.t, d.Ops, gap.End); i < len(d.Ops) {
			if l := c.t.GPU[d.Ops[i]].Launch; l >= 0 {
				lane = c.t.Host[l].Lane
			}
		}
		c.x.Walk(lane, gap, func(in, next int32, ns int64) bool {
			switch {
			case in >= 0 && c.x.Op(in) >= 0:
				out.inOps += ns
				if op := c.x.Op(in); computes(op) {
					out.computing[c.t.Host[op].Name] += ns
				}
			case in >= 0 && c.t.Host[in].Kind == model.API:
				out.inCalls += ns
			default:
				out.elsewhere += ns
			}
			where, phrase := c.namePlace(in, next, lane)
			out.phrases[where] = phrase
			out.addGapTime(where, seen, ns)
			if in >= 0 && c.t.Host[in].Kind == model.Python {
				out.addFrameTime(where, c.t.Host[in].Name, ns)
			}
			pieces++
			return pieces < mostInGap
		})
	}
	return out
}

func (g *gapSites) addGapTime(where string, gap int, ns int64) {
	g.add(where, ns)
	if e := g.by[where]; e != nil && g.last[where] == gap {
		e.Count--
	}
	g.last[where] = gap
}

func (g *gapSites) addFrameTime(where string, frame model.NameID, ns int64) {
	if g.inner[where] == nil {
		g.inner[where] = map[model.NameID]int64{}
	}
	g.inner[where][frame] += ns
}

// topPlaces returns the places with the most time. It adds to a place the inner Python frame with the most time, if
// this frame takes a quarter of the place's time. first is the first place as a phrase such as "at aten::mm".
func (g *gapSites) topPlaces() (out []gpuprof.Site, first string) {
	out = g.topSites()
	if len(out) > 0 {
		first = g.phrases[out[0].Where]
	}
	for i := range out {
		best, most := "", int64(0)
		for frame, ns := range g.inner[out[i].Where] {
			if name := g.c.t.Name(frame); ns > most || ns == most && name < best {
				best, most = name, ns
			}
		}
		if best != "" && 4*most >= out[i].NS && !strings.HasPrefix(out[i].Where, best) {
			out[i].Where += ", in " + best
			if i == 0 {
				first += ", in " + analyze.CutName(best)
			}
		}
	}
	return out, first
}

// longSpanLimit returns the largest power of two, ns, that at least n spans reach; 0 if there are fewer spans.
func longSpanLimit(gaps model.Spans, n int) int64 {
	var count [65]int
	for _, g := range gaps {
		count[bits.Len64(uint64(g.Len()))]++
	}
	sum := 0
	for b := len(count) - 1; b > 0; b-- {
		if sum += count[b]; sum >= n {
			return 1 << (b - 1)
		}
	}
	return 0
}

// namePlace names what a thread does: the place of event in, if there is one, else the code between the previous and
// the next operator or call. phrase is the place for a sentence: the two names are cut separately, so that both remain
// visible.
func (c *ruleContext) namePlace(in, next int32, lane uint32) (where, phrase string) {
	if in >= 0 && !c.isStep(in) {
		where = c.nameSite(in)
		return where, "at " + analyze.CutName(where)
	}
	r := c.x.LaneAt(lane)
	before := r.Hi - 1
	if next >= 0 {
		before = next - 1
	}
	a, b := "", ""
	if before >= r.Lo && !c.isStep(before) {
		a = c.nameOutermost(before)
	}
	if next >= 0 && !c.isStep(next) {
		b = c.t.Name(c.t.Host[next].Name)
	}
	switch {
	case a == "" && b == "":
		where = "code outside recorded operators and calls"
		return where, "in " + where
	case a == "":
		return "code before " + b, "in code before " + analyze.CutName(b)
	case b == "":
		return "code after " + a, "in code after " + analyze.CutName(a)
	}
	return "code between " + a + " and " + b, "in code between " + cutBeside(a, b) + " and " + cutBeside(b, a)
}

// longestPair is the largest total length, in characters, of two names in one sentence.
const longestPair = 110

// cutBeside cuts name so that name and other together have at most longestPair characters. It never cuts name to less
// than half of longestPair.
func cutBeside(name, other string) string {
	return gpuprof.Cut(name, max(longestPair/2, longestPair-utf8.RuneCountInString(other)))
}

// nameOutermost returns the name of the outermost event around host event h that is not a step; without one, the name
// of h.
func (c *ruleContext) nameOutermost(h int32) string {
	for p := c.x.Parent(h); p >= 0 && !c.isStep(p); p = c.x.Parent(p) {
		h = p
	}
	return c.t.Name(c.t.Host[h].Name)
}

func (c *ruleContext) isStep(h int32) bool {
	e := &c.t.Host[h]
	if e.Kind != model.Annotation {
		return e.Kind == model.Step
	}
	k := c.x.StepAt(e.Start)
	return k >= 0 && c.x.Steps[k].Host.Start == e.Start && c.x.Steps[k].Lane == e.Lane
}

// launchLatency returns the latency of launches for which the device waited: the idle time from the launch to the start
// of its operation. If the operation starts more than LatencyLimit after the launch call returns, only the time until
// the return counts, because the rest has another cause. If the device did not wait for the launch, only the time in
// the launch call counts, and only from LatencyLimit on.
func (d *ruleDevice) launchLatency(t *model.Trace) model.Spans {
	var out model.Spans
	ops, starved := d.Ops, d.Starved
	for _, q := range d.Queued {
		for len(ops) > 0 && t.GPU[ops[0]].Start < q.End {
			ops = ops[1:]
		}
		for len(starved) > 0 && starved[0].End < q.Start {
			starved = starved[1:]
		}
		op := analyze.EndOfWait(t, ops, q.End)
		if op < 0 || t.GPU[op].Launch < 0 {
			continue
		}
		returned := t.Host[t.GPU[op].Launch].End
		until := min(q.End, returned)
		switch follows := len(starved) > 0 && starved[0].End == q.Start; {
		case follows && q.End-max(q.Start, returned) <= analyze.LatencyLimit:
			until = q.End
		case until-q.Start <= analyze.LatencyLimit && !follows:
			continue
		}
		if until > q.Start {
			out = append(out, model.Span{Start: q.Start, End: until})
		}
	}
	return out
}

// claimLate claims, for each device, two kinds of idle time within the spans that window returns: waits for a launch,
// and the latency of these launches (see launchLatency).
func (c *ruleContext) claimLate(window func(*ruleDevice) model.Spans) claim {
	return c.grantClaim(func(d *ruleDevice) model.Spans {
		w := window(d)
		if c.isIdleUnsure(d) {
			c.withholdStarved(d, w)
			return nil
		}
		got := c.l.ClaimHost(d.Device, w.Minus(d.uncertainIdle))
		return got.Or(c.l.ClaimQueued(d.Device, d.launchLatency(c.t).And(w)))
	})
}

func (c *ruleContext) sumIdle(d *ruleDevice) int64 { return c.span - d.Busy.TotalAnd(c.x.Steady) }

func (c *ruleContext) getMostIdle() int64 {
	var most int64
	for _, d := range c.devices {
		most = max(most, c.sumIdle(d))
	}
	return most
}

func (c *ruleContext) findDevice(index int) *ruleDevice {
	i := slices.IndexFunc(c.devices, func(d *ruleDevice) bool { return d.Device == index })
	if i < 0 {
		return nil
	}
	return c.devices[i]
}
