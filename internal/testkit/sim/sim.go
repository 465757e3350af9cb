package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// asanVariable is the environment variable that, set to 1, makes Library return the AddressSanitizer build.
const asanVariable = "GPUPROF_SIM_ASAN"

// built has the *result of each variant that this process has built.
var built sync.Map

type result struct {
	once sync.Once
	path string
	err  error
}

func library(t testing.TB, asan bool, missing []string) string {
	t.Helper()
	key := fmt.Sprint(asan, missing)
	v, _ := built.LoadOrStore(key, new(result))
	r := v.(*result)
	r.once.Do(func() {
		var b *builder
		if b, r.err = newBuilder(asan, missing); r.err == nil {
			r.path, r.err = b.build()
		}
	})
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.path
}

// Library builds the simulated driver from the current sources, unless a build of them exists, and returns the path of
// its libcuda.so.1. libcublas.so (also .so.12) and libcudnn.so (also .so.9) are in the same folder. With
// GPUPROF_SIM_ASAN=1, Library calls LibraryASan.
func Library(t testing.TB) string {
	t.Helper()
	if os.Getenv(asanVariable) == "1" {
		return LibraryASan(t)
	}
	return library(t, false, nil)
}

// LibraryWithout is Library without the named driver functions, which an older driver lacks.
func LibraryWithout(t testing.TB, symbols ...string) string {
	t.Helper()
	if os.Getenv(asanVariable) == "1" {
		return library(t, true, symbols)
	}
	return library(t, false, symbols)
}

// LibraryASan is Library with AddressSanitizer. The process must have libasan preloaded, as scripts/check/sim_asan.sh
// does.
func LibraryASan(t testing.TB) string {
	t.Helper()
	if !strings.Contains(os.Getenv("LD_PRELOAD"), "libasan") {
		t.Fatal("opening the simulated driver under AddressSanitizer: libasan is not preloaded; run scripts/check/sim_asan.sh")
	}
	return library(t, true, nil)
}

// Libraries returns the folder of the simulated cuBLAS and cuDNN that belong to the driver lib.
func Libraries(lib string) string { return filepath.Dir(lib) }

// control is the simulator's own interface in an opened library.
type control struct {
	configure func(text string) int32
	report    func(out *byte, n int32) int32
}

var opened sync.Map // path to *control

func open(t testing.TB, lib string) *control {
	t.Helper()
	if c, ok := opened.Load(lib); ok {
		return c.(*control)
	}
	c, err := openControl(lib)
	if err != nil {
		t.Fatalf("opening the simulated driver: %v", err)
	}
	got, _ := opened.LoadOrStore(lib, c)
	return got.(*control)
}

// Configure resets the library, applies the configuration text (see the package comment), and resets the library again
// when the test ends. Tests of a process share the library, so they must not run in parallel.
func Configure(t testing.TB, lib, text string) {
	t.Helper()
	Reset(t, lib)
	Set(t, lib, text)
	t.Cleanup(func() { Reset(t, lib) })
}

// Set changes the configuration and keeps everything else.
func Set(t testing.TB, lib, text string) {
	t.Helper()
	if open(t, lib).configure(text) != 0 {
		t.Fatalf("the simulated driver does not understand %q; the keys are in the documentation of package sim", text)
	}
}

// Reset closes every context and forgets counts, findings and configuration.
func Reset(t testing.TB, lib string) {
	t.Helper()
	open(t, lib).configure("reset")
}

// Report has the simulator's counts and findings since the last reset.
type Report struct {
	// Objects and bytes that exist now.
	Contexts, Streams, Events, Modules, Graphs, GraphExecs, Pools int
	DeviceBuffers, PinnedBuffers, PoolBuffers                     int
	DeviceBytes, PinnedBytes, PoolBytes                           int
	// Requested operations since the reset. Launches includes library calls. Ran counts the kernels that ran, LibraryRan
	// the libraries' kernels that ran.
	Calls, Allocations, Launches, Ran, LibraryRan, Copies, CopiedBytes, Memsets, GraphLaunches int
	// ViolationCount and RaceCount also count the entries beyond the 64 lines of each list.
	ViolationCount, RaceCount int
	// Violations are errors of the program, Races pairs of unordered memory accesses, and Faults the causes that ended
	// kernels.
	Violations, Races, Faults []string
}

// Live returns the number of objects that a program should have freed at its end.
func (r Report) Live() int {
	return r.Contexts + r.Streams + r.Events + r.Modules + r.Graphs + r.GraphExecs + r.Pools + r.DeviceBuffers + r.PinnedBuffers + r.PoolBuffers
}

// Problems returns everything for which Check fails, one line each.
func (r Report) Problems() []string {
	var p []string
	p = append(p, r.Violations...)
	p = append(p, r.Races...)
	if r.Live() > 0 {
		p = append(p, fmt.Sprintf("left behind: %d contexts, %d streams, %d events, %d modules, %d graphs, %d pools, %d device, %d pinned and %d pool buffers",
			r.Contexts, r.Streams, r.Events, r.Modules, r.Graphs+r.GraphExecs, r.Pools, r.DeviceBuffers, r.PinnedBuffers, r.PoolBuffers))
	}
	return p
}

// GetReport reads the report.
func GetReport(t testing.TB, lib string) Report {
	t.Helper()
	c := open(t, lib)
	buf := make([]byte, c.report(nil, 0)+4096)
	n := min(int(c.report(&buf[0], int32(len(buf)))), len(buf)-1)
	r, err := parseReport(string(buf[:n]))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Check fails the test for every violation, race and object that was not freed.
func Check(t testing.TB, lib string) {
	t.Helper()
	for _, p := range GetReport(t, lib).Problems() {
		t.Error(p)
	}
}

func parseReport(text string) (Report, error) {
	var r Report
	numbers := map[string]*int{
		"contexts": &r.Contexts, "streams": &r.Streams, "events": &r.Events, "modules": &r.Modules,
		"graphs": &r.Graphs, "graph_execs": &r.GraphExecs, "pools": &r.Pools,
		"device_buffers": &r.DeviceBuffers, "pinned_buffers": &r.PinnedBuffers, "pool_buffers": &r.PoolBuffers,
		"device_bytes": &r.DeviceBytes, "pinned_bytes": &r.PinnedBytes, "pool_bytes": &r.PoolBytes,
		"calls": &r.Calls, "allocations": &r.Allocations, "launches": &r.Launches, "kernels_run": &r.Ran, "library_run": &r.LibraryRan,
		"copies": &r.Copies, "copied_bytes": &r.CopiedBytes, "memsets": &r.Memsets, "graph_launches": &r.GraphLaunches,
		"violation_count": &r.ViolationCount, "race_count": &r.RaceCount,
	}
	lists := map[string]*[]string{"violation": &r.Violations, "race": &r.Races, "fault": &r.Faults}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if list := lists[key]; list != nil {
			*list = append(*list, value)
			continue
		}
		n, err := strconv.Atoi(value)
		if numbers[key] == nil || err != nil {
			return r, fmt.Errorf("reading the simulator's report: line %q is not understood", line)
		}
		*numbers[key] = n
	}
	return r, nil
}
