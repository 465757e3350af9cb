package tune

import (
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/guides"
	"github.com/gpuprof/gpuprof/internal/host"
	"github.com/gpuprof/gpuprof/workloads/gridsim"
)

// Every setting that a claim about gridsim compares is one of its knobs' and is
// refused on no device that the claim names.
func TestGridClaimsResolve(t *testing.T) {
	d, err := host.Open(host.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	w, n := gridsim.New(), 0
	for _, c := range guides.Claims() {
		for _, ab := range c.AB {
			if ab.Workload != w.Name() {
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
	if n < 40 {
		t.Errorf("%d settings", n)
	}
}
