package rules

import (
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// findNotSteady: the recording is mostly start-up, compilation or graph capture, or has only communication. It claims
// nothing. It comes first, except for a program that may run once and does its own work for a large part of the
// recording.
func (c *ruleContext) findNotSteady() []analyze.Found {
	what, fix := c.x.NotSteady()
	if what == "" {
		return nil
	}
	f := c.newFinding(claim{device: -1}, what)
	for _, p := range c.x.Recording.Phases {
		f.Evidence[toSnakeCase(p.Name)+"_ns"] = p.NS
	}
	f.Evidence["recorded_ns"] = c.x.Span.Len()
	f.PyTorch = fix
	f.First = c.x.PhasesFirst() || c.x.Recording.Kind == analyze.CommunicationOnly
	return []analyze.Found{f}
}
