package serving

import (
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// unprepared leaves the preparation of images out, and oneSlot runs the first slot's network for
// every slot.
type (
	unprepared struct{ *residual }
	oneSlot    struct{ *residual }
)

func (unprepared) prepareBatch(device.Stream, int, int, int, workloads.Probe) error { return nil }

func (n oneSlot) run(on device.Stream, _, batch, stage int, p workloads.Probe) error {
	return n.residual.run(on, 0, batch, stage, p)
}

// Faults between a request and its answer: the check of the whole step shows them. Those of the
// network's layers are in package resnet.
func TestWholeStepCatches(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(s *session)
	}{
		{"no linear layer", func(s *session) { s.net.(*residual).groups-- }},
		{"no preparation", func(s *session) { s.net = unprepared{s.net.(*residual)} }},
		{"the network of another slot", func(s *session) { s.net = oneSlot{s.net.(*residual)} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := openOn(t, workloadtest.Host(t, host.Options{}), "small", "max_batch=4", "depth=2", "preprocess=device")
			tt.spoil(s)
			workloadtest.Fails(t, s, gpuprof.WholeStep)
		})
	}
}
