package serving

import (
	"context"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/testkit/mutate"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// A launch of a batch that is left out, repeated, exchanged with the next one or given another buffer of the same size
// makes the check fail, or changes no result.
func TestMutations(t *testing.T) {
	for _, tt := range []struct {
		set   string
		every int // by day
	}{
		{"width=3,blocks=1-1,max_batch=2", 25}, {"width=3,blocks=1-1,max_batch=2,bn=fused", 25},
		{"width=3,blocks=1-1,max_batch=2,impl=im2col,bn=apart", 25},
	} {
		t.Run(tt.set, func(t *testing.T) {
			o := mutate.Options{Rounding: 1e-6}
			if !nightly {
				o.Every = tt.every
			}
			mutate.Run(t, o, func(d device.Device) (workloads.Session, error) {
				return open(context.Background(), d, workloadtest.Config(t, New(), "small", strings.Split(tt.set, ",")...))
			})
		})
	}
}
