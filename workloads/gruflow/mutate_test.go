//go:build !race

// Hundreds of sessions in one goroutine: the detector has nothing to find here, and TestChecks has each kind of launch
// under it.

package gruflow

import (
	"context"
	"slices"
	"strings"
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
		{"impl=plain,flows=30", 20}, {"impl=fused,layers=2,flows=30", 15}, {"deterministic=off,flows=30", 15},
		{"pass=train,window=3", 250}, {"pass=train,window=4,checkpoint=2,clip=0.001", 500},
	} {
		t.Run(tt.set, func(t *testing.T) {
			settings := strings.Split(tt.set, ",")
			if strings.Contains(tt.set, "pass=train") {
				settings = append(slices.Clone(lessonSize), settings...)
			}
			o := mutate.Options{Rounding: 1e-6}
			if !nightly {
				o.Every = tt.every
			}
			mutate.Run(t, o, func(d device.Device) (workloads.Session, error) {
				return open(context.Background(), d, resolve(t, "small", settings...))
			})
		})
	}
}
