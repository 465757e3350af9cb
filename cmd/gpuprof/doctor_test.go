package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/internal/testkit/sim"
	"github.com/gpuprof/gpuprof/probes/nvml"
	"github.com/gpuprof/gpuprof/workloads/device/cuda"
)

var update = flag.Bool("update", false, "rewrite golden files")

// fakeView is a machine: two GPUs seen by CUDA, and MIG instances seen by NVML.
type fakeView struct{ telemetry error }

const (
	firstGPU  = "GPU-1111aaaa-0000-0000-0000-000000000000"
	secondGPU = "GPU-1111bbbb-0000-0000-0000-000000000000"
	slice     = "MIG-2222cccc-0000-0000-0000-000000000000"
)

func (fakeView) Shown() []gpuName {
	return []gpuName{{0, firstGPU, "NVIDIA A"}, {1, secondGPU, "NVIDIA A"}}
}
func (fakeView) Hidden() []string { return []string{slice} }
func (v fakeView) Elsewhere(name string) (string, error) {
	if v.telemetry != nil {
		return "", v.telemetry
	}
	list := []nvml.DeviceInfo{
		{Index: 0, UUID: secondGPU, PCI: "00000000:17:00.0"}, // NVML counts in another order
		{Index: 1, UUID: firstGPU, PCI: "00000000:ca:00.0"},
		{Index: 2, UUID: "GPU-3333", Instances: []nvml.Instance{{UUID: slice, Profile: "1g.10gb"}}},
	}
	at, err := nvml.Select(list, name)
	if err != nil {
		return "", err
	}
	if at.Instance >= 0 {
		return list[at.GPU].Instances[at.Instance].UUID, nil
	}
	return list[at.GPU].UUID, nil
}

func TestChooseGPUs(t *testing.T) {
	for name, c := range map[string]struct {
		names []string
		here  []int
		away  []string
		says  string
	}{
		"every one":           {nil, []int{0, 1}, []string{slice}, ""},
		"index":               {[]string{"1"}, []int{1}, nil, ""},
		"index of CUDA":       {[]string{"cuda:0"}, []int{0}, nil, ""},
		"UUID":                {[]string{secondGPU}, []int{1}, nil, ""},
		"beginning of a UUID": {[]string{"gpu-1111b"}, []int{1}, nil, ""},
		"bare UUID":           {[]string{"1111aaaa"}, []int{0}, nil, ""},
		"twice":               {[]string{"0", "cuda:0", firstGPU}, []int{0}, nil, ""},
		"several":             {[]string{"1", "0"}, []int{1, 0}, nil, ""},
		"MIG by name":         {[]string{"MIG 1g.10gb"}, nil, []string{slice}, ""},
		"MIG by profile":      {[]string{"1g.10gb", "2:0"}, nil, []string{slice}, ""},
		"MIG by UUID":         {[]string{"MIG-2222"}, nil, []string{slice}, ""},
		"PCI bus":             {[]string{"0000:17:00.0"}, []int{1}, nil, ""},
		"no such index":       {[]string{"2"}, nil, nil, "0 (NVIDIA A, " + firstGPU},
		"no such CUDA index":  {[]string{"cuda:9"}, nil, nil, "choosing device cuda:9"},
		"not a number":        {[]string{"cuda:x"}, nil, nil, "choosing device cuda:x"},
		"ambiguous":           {[]string{"GPU-1111"}, nil, nil, "give more of the UUID"},
		"unknown":             {[]string{"GPU-9999"}, nil, nil, "choosing device GPU-9999"},
		"empty":               {[]string{""}, nil, nil, "choosing device"},
	} {
		t.Run(name, func(t *testing.T) {
			here, away, err := chooseGPUs(fakeView{}, c.names)
			if c.says != "" {
				if !errors.Is(err, gpuprof.ErrDevice) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("error %v; want it to say %q", err, c.says)
				}
				return
			}
			if err != nil || !slices.Equal(here, c.here) || !slices.Equal(away, c.away) {
				t.Errorf("%v, %v, %v", here, away, err)
			}
		})
	}
	// Without telemetry what CUDA shows can still be named.
	blind := fakeView{gpuprof.Errorf(gpuprof.ErrDevice, "NVML is not in this build; build it with")}
	if here, _, err := chooseGPUs(blind, []string{"1"}); err != nil || len(here) != 1 {
		t.Errorf("%v, %v", here, err)
	}
	if _, _, err := chooseGPUs(blind, []string{"1g.10gb"}); !errors.Is(err, gpuprof.ErrDevice) || !strings.Contains(err.Error(), "not in this build") {
		t.Errorf("%v", err)
	}
}

// madeUp is a card with figures that were never measured.
func madeUp(device string, copyRate float64) health.Card {
	return health.Card{Device: device, Name: "NVIDIA Made Up", UUID: firstGPU, PCI: "0000:17:00.0",
		Sources:   []health.Source{{Name: health.SourceNVML, Answer: health.NoFault}, {Name: health.SourceECC, Answer: health.NoFault, Decides: true}, {Name: health.SourceLog, Answer: health.Unanswered, Text: "no permission"}},
		Condition: health.Condition{LinkWidth: 16, LinkWidthMax: 16, PowerLimitW: 500, PowerBaseW: 700},
		Metrics: []health.Metric{
			{Name: "copy", Unit: "B/s", Value: gpuprof.Number(copyRate)}, {Name: "h2d_pinned", Unit: "B/s", Value: 55e9},
			{Name: "gemm_fp32", Unit: "flop/s", Value: 50e12}, {Name: "gemm_bf16", Unit: "flop/s", Value: gpuprof.Number(math.NaN()), Why: "cuBLAS status 15"},
			{Name: "launch", Unit: "s", Value: 5.25e-6}, {Name: "sm_clock", Unit: "Hz", Value: 1.7e9}, {Name: "power", Unit: "W", Value: 499}, {Name: "temperature", Unit: "C", Value: 61},
		}}
}

func TestBenchVerdicts(t *testing.T) {
	t.Setenv("GPUPROF_NODE", "n7")
	broken := madeUp("cuda:1", 4e12)
	broken.Error = "device lost"
	narrow := madeUp("cuda:0", 4e12)
	narrow.Condition.LinkWidth = 8
	silent := madeUp("cuda:0", 4e12)
	silent.Sources = []health.Source{{Name: health.SourceNVML, Answer: health.Unanswered, Text: "no library"}}
	lost := health.Card{Device: "gpu1", PCI: "0000:ca:00.0", UUID: secondGPU, Sources: []health.Source{health.FaultOf(health.SourceNVML, "NVML reports: the GPU has fallen off the bus", health.FixRestart)}}
	for name, c := range map[string]struct {
		cards []health.Card
		code  int
		says  string
		links []health.Link
		sum   *health.AllReduce
	}{
		"healthy": {[]health.Card{madeUp("cuda:0", 4e12), madeUp("cuda:1", 4.1e12)}, exitOK, "",
			[]health.Link{{From: "cuda:0", To: "cuda:1", Direct: true, BytesPerS: 4.1e11}, {From: "cuda:1", To: "cuda:0", BytesPerS: 2.3e10}},
			&health.AllReduce{Library: "nccl 2.27.3", GPUs: 2, Bytes: 256 << 20, TookS: 1.21e-3, BusPerS: 2.22e11}},
		"unhealthy":       {[]health.Card{madeUp("cuda:0", 4e12), madeUp("cuda:1", 3e12), madeUp("cuda:2", 4e12)}, exitRegression, "cuda:1 is not as fast", nil, nil},
		"unknown":         {[]health.Card{madeUp("cuda:0", 4e12)}, exitInconclusive, "not yet measured", nil, nil},
		"narrow alone":    {[]health.Card{narrow}, exitRegression, "link_width of cuda:0: reseat", nil, nil},
		"failed":          {[]health.Card{madeUp("cuda:0", 4e12), broken}, exitFailed, "cuda:1: device lost", nil, nil},
		"not checked":     {[]health.Card{silent, madeUp("cuda:1", 4e12)}, exitInconclusive, "not checked: cuda:0: nvml (no library)", nil, nil},
		"lost beside":     {[]health.Card{madeUp("cuda:0", 4e12), lost}, exitRegression, "begin with lost of gpu1: drain the node", nil, nil},
		"lost and failed": {[]health.Card{broken, lost}, exitRegression, "cuda:1 could not be measured to the end", nil, nil},
		"nothing":         {nil, exitFailed, "there is none", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, format := range []string{"table", "json"} {
				var out bytes.Buffer
				ranges, err := shippedRanges()
				if err != nil {
					t.Fatal(err)
				}
				err = (&doctorCmd{Format: format}).conclude(&app{tables: wired.tables(), ctx: t.Context(), stdout: &out, stderr: &out}, measured{cards: c.cards, links: c.links, reduce: c.sum}, ranges, nil, nil)
				if got := exitCode(err); got != c.code || err != nil && (!strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n")) {
					t.Errorf("exit code %d, want %d; %v", got, c.code, err)
				}
				if len(c.cards) == 0 {
					continue
				}
				if format == "json" {
					var r health.Report
					if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.ExitCode != c.code || len(r.Devices) != len(c.cards) {
						t.Errorf("%v: %s", err, &out)
					}
					continue
				}
				golden(t, filepath.Join("testdata", "doctor", strings.ReplaceAll(name, " ", "-")+".txt"), out.Bytes())
			}
		})
	}
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; run the test with -update if that is right:\n%s", file, got)
	}
}

// A GPU that only another process sees is measured there.
func TestBenchElsewhere(t *testing.T) {
	report := func(cards ...health.Card) string {
		b, err := json.Marshal(health.Report{Head: document.NewHead(document.Health, wired.tables().tool), Devices: cards})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	broken := madeUp("cuda:0", 4e12)
	broken.Error = "device lost"
	for name, c := range map[string]struct {
		prints, complains string
		code              int
		fails             string
	}{
		"unknown there":   {report(madeUp("cuda:0", 4e12)), "gpuprof: checking the GPUs: nothing to compare with", 3, ""},
		"device failed":   {report(broken), "gpuprof: checking", 4, "device lost"},
		"nothing printed": {"", "gpuprof: opening a CUDA device: no GPU; get one", 4, "opening a CUDA device: no GPU; get one"},
		"silent":          {"", "", 4, "exit status 4"},
		"several":         {report(madeUp("cuda:0", 1), madeUp("cuda:1", 1)), "", 0, "saw 2 devices"},
		"something else":  {"hello", "", 0, "reading the output of the process"},
	} {
		t.Run(name, func(t *testing.T) {
			script := fmt.Sprintf("test \"$CUDA_VISIBLE_DEVICES\" = %s || exit 99; cat <<'END'\n%s\nEND\necho '%s' >&2; exit %d", slice, c.prints, c.complains, c.code)
			cards := benchBy(t.Context(), child.Command{Args: []string{"sh", "-c", script}}, slice)
			if len(cards) != 1 || cards[0].Device != slice || !strings.Contains(cards[0].Error, c.fails) || (cards[0].Err == nil) != (c.fails == "") {
				t.Fatalf("%+v", cards)
			}
			if m, ok := cards[0].Metric("copy"); c.fails == "" && (!ok || m.Value != 4e12) {
				t.Errorf("the figures got lost: %+v", m)
			}
			if m, ok := cards[0].Metric("gemm_bf16"); c.fails == "" && (ok || m.Why == "") {
				t.Errorf("what is unknown there is known here: %+v", m)
			}
		})
	}
}

func TestVerdictExitCodes(t *testing.T) {
	off, open := verdict{exitRegression, "off"}, verdict{exitInconclusive, "open"}
	for _, c := range []struct {
		err  error
		code int
	}{
		{off, exitRegression}, {open, exitInconclusive}, {errors.Join(open, off), exitRegression}, {fmt.Errorf("checking: %w", open), exitInconclusive},
		{errors.Join(off, errors.New("disk full")), exitFailed}, {errors.Join(off, gpuprof.Errorf(gpuprof.ErrUsage, "no")), exitUsage},
	} {
		if got := exitCode(c.err); got != c.code {
			t.Errorf("%q ends with %d, want %d", c.err, got, c.code)
		}
	}
}

func TestCondition(t *testing.T) {
	nan := gpuprof.Number(math.NaN())
	unknown := nvml.DeviceInfo{PCIeWidth: nan, PCIeWidthMax: nan, PCIeGenMax: nan, PowerLimit: nan, PowerDefault: nan, PowerEnforced: nan, AppSMClock: nan, DefaultSMClock: nan, Uncorrected: nan}
	if got := condition(unknown, false); !reflect.DeepEqual(got, health.Condition{}) {
		t.Errorf("of unknown figures: %+v", got)
	}
	for says, d := range map[string]nvml.DeviceInfo{
		"could not be replaced": {RemapFailed: nvml.On, RemapPending: nvml.On}, "3 uncorrected": {Uncorrected: 3}, "waits for a reset": {RetirePending: nvml.On},
	} {
		if got := condition(d, false).MemoryFault; !strings.Contains(got, says) {
			t.Errorf("fault %q, want %q", got, says)
		}
	}
	if got := condition(nvml.DeviceInfo{PowerLimit: 700, PowerDefault: 700, PowerEnforced: 450}, true); got.PowerLimitW != 450 || got.PowerBaseW != 700 || !got.MIG {
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
		{[]string{"doctor"}, exitOK, "only imitates a driver, for tests"},
		{[]string{"doctor", "--bench"}, exitFailed, "only imitates a driver, for tests"},
		{[]string{"run", "e3nn", "--device", "cuda"}, exitFailed, "only imitates a driver, for tests"},
		{[]string{"tune", "e3nn", "--device", "cuda"}, exitFailed, "only imitates a driver, for tests"},
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
			sight := &gpuSight{w: simulated}
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
		holds         bool
		state         gpuprof.CheckState
	}{
		"k was compiled in 3.70 s, at its first use with this driver; compiled kernels are kept in /c (2.00 MiB)":                                                                    {firstLoad{took: 3700 * time.Millisecond}, kept, grown, true, gpuprof.OK},
		"k was ready after 12.0 ms, as the driver had kept it; compiled kernels are kept in /c (1.00 MiB)":                                                                           {firstLoad{took: 12 * time.Millisecond}, kept, kept, true, gpuprof.OK},
		"k was ready after 12.0 ms, as the driver had kept it; this build holds no machine code (the archive and the Debian package do); compiled kernels are kept in /c (1.00 MiB)": {firstLoad{took: 12 * time.Millisecond}, kept, kept, false, gpuprof.OK},
		"k was loaded in 12.0 ms, as machine code that the program holds for this GPU":                                                                                               {firstLoad{took: 12 * time.Millisecond, carried: true}, kept, kept, true, gpuprof.OK},
		"k was ready after 3.70 s": {firstLoad{took: 3700 * time.Millisecond}, broken, broken, true, gpuprof.Limited},
		"k was loaded and not timed, since the driver is simulated; compiled kernels are kept in /c (1.00 MiB)": {firstLoad{took: time.Second, simulated: true}, kept, kept, true, gpuprof.OK},
	} {
		l := kernelLine("k", c.first, c.before, c.after, c.holds)
		if l.Found != want || l.State != c.state || (l.Fix != "") != (c.state != gpuprof.OK) {
			t.Errorf("%+v, want %q", l, want)
		}
	}
}
