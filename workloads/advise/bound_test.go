package advise_test

import (
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/advise"
)

// What a claim would go down to is not known: no roofline bound, or no rate of
// the run's precision. Nothing is claimed then, least of all everything.
func TestNoBoundNoClaim(t *testing.T) {
	onGPU := func(knobs gpuprof.Settings, parts []part) made {
		return made{workload: "e3nn", cuda: true, knobs: e3nnKnobs(knobs), parts: parts}
	}
	unfused := func() *gpuprof.Run {
		return onGPU(gpuprof.Settings{"impl": "unfused"}, with(e3nnParts(), part{name: "tensor_product", exposed: 20000, device: true, launches: 32, bound: 90},
			part{name: "scatter", exposed: 3000, device: true, launches: 1, bound: 10})).run(t)
	}
	ordered := func() *gpuprof.Run {
		return onGPU(gpuprof.Settings{"deterministic": "on", "impl": "unfused"}, with(e3nnParts(), part{name: "scatter", exposed: 3000, device: true, launches: 2, bound: 100})).run(t)
	}
	own := func() *gpuprof.Run {
		return onGPU(gpuprof.Settings{"library": "off", "precision": "tf32"}, e3nnParts()).run(t)
	}
	for name, c := range map[string]struct {
		run      func() *gpuprof.Run
		withhold func(*gpuprof.Run)
		rule     string
	}{
		"unfused product": {unfused, func(r *gpuprof.Run) { r.Stage("tensor_product").BoundS = 0 }, "far-from-roofline"},
		"ordered sums":    {ordered, func(r *gpuprof.Run) { r.Stage("scatter").BoundS = 0 }, "deterministic"},
		"own products":    {own, func(r *gpuprof.Run) { r.Ceilings.TF32FlopsPerS = 0 }, "far-from-roofline"},
	} {
		t.Run(name, func(t *testing.T) {
			fires := func(r *gpuprof.Run) bool {
				for _, f := range findings([]*gpuprof.Run{r}, advise.Options{})[0] {
					if f.Rule == c.rule {
						return true
					}
				}
				return false
			}
			r := c.run()
			if !fires(r) {
				t.Fatal("silent with a bound: the case shows nothing")
			}
			if c.withhold(r); fires(r) {
				t.Error("claims without a bound")
			}
		})
	}
}
