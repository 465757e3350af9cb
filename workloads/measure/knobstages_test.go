//go:build !race

// Some hundred sessions are opened, in one goroutine.

package measure

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/e3nn"
	"github.com/gpuprof/gpuprof/workloads/gruflow"
)

// TestKnobsNameTheirStages sets every tuning knob in every pass, on a device with libraries: a stage that computes
// otherwise under another value is one of those that the knob says it acts on. A comparison blames knobs by that list.
func TestKnobsNameTheirStages(t *testing.T) {
	d, _ := simulated(t, true)
	stages := func(w workloads.Workload, set ...string) map[string]string {
		if w.Name() == "e3nn" {
			set = append([]string{"mul=8", "lmax=2"}, set...) // the preset's, of which no kernel has to be compiled
		}
		p := planOf(t, w, set...)
		if w.Refuse(d.Info(), p.Knobs) != nil {
			return nil
		}
		s, err := p.open(context.Background(), d)
		if err != nil {
			t.Fatalf("%v: %v", set, err)
		}
		defer s.Close()
		parts := make(map[string]string)
		for _, st := range s.Stages() {
			if st.Kind == gpuprof.DeviceStage {
				parts[st.Name] = fmt.Sprint(st.Parts)
			}
		}
		return parts
	}
	choices := []string{"impl", "library", "precision", "deterministic"} // which change a stage in some pass
	for _, c := range []struct {
		w    workloads.Workload
		with []string // what a pass does in some settings only
	}{
		{e3nn.New(), []string{"", "impl=unfused,recompute=all"}},
		{gruflow.New(), []string{"", "impl=fused,checkpoint=2", "impl=fused,tape=saved,windows_kept=2"}},
	} {
		changed := make(map[string]bool)
		for nth, base := range passesOf(c.w, c.with) {
			before := stages(c.w, base...)
			if before == nil {
				continue
			}
			for i, one := range turns(c.w) {
				if !nightly && (i+nth)%3 != 0 && !slices.Contains(choices, one.knob.Name) {
					continue // by day each value of the other knobs is set in every third pass
				}
				k, setting := one.knob, one.knob.Name+"="+one.value
				for stage, parts := range stages(c.w, append(slices.Clone(base), setting)...) {
					if parts == before[stage] {
						continue
					}
					changed[k.Name] = true
					if !slices.Contains(k.Acts, stage) {
						t.Errorf("%s, %v: %s changes %s, which is not among the knob's stages %v", c.w.Name(), base, setting, stage, k.Acts)
					}
				}
			}
		}
		for _, k := range choices {
			if !changed[k] {
				t.Errorf("%s: no value of %s changed a stage: nothing was compared", c.w.Name(), k)
			}
		}
	}
}

// passesOf is every pass of a workload in every one of some lists of settings.
func passesOf(w workloads.Workload, with []string) (all [][]string) {
	for _, k := range w.Knobs() {
		if k.Name != "pass" {
			continue
		}
		for _, pass := range k.Values {
			for _, sets := range with {
				all = append(all, append([]string{"pass=" + pass}, strings.FieldsFunc(sets, func(r rune) bool { return r == ',' })...))
			}
		}
	}
	return all
}

// turn is a value of a knob that names its stages.
type turn struct {
	knob  workloads.Knob
	value string
}

func turns(w workloads.Workload) (all []turn) {
	for _, k := range w.Knobs() {
		if k.Model || k.Acts == nil || slices.Contains(k.Acts, workloads.AllStages) || k.Name == "graph" {
			continue
		}
		for _, v := range k.Values {
			all = append(all, turn{k, v})
		}
		for _, v := range k.Try { // of which some knobs name more than a workload takes
			if k.Parse == nil {
				continue
			}
			if _, err := k.Parse(v); err == nil {
				all = append(all, turn{k, v})
			}
		}
	}
	return all
}
