package main

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/internal/testkit/sim"
	"github.com/gpuprof/gpuprof/probes/nvml"
	"github.com/gpuprof/gpuprof/workloads/device/cuda"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestCondition(t *testing.T) {
	nan := gpuprof.Number(math.NaN())
	unknown := nvml.DeviceInfo{PCIeWidth: nan, PCIeWidthMax: nan, PCIeGenMax: nan, PowerLimit: nan, PowerDefault: nan, PowerEnforced: nan, AppSMClock: nan, DefaultSMClock: nan, Uncorrected: nan}
	if got := conditionOf(unknown, false); !reflect.DeepEqual(got, health.Condition{}) {
		t.Errorf("of unknown figures: %+v", got)
	}
	for says, d := range map[string]nvml.DeviceInfo{
		"could not be replaced": {RemapFailed: nvml.On, RemapPending: nvml.On}, "3 uncorrected": {Uncorrected: 3}, "waits for a reset": {RetirePending: nvml.On},
	} {
		if got := conditionOf(d, false).MemoryFault; !strings.Contains(got, says) {
			t.Errorf("fault %q, want %q", got, says)
		}
	}
	if got := conditionOf(nvml.DeviceInfo{PowerLimit: 700, PowerDefault: 700, PowerEnforced: 450}, true); got.PowerLimitW != 450 || got.PowerBaseW != 700 || !got.MIG {
		t.Errorf("%+v", got)
	}
}

func TestFault(t *testing.T) {
	failure := fmt.Errorf("looking:\n%w", gpuprof.Errorf(gpuprof.ErrDevice, "opening x: it has a; b").WithFix("do c; d"))
	l := gpuprof.FailedCheck("x", failure)
	if l.Reason != "looking: opening x: it has a; b" || l.Fix != "do c; d" || l.State != gpuprof.Missing {
		t.Errorf("%+v", l)
	}
	if l := gpuprof.FailedCheck("x", errors.New("no fix")); l.Reason != "no fix" || l.Fix == "" {
		t.Errorf("%+v", l)
	}
}

// A library in the loader's path that only imitates a driver is no GPU: nothing
// is measured on it.
func TestDoctorRefusesAnImitation(t *testing.T) {
	t.Parallel()
	lib := sim.Library(t)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"doctor"}, cli.ExitOK, "only imitates a driver, for tests"},
		{[]string{"doctor", "--bench"}, cli.ExitFailed, "only imitates a driver, for tests"},
		{[]string{"run", "e3nn", "--device", "cuda"}, cli.ExitFailed, "only imitates a driver, for tests"},
		{[]string{"tune", "e3nn", "--device", "cuda"}, cli.ExitFailed, "only imitates a driver, for tests"},
	} {
		cmd := selfCommand(t, t.TempDir(), c.args...)
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+filepath.Dir(lib), "GPUPROF_TEST_DRIVER=")
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if got := cmd.ProcessState.ExitCode(); got != c.code || !strings.Contains(string(out), c.says) {
			t.Errorf("gpuprof %v ended with %d:\n%s", c.args, got, out)
		}
	}
}

// Two simulated GPUs: every ordered pair has a direct link, and NCCL's stand-in adds up;
// with one that cannot be opened its links and the sum say why. Of one GPU there is nothing.
func TestBetweenGPUs(t *testing.T) {
	simulated := &wiring{driver: sim.Library(t)}
	t.Setenv("GPUPROF_CUDA_LIBRARY_PATH", sim.Libraries(simulated.driver))
	for configuration, c := range map[string]struct {
		known int
		why   string
	}{
		"devices=2":         {2, ""},
		"devices=3;peers=0": {6, ""},
		"devices=2;fail=cuDevicePrimaryCtxRetain@2:46": {0, "another process holds the GPU in exclusive mode"},
		"devices=2;fail=ncclCommInitAll@1:3":           {2, "NCCL status 3"},
	} {
		t.Run(configuration, func(t *testing.T) {
			sim.Configure(t, simulated.driver, configuration)
			sight := &gpuList{w: simulated}
			var err error
			if sight.visible, err = simulated.answeringGPUs(); err != nil {
				t.Fatal(err)
			}
			var here []int
			for i := range sight.visible {
				here = append(here, i)
			}
			links, sum := sight.Between(t.Context(), here, 1<<18)
			known := 0
			for _, l := range links {
				if float64(l.BytesPerS) > 0 && l.Why == "" && l.Direct != strings.Contains(configuration, "peers=0") {
					known++
				}
			}
			if n := len(here); len(links) != n*(n-1) || known != c.known {
				t.Errorf("%d of %d links are known: %+v", known, len(links), links)
			}
			if (sum.Why == "") != (c.why == "") || !strings.Contains(sum.Why, c.why) || c.why == "" && (sum.GPUs != len(here) || !(float64(sum.BusPerS) > 0)) {
				t.Errorf("the sum is %+v", sum)
			}
			sim.Check(t, simulated.driver)
			if links, sum := sight.Between(t.Context(), here[:1], 1<<18); links != nil || sum != nil {
				t.Errorf("of one GPU: %v, %v", links, sum)
			}
		})
	}
}

// TestKernelLine: doctor says how long the first use of a kernel took, whether the driver
// compiled it then, had kept it, or had nothing to compile.
func TestKernelLine(t *testing.T) {
	kept := cuda.CodeCache{Path: "/c", Files: 3, Bytes: 1 << 20}
	grown := cuda.CodeCache{Path: "/c", Files: 4, Bytes: 2 << 20}
	broken := cuda.CodeCache{Err: gpuprof.Errorf(gpuprof.ErrDevice, "keeping compiled kernels: it is switched off").WithFix("unset CUDA_CACHE_DISABLE")}
	for want, c := range map[string]struct {
		first         firstLoad
		before, after cuda.CodeCache
		state         gpuprof.CheckState
	}{
		"k was compiled in 3.70 s, at its first use with this driver; compiled kernels are kept in /c (2.00 MiB)": {firstLoad{took: 3700 * time.Millisecond}, kept, grown, gpuprof.OK},
		"k was ready after 12.0 ms, as the driver had kept it; compiled kernels are kept in /c (1.00 MiB)":        {firstLoad{took: 12 * time.Millisecond}, kept, kept, gpuprof.OK},
		"k was loaded in 12.0 ms, as machine code that the program holds for this GPU":                            {firstLoad{took: 12 * time.Millisecond, carried: true}, kept, kept, gpuprof.OK},
		"k was ready after 3.70 s": {firstLoad{took: 3700 * time.Millisecond}, broken, broken, gpuprof.Limited},
		"k was loaded and not timed, since the driver is simulated; compiled kernels are kept in /c (1.00 MiB)": {firstLoad{took: time.Second, simulated: true}, kept, kept, gpuprof.OK},
	} {
		l := kernelLine("k", c.first, c.before, c.after)
		if l.Found != want || l.State != c.state || (l.Fix != "") != (c.state != gpuprof.OK) {
			t.Errorf("%+v, want %q", l, want)
		}
	}
}
