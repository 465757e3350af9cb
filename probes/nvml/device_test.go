package nvml

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuprof/gpuprof"
)

// The interface of the package's documentation.
var _ interface {
	Start(ctx context.Context, every time.Duration)
	Pause()
	Resume()
	Stop() map[string]gpuprof.Track
	EnergyJ() (float64, bool)
	EnergyPeriod(ctx context.Context) (time.Duration, bool)
	PowerW() (float64, bool)
	ClockHz() (float64, bool)
	Throttles() map[string]float64
	ThrottledS() (s float64, reasons []string, ok bool)
	Foreign() (n int, ok bool)
	Latency() (time.Duration, bool)
	Facts() map[string]string
} = (*Device)(nil)

func value(t *testing.T, what string, got float64, ok bool, want float64) {
	t.Helper()
	if !ok || math.Abs(got-want) > 1e-9*math.Abs(want) {
		t.Errorf("%s is %g, %v; want %g", what, got, ok, want)
	}
}

func TestDevice(t *testing.T) {
	g := healthy("1111aaaa-0000-0000-0000-000000000000")
	d := choose(t, library(t, g), "0")
	w, ok := d.PowerW()
	value(t, "power", w, ok, 72.5)
	e, ok := d.EnergyJ()
	value(t, "energy", e, ok, 1000)
	if cpus, ok := d.NearCPUs(); !ok || !slices.Equal(cpus, []int{1, 3}) {
		t.Errorf("near CPUs %v, %v", cpus, ok)
	}
	want := map[string]string{
		"driver": "550.54.15", "cuda": "12.4", "uuid_hash": hashName(g.id), "ecc": "on", "persistence": "on", "compute_mode": "default", "mig": "off",
		"power_limit_w": "700", "power_default_w": "700", "application_sm_clock_hz": "1980000000", "application_memory_clock_hz": "2619000000",
		"pcie_link": "gen5 x16", "power": "instant",
	}
	if diff := cmp.Diff(want, d.Facts()); diff != "" {
		t.Error(diff)
	}
	delete(g.raw, fieldPowerInstant)
	w, ok = d.PowerW()
	value(t, "average power", w, ok, 71)
	if got := d.Facts()["power"]; got != "average" {
		t.Errorf("power is called %q", got)
	}
	delete(g.numbers, powerUsage)
	if _, ok := d.PowerW(); ok {
		t.Error("power is known where nothing tells it")
	}
	if _, there := d.Facts()["power"]; there {
		t.Error("the facts name a power that is unknown")
	}
}

func TestThrottled(t *testing.T) {
	g := healthy("1111aaaa-0000-0000-0000-000000000000")
	d := choose(t, library(t, g), "0")
	s, reasons, ok := d.ThrottledS()
	if s != 0 || len(reasons) != 0 || !ok {
		t.Errorf("before anything: %g %v %v", s, reasons, ok)
	}
	g.setField(fieldPower, 1.25e9)
	g.setField(fieldSWThermal, 3.5e9)
	g.setField(fieldThermal, 3.5e9) // the same seconds under the older name
	s, reasons, ok = d.ThrottledS()
	value(t, "throttled", s, ok, 0.75)
	if !slices.Equal(reasons, []string{"power-cap", "sw-thermal"}) {
		t.Errorf("reasons %v", reasons)
	}
	// An older driver knows 74 to 76 only.
	old := healthy("1111aaaa-0000-0000-0000-000000000000")
	for _, id := range []uint32{fieldSWThermal, fieldHWThermal, fieldHWPowerBrake} {
		delete(old.raw, id)
	}
	d = choose(t, library(t, old), "0")
	old.setField(fieldThermal, 5e9)
	s, reasons, ok = d.ThrottledS()
	value(t, "throttled on an older driver", s, ok, 2)
	if !slices.Equal(reasons, []string{"thermal"}) {
		t.Errorf("reasons %v", reasons)
	}
	// No counter at all is unknown, not zero.
	none := healthy("1111aaaa-0000-0000-0000-000000000000")
	none.raw = nil
	if _, _, ok := choose(t, library(t, none), "0").ThrottledS(); ok {
		t.Error("throttling is known without a counter")
	}
}

func TestTelemetry(t *testing.T) {
	g := healthy("1111aaaa-0000-0000-0000-000000000000")
	delete(g.numbers, pcieRX)
	delete(g.raw, fieldHWThermal)
	d := choose(t, library(t, g), "0")
	d.Start(t.Context(), time.Hour)
	d.Start(t.Context(), time.Millisecond) // does nothing
	g.setField(fieldPower, 1.5e9)
	g.setFail(temperature, errors.New("a moment's trouble"))
	tracks := d.Stop()
	if d.Stop() != nil {
		t.Error("a second Stop has tracks")
	}
	units := map[string]string{}
	for name, tr := range tracks {
		units[name] = tr.Unit
		if len(tr.TimeS) != len(tr.Value) || len(tr.TimeS) != 2 || !slices.IsSorted(tr.TimeS) || tr.TimeS[0] < 0 {
			t.Errorf("%s has %d times and %d values", name, len(tr.TimeS), len(tr.Value))
		}
	}
	want := map[string]string{
		"gpu_sm_clock": "Hz", "gpu_memory_clock": "Hz", "gpu_power": "W", "gpu_temperature": "C", "gpu_utilisation": "1", "gpu_memory_activity": "1",
		"gpu_memory_used": "B", "gpu_pcie_tx": "B/s", "gpu_pcie_gen": "1", "gpu_pcie_width": "1", "gpu_clock_event_reasons": "1", "gpu_energy": "J",
		"gpu_throttled_power-cap": "s", "gpu_throttled_sync-boost": "s", "gpu_throttled_sw-thermal": "s", "gpu_throttled_hw-power-brake": "s",
		"gpu_processes": "1", "gpu_foreign": "1",
	}
	if diff := cmp.Diff(want, units); diff != "" {
		t.Error(diff)
	}
	last := func(name string) float64 { v := tracks[name].Value; return float64(v[len(v)-1]) }
	value(t, "SM clock", last("gpu_sm_clock"), true, 345e6)
	value(t, "power", last("gpu_power"), true, 72.5)
	value(t, "throttled by the cap", last("gpu_throttled_power-cap"), true, 0.5)
	if e := tracks["gpu_energy"].Value; e[0] != 0 || last("gpu_energy") <= 0 {
		t.Errorf("energy %v does not count from the start", e)
	}
	if v := tracks["gpu_temperature"].Value; v[0] != 31 || !math.IsNaN(last("gpu_temperature")) {
		t.Errorf("temperature %v; failed readings must be unknown", v)
	}
}

func TestMIG(t *testing.T) {
	g := sliced("1111aaaa-0000-0000-0000-000000000000")
	l := library(t, g)
	info := l.Devices()[0]
	if info.MIG != On || len(info.Instances) != 2 || info.Instances[1].Profile != "3g.40gb" || info.Instances[1].GI != 8 {
		t.Fatalf("instances %+v", info.Instances)
	}
	d := choose(t, l, "3g.40gb")
	if got := d.Facts(); got["mig_profile"] != "3g.40gb" || got["uuid_hash"] != hashName(info.Instances[1].UUID) || got["mig_parent_hash"] != hashName(g.id) {
		t.Errorf("facts %v", got)
	}
	for what, ok := range map[string]bool{"energy": second(d.EnergyJ()), "power": second(d.PowerW())} {
		if ok {
			t.Errorf("the whole GPU's %s passes for the instance's", what)
		}
	}
	hz, ok := d.ClockHz()
	value(t, "clock", hz, ok, 345e6)
	d.Start(t.Context(), time.Hour)
	tracks := d.Stop()
	for _, name := range []string{"gpu_power", "gpu_energy", "gpu_utilisation", "gpu_pcie_tx"} {
		if _, there := tracks[name]; there {
			t.Errorf("an instance has a track %s", name)
		}
	}
	value(t, "memory", float64(tracks["gpu_memory_used"].Value[0]), true, 2e9)
}

func second[T any](_ T, ok bool) bool { return ok }

// Numbers of a GPU that supports nothing are all unknown, never zero.
func TestNothingSupported(t *testing.T) {
	l := library(t, &fakeGPU{id: "GPU-1111aaaa", title: "NVIDIA Old", listErr: errUnsupported})
	i := l.Devices()[0]
	for name, n := range map[string]gpuprof.Number{
		"power": i.PowerLimit, "default": i.PowerDefault, "clock": i.SMClock, "clock max": i.SMClockMax, "app": i.AppSMClock, "gen": i.PCIeGen,
		"width": i.PCIeWidthMax, "memory": i.MemoryTotal, "bar1": i.BAR1Total, "ecc errors": i.Uncorrected,
	} {
		if Known(n) {
			t.Errorf("%s is %g", name, float64(n))
		}
	}
	if i.ECC != "" || i.Persistence != "" || i.MIG != "" || i.ComputeMode != "" || i.Reasons != nil || i.ProcessesKnown {
		t.Errorf("%+v", i)
	}
	d := choose(t, l, "0")
	d.Start(t.Context(), time.Hour)
	if tracks := d.Stop(); len(tracks) != 0 {
		t.Errorf("tracks of nothing: %v", tracks)
	}
	for _, line := range i.Examine() {
		wantOK := line.Name == "gpu 0" || line.Name == "gpu 0 mig" || line.Name == "gpu 0 permissions"
		if (line.State == gpuprof.OK) != wantOK || line.State != gpuprof.OK && (line.Reason == "" || line.Fix == "") {
			t.Errorf("%+v", line)
		}
	}
}

func TestExamine(t *testing.T) {
	// What may not be read is also unknown where it is looked at.
	also := map[string]string{"permission": "gpu 0 power limit", "process permission": "gpu 0 users"}
	for name, c := range map[string]struct {
		change func(*fakeGPU)
		line   string
		state  gpuprof.CheckState
		says   string
	}{
		"healthy":             {func(*fakeGPU) {}, "", gpuprof.OK, ""},
		"persistence":         {func(g *fakeGPU) { g.numbers[persistence] = 0 }, "persistence", gpuprof.Limited, "nvidia-persistenced"},
		"mig":                 {func(g *fakeGPU) { g.numbers[migMode] = 1; g.parts = sliced("").parts }, "mig", gpuprof.Limited, "MIG 1g.10gb MIG-abcd"},
		"mig without parts":   {func(g *fakeGPU) { g.numbers[migMode] = 1 }, "mig", gpuprof.Limited, "-cgi 9 -C"},
		"no mig":              {func(g *fakeGPU) { delete(g.numbers, migMode) }, "mig", gpuprof.OK, "has none"},
		"permission":          {func(g *fakeGPU) { g.setFail(powerLimit, errForbidden); g.setFail(energy, errForbidden) }, "permissions", gpuprof.Limited, "not permitted: power limit"},
		"process permission":  {func(g *fakeGPU) { g.listErr = errForbidden }, "permissions", gpuprof.Limited, "processes"},
		"exclusive":           {func(g *fakeGPU) { g.numbers[computeMode] = 3 }, "compute mode", gpuprof.Limited, "exclusive-process"},
		"prohibited":          {func(g *fakeGPU) { g.numbers[computeMode] = 2 }, "compute mode", gpuprof.Missing, "-c DEFAULT"},
		"application clocks":  {func(g *fakeGPU) { g.numbers[appSMClock] = 1200e6 }, "clocks", gpuprof.Limited, "-rac"},
		"memory clocks":       {func(g *fakeGPU) { g.numbers[appMemoryClock] = 1200e6 }, "clocks", gpuprof.Limited, "memory 1.20 GHz"},
		"no app clocks":       {func(g *fakeGPU) { delete(g.numbers, appSMClock) }, "clocks", gpuprof.OK, "application clocks unknown"},
		"no clocks":           {func(g *fakeGPU) { delete(g.numbers, smClock) }, "clocks", gpuprof.Missing, "NVML does not report"},
		"power cap":           {func(g *fakeGPU) { g.numbers[eventReasons] = 4 }, "throttling", gpuprof.Limited, "power-cap"},
		"hot":                 {func(g *fakeGPU) { g.numbers[eventReasons] = 0x20 | 2 }, "throttling", gpuprof.Limited, "air flow"},
		"power brake":         {func(g *fakeGPU) { g.numbers[eventReasons] = 0x80 }, "throttling", gpuprof.Limited, "power supplies"},
		"power limit":         {func(g *fakeGPU) { g.numbers[powerLimit] = 500 }, "power limit", gpuprof.Limited, "-pl 700"},
		"enforced limit":      {func(g *fakeGPU) { g.numbers[powerEnforced] = 450 }, "power limit", gpuprof.Limited, "450 W, default 700 W"},
		"no default limit":    {func(g *fakeGPU) { delete(g.numbers, powerDefault) }, "power limit", gpuprof.Missing, "default limit is unknown"},
		"uncorrected":         {func(g *fakeGPU) { g.numbers[eccUncorrected] = 2 }, "ecc", gpuprof.Limited, "2 uncorrected"},
		"remap pending":       {func(g *fakeGPU) { g.numbers[remapPending] = 1 }, "ecc", gpuprof.Limited, "reset the GPU"},
		"retire pending":      {func(g *fakeGPU) { g.numbers[retirePending] = 1 }, "ecc", gpuprof.Limited, "waits for a reset to be taken out of use"},
		"remap failed":        {func(g *fakeGPU) { g.numbers[remapFailed] = 1 }, "ecc", gpuprof.Limited, "out of service"},
		"ecc pending":         {func(g *fakeGPU) { g.numbers[eccPending] = 0 }, "ecc", gpuprof.Limited, "off after the next reboot"},
		"no ecc":              {func(g *fakeGPU) { delete(g.numbers, eccMode); delete(g.numbers, eccPending) }, "ecc", gpuprof.Missing, "no ECC"},
		"lanes":               {func(g *fakeGPU) { g.numbers[pcieWidth] = 8 }, "pcie link", gpuprof.Limited, "x8, at most gen 5 x16"},
		"foreign":             {func(g *fakeGPU) { g.list = []Process{{PID: 1, Kind: "compute", Memory: 1 << 30}} }, "users", gpuprof.Limited, "(1, compute, 1.00 GiB)"},
		"our own":             {func(g *fakeGPU) { g.list = []Process{{PID: os.Getpid()}} }, "users", gpuprof.OK, "no other process"},
		"processes not known": {func(g *fakeGPU) { g.listErr = errUnsupported }, "users", gpuprof.Missing, "root"},
	} {
		t.Run(name, func(t *testing.T) {
			g := healthy("1111aaaa-0000-0000-0000-000000000000")
			c.change(g)
			found := false
			for _, l := range library(t, g).Devices()[0].Examine() {
				mine := l.Name == "gpu 0 "+c.line
				found = found || mine
				text := l.Found + " " + l.Reason + " " + l.Fix
				switch {
				case mine && (l.State != c.state || !strings.Contains(text, c.says)):
					t.Errorf("%+v; want %s and %q", l, c.state, c.says)
				case !mine && l.State != gpuprof.OK && also[name] != l.Name:
					t.Errorf("and another line, too: %+v", l)
				case l.State != gpuprof.OK && (l.Reason == "" || l.Fix == ""):
					t.Errorf("%+v lacks a reason or a fix", l)
				}
			}
			if !found && c.line != "" {
				t.Error("there is no such line")
			}
		})
	}
}

func TestReasonNames(t *testing.T) {
	if got := reasonNames(1<<0 | 1<<2 | 1<<7 | 1<<12); !slices.Equal(got, []string{"idle", "power-cap", "hw-power-brake", "bit-12"}) {
		t.Errorf("%v", got)
	}
	if got := reasonNames(0); got == nil || len(got) != 0 {
		t.Errorf("no reason is %#v; it must differ from unknown", got)
	}
}

// processTable is a process table in a folder.
func processTable(t *testing.T, self int, namespace string, parents map[int]int) procs {
	t.Helper()
	root := t.TempDir()
	for pid, parent := range parents {
		dir := filepath.Join(root, strconv.Itoa(pid))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"comm": called(pid) + "\n", "stat": strconv.Itoa(pid) + " (a ) b) S " + strconv.Itoa(parent) + " 1 1"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.MkdirAll(filepath.Join(root, "self", "ns"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(namespace, filepath.Join(root, "self", "ns", "pid")); err != nil {
		t.Fatal(err)
	}
	return procs{root, self}
}

// called is the name of a process; 9 is another run of our program.
func called(pid int) string {
	if pid == 9 {
		pid = 10
	}
	return "prog" + strconv.Itoa(pid)
}

func TestProcesses(t *testing.T) {
	tree := map[int]int{1: 0, 8: 1, 9: 8, 10: 9, 20: 10, 30: 20, 40: 1, 60: 61, 61: 60}
	for name, c := range map[string]struct {
		namespace string
		holding   bool
		pids      []int
		foreign   int
	}{
		"nobody":                       {initialNamespace, true, nil, 0},
		"us and our children":          {initialNamespace, true, []int{10, 20, 30}, 0},
		"init, a stranger":             {initialNamespace, true, []int{1, 40, 10}, 2},
		"who started us, and waits":    {initialNamespace, true, []int{9, 10}, 0},
		"who started that":             {initialNamespace, true, []int{8, 9, 10}, 1},
		"gone already":                 {initialNamespace, true, []int{999}, 1},
		"a loop of parents":            {initialNamespace, true, []int{60}, 1},
		"container, our outer number":  {"pid:[4026532000]", true, []int{5555}, 0},
		"container, and one more":      {"pid:[4026532000]", true, []int{5555, 5556}, 1},
		"container, our own number":    {"pid:[4026532000]", true, []int{10, 5556}, 1},
		"container, without a context": {"pid:[4026532000]", false, []int{5555}, 1},
		"container, a visible one":     {"pid:[4026532000]", true, []int{40}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var list []Process
			for _, p := range c.pids {
				list = append(list, Process{PID: p})
			}
			marked := processTable(t, 10, c.namespace, tree).markOwn(list, c.holding)
			if n := countForeign(marked); n != c.foreign {
				t.Errorf("%d foreign of %+v; want %d", n, marked, c.foreign)
			}
			for _, p := range marked {
				if _, there := tree[p.PID]; there && p.Name != called(p.PID) {
					t.Errorf("process %d is called %q", p.PID, p.Name)
				}
			}
		})
	}
}

// A real child is ours.
func TestOwnChild(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}()
	g := healthy("1111aaaa-0000-0000-0000-000000000000")
	g.list = []Process{{PID: os.Getpid()}, {PID: cmd.Process.Pid}, {PID: os.Getppid()}}
	d := choose(t, library(t, g), "0")
	if n, ok := d.Foreign(); !ok || n != 1 {
		t.Errorf("%d foreign processes, %v; want 1, the test's parent", n, ok)
	}
}

func TestLatency(t *testing.T) {
	if d, ok := choose(t, library(t, healthy("1111aaaa-0000-0000-0000-000000000000")), "0").Latency(); !ok || d <= 0 || d > time.Second {
		t.Errorf("latency %v, %v", d, ok)
	}
}

// TestEnergyCounters: each GPU has its counter by its UUID, and one that NVML does not support is unknown.
func TestEnergyCounters(t *testing.T) {
	whole, lacking := healthy("1111aaaa-0000-0000-0000-000000000000"), healthy("2222bbbb-0000-0000-0000-000000000000")
	delete(lacking.numbers, energy)
	all := library(t, whole, lacking).EnergyCounters()
	if len(all) != 2 {
		t.Fatalf("%d counters", len(all))
	}
	first, ok := all["GPU-1111aaaa-0000-0000-0000-000000000000"]()
	value(t, "energy", first, ok, 1000)
	second, ok := all["GPU-1111aaaa-0000-0000-0000-000000000000"]()
	value(t, "energy after 5 J", second, ok, 1005)
	if j, ok := all["GPU-2222bbbb-0000-0000-0000-000000000000"](); ok {
		t.Errorf("a GPU without a counter has used %g J", j)
	}
}
