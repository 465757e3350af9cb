package rules

import (
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// findNotSteady reports that the recording is mostly start-up, compilation or graph capture, or has only communication.
// The finding claims no time. It comes first in the report, unless the program may run only once and computes for a
// considerable part of the recording (see PhasesFirst).
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
