package measure

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/probes/nvml"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/cuda"
	"github.com/gpuprof/gpuprof/workloads/gruflow"
)

var _ Instruments = (*nvml.Device)(nil)

// slowFlush takes long to clear its cache, on the device.
type slowFlush struct {
	*cuda.Device
	flushes int
}

const flushNS = 30_000_000

func (d *slowFlush) Ceilings(context.Context) (gpuprof.Ceilings, error) {
	return gpuprof.Ceilings{CopyBytesPerS: 1e9, FlopsPerS: 1e9}, nil
}

func (d *slowFlush) FlushCache(s device.Stream) error {
	d.flushes++
	if err := d.Device.FlushCache(s); err != nil {
		return err
	}
	return d.Spin(s, flushNS)
}

// In mode cold the cache is cleared before every step, and no sample holds the
// clearing.
func TestColdLeavesTheFlushOut(t *testing.T) {
	gpu, lib := simulated(t, false)
	d := &slowFlush{Device: gpu}
	p := planOf(t, gruflow.New())
	p.Mode = gpuprof.Cold
	run, err := measured(d, p)
	if err != nil {
		t.Fatal(err)
	}
	if steps := run.Step.N() + run.BareStep.N() + run.ProbedStep.N(); d.flushes <= steps {
		t.Errorf("the cache was cleared %d times for %d samples", d.flushes, steps)
	}
	if run.Step.P05 >= flushNS*1e-9 {
		t.Errorf("the fastest steps take %v s, as long as clearing the cache", run.Step.P05)
	}
	addsUp(t, run)
	closes(t, gpu, lib)
}

// plain is a device that offers nothing beside the interface.
type plain struct{ device.Device }

func TestColdNeedsAFlush(t *testing.T) {
	d, lib := simulated(t, false)
	p := planOf(t, gruflow.New())
	p.Mode = gpuprof.Cold
	if run, err := Run(context.Background(), plain{d}, p); run != nil || !errors.Is(err, gpuprof.ErrUsage) {
		t.Errorf("%v, %v", run, err)
	}
	closes(t, d, lib)
}

// A GPU's run has the ladder, with telemetry on it where there is any, and
// telemetry goes on afterwards.
func TestLadderOnCUDA(t *testing.T) {
	d, lib := simulated(t, false)
	m := newMeters()
	p := planOf(t, gruflow.New())
	p.Instruments, p.NoEnergy = m, true
	r := newRunner(context.Background(), quick{d}, p)
	r.ladderFor = time.Hour // all its rounds
	run, err := r.execute()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, g := range run.Ladder {
		names = append(names, g.Probe+" over "+g.Over)
		if g.Ratio.Ratio <= 0 || g.CI95[0] > g.Ratio.Ratio || g.CI95[1] < g.Ratio.Ratio {
			t.Errorf("%+v", g)
		}
	}
	want := []string{"step events over nothing", "stage events over step events", "kernel events over stage events", "telemetry over stage events"}
	if len(names) != len(want) {
		t.Fatalf("rungs %q, want %q", names, want)
	}
	for i := range want {
		if names[i] != want[i] {
			t.Errorf("rung %d is %q, want %q", i, names[i], want[i])
		}
	}
	if m.paused || m.pauses == 0 || m.started {
		t.Errorf("paused %t after %d pauses, running %t", m.paused, m.pauses, m.started)
	}
	// What the ladder lets pass the pairs of blocks may still find too dear, on a busy machine; either is said.
	if apart := run.ProbedStep != nil; apart != warned(run, "stages-apart") || run.Ladder[1].Apart && !apart {
		t.Errorf("stage events apart %t by the ladder, but probed step %v, warnings %v", run.Ladder[1].Apart, run.ProbedStep, run.Warnings)
	}
	for _, k := range []string{"event_tick", "empty_event_pair", "null_launch", "null_launch_host", "host_clock_read", "nvml_call"} {
		if run.Calibration[k] <= 0 {
			t.Errorf("calibration %s is %v", k, run.Calibration[k])
		}
	}
	closes(t, d, lib)
}
