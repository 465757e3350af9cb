package rules

import (
	"cmp"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// perStep words instants of the steps that count as a time per step. It takes
// instants, not a sum of durations: what ran side by side counts once, so no
// time per step is longer than the step.
func (c *ruleContext) perStep(when model.Spans) string {
	return gpuprof.FormatNS(when.TotalAnd(c.x.Steady)/c.steps) + " " + analyze.PerStepWord(c.stepped())
}

// share is the part of the step that instants take, in percent.
func (c *ruleContext) share(when model.Spans) float64 {
	return percent(when.TotalAnd(c.x.Steady), c.span)
}

// whole is what shares are of.
func (c *ruleContext) whole() string {
	if c.stepped() {
		return "the step"
	}
	return "the recording window"
}

// stepped says whether the trace has steps; without any, times are of the
// recording window.
func (c *ruleContext) stepped() bool { return c.x.Stepped() }

// percent is the share of part in whole, in percent.
func percent(part, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

// sites adds up where something happens.
type sites struct {
	c  *ruleContext
	of string // what is counted there
	by map[string]*gpuprof.Site
}

// newSites counts events of the recording by place; of names one of them.
func (c *ruleContext) newSites(of string) *sites { return &sites{c, of, map[string]*gpuprof.Site{}} }

// topSites is how many places a finding names.
const topSites = 5

func (s *sites) add(where string, ns int64) {
	if where == "" {
		return
	}
	e := s.by[where]
	if e == nil {
		e = &gpuprof.Site{Where: where, Of: s.of}
		s.by[where] = e
	}
	e.Count++
	e.NS += ns
}

// host adds a host event.
func (s *sites) host(h int32, ns int64) { s.add(s.c.where(h), ns) }

// gpu adds a device operation at the place that launched it, or under its own
// name where that is not known.
func (s *sites) gpu(g int32, ns int64) { s.gpuAs(g, "", ns) }

// gpuAs is gpu with words behind the place.
func (s *sites) gpuAs(g int32, words string, ns int64) {
	op := &s.c.t.GPU[g]
	where := ""
	if op.Launch >= 0 {
		where = s.c.where(op.Launch)
	}
	if where == "" {
		if h := s.c.x.EnclosingOp(g); h >= 0 {
			where = s.c.where(h)
		}
	}
	where = cmp.Or(where, analyze.ShortName(s.c.t.Name(op.Name)))
	s.add(where+words, ns)
}

// top are the places with most time.
func (s *sites) top() []gpuprof.Site {
	out := make([]gpuprof.Site, 0, len(s.by))
	for _, e := range s.by {
		out = append(out, *e)
	}
	slices.SortFunc(out, func(a, b gpuprof.Site) int {
		return cmp.Or(cmp.Compare(b.NS, a.NS), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Where, b.Where))
	})
	return out[:min(len(out), topSites)]
}

// where names the place of a host event: file and line where the trace has
// stacks, else the part of the model, with the outermost operator around it.
func (c *ruleContext) where(h int32) string {
	site, op := c.x.Site(h), c.outerOp(h)
	inner := ""
	if e := c.x.Op(h); e >= 0 {
		inner = c.t.Name(c.t.Host[e].Name)
	}
	switch {
	case op == "" || site == op:
		return site
	case site == "" || site == inner:
		return op
	}
	return site + " (" + op + ")"
}

// outerOp is the outermost operator around a host event (or it): what the
// program called.
func (c *ruleContext) outerOp(h int32) string {
	outer := int32(-1)
	for e := c.x.Op(h); e >= 0; e = c.x.Parent(e) {
		if c.t.Host[e].Kind == model.Op {
			outer = e
		}
	}
	if outer < 0 {
		return ""
	}
	return c.t.Name(c.t.Host[outer].Name)
}
