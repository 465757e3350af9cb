package explain_test

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/explain"
)

// number is a number of a text that the code has as a constant.
type number struct {
	kind   explain.Kind
	name   string  // of the entry
	file   string  // that has the constant
	value  string  // the constant
	scale  float64 // from its unit to that of the text
	format string  // of the number in the text
}

// numbers are the numbers in texts that are constants of the code.
func numbers() []number {
	return []number{
		{explain.Rule, "dataloader-stall", "internal/trace/rules/rule_dataloader_stall.go", "loaderPercent", 1, "at least %v %% of it"},
		{explain.Rule, "dataloader-stall", "internal/trace/rules/rules_loader.go", "handOverNS", 1e-6, "less than %v ms"},
		{explain.Rule, "pageable-h2d", "internal/trace/rules/rule_pageable_h2d.go", "smallCopy", 1. / 1024, "%v KiB or more"},
		{explain.Rule, "exposed-copy", "internal/trace/rules/rule_exposed_copy.go", "exposedPercent", 1, "at least %v %% of the device's time"},
		{explain.Rule, "launch-bound", "workloads/advise/rule_launch_bound.go", "shortKernel", 1e6, "%v us or less"},
		{explain.Rule, "launch-bound", "internal/trace/rules/rule_launch_bound.go", "shortKernel", 1e-3, "less than %v us"},
		{explain.Rule, "launch-bound", "internal/trace/rules/rule_launch_bound.go", "leastGap", 1e-3, "more than %v us"},
		{explain.Rule, "no-amp", "workloads/advise/rule_precision.go", "worthwhile", 1, "less than %v times FP32"},
		{explain.Rule, "no-tf32", "internal/trace/rules/rule_precision.go", "tensorGain", 1, "ratio of the peak rates is %v at most"},
		{explain.Rule, "tensor-cores", "internal/trace/rules/rule_precision.go", "tensorGain", 1, "ratio of the peak rates is %v at most"},
		{explain.Rule, "unfused-attention", "internal/trace/rules/rule_unfused_attention.go", "scoreKernels", 1, "at most %v kernels"},
		{explain.Rule, "elementwise-chain", "internal/trace/rules/rule_elementwise_chain.go", "chainKernels", 1, "%v or more elementwise"},
		{explain.Rule, "elementwise-chain", "internal/trace/rules/rule_elementwise_chain.go", "chainPercent", 1, "take %v %% of the step"},
		{explain.Rule, "host-bound", "internal/trace/rules/rule_host_bound.go", "hostPercent", 1, "%v %% of the step, or"},
		{explain.Rule, "host-bound", "internal/trace/analyze/bound.go", "LeastShare", 100, "%v %% of it if the device is idle"},
		{explain.Rule, "host-bound", "internal/trace/rules/rule_host_bound.go", "idlePercent", 1, "idle for %v %%"},
		{explain.Rule, "stream-wait", "internal/trace/rules/rule_host_bound.go", "idlePercent", 1, "idle for %v %%"},
		{explain.Rule, "stream-wait", "internal/trace/rules/rule_host_bound.go", "hostPercent", 1, "does not begin for %v %%"},
		{explain.Rule, "far-from-roofline", "workloads/advise/rule_far_from_roofline.go", "farFactor", 1, "at %v x its roofline bound"},
		{explain.Rule, "few-threads", "workloads/advise/context.go", "longKernel", 1e6, "%v us or more"},
		{explain.Rule, "against-baseline", "workloads/advise/baseline.go", "leastExplained", 100, "%v %% of the difference"},
		{explain.Rule, "leak", "internal/memsnap/device.go", "leastSteps", 1, "at least %v steps"},
		{explain.Rule, "leak", "internal/memsnap/device.go", "risingPart", 100, "after %v %% of them"},
		{explain.Rule, "gradient-held", "internal/memsnap/findings.go", "mediumPart", 100, "lower by %v %%"},
		{explain.Rule, "peak-activation", "internal/memsnap/findings.go", "activationPart", 100, "at least %v %% of the peak"},
		{explain.Rule, "large-temporary", "internal/memsnap/findings.go", "temporaryPart", 100, "at least %v %% of the peak"},
		{explain.Rule, "large-temporary", "internal/memsnap/findings.go", "temporaryLife", 100, "less than %v %% of the events"},
		{explain.Rule, "optimizer-state", "internal/memsnap/findings.go", "highPart", 100, "at least %v %% of the peak"},
		{explain.Rule, "optimizer-temporary", "internal/memsnap/findings.go", "mediumPart", 100, "lower by %v %%"},
		{explain.Rule, "fragmentation", "internal/memsnap/settings.go", "leastLoss", 100, "at least %v %% of the peak of reserved"},
		{explain.Rule, "fragmentation", "workloads/advise/rule_fragmentation.go", "leastLoss", 100, "reserves at least %v %% less"},
		{explain.Rule, "cached-unused", "internal/memsnap/findings.go", "highPart", 100, "at least %v %% of reserved"},
		{explain.Warning, "different-operators", "internal/trace/analyze/compare.go", "differentOps", 100, "more than %v %%"},
		{explain.Warning, "flagged-samples", "internal/compare/options.go", "flaggedLimit", 100, "more than %v %% of the samples"},
		{explain.Warning, "flagged-samples", "internal/compare/options.go", "flaggedApart", 100, "differ by more than %v %%"},
		{explain.Warning, "session-spread-assumed", "internal/compare/options.go", "defaultSpread", 100, "spread of %v %%"},
		{explain.Warning, "session-spread-learned", "internal/compare/options.go", "defaultSpread", 100, "assumed %v %%"},
		{explain.Warning, "time-budget", "workloads/measure/plan.go", "halfWidthGoal", 100, "±%v %%"},
		{explain.Warning, "energy-invalid", "workloads/measure/energy.go", "energyUpdates", 1, "fewer than %v times"},
		{explain.Warning, "energy-invalid", "workloads/measure/energy.go", "energyApart", 100, "more than %v %%"},
		{explain.Warning, "uneven-steps", "workloads/measure/plan.go", "unevenSteps", 100, "more than %v %%"},
		{explain.Warning, "clock-mismatch", "workloads/measure/plan.go", "clockMismatch", 100, "by more than %v %%"},
		{explain.Term, "finding", "workloads/advise/context.go", "leastShare", 100, "a run needs %v %%"},
		{explain.Term, "finding", "internal/trace/analyze/bound.go", "LeastShare", 100, "a trace %v %%"},
		{explain.Term, "threshold", "internal/compare/options.go", "defaultThreshold", 100, "%v %% unless"},
		{explain.Term, "equivalence margin", "internal/compare/options.go", "equivalenceShare", 1, "%v of the threshold"},
		{explain.Term, "minimum detectable effect", "internal/compare/options.go", "power", 100, "with %v %% probability"},
		{explain.Term, "warm-up", "workloads/measure/plan.go", "settleSpread", 100, "agree to %v %%"},
		{explain.Term, "warm-up", "workloads/measure/plan.go", "settleClock", 100, "clock has to agree to %v %%"},
		{explain.Term, "warm-up", "workloads/measure/plan.go", "settlePower", 100, "the power to %v %%"},
		{explain.Term, "session", "internal/compare/options.go", "defaultSpread", 100, "spread of %v %%"},
		// Numbers in words.
		{explain.Rule, "launch-bound", "internal/trace/rules/rule_launch_bound.go", "launchGap", 1, "more than %w intervals"},
		{explain.Rule, "launch-bound", "internal/trace/rules/rule_launch_bound.go", "boundStarved", .01, "starves for a %p or more"},
		{explain.Rule, "item", "internal/trace/rules/rules_stalls.go", "profilerShare", 1, "a %p of its work"},
		{explain.Rule, "trace-quality", "internal/trace/rules/rule_launch_bound.go", "unknownLimit", 1, "%s %% of its time"},
		{explain.Rule, "trace-quality", "internal/trace/rules/rule_trace_quality.go", "droppedLimit", 1, "%s %% of the kernels"},
		{explain.Rule, "small-batch", "workloads/advise/rule_small_batch.go", "roomFor", 1, "%w times the memory"},
		{explain.Rule, "throttled", "workloads/advise/context.go", "leastSamples", 1, "fewer than %w"},
		{explain.Warning, "few-samples", "workloads/measure/plan.go", "minSamples", 1, "fewer than %w samples"},
		{explain.Warning, "few-samples", "internal/stats/within.go", "fewestSamples", 1, "of fewer than %w samples is their range"},
		{explain.Warning, "throttled", "internal/compare/options.go", "flaggedApart", 100, "differ by more than %v %%"},
		{explain.Warning, "replay-stopped", "internal/memsnap/model.go", "mostWork", 1e-9, "more than %.0f billion entries"},
		{explain.Warning, "session-spread-assumed", "internal/compare/options.go", "MinSessions", 1, "fewer than %w sessions"},
		{explain.Warning, "few-processes", "internal/compare/options.go", "MinRuns", 1, "fewer than %w processes"},
		{explain.Term, "warm-up", "workloads/measure/plan.go", "settleWindows", 1, "%w windows"},
	}
}

// in is the number as its text has it: %.0f is a whole number, %w a word, %p a part ("fifth", of 5 or 0.2), %s the
// share that one in so many is, in percent.
func (n number) in(value float64) string {
	words := map[float64]string{4: "four", 5: "five", 6: "six", 10: "ten"}
	parts := map[float64]string{5: "fifth", 0.2: "fifth"}
	number, whole := fmt.Sprintf("%.6g", value*n.scale), fmt.Sprintf("%.0f", value*n.scale)
	share := fmt.Sprintf("%.6g", 100/value)
	return strings.NewReplacer("%v", number, "%.0f", whole, "%w", words[value], "%p", parts[value*n.scale], "%s", share, "%%", "%").Replace(n.format)
}

// A number in a text equals the code's constant, so a change of the constant changes the text.
func TestNumbersAreThoseOfTheCode(t *testing.T) {
	for _, n := range numbers() {
		value, err := constantOf(filepath.Join("..", "..", n.file), n.value)
		if err != nil {
			t.Errorf("%s: %v", n.file, err)
			continue
		}
		all, err := explain.All(n.kind)
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for _, e := range all {
			for _, p := range e.Parts {
				if e.Name == n.name {
					text.WriteString(p.Text + "\n")
				}
			}
		}
		if want := n.in(value); !strings.Contains(text.String(), want) {
			t.Errorf("the text about %s %s lacks %q, which is %s of %s", n.kind, n.name, want, n.value, n.file)
		}
	}
}

// constantOf is the value of a constant of a file that is written as a number.
func constantOf(file, name string) (float64, error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, nil, 0)
	if err != nil {
		return 0, err
	}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v, _ := s.(*ast.ValueSpec)
			for i, id := range v.Names {
				if id.Name != name || i >= len(v.Values) {
					continue
				}
				got, err := types.Eval(set, nil, token.NoPos, types.ExprString(v.Values[i]))
				if err != nil {
					return 0, err
				}
				out, _ := constant.Float64Val(constant.ToFloat(got.Value))
				return out, nil
			}
		}
	}
	return 0, fmt.Errorf("there is no constant %s", name)
}
