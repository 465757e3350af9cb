package cuda

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/sim"
)

// openSeveral opens that many simulated devices on this goroutine.
func openSeveral(t *testing.T, n int, configuration string) []*Device {
	t.Helper()
	lib := sim.Library(t)
	sim.Configure(t, lib, configuration)
	t.Setenv("GPUPROF_CUDA_LIBRARY_PATH", sim.Libraries(lib))
	t.Cleanup(func() { sim.Check(t, lib) })
	var out []*Device
	for i := range n {
		d, err := Open(Options{Library: lib, AllowSimulated: true, Index: i})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		out = append(out, d)
	}
	return out
}

// Bytes go from each device to each other, directly where the devices have access and
// through the host where not; sim.Check finds memory or access that is left.
func TestMeasurePeer(t *testing.T) {
	for configuration, direct := range map[string]bool{"devices=3": true, "devices=3;peers=0": false, "devices=3;fail=cuCtxEnablePeerAccess@1:711;fail=cuCtxEnablePeerAccess@2:217": false} {
		t.Run(configuration, func(t *testing.T) {
			d := openSeveral(t, 3, configuration)
			pairs := [][2]int{{0, 1}, {2, 0}}
			for _, p := range pairs {
				link, err := MeasurePeer(t.Context(), d[p[0]], d[p[1]], 1<<20, 2)
				if err != nil || link.Direct != direct || !(link.BytesPerS > 0) {
					t.Errorf("%v: %+v, %v", p, link, err)
				}
			}
		})
	}
}

func TestMeasurePeerFails(t *testing.T) {
	for configuration, says := range map[string]string{
		"devices=2;fail=cuMemcpyPeerAsync@1:1":       "copying from GPU 0 to GPU 1: timing a run",
		"devices=2;fail=cuMemAlloc_v2@2:2":           "making room",
		"devices=2;fail=cuDeviceCanAccessPeer@1:101": "asking for the way",
		"devices=2;fail=cuCtxEnablePeerAccess@1:1":   "getting access",
		"devices=2;fail=cuMemcpyDtoHAsync_v2@1:1":    "comparing what arrived",
	} {
		t.Run(configuration, func(t *testing.T) {
			d := openSeveral(t, 2, configuration)
			_, err := MeasurePeer(t.Context(), d[0], d[1], 1<<20, 1)
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%v; want %q", err, says)
			}
		})
	}
	d := openSeveral(t, 1, "")
	if _, err := MeasurePeer(t.Context(), d[0], d[0], 1<<20, 1); !errors.Is(err, gpuprof.ErrUsage) {
		t.Errorf("a device to itself: %v", err)
	}
}

// The sum over two and three devices is right on each, of sizes that end within a block.
func TestMeasureAllReduce(t *testing.T) {
	for _, n := range []int{2, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			d := openSeveral(t, n, "devices=3")
			for _, bytes := range []int{4, 4 * 1000, 4*sumBlock + 4*7} {
				got, err := MeasureAllReduce(t.Context(), d, bytes, 2)
				if err != nil {
					t.Fatal(err)
				}
				if got.GPUs != n || got.Bytes != bytes || !got.Simulated || got.Library != "nccl 2.27.3" || !(got.TookS > 0) || got.BusPerS != BusBandwidth(n, bytes, got.TookS) {
					t.Errorf("%d bytes: %+v", bytes, got)
				}
			}
		})
	}
	if v := BusBandwidth(8, 1000, 2); v != 875 {
		t.Errorf("8 GPUs, 1000 bytes in 2 s: %g bytes per second, expected 875", v)
	}
}

func TestMeasureAllReduceFails(t *testing.T) {
	for configuration, says := range map[string]string{
		"devices=2;fail=ncclCommInitAll@1:3": "making communicators: NCCL status 3 (internal error)",
		"devices=2;fail=ncclAllReduce@2:5":   "adding up: NCCL status 5 (invalid usage); run again with NCCL_DEBUG=INFO",
		"devices=2;oom_at=4":                 "making room",
	} {
		t.Run(configuration, func(t *testing.T) {
			d := openSeveral(t, 2, configuration)
			_, err := MeasureAllReduce(t.Context(), d, 4000, 1)
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%v; want %q", err, says)
			}
		})
	}
	d := openSeveral(t, 1, "")
	if _, err := MeasureAllReduce(t.Context(), d, 4000, 1); !errors.Is(err, gpuprof.ErrUsage) {
		t.Errorf("one device: %v", err)
	}
}
