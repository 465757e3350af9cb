package rules

import (
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// notSteady: most of the recording is start-up, compilation or graph capture, or holds
// communication alone. It claims nothing, and stands before all other findings unless a program that may run once does work
// of its own for a good part of the recording.
func (c *ruleContext) notSteady() []analyze.Found {
	what, fix := c.x.NotSteady()
	if what == "" {
		return nil
	}
	f := c.finding(claim{device: -1}, what)
	for _, p := range c.x.Recording.Phases {
		f.Evidence[snake(p.Name)+"_ns"] = p.NS
	}
	f.Evidence["recorded_ns"] = c.x.Span.Len()
	f.PyTorch = fix
	f.First = c.x.PhasesFirst() || c.x.Recording.Kind == analyze.CommunicationOnly
	return []analyze.Found{f}
}
