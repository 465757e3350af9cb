//go:build linux

package sim_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFreeInFlight(t *testing.T) {
	c := start(t, "")
	ns, s := c.alloc(8), c.stream()
	c.launch(s, c.function("sim_spin_ns"), grid(1, 1), uint64(ns), 3_000_000)
	c.free(ns)
	c.found(c.report().Violations, "cuMemFree of device buffer 1 (8 bytes) while sim_spin_ns in stream 1 may still use it")
}

// What a program frees while it clears up may still be in use by a kernel of a
// stream that it has destroyed: it ends before its memory goes.
func TestFreeBehindADestroyedStream(t *testing.T) {
	c := start(t, "")
	ns, s := c.alloc(8), c.stream()
	f := c.function("sim_spin_ns")
	for range 2 {
		c.launch(s, f, grid(1, 1), uint64(ns), 3_000_000)
	}
	c.ok("cuStreamDestroy_v2", s)
	c.free(ns)
	if n := c.report().Ran; n != 2 {
		t.Errorf("%d of 2 kernels had begun when their memory was freed", n)
	}
	c.found(c.report().Violations, "while sim_spin_ns in stream 1 may still use it")
}

// The same where memory is given back in a stream's order: the free takes its
// place behind the kernels of the destroyed stream.
func TestFreeAsyncBehindADestroyedStream(t *testing.T) {
	c := start(t, "")
	ns, s, other := c.alloc(8), c.stream(), c.stream()
	f := c.function("sim_spin_ns")
	for range 2 {
		c.launch(s, f, grid(1, 1), uint64(ns), 3_000_000)
	}
	c.ok("cuStreamDestroy_v2", s)
	c.ok("cuMemFreeAsync", ns, other)
	c.sync(other)
	r := c.report()
	if r.Ran != 2 || len(r.Faults) > 0 || r.DeviceBuffers != 0 {
		t.Errorf("%d of 2 kernels ran, %d buffers are left, faults %q", r.Ran, r.DeviceBuffers, r.Faults)
	}
	c.found(r.Violations, "cuMemFreeAsync of device buffer 1 (8 bytes) while sim_spin_ns in stream 1 may still use it")
	if code := c.call("cuMemFreeAsync", c.alloc(8), s); code != 400 {
		t.Errorf("freeing in a destroyed stream's order returns %d, want 400", code)
	}
	c.found(c.report().Violations, "cuMemFreeAsync: a destroyed stream")
}

func TestLeaksAreCounted(t *testing.T) {
	c := start(t, "")
	c.alloc(10)
	c.alloc(20)
	c.pinned(5)
	c.stream()
	c.event()
	c.load(ptx("sim_trap", 4))
	r := c.report()
	if r.DeviceBuffers != 2 || r.DeviceBytes != 30 || r.PinnedBuffers != 1 || r.PinnedBytes != 5 || r.Streams != 1 || r.Events != 1 ||
		r.Modules != 1 || r.Contexts != 1 || r.Allocations != 3 {
		t.Errorf("counted %+v", r)
	}
	c.ok("cuDevicePrimaryCtxRelease_v2", 0)
	r = c.report()
	c.found(r.Violations, "context released with 2 device, 1 pinned and 0 pool buffers (35 bytes), 1 streams, 1 events, 0 graphs, 1 modules")
	if r.Live() != 0 {
		t.Errorf("after the release: %+v", r)
	}
	if r.ViolationCount != 1 {
		t.Errorf("%q", r.Violations)
	}
}

func TestReleaseWhileSpinning(t *testing.T) {
	c := start(t, "")
	flags, o, s := c.pinned(8), put(c, []int32{0}), c.stream()
	clear(view[int32](flags, 2))
	c.launch(s, c.function("sim_wait"), grid(1, 1), uint64(flags), uint64(o))
	c.ok("cuDevicePrimaryCtxRelease_v2", 0)
	c.found(c.report().Violations, "was still running")
}

// A program that a test starts leaves its report in a file: at its end nothing
// may stand there as alive.
func TestReportFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report")
	c := open(t, "report="+path)
	c.ok("cuInit", 0)
	c.retain(0)
	has := func(lines ...string) {
		t.Helper()
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range lines {
			if !strings.Contains(string(got), l) {
				t.Errorf("the report does not say %q:\n%s", l, got)
			}
		}
	}
	has("contexts 1\n", "device_buffers 0\n")
	c.alloc(8)
	c.ok("cuDevicePrimaryCtxRelease_v2", 0)
	has("contexts 0\n", "violation context released with 1 device")
}
