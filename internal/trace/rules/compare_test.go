package rules_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
)

// program is an analysis with n steps of a length and findings that claim so
// much a step.
func program(step int64, n int, claims map[string]int64) *analyze.Analysis {
	a := &analyze.Analysis{
		StepSource: "ProfilerStep", Inputs: []analyze.Input{{Path: "a.json"}},
		Devices:   []analyze.DeviceAccount{{Name: "A100"}},
		Operators: []analyze.OperatorTime{{Name: "aten::mm", GPUNS: int64(n) * 600, StepGPUNS: 600}},
		Step: analyze.StepMean{Count: n - 1, NS: step, MinNS: step, MaxNS: step, Parts: analyze.Parts{
			BusyNS: step / 2, StarvedNS: step - step/2, Classes: map[model.Class]int64{model.GEMM: step / 2},
		}},
	}
	at := int64(1000)
	for i := range n {
		a.Steps = append(a.Steps, analyze.StepTime{
			Name: fmt.Sprintf("ProfilerStep#%d", i), StartNS: at, DurNS: step, HostDurNS: step, BusyNS: step / 2,
			Classes: map[model.Class]int64{model.GEMM: step / 2}, Dropped: i == 0,
		})
		at += step
	}
	for _, rule := range rules.RuleIDs() {
		if ns, ok := claims[rule]; ok {
			a.Findings = append(a.Findings, gpuprof.Finding{Rule: rule, ClaimNS: ns * int64(n-1), StepNS: ns})
		}
	}
	return a
}

func TestCompareJudgesClaims(t *testing.T) {
	const loader, sync = "dataloader-stall", "hidden-sync"
	for _, c := range []struct {
		name              string
		old, now          int64 // step
		claims, left      map[string]int64
		outcome, cameTrue string // of the loader
		says              string
	}{
		{"as claimed", 1_000_000, 700_000, map[string]int64{loader: 300_000}, nil, "gone", "yes", "came true"},
		{"claim a third too large", 1_000_000, 770_000, map[string]int64{loader: 300_000}, nil, "gone", "yes", "came true"},
		{"claim half too large", 1_000_000, 850_000, map[string]int64{loader: 300_000}, nil, "gone", "partly", "in part"},
		{"nothing saved", 1_000_000, 1_000_000, map[string]int64{loader: 300_000}, nil, "gone", "no", "did not change"},
		{"slower", 1_000_000, 1_200_000, map[string]int64{loader: 300_000}, nil, "gone", "no", "longer"},
		{"within noise", 1_000_000, 995_000, map[string]int64{loader: 300_000}, nil, "gone", "no", "did not come true"},
		{"more than claimed", 1_000_000, 400_000, map[string]int64{loader: 300_000}, nil, "gone", "partly", "something else"},
		{"two at once", 1_000_000, 400_000, map[string]int64{loader: 300_000, sync: 300_000}, nil, "gone", "yes", "together"},
		{"smaller", 1_000_000, 750_000, map[string]int64{loader: 300_000}, map[string]int64{loader: 50_000}, "smaller", "yes", "smaller"},
		{"untouched", 1_000_000, 700_000, map[string]int64{loader: 300_000}, map[string]int64{loader: 290_000}, "unchanged", "not tried", "not tested"},
		{"larger", 1_000_000, 1_100_000, map[string]int64{loader: 300_000}, map[string]int64{loader: 390_000}, "larger", "not tried", "not tested"},
		{"new", 1_000_000, 1_300_000, nil, map[string]int64{loader: 300_000}, "new", "not tried", "is new"},
		{"claimed nothing", 1_000_000, 700_000, map[string]int64{loader: 0}, nil, "gone", "not tried", "claimed no time"},
	} {
		t.Run(c.name, func(t *testing.T) {
			// A different number of steps on each side must not matter.
			got := rules.Compare(program(c.old, 4, c.claims), program(c.now, 7, c.left))
			if got.StepOldNS != c.old || got.StepNewNS != c.now {
				t.Errorf("steps are %d and %d", got.StepOldNS, got.StepNewNS)
			}
			f := got.Findings[0]
			if f.Rule != loader || f.Outcome != c.outcome || f.CameTrue != c.cameTrue || f.SavedNS != c.old-c.now {
				t.Errorf("got %+v, want %s and %s", f, c.outcome, c.cameTrue)
			}
			if !strings.Contains(f.Statement, c.says) {
				t.Errorf("says %q, want %q in it", f.Statement, c.says)
			}
			if len(got.Warnings) > 0 {
				t.Errorf("warnings: %v", got.Warnings)
			}
		})
	}
}

// A cause in some steps only claims nothing of the recorded steps: its change is told, and not judged by them.
func TestCompareRareCauses(t *testing.T) {
	const rule = "checkpoint-write"
	side := func(claims map[string]int64, rare int64) *analyze.Analysis {
		a := program(1_000_000, 6, claims)
		if rare > 0 {
			a.Findings = append(a.Findings, gpuprof.Finding{Rule: rule, RareNS: rare, RareShare: 0.1})
		}
		return a
	}
	for name, c := range map[string]struct {
		old, now *analyze.Analysis
		outcome  string
		want     string
	}{
		"gone":      {side(nil, 400_000), side(nil, 0), "gone", "gone: it took 400 us of the mean step"},
		"smaller":   {side(nil, 400_000), side(nil, 100_000), "smaller", "it took 400 us and takes 100 us of the mean step"},
		"new":       {side(nil, 0), side(nil, 400_000), "new", "new: it takes 400 us of the mean step"},
		"unchanged": {side(nil, 400_000), side(nil, 400_000), "unchanged", "it took 400 us and takes 400 us of"},
		"recorded":  {side(map[string]int64{rule: 300_000}, 0), side(map[string]int64{rule: 300_000}, 0), "unchanged", "was not tested: up to 300 us"},
	} {
		f := rules.Compare(c.old, c.now).Findings
		if len(f) != 1 || f[0].Outcome != c.outcome || f[0].CameTrue != "not tried" || !strings.Contains(f[0].Statement, c.want) {
			t.Errorf("%s: %+v, want %s with %q", name, f, c.outcome, c.want)
		}
	}
}

func TestCompareCountsAStep(t *testing.T) {
	got := rules.Compare(program(1_000_000, 4, nil), program(600_000, 9, nil))
	want := map[string][2]int64{"gemm": {500_000, 300_000}, "starved": {500_000, 300_000}}
	for _, c := range got.Classes {
		if w, ok := want[c.Name]; !ok || w != [2]int64{c.OldNS, c.NewNS} {
			t.Errorf("%s is %d and %d a step", c.Name, c.OldNS, c.NewNS)
		}
		delete(want, c.Name)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
	if o := got.Operators; len(o) != 1 || o[0] != (analyze.Change{Name: "aten::mm", OldNS: 600, NewNS: 600}) {
		t.Errorf("operators are %v", o)
	}
}

func TestCompareSortsByChange(t *testing.T) {
	a, b := program(1_000_000, 3, nil), program(1_000_000, 3, nil)
	b.Step.Classes = map[model.Class]int64{model.GEMM: 100_000, model.Copy: 10_000, model.Norm: 300_000}
	got := rules.Compare(a, b)
	for i := 1; i < len(got.Classes); i++ {
		p, q := got.Classes[i-1], got.Classes[i]
		if size(p) < size(q) {
			t.Errorf("%s, which changed by %d, comes before %s, which changed by %d", p.Name, size(p), q.Name, size(q))
		}
	}
	if len(got.Classes) < 3 {
		t.Errorf("classes are %v", got.Classes)
	}
}

func size(c analyze.Change) int64 { return max(c.NewNS-c.OldNS, c.OldNS-c.NewNS) }

func TestCompareWarns(t *testing.T) {
	for code, change := range map[string]func(a *analyze.Analysis){
		"different-devices":   func(a *analyze.Analysis) { a.Devices[0].Name = "H100" },
		"different-inputs":    func(a *analyze.Analysis) { a.Inputs = append(a.Inputs, analyze.Input{Path: "b.json"}) },
		"different-steps":     func(a *analyze.Analysis) { a.StepSource = "annotation step" },
		"no-steps":            func(a *analyze.Analysis) { a.Steps, a.Step.Count = nil, 0 },
		"truncated":           func(a *analyze.Analysis) { a.Inputs[0].Truncated = true },
		"different-profiling": func(a *analyze.Analysis) { a.Warnings = []gpuprof.Warning{{Code: "inflated"}} },
		"different-operators": func(a *analyze.Analysis) { a.Operators = append(a.Operators, analyze.OperatorTime{Name: "aten::add"}) },
	} {
		a, b := program(1_000_000, 3, nil), program(1_000_000, 3, nil)
		change(b)
		var got []string
		for _, w := range rules.Compare(a, b).Warnings {
			got = append(got, w.Code)
		}
		if len(got) != 1 || got[0] != code {
			t.Errorf("warnings are %v, want %s", got, code)
		}
	}
}

// withClaims are findings with the parts of the step that their claims lie in.
func withClaims(a *analyze.Analysis, parts map[string]map[string]int64) *analyze.Analysis {
	a.Findings = nil
	for _, rule := range rules.RuleIDs() {
		if p, ok := parts[rule]; ok {
			f := gpuprof.Finding{Rule: rule, Parts: p}
			for _, ns := range p {
				f.StepNS += ns
			}
			a.Findings = append(a.Findings, f)
		}
	}
	return a
}

// stepsOf gives an analysis steps with so much time in classes and starved, and their mean.
func stepsOf(starved []int64, classes map[model.Class]int64) *analyze.Analysis {
	a := program(1, 1, nil)
	a.Steps = nil
	var busy, sum int64
	for _, ns := range classes {
		busy += ns
	}
	for _, ns := range starved {
		a.Steps = append(a.Steps, analyze.StepTime{DurNS: busy + ns, BusyNS: busy, StarvedNS: ns, Classes: classes})
		sum += ns
	}
	n := int64(len(starved))
	a.Step = analyze.StepMean{Count: len(starved), NS: busy + sum/n, Parts: analyze.Parts{BusyNS: busy, StarvedNS: sum / n, Classes: classes}}
	return a
}

// A claim is judged by the parts of the step that it is about, whatever the rest of the step does,
// with the noise of as many steps as there are.
func TestCompareJudgesByPart(t *testing.T) {
	gemm := func(ns int64) map[model.Class]int64 { return map[model.Class]int64{model.GEMM: ns, model.Copy: 50_000} }
	amp := map[string]map[string]int64{gpuprof.RuleNoAMP: {"gemm": 3_000_000}}
	wait := map[string]map[string]int64{gpuprof.RuleItem: {"starved": 3_000_000}}
	fused := map[string]map[string]int64{gpuprof.RuleUnfusedAttention: {"elementwise": 2_000_000, "reduction": 1_000_000}}
	for _, c := range []struct {
		name     string
		old, now *analyze.Analysis
		cameTrue string
		says     []string
		silent   string
	}{
		{
			"products fell while the loader stalled more", withClaims(stepsOf([]int64{10_000_000, 40_000_000}, gemm(4_000_000)), amp),
			stepsOf([]int64{30_000_000, 70_000_000}, gemm(1_100_000)), "yes", []string{"gemm fell by 2.90 ms", "the mean step became 22.1 ms longer", "starved takes 25.0 ms more", "2 steps on a side"}, "in its place",
		},
		{
			"the step fell while the products did not", withClaims(stepsOf([]int64{10_000_000, 10_000_000}, gemm(4_000_000)), amp),
			stepsOf([]int64{7_000_000, 7_000_000}, gemm(4_000_000)), "no", []string{"gemm did not change"}, "",
		},
		{
			"two steps decide nothing", withClaims(stepsOf([]int64{9_000_000, 12_000_000}, gemm(1_000_000)), wait),
			stepsOf([]int64{7_000_000, 9_000_000}, gemm(1_000_000)), "unknown", []string{"is not decided", "by which such steps vary"}, "",
		},
		{
			"many steps do", withClaims(stepsOf([]int64{9_900_000, 10_000_000, 10_100_000, 10_000_000}, gemm(1_000_000)), wait),
			stepsOf([]int64{7_400_000, 7_500_000, 7_600_000, 7_500_000}, gemm(1_000_000)), "yes", []string{"starved fell by 2.50 ms"}, "",
		},
		{
			"one step a side", withClaims(stepsOf([]int64{10_000_000}, gemm(4_000_000)), amp),
			stepsOf([]int64{10_000_000}, gemm(1_000_000)), "unknown", []string{"one step on a side"}, "",
		},
		{
			"another class does the work",
			withClaims(stepsOf([]int64{0, 0}, map[model.Class]int64{model.Elementwise: 2_000_000, model.Reduction: 1_000_000}), fused),
			stepsOf([]int64{0, 0}, map[model.Class]int64{model.Attention: 2_500_000}), "partly", []string{"attention in its place", "fell by 500 us"}, "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := rules.Compare(c.old, c.now).Findings[0]
			if f.CameTrue != c.cameTrue {
				t.Errorf("%s: %s", f.CameTrue, f.Statement)
			}
			for _, s := range c.says {
				if !strings.Contains(f.Statement, s) {
					t.Errorf("%q lacks %q", f.Statement, s)
				}
			}
			if c.silent != "" && strings.Contains(f.Statement, c.silent) {
				t.Errorf("%q has %q", f.Statement, c.silent)
			}
		})
	}
}

// A setting that was changed tests the claim of the finding that advises it, whatever became of the finding.
func TestCompareSettings(t *testing.T) {
	of := func(value string) *analyze.Recording {
		return &analyze.Recording{Settings: []analyze.Setting{
			{Name: "data loader", Value: value, Rules: []string{gpuprof.RuleDataloaderStall}}, {Name: "optimizer", Value: "fused"},
		}}
	}
	claim := map[string]int64{gpuprof.RuleDataloaderStall: 300_000}
	before, after := program(1_000_000, 4, claim), program(1_000_000, 4, claim)
	before.Recording, after.Recording = of("in the main process"), of("worker processes")
	got := rules.Compare(before, after)
	if diff := cmp.Diff([]analyze.SettingChange{{Name: "data loader", Old: "in the main process", New: "worker processes"}}, got.Settings); diff != "" {
		t.Error(diff)
	}
	if f := got.Findings[0]; f.CameTrue != "no" || f.Outcome != "unchanged" {
		t.Errorf("%s: %s", f.CameTrue, f.Statement)
	}
	after.Recording = of("in the main process")
	if got := rules.Compare(before, after); len(got.Settings) > 0 || got.Findings[0].CameTrue != "not tried" {
		t.Errorf("%v %s", got.Settings, got.Findings[0].Statement)
	}
}

// The step's change is printed with a doubt where its steps do not tell it from noise.
// Two steps whose loader varies decide nothing about the step; the products, whose precision changed, do: seven eighths
// of 1,600 us were claimed.
func TestCompareNamesTheClaimThatCameTrue(t *testing.T) {
	of := func(kernel string, each int64, loads ...int64) *analyze.Analysis {
		s := newScene()
		s.device.Major = 7
		for _, ns := range loads {
			s.step(func() {
				s.loader(ns)
				for range 4 {
					s.op("aten::mm", kernel, each)
				}
			})
		}
		a, _ := analyse(t, s.end().trace())
		return a
	}
	c := rules.Compare(of("volta_sgemm_128x64_tn", 400*us, 3000*us, 9000*us, 20_000*us), of(bf16gemm, 60*us, 3000*us, 12_000*us, 30_000*us))
	a := c.Answer()
	if a.Verdict != "no change shown" || !strings.HasSuffix(a.Sentence, " Gemm fell by 1.36 ms of the 1.40 ms that no-amp claimed.") {
		t.Errorf("%s: %s", a.Verdict, a.Sentence)
	}
}

func TestCompareNoise(t *testing.T) {
	one := map[model.Class]int64{model.GEMM: 1_000_000}
	for _, c := range []struct {
		old, now []int64
		want     string
	}{
		{[]int64{1_000_000, 9_000_000}, []int64{3_000_000, 12_000_000}, "within the noise of 2 and 2 steps ("},
		{[]int64{1_000_000}, []int64{3_000_000, 12_000_000}, "one step on a side"},
		{[]int64{1_000_000, 1_010_000, 1_000_000}, []int64{3_000_000, 3_010_000, 3_000_000}, ""},
	} {
		if got := rules.Compare(stepsOf(c.old, one), stepsOf(c.now, one)).NoiseText(); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%v to %v: %q", c.old, c.now, got)
		}
	}
}

// Two recordings of a program, before and after its loader got workers.
func TestCompareTraces(t *testing.T) {
	before, _ := analyse(t, sceneLoader(3000*us)().trace())
	after, _ := analyse(t, sceneLoader(60*us)().trace())
	got := rules.Compare(before, after)
	if f := got.Findings[0]; f.Rule != "dataloader-stall" || f.Outcome != "gone" || f.CameTrue != "yes" || !slices.Equal(f.Parts, []string{"starved"}) {
		t.Errorf("the loader's finding: %+v", f)
	}
}

// A step and a recording window are no two of a kind: nothing is set against
// each other, and nothing is said of what came true.
func TestCompareStepWithWindow(t *testing.T) {
	a, b := program(1_000_000, 4, map[string]int64{"dataloader-stall": 300_000}), program(700_000, 4, nil)
	b.Steps, b.Step.Count = nil, 0
	got := rules.Compare(a, b)
	if got.Comparable() || len(got.Classes)+len(got.Operators) > 0 {
		t.Errorf("compared: %v %v", got.Classes, got.Operators)
	}
	if f := got.Findings[0]; f.CameTrue != "unknown" || strings.Contains(f.Statement, "became") {
		t.Errorf("the finding: %+v", f)
	}
	if h := got.Headline(); h != "a mean step of 1.00 ms before, a recording window of 700 us after: not comparable" {
		t.Errorf("the head is %q", h)
	}
}
