package collate

import (
	"context"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/testkit/mutate"
)

// A launch of a step that is left out, repeated, exchanged with the next one or given another buffer of the same size
// makes the check fail, or changes no result.
func TestMutations(t *testing.T) {
	for _, set := range []string{"workers=0,batch=3", "workers=0,batch=3,consume=3"} {
		t.Run(set, func(t *testing.T) {
			mutate.Run(t, mutate.Options{Rounding: 1e-6}, func(d device.Device) (workloads.Session, error) {
				return open(context.Background(), d, resolve(t, "small", strings.Split(set, ",")...))
			})
		})
	}
}
