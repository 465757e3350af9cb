// Package afternoon is the workload of docs/workload.md: one kernel that multiplies numbers by a factor.
package afternoon

import (
	"context"
	"errors"
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
)

const scaleCUDA = `#include "device.cuh"
extern "C" __global__ void afternoon_scale(const float *x, float *y, float factor, int n) {
  long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = factor * x[i];
}
GPUPROF_KERNEL(afternoon_scale)
`

// The parameters of the kernel: a launch fills in Args, the host code reads View.
type (
	scaleParams[B, I, F any] struct {
		x, y   B
		factor F
	}
	scaleArgs = scaleParams[device.Ref, device.Num, device.Real]
	scaleView = scaleParams[device.Mem, device.Int32, device.Float32]
)

func scaleHost(args *device.Args, lo, hi int) {
	a := device.View[scaleView](args)
	x, y, factor := a.x.Floats(), a.y.Floats(), a.factor.F32()
	for i := lo; i < hi; i++ {
		y[i] = factor * x[i]
	}
}

type scaleWorkload struct{}

func (scaleWorkload) Name() string { return "scale" }
func (scaleWorkload) Doc() string  { return "numbers times a factor" }
func (scaleWorkload) Presets() []workloads.Preset {
	return []workloads.Preset{{Name: "small", Doc: "4,096 numbers"}}
}
func (scaleWorkload) Refuse(device.Info, gpuprof.Settings) error { return nil }
func (scaleWorkload) Knobs() []workloads.Knob {
	return []workloads.Knob{workloads.IntKnob("count", "numbers per step", 4096, 1, 1<<24).AsModel()}
}

const h2d, scale, d2h, wait = 0, 1, 2, 3 // the stages, in the order of the step
func (scaleWorkload) Stages() []gpuprof.Stage {
	return []gpuprof.Stage{
		{Name: "h2d", Role: gpuprof.RoleTransfer, MaxSpans: 1}, {Name: "scale", MaxSpans: 1},
		{Name: "d2h", Role: gpuprof.RoleResult, MaxSpans: 1}, {Name: "sync", Kind: gpuprof.WaitStage, Role: gpuprof.RoleSync, MaxSpans: 1},
	}
}

type session struct {
	loop.Pace         // streams and waits
	n             int // numbers per step
	stages        []gpuprof.Stage
	call          op.Call
	mem           op.Arena
	in, out, x, y device.Buffer // the first two on the host
}

func (w scaleWorkload) Open(_ context.Context, d device.Device, c workloads.Config) (workloads.Session, error) {
	s := &session{Pace: loop.Pace{SyncAt: wait}, n: c.Knobs.Int("count"), stages: w.Stages(), mem: op.Arena{Dev: d}}
	s.in, s.out = s.mem.Words("numbers", int64(s.n), device.Pinned), s.mem.Words("results", int64(s.n), device.Pinned)
	s.x, s.y = s.mem.Words("numbers", int64(s.n), device.OnDevice), s.mem.Words("results", int64(s.n), device.OnDevice)
	if err := errors.Join(s.mem.Err, s.Pace.Open(d)); err != nil {
		return nil, err
	}
	for i, x := 0, device.Floats(s.in); i < s.n; i++ {
		x[i] = float32(i)
	}
	kernel := device.Typed[scaleArgs](device.Kernel{Name: "afternoon_scale", Host: scaleHost, Grain: 1024, Threads: 256, PerBlock: 256})
	if nvrtc, ok := d.(device.KernelCompiler); ok {
		kernel.PTX, s.mem.Err = nvrtc.Compile(device.CUDASource{Text: scaleCUDA})
	}
	b := op.Binder{Dev: d}
	cost := gpuprof.Cost{Flops: int64(s.n), BytesRead: 4 * int64(s.n), BytesWritten: 4 * int64(s.n), Launches: 1}
	s.call = b.Bind(&kernel, s.n, cost, scaleArgs{x: s.x, y: s.y, factor: float32(3)})
	s.stages[scale].Minimum, s.stages[scale].Parts = cost, []gpuprof.Part{{Kernel: "scale", Cost: cost}}
	return s, errors.Join(s.mem.Err, b.Err)
}
func (s *session) Stages() []gpuprof.Stage { return s.stages }
func (s *session) Main() device.Stream     { return s.Compute }
func (s *session) Depth() int              { return 1 }
func (s *session) Work() (float64, string) { return float64(s.n), "numbers" }
func (s *session) Input() map[string]any   { return map[string]any{"numbers": s.n} }

func (s *session) Step(i int, p workloads.Probe) error {
	err := p.Start(i)
	sp := p.Begin(h2d, s.Compute)
	err = errors.Join(err, s.Compute.Copy(s.x, 0, s.in, 0, 4*s.n))
	p.End(sp)
	sp = p.Begin(scale, s.Compute)
	err = errors.Join(err, s.Compute.Launch(s.call.Func, s.n, &s.call.Args))
	p.End(sp)
	sp = p.Begin(d2h, s.Compute)
	err = errors.Join(err, s.Compute.Copy(s.out, 0, s.y, 0, 4*s.n))
	p.End(sp)
	return errors.Join(err, s.Sync(s.Compute, p))
}
func (s *session) Check(context.Context) ([]gpuprof.Check, error) {
	err, worst := s.Step(0, loop.Silent{}), 0.0
	for i, y := range device.Floats(s.out) {
		worst = max(worst, math.Abs(float64(y)-3*float64(i))/max(3*float64(i), 1))
	}
	return []gpuprof.Check{loop.CheckOf("scale", worst, 1e-6, s.n, s.n)}, err
}
func (s *session) Close() error {
	return errors.Join(s.CloseStreams(), s.mem.Free())
}
