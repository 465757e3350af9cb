package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/lazyregexp"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// leastCompiled is the least share of the recording that compilation after the first step must take for a finding.
const leastCompiled = 0.01

// compiledAgain matches the names of ranges that run a second or later compilation of a frame by torch.compile. The
// form is "Torch-Compiled Region: frame/compilation", with both counted from 0.
var compiledAgain = lazyregexp.New(`^Torch-Compiled Region: (\d+)/[1-9]`)

// findRecompilation reports that the program compiles after its first step. The finding claims no time, because steps
// with compilation are dropped from the mean step.
func (c *ruleContext) findRecompilation() []analyze.Found {
	spans := c.x.CompiledAfterFirstStep()
	ns := spans.Total()
	if ns == 0 || float64(ns) < leastCompiled*float64(c.x.Span.Len()) {
		return nil
	}
	var again []string
	for _, name := range c.t.Names {
		if m := compiledAgain.FindStringSubmatch(name); len(m) > 1 && !slices.Contains(again, m[1]) {
			again = append(again, m[1])
		}
	}
	slices.Sort(again)
	f := c.newFinding(claim{device: -1}, fmt.Sprintf("the program compiles for %s after its first step, %.0f %% of the recording", gpuprof.FormatNS(ns), percent(ns, c.x.Span.Len())))
	if len(again) > 0 {
		f.Title += fmt.Sprintf("; torch.compile has more than one version of %s", analyze.Plural(len(again), "region", "regions"))
		f.Evidence["regions"] = strings.Join(again[:min(len(again), 8)], ", ")
	}
	f.Evidence["compilation_ns"], f.Evidence["stretches"] = ns, len(spans)
	f.PyTorch = "find the cause with TORCH_LOGS=recompiles,graph_breaks; torch.compile(dynamic=True) or torch._dynamo.mark_dynamic for sizes that change, padding to few sizes; numbers that change as tensors"
	f.Caveats = append(f.Caveats, "no time claimed: a step that compiles is no part of the mean step")
	return []analyze.Found{f}
}
