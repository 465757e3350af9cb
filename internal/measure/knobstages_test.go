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
	"github.com/gpuprof/gpuprof/workloads/e3nn"
	"github.com/gpuprof/gpuprof/workloads/gruflow"
)

// TestKnobsNameTheirStages sets every tuning knob in every pass, on a device with libraries: a stage that computes
// otherwise under another value is one of those that the knob says it acts on. A comparison blames knobs by that list.
func TestKnobsNameTheirStages(t *testing.T) {
	d, _ := simulated(t, true)
	stages := func(w gpuprof.Workload, set ...string) map[string]string {
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
	for _, c := range []struct {
		w    gpuprof.Workload
		with []string // what a pass does in some settings only
	}{
		{e3nn.New(), []string{"", "impl=unfused,recompute=all", "impl=csr+mlp"}},
		{gruflow.New(), []string{"", "impl=fused,checkpoint=2", "impl=fused,tape=saved,windows_kept=2"}},
	} {
		knobs := c.w.Knobs()
		of := func(name string) gpuprof.Knob {
			return knobs[slices.IndexFunc(knobs, func(k gpuprof.Knob) bool { return k.Name == name })]
		}
		changed := make(map[string]int)
		for _, way := range of("pass").Values {
			for _, with := range c.with {
				base := append([]string{"pass=" + way}, strings.FieldsFunc(with, func(r rune) bool { return r == ',' })...)
				before := stages(c.w, base...)
				if before == nil {
					continue
				}
				for _, k := range knobs {
					if k.Model || k.Acts == nil || slices.Contains(k.Acts, gpuprof.AllStages) || k.Name == "graph" {
						continue
					}
					values := slices.Clone(k.Values)
					for _, v := range k.Try { // of which some knobs name more than a workload takes
						if k.Parse != nil {
							if _, err := k.Parse(v); err == nil {
								values = append(values, v)
							}
						}
					}
					for _, v := range values {
						after := stages(c.w, append(slices.Clone(base), k.Name+"="+v)...)
						for stage := range after {
							if after[stage] == before[stage] {
								continue
							}
							changed[k.Name]++
							if !slices.Contains(k.Acts, stage) {
								t.Errorf("%s, %v: %s=%s changes %s, which is not among the knob's stages %v", c.w.Name(), base, k.Name, v, stage, k.Acts)
							}
						}
					}
				}
			}
		}
		for _, k := range []string{"impl", "library", "precision", "deterministic"} {
			if changed[k] == 0 {
				t.Errorf("%s: no value of %s changed a stage: nothing was compared", c.w.Name(), k)
			}
		}
	}
}
