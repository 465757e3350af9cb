package tune

import (
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/guides"
	"github.com/gpuprof/gpuprof/internal/host"
	"github.com/gpuprof/gpuprof/workloads/e3nn"
	"github.com/gpuprof/gpuprof/workloads/gridsim"
	"github.com/gpuprof/gpuprof/workloads/gruflow"
	"github.com/gpuprof/gpuprof/workloads/serving"
)

// Every setting that a claim about gridsim or serving compares is one of its knobs' and is
// not refused.
func TestClaimsResolve(t *testing.T) {
	d, err := host.Open(host.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	programs, n := map[string]gpuprof.Workload{"gridsim": gridsim.New(), "serving": serving.New(), "e3nn": e3nn.New(), "gruflow": gruflow.New()}, 0
	for _, c := range guides.Claims() {
		for _, ab := range c.AB {
			w := programs[ab.Workload]
			if w == nil || ab.On == "cuda" || !c.Host {
				continue
			}
			for _, side := range []gpuprof.Settings{ab.A, ab.B} {
				n++
				all, err := gpuprof.Resolve(w, ab.Preset, side)
				if err == nil {
					err = w.Refuse(d.Info(), all)
				}
				if err != nil {
					t.Errorf("%s: %v: %v", c.ID, side, err)
				}
			}
		}
	}
	if n < 80 {
		t.Errorf("%d settings", n)
	}
}
