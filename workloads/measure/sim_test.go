package measure

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/sim"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/collate"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/cuda"
	"github.com/gpuprof/gpuprof/workloads/e3nn"
	"github.com/gpuprof/gpuprof/workloads/gruflow"
)

// small are sizes that the simulated driver, and a session under the race detector,
// get through in a moment.
var small = map[string][]string{
	"e3nn":    {"batch=4", "edges=40", "mul=2", "lmax=1"},
	"gruflow": {"flows=20", "hidden=12", "input=9", "depth=5", "layers=2"},
	"collate": {"batch=4", "probes=6", "epoch=8", "consume=2"},
}

func workloadsByName() []workloads.Workload {
	return []workloads.Workload{e3nn.New(), gruflow.New(), collate.New()}
}

// quick is the simulated device with ceilings that are not measured: the CPU
// takes seconds for them. TestModesOnCUDA has them measured once.
type quick struct{ *cuda.Device }

func (quick) Ceilings(context.Context) (gpuprof.Ceilings, error) {
	return gpuprof.Ceilings{CopyBytesPerS: 1e9, FlopsPerS: 1e9}, nil
}

// cacheSize makes the device's last-level cache small (attribute 38 is its
// size), so that a few batches are enough to rotate past it.
const cacheSize = "attr.38=65536"

// simulated opens the simulated driver for a test. libraries says whether its
// cuBLAS and cuDNN are found.
func simulated(t *testing.T, libraries bool) (d *cuda.Device, lib string) {
	t.Helper()
	lib = sim.Library(t)
	sim.Configure(t, lib, cacheSize)
	folder := t.TempDir() // empty
	if libraries {
		folder = sim.Libraries(lib)
	}
	t.Setenv("GPUPROF_CUDA_LIBRARY_PATH", folder)
	d, err := cuda.Open(cuda.Options{Library: lib, AllowSimulated: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d, lib
}

// planOf is a short run of a workload at its small sizes.
func planOf(t *testing.T, w workloads.Workload, set ...string) Plan {
	t.Helper()
	values := gpuprof.Settings{}
	for _, s := range append(append([]string(nil), small[w.Name()]...), set...) {
		k, v, _ := strings.Cut(s, "=")
		values[k] = v
	}
	knobs, err := workloads.Resolve(w, "small", values)
	if err != nil {
		t.Fatal(err)
	}
	return Plan{Workload: w, Preset: "small", Knobs: knobs, Seed: 1, Mode: gpuprof.Steady,
		MinTime: time.Millisecond, MaxTime: time.Second, Warmup: Warmup{Steps: 2}, Samples: 10}
}

// measured is Run with one round of the ladder and one short kernel, which are timed
// and take most of a run as small as these; TestLadderOnCUDA and TestModesOnCUDA have all.
func measured(dev device.Device, p Plan) (*gpuprof.Run, error) {
	r := newRunner(context.Background(), dev, p)
	r.ladderFor, r.shortFor = 0, 0
	return r.execute()
}

// closes wants nothing left behind once the device is closed.
func closes(t *testing.T, d *cuda.Device, lib string) {
	t.Helper()
	if use := d.Memory().InUse; use != 0 {
		t.Errorf("%d bytes are in use after the run", use)
	}
	if err := d.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
	sim.Check(t, lib)
}

// settingsToRun are, for each workload, every value of every tuning knob (by day one that is not the default), and
// of its numbers one beside the default.
func settingsToRun(w workloads.Workload) []string {
	numbers := map[string]string{
		"item_reads": "2", "sync": "every:3", "workers": "2", "epoch": "4", "prefetch": "1", "pool_trim": "every:2", "batch": "3",
	}
	// What a knob acts on, where the default has nothing of it.
	with := map[string]string{
		"recompute": ",pass=forces", "optimizer": ",pass=train", "clip_where": ",pass=train", "loss_read": ",pass=train", "zero": ",pass=train",
		"scaler": ",pass=train,precision=fp16", "found_inf": ",pass=train,precision=fp16,scaler=dynamic",
	}
	out := []string{""}
	for _, k := range w.Knobs() {
		if k.Model || k.Name == "threads" { // a GPU has no CPU threads: refused, below
			continue
		}
		for _, v := range k.Values {
			if v != k.Default {
				out = append(out, k.Name+"="+v+with[k.Name])
				if !nightly {
					break
				}
			}
		}
		if v := numbers[k.Name]; v != "" {
			out = append(out, k.Name+"="+v)
		}
	}
	return out
}

// simulatedRun wants a result that no baseline takes.
func simulatedRun(t *testing.T, run *gpuprof.Run) {
	t.Helper()
	if !run.Simulated() || run.Device.DeviceInfo["ptx_hash"] == "" || !warned(run, "simulated") {
		t.Errorf("facts %v, warnings %v", run.Device.DeviceInfo, run.Warnings)
	}
}

func warned(run *gpuprof.Run, code string) bool {
	for _, w := range run.Warnings {
		if w.Code == code {
			return true
		}
	}
	return false
}

// What no GPU honours is refused by name.
func TestThreadsAreRefusedOnCUDA(t *testing.T) {
	for _, w := range workloadsByName() {
		d, lib := simulated(t, false)
		run, err := Run(context.Background(), d, planOf(t, w, "threads=1"))
		if run != nil || !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), "threads=1") {
			t.Errorf("%s: %v", w.Name(), err)
		}
		closes(t, d, lib)
	}
}

// Every mode, each on one workload: TestEveryModeOnCUDA has the others. The cold one is
// TestOnDevice's, but for once with ceilings that are measured.
func TestModesOnCUDA(t *testing.T) {
	for mode, w := range map[gpuprof.Mode]workloads.Workload{gpuprof.Cold: gruflow.New(), gpuprof.Hot: e3nn.New(), gpuprof.HostClock: collate.New()} {
		runsInMode(t, w, mode)
	}
}

// runsInMode measures a workload in a mode, to the end.
func runsInMode(t *testing.T, w workloads.Workload, mode gpuprof.Mode) {
	t.Run(fmt.Sprintf("%s, %s", w.Name(), mode), func(t *testing.T) {
		d, lib := simulated(t, true)
		p := planOf(t, w)
		p.Mode = mode
		var dev device.Device = quick{d}
		if mode == gpuprof.Cold {
			dev = d
		}
		run, err := Run(context.Background(), dev, p)
		if err != nil {
			t.Fatal(err)
		}
		if run.Status != gpuprof.Complete || run.Step.N() != 10 || run.Mode != mode {
			t.Errorf("status %s, mode %s, %d samples", run.Status, run.Mode, run.Step.N())
		}
		addsUp(t, run)
		closes(t, d, lib)
	})
}

// fault is something that goes wrong with the simulated driver, and what the
// run says of it.
type fault struct {
	configuration string
	phase         string // when it is planted; "" before the workload is opened
	kind          error
	dead          bool // the driver answers nothing more, so that nothing can be given back
}

var faults = map[string]fault{
	"pinned memory":        {"fail=cuMemHostAlloc@1:2", "", gpuprof.ErrMemory, false},
	"device memory":        {"fail=cuMemAllocFromPoolAsync@3:2", "", gpuprof.ErrMemory, false},
	"fifth allocation":     {"oom_at=5", "", gpuprof.ErrMemory, false},
	"module":               {"jit_error=planted", "", gpuprof.ErrDevice, false},
	"stream":               {"fail=cuStreamCreateWithPriority@2:2", "", gpuprof.ErrMemory, false},
	"lost at set-up":       {"lost=20", "", gpuprof.ErrDevice, true},
	"kernel in the check":  {"launch_fail=1:700", "check", gpuprof.ErrDevice, false},
	"lost in the check":    {"lost=9:46", "check", gpuprof.ErrDevice, true},
	"launch in warm-up":    {"fail=cuLaunchKernel@3:701", "warm-up", gpuprof.ErrDevice, false},
	"kernel in sampling":   {"launch_fail=7:719", "sample", gpuprof.ErrDevice, false},
	"launch in sampling":   {"fail=cuLaunchKernel@9:701", "sample", gpuprof.ErrDevice, false},
	"record in sampling":   {"fail=cuEventRecord@12:1", "sample", gpuprof.ErrDevice, false},
	"elapsed in sampling":  {"fail=cuEventElapsedTime@5:1", "sample", gpuprof.ErrDevice, false},
	"lost in sampling":     {"lost=60", "sample", gpuprof.ErrDevice, true},
	"wait in sampling":     {"fail=cuStreamSynchronize@1:1", "sample", gpuprof.ErrDevice, false},
	"memory for events":    {"fail=cuEventCreate@3:2", "ladder", gpuprof.ErrMemory, false},
	"kernel pass":          {"launch_fail=4:719", "kernels", gpuprof.ErrDevice, false},
	"lost at the very end": {"lost=200", "kernels", gpuprof.ErrDevice, true},
}

// Each injected fault gives a partial result with what was measured until then, an
// error that says what was being done, and no leak: here on one workload in turn,
// TestEveryFaultOnCUDA has them on every one.
func TestFaultsOnCUDA(t *testing.T) {
	all := workloadsByName()
	for i, name := range slices.Sorted(maps.Keys(faults)) {
		w := all[i%len(all)]
		t.Run(w.Name()+", "+name, func(t *testing.T) {
			_ = runsInto(t, w, faults[name], false) // which looks at the error itself
		})
	}
}

// runsInto measures a workload into a fault and returns the error it ends with.
func runsInto(t *testing.T, w workloads.Workload, f fault, libraries bool, set ...string) error {
	t.Helper()
	d, lib := simulated(t, libraries)
	p := planOf(t, w, set...)
	planted := false
	plant := func() {
		if !planted {
			planted = true
			sim.Set(t, lib, f.configuration)
		}
	}
	if f.phase == "" {
		plant()
	}
	p.Samples, p.MaxTime = 30, time.Minute // several blocks, also on a busy machine
	p.Progress = func(at Progress) {
		if at.Phase == f.phase && (f.phase != "sample" || at.Done > 0) {
			plant()
		}
	}
	run, err := measured(quick{d}, p)
	if !planted || !errors.Is(err, f.kind) || errors.Is(err, gpuprof.ErrUsage) { // the command would end with 2
		t.Fatalf("planted %t, error %v", planted, err)
	}
	if run == nil || run.Status != gpuprof.Partial || run.Reason != reasonOf(err) || !strings.Contains(err.Error(), ": ") {
		t.Fatalf("%+v, %v", run, err)
	}
	simulatedOnly(t, run)
	warm := f.phase == "warm-up" || f.phase == "ladder" // when the warm-up had steps but sampling none
	if late := warm || f.phase == "sample" || f.phase == "kernels"; late != (run.Step.N() > 0) || warm != warned(run, warmUpOnly) {
		t.Errorf("%d samples are kept of a fault in phase %q, with the warnings %v", run.Step.N(), f.phase, run.Warnings)
	} else if late {
		addsUp(t, run)
	}
	if f.dead {
		if use := d.Memory().InUse; use != 0 {
			t.Errorf("%d bytes are in use after the run", use)
		}
		_ = d.Close() // it can only say again what is known
		if r := sim.GetReport(t, lib); r.Live() != 0 {
			t.Errorf("a lost device leaves %+v", r)
		}
		sim.Reset(t, lib)
		return err
	}
	closes(t, d, lib)
	return err
}

// simulatedOnly wants the mark that keeps a result out of baselines, however
// early the run ended.
func simulatedOnly(t *testing.T, run *gpuprof.Run) {
	t.Helper()
	if !run.Simulated() || run.Device.DeviceInfo["simulated"] != "true" || !warned(run, "simulated") {
		t.Errorf("facts %v, warnings %v", run.Device.DeviceInfo, run.Warnings)
	}
}
