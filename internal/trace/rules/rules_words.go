package rules

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// formatPerStep formats the time of spans, in the steps that are not dropped, as a time per step. It takes spans, not a
// sum of durations, so that parallel work counts once and no time exceeds the step.
func (c *ruleContext) formatPerStep(when model.Spans) string {
	return gpuprof.FormatNS(when.TotalAnd(c.x.Steady)/c.steps) + " " + analyze.PerStepWord(c.hasSteps())
}

// percentOfStep returns the share of the step that time spans take, %.
func (c *ruleContext) percentOfStep(when model.Spans) float64 {
	return percent(when.TotalAnd(c.x.Steady), c.span)
}

func (c *ruleContext) nameWhole() string {
	if c.hasSteps() {
		return "the step"
	}
	return "the recording window"
}

// hasSteps reports whether the trace has steps. Without steps, times refer to the recording window.
func (c *ruleContext) hasSteps() bool { return c.x.Stepped() }

func percent(part, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

// sites adds up the time and the number of events by place in the program.
type sites struct {
	c  *ruleContext
	of string // the unit of the count: "kernel", "call"
	by map[string]*gpuprof.Site
}

// newSites returns sites without places. of is the unit of the counts, such as "kernel".
func (c *ruleContext) newSites(of string) *sites { return &sites{c, of, map[string]*gpuprof.Site{}} }

// mostSites limits the places that a finding names.
const mostSites = 5

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

func (s *sites) addHost(h int32, ns int64) { s.add(s.c.nameSite(h), ns) }

// addGPU adds a device operation at the place that launched it, or under its own name if the place is unknown.
func (s *sites) addGPU(g int32, ns int64) { s.addGPUWithSuffix(g, "", ns) }

// addGPUWithSuffix is addGPU with the text words appended to the place.
func (s *sites) addGPUWithSuffix(g int32, words string, ns int64) {
	op := &s.c.t.GPU[g]
	where := ""
	if op.Launch >= 0 {
		where = s.c.nameSite(op.Launch)
	}
	if where == "" {
		if h := s.c.x.EnclosingOp(g); h >= 0 {
			where = s.c.nameSite(h)
		}
	}
	where = cmp.Or(where, analyze.ShortName(s.c.t.Name(op.Name)))
	s.add(where+words, ns)
}

func (s *sites) topSites() []gpuprof.Site {
	out := make([]gpuprof.Site, 0, len(s.by))
	for _, e := range s.by {
		out = append(out, *e)
	}
	slices.SortFunc(out, func(a, b gpuprof.Site) int {
		return cmp.Or(cmp.Compare(b.NS, a.NS), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Where, b.Where))
	})
	return out[:min(len(out), mostSites)]
}

// nameSite names the place of a host event: file and line if stacks were recorded, else module and outermost operator.
func (c *ruleContext) nameSite(h int32) string {
	site, op := c.x.Site(h), c.nameOuterOp(h)
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

// nameOuterOp returns the name of the outermost operator that encloses or equals a host event; "" without one.
func (c *ruleContext) nameOuterOp(h int32) string {
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

// formatCount formats a count with n significant digits, or with more if it has more before the point. It never has an
// exponent, which nobody writes in a count.
func formatCount(v float64, n int) string {
	text := gpuprof.Significant(v, n)
	if !strings.Contains(text, ".") {
		return text
	}
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
