package gridsim

import (
	"fmt"
	"math"
	"testing"

	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/loop"
)

// nowhere runs nothing and has no memory: only what the host thread does is left,
// so that the allocator's counts of a large grid take no time.
type nowhere struct{ device.Device }

type noStream struct{ device.Stream }

func (noStream) Launch(device.Func, int, *device.Args) error { return nil }

func (noStream) Copy(device.Buffer, int, device.Buffer, int, int) error { return nil }

type noBuffer struct{ bytes int }

func (noBuffer) Place() device.Place { return device.OnDevice }
func (b noBuffer) Len() int          { return b.bytes }
func (noBuffer) Bytes() []byte       { return nil }
func (noBuffer) Addr() uint64        { return 0 }
func (noBuffer) Free() error         { return nil }

func (d nowhere) Alloc(bytes int, p device.Place) (device.Buffer, error) {
	if p == device.OnDevice {
		return noBuffer{bytes}, nil
	}
	return d.Device.Alloc(bytes, p)
}

func (d nowhere) NewStream(name string) (device.Stream, error) {
	s, err := d.Device.NewStream(name)
	return noStream{s}, err
}

func (nowhere) Memory() device.Memory { return device.Memory{Available: math.MaxInt64} }

// The allocator's counts of 1,000 steps of split, C 16, H 64, history 1, no frames:
// peaks and mean idle memory in MiB, and calls of the driver a step.
func TestPoolCounts(t *testing.T) {
	for _, tt := range []struct {
		grid, trim         int
		inUse, reserved    float64
		idle               float64
		calls              float64
		idleWithin, within float64
	}{
		{512, 0, 160, 194, 162, 0.006, 0.5, 0.0005}, {512, 100, 160, 210, 175, 0.10, 0.5, 0.005}, {512, 50, 160, 210, 174, 0.17, 0.5, 0.005},
		{512, 1, 160, 210, 0, 10, 0, 0.05},
		{2048, 0, 2560, 4096, 3582, 0.006, 0.5, 0.0005}, {2048, 100, 2560, 4096, 2862, 0.08, 0.5, 0.005}, {2048, 1, 2560, 3328, 0, 8, 0, 0.05},
	} {
		t.Run(fmt.Sprint(tt.grid, " trim ", tt.trim), func(t *testing.T) {
			trim := "never"
			if tt.trim > 0 {
				trim = fmt.Sprint("every:", tt.trim)
			}
			c := resolve(t, "small", fmt.Sprint("grid=", tt.grid), "channels=16", "hidden=64", "live=off", "impl=split", "allocator=pool", "pool_trim="+trim, "history=1", "scale=1")
			got, idle, calls := counted(t, nowhere{openHost(t, host.Options{})}, c, 1000)
			const mib = 1 << 20
			if u, r := float64(got.peakInUse)/mib, float64(got.peakReserved)/mib; u != tt.inUse || r != tt.reserved {
				t.Errorf("peaks %g and %g MiB, want %g and %g", u, r, tt.inUse, tt.reserved)
			}
			if math.Abs(idle/mib-tt.idle) > tt.idleWithin || math.Abs(calls-tt.calls) > tt.within {
				t.Errorf("mean idle %g MiB and %g calls per step, want %g and %g", idle/mib, calls, tt.idle, tt.calls)
			}
		})
	}
}

// counted runs steps and returns the counters, mean idle bytes at the end of steps,
// and the driver's calls per step.
func counted(t testing.TB, d device.Device, c workloads.Config, steps int) (last counts, idle, calls float64) {
	t.Helper()
	s, err := newSession(d, c) // without a first state: nothing here looks at values
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	for i := range steps {
		if err := s.Step(i, loop.Silent{}); err != nil {
			t.Fatal(err)
		}
		m := s.memory.counts()
		idle += float64(m.reserved-m.inUse) / float64(steps)
	}
	last = s.memory.counts()
	return last, idle, float64(last.allocs+last.frees) / float64(steps)
}

// The counts of the pool are the same on both devices.
func TestPoolCountsOnCUDA(t *testing.T) {
	for _, set := range []string{"impl=split", "impl=split,pool_trim=every:3", "impl=gemm,roi=on,pool_trim=every:2", "impl=split,tape=saved,history=3,keep=host"} {
		t.Run(set, func(t *testing.T) {
			settings := append(tinyGrid(set), "allocator=pool")
			c := resolve(t, "small", settings...)
			on, idle, calls := counted(t, openHost(t, host.Options{}), c, 12)
			there, idleThere, callsThere := counted(t, openSimulated(t, false), c, 12)
			if on != there || idle != idleThere || calls != callsThere {
				t.Errorf("host %+v, CUDA %+v", on, there)
			}
		})
	}
}
