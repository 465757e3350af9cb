package advise_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/workloads/advise"
)

// side is a run of six processes, as compare wants them.
func side(t *testing.T, m made, change func(*gpuprof.Run)) *compare.Result {
	t.Helper()
	var all *gpuprof.Run
	for k := range 6 {
		m.seed = uint64(k)
		r := m.run(t)
		if all == nil {
			all = r
			all.Started = time.Unix(1_700_000_000, 0)
			all.Tool = gpuprof.Tool{Name: "gpuprof", Version: "1", Commit: "aaa"}
			all.Order, all.Flags = nil, nil
			continue
		}
		all.Step.Runs = append(all.Step.Runs, r.Step.Runs...)
		all.Throughput.Series.Runs = append(all.Throughput.Series.Runs, r.Throughput.Series.Runs...)
		for i := range all.Stages {
			if e := all.Stages[i].Exposed; e != nil {
				e.Runs = append(e.Runs, r.Stages[i].Exposed.Runs...)
			}
		}
	}
	if change != nil {
		change(all)
	}
	out, err := compare.FromRun(all)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func against(t *testing.T, old, now *compare.Result) []gpuprof.Finding {
	t.Helper()
	c, err := compare.Compare(old, now, compare.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return advise.AgainstBaseline(c, old, now, advise.Options{Workload: workload(now.Workload)})
}

func unfused(det string, scatter, radial float64) made {
	return made{workload: "e3nn", knobs: e3nnKnobs(gpuprof.Settings{"impl": "unfused", "deterministic": det}),
		parts: with(e3nnParts(), part{name: "scatter", exposed: scatter, device: true, launches: 1}, part{name: "radial", exposed: radial, device: true, launches: 3})}
}

func TestBaselineNamesTheKnob(t *testing.T) {
	f := against(t, side(t, unfused("off", 1000, 2000), nil), side(t, unfused("on", 2860, 2140), nil))
	if len(f) != 1 {
		t.Fatalf("%+v", f)
	}
	if f[0].Rule != "against-baseline" || f[0].Stage != "scatter" || f[0].Knob != "deterministic" || f[0].From != "on" || f[0].To != "off" {
		t.Errorf("%+v", f[0])
	}
	if got := f[0].ClaimS / us; math.Abs(got-1860) > 60 {
		t.Errorf("claims %.0f us, the stage changed by 1860", got)
	}
	if share := f[0].Evidence["share_of_change"].(float64); math.Abs(share-0.93) > 0.02 {
		t.Errorf("share %.3f, want 0.93", share)
	}
	if why := f[0].Evidence["explained_by"].(string); !strings.Contains(why, "deterministic is on here and off in the baseline") || !strings.Contains(why, "scatter explains 9") {
		t.Error(why)
	}
	if !strings.Contains(f[0].Command, "--set deterministic=on,off") || !strings.Contains(f[0].Command, "--set impl=unfused") || f[0].PyTorch == "" {
		t.Errorf("%q, %q", f[0].Command, f[0].PyTorch)
	}
}

func TestBaselineExplains(t *testing.T) {
	slow := func(knob, value string) made {
		m := made{workload: "e3nn", knobs: e3nnKnobs(gpuprof.Settings{knob: value}), parts: with(e3nnParts(), part{name: "radial", exposed: 3000, device: true, launches: 3})}
		return m
	}
	fast := made{workload: "e3nn", knobs: e3nnKnobs(nil), parts: e3nnParts()}
	commit := func(c string) func(*gpuprof.Run) { return func(r *gpuprof.Run) { r.Tool.Commit = c } }
	for name, c := range map[string]struct {
		old, now      *compare.Result
		knob, to      string
		claims        bool
		why, command  string
		pytorch, none bool
	}{
		"a knob that acts on the stage, before the environment and the code": {side(t, fast, nil), side(t, slow("library", "off"), func(r *gpuprof.Run) { r.Tool.Commit, r.Device.Kernel = "bbb", "6.9" }),
			"library", "auto", true, "library is off here and auto in the baseline", "--set library=off,auto", true, false},
		// pinned acts on copies only; the stage that changed is radial.
		"a knob that cannot have done it": {side(t, fast, nil), side(t, slow("pinned", "off"), func(r *gpuprof.Run) { r.Device.Kernel = "6.9" }),
			"", "", true, "environment differs (kernel unknown -> 6.9)", "gpuprof doctor", false, false},
		"the code last": {side(t, fast, nil), side(t, slow("batch", "512"), commit("bbb")),
			"", "", true, "code differs (commit aaa -> bbb)", "gpuprof gate e3nn --preset small --device host --set async_copy=on --set batch=512", false, false},
		"a working tree is no revision": {side(t, fast, commit("aaa-dirty")), side(t, slow("batch", "512"), commit("bbb")),
			"", "", true, "code differs (commit aaa-dirty -> bbb)", "--set threads=all --against aaa", false, false},
		"another seed":     {side(t, fast, nil), side(t, slow("batch", "512"), func(r *gpuprof.Run) { r.Seed++ }), "", "", true, "nothing recorded differs but the input (seed ", "--set threads=all --runs 6", false, false},
		"nothing recorded": {side(t, fast, nil), side(t, slow("batch", "512"), nil), "", "", true, "nothing recorded differs", "--set threads=all --runs 6", false, false},
		"faster than the baseline": {side(t, slow("library", "off"), nil), side(t, fast, nil),
			"library", "auto", false, "library is auto here and off in the baseline", "--set library=auto,off", true, false},
		"the same": {old: side(t, fast, nil), now: side(t, fast, nil), none: true},
	} {
		f := against(t, c.old, c.now)
		if c.none {
			if len(f) > 0 {
				t.Errorf("%s: %+v", name, f)
			}
			continue
		}
		if len(f) != 1 {
			t.Errorf("%s: %+v", name, f)
			continue
		}
		if f[0].Stage != "radial" || f[0].Knob != c.knob || f[0].To != c.to || (f[0].ClaimS > 0) != c.claims || (f[0].PyTorch != "") != c.pytorch {
			t.Errorf("%s: %+v", name, f[0])
		}
		if why := f[0].Evidence["explained_by"].(string); !strings.Contains(why, c.why) {
			t.Errorf("%s: explained by %q, want %q", name, why, c.why)
		}
		if !strings.Contains(f[0].Command, c.command) {
			t.Errorf("%s: command %q, want %q", name, f[0].Command, c.command)
		}
	}
}

// A stage may have changed by more than the step did. Then it is said that
// others gave something back, and how much.
func TestBaselineOtherWay(t *testing.T) {
	old, now := side(t, unfused("off", 1000, 2000), nil), side(t, unfused("on", 3000, 1500), nil)
	f := against(t, old, now)
	if len(f) != 1 || f[0].Stage != "scatter" {
		t.Fatalf("%+v", f)
	}
	share, back := f[0].Evidence["share_of_change"].(float64), f[0].Evidence["share_other_way"].(float64)
	if math.Abs(share-1.33) > 0.03 || math.Abs(share-back-1) > 0.02 {
		t.Errorf("scatter's share %.3f, others %.3f the other way; want 1.33 and 0.33", share, back)
	}
	if why := f[0].Evidence["explained_by"].(string); !strings.Contains(why, " % of the change, of which other stages took 3") || !strings.HasSuffix(why, " % back") {
		t.Error(why)
	}
	if f := against(t, side(t, unfused("off", 1000, 2000), nil), side(t, unfused("on", 2860, 2140), nil)); f[0].Evidence["share_other_way"] != nil {
		t.Errorf("nothing went the other way: %+v", f[0])
	}
}

// Two knobs that can both have changed a stage are both named, and tried apart.
func TestBaselineTwoKnobs(t *testing.T) {
	now := unfused("on", 2860, 2000)
	now.knobs["layout"] = "mul_ir"
	old := unfused("off", 1000, 2000)
	old.knobs["layout"] = "ir_mul"
	f := against(t, side(t, old, nil), side(t, now, nil))
	if len(f) != 1 || !strings.Contains(f[0].Command, "--set deterministic=on,off --set layout=mul_ir,ir_mul") || !slices.Equal(f[0].Evidence["or"].([]string), []string{"layout ir_mul -> mul_ir"}) {
		t.Errorf("%+v", f)
	}
	if f := advise.AgainstBaseline(nil, nil, nil, advise.Options{}); f == nil || len(f) > 0 {
		t.Errorf("without a comparison: %+v", f)
	}
}
