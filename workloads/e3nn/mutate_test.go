//go:build !race

// Hundreds of sessions in one goroutine: the detector has nothing to find here, and TestChecksPass has each kind of launch
// under it.

package e3nn

import (
	"context"
	"testing"

	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/testkit/mutate"
)

// A launch of a step that is left out, repeated, exchanged with the next one or given another buffer of the same size
// makes the check fail, or changes no result.
func TestMutations(t *testing.T) {
	for _, tt := range []struct {
		set   string
		every int // by day
	}{
		{"pass=forward", 8}, {"pass=forces", 50}, {"pass=train", 45},
	} {
		t.Run(tt.set, func(t *testing.T) {
			o := mutate.Options{Rounding: 1e-6}
			if !nightly {
				o.Every = tt.every
			}
			mutate.Run(t, o, func(d device.Device) (workloads.Session, error) {
				return open(context.Background(), d, resolve(t, "small", "batch=12", tt.set))
			})
		})
	}
}
