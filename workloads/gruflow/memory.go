package gruflow

import (
	"context"
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

func (s *session) inputWords() int64 {
	return int64(windowOf(s.k)*s.k.Micro()) * int64(s.shape.T) * int64(s.shape.B) * int64(s.shape.I)
}

// metricWords returns the number of metrics of all levels, plus the loss in training.
func (s *session) metricWords() int {
	if s.train != nil {
		return s.train.window*s.shape.metrics() + 1
	}
	return s.shape.metrics()
}

func (s *session) parameterWords() int64 {
	var n int64
	for l := range s.shape.L {
		n += int64(s.shape.gates()) * int64(s.shape.inputWidth(l)+s.shape.H+2)
	}
	return n + outputs*int64(s.shape.H+1)
}

func (s *session) stateWords() int64 {
	b := int64(s.shape.B)
	return int64(s.shape.L)*b*int64(s.shape.H) + 5*b + outputs*b + int64(s.metricWords())
}

// checkMemory refuses sizes beyond 32-bit indices or the device's memory, before any allocation. The memory that cuDNN
// takes for itself is not counted.
func (s *session) checkMemory(ctx context.Context, d device.Device, c workloads.Config) error {
	sh := s.shape
	largest := max(int64(sh.T)*int64(sh.B)*int64(max(sh.gates(), sh.I)), int64(sh.L)*int64(sh.B)*int64(sh.H), int64(ceilDiv(sh.B, metricBlock))*int64(sh.metrics()))
	if s.rec != nil {
		largest = max(largest, s.inputWords(), int64(s.rec.every*sh.T+1)*int64(sh.B)*int64(sh.H))
	}
	if largest > math.MaxInt32 {
		return gpuprof.Errorf(gpuprof.ErrUsage, "opening gruflow: its largest array would have %d elements, more than 32 bits index", largest).WithFix("use a smaller --set flows, steps, hidden or input")
	}
	need, err := countMemory(ctx, d, c)
	if left := d.Memory().Available; need > left {
		if s.rec != nil && s.rec.windows() > 1 {
			return device.Short(d, gpuprof.Errorf(gpuprof.ErrMemory, "keeping %d windows of %d flows of %d layers of %d units needs %s, and the device has %s left", s.rec.windows(), sh.B, sh.L, sh.H, gpuprof.FormatBytes(float64(need)), gpuprof.FormatBytes(float64(left))).WithFix("use windows_kept=1, as a program that detaches does, or checkpoint=%d, a smaller window, or a smaller batch, --set flows", leastCheckpoint(s.rec.window, sh.T)))
		}
		if s.train != nil {
			return device.Short(d, gpuprof.Errorf(gpuprof.ErrMemory, "training %d flows of %d layers of %d units over %d levels needs %s, and the device has %s left", sh.B, sh.L, sh.H, s.train.window, gpuprof.FormatBytes(float64(need)), gpuprof.FormatBytes(float64(left))).WithFix("use checkpoint=%d, a smaller window, or a smaller batch, --set flows", leastCheckpoint(s.train.window, sh.T)))
		}
		return device.Short(d, gpuprof.Errorf(gpuprof.ErrMemory, "%d flows of %d layers of %d units need %s, and the device has %s left", sh.B, sh.L, sh.H, gpuprof.FormatBytes(float64(need)), gpuprof.FormatBytes(float64(left))).WithFix("use a smaller --set flows, hidden or steps"))
	}
	return err
}

// countMemory returns the bytes that a session allocates, without allocating them.
func countMemory(ctx context.Context, d device.Device, c workloads.Config) (int64, error) {
	return op.Need(d, func(d device.Device) error { return newSession(d, c).allocate(ctx, d) })
}
