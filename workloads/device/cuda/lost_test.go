//go:build !race

// Under the race detector this takes ten times as long; it runs in one goroutine, where the detector finds nothing.

package cuda

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/sim"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// TestLostIsNoLackOfMemory loses the device at every call of a few large requests:
// whichever call shows it, the error does not ask for less memory.
func TestLostIsNoLackOfMemory(t *testing.T) {
	for name, use := range map[string]func(*Device) error{
		"allocating": func(d *Device) error {
			for _, p := range []device.Place{device.OnDevice, device.Pinned} {
				b, err := d.Alloc(8<<20, p)
				if err != nil {
					return err
				}
				if err := b.Free(); err != nil {
					return err
				}
			}
			return nil
		},
		"asking first": func(d *Device) error {
			if need, left := int64(8<<20), d.Memory().Available; need > left {
				return device.Short(d, gpuprof.Errorf(gpuprof.ErrMemory, "%d bytes needed, %d left", need, left))
			}
			return nil
		},
		"ceilings": func(d *Device) error { _, err := d.Ceilings(context.Background()); return err },
		"a workspace": func(d *Device) error {
			if err := d.enter("looking for libraries"); err != nil {
				return err
			}
			defer d.leave()
			return errors.Join(d.needBlas(), d.needDNN())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(libraryPathVariable, sim.Libraries(sim.Library(t)))
			codes := []int{999, 719, 911, 100}
			if name == "ceilings" && !nightly {
				codes = codes[:1] // most of the time of this test; each other use has all codes
			}
			for _, code := range codes {
				seen := 0
				for at := 1; at < 16; at++ {
					d := openSim(t, Options{})
					sim.Set(t, d.drv.path, fmt.Sprintf("lost=%d:%d", at, code))
					err := use(d)
					if err != nil {
						seen++
					}
					if errors.Is(err, gpuprof.ErrMemory) {
						t.Errorf("lost with %d at call %d: %v", code, at, err)
					}
					_ = d.Close()
					sim.Reset(t, d.drv.path)
					if err == nil {
						break // it had ended before
					}
				}
				if seen == 0 {
					t.Errorf("code %d was never met", code)
				}
			}
		})
	}
}

// TestLibraryOnALostDevice: a library may return any error for a dead context; the driver's error names the cause.
func TestLibraryOnALostDevice(t *testing.T) {
	d, s, f, a := smallProduct(t)
	sim.Set(t, d.drv.path, fmt.Sprintf("fail=cublasGemmEx@1:%d;fail=cuMemGetInfo_v2@1:719:sticky", blasAllocFailed))
	says(t, s.Launch(f, 2, &a), gpuprof.ErrDevice, "CUDA_ERROR_LAUNCH_FAILED", "opened again")
	_ = d.Close()
	sim.Reset(t, d.drv.path)
}

// TestShortOfMemory: a device that works is short of memory where it says so.
func TestShortOfMemory(t *testing.T) {
	d := openWith(t, "memory=16M", Options{})
	refusal := gpuprof.Errorf(gpuprof.ErrMemory, "too much")
	if err := device.Short(d, refusal); err != refusal { //nolint:errorlint // this very one
		t.Error(err)
	}
	_, err := d.Alloc(32<<20, device.OnDevice)
	says(t, err, gpuprof.ErrMemory, "16.0 MiB available")
	all := must(d.Alloc(16<<20, device.OnDevice))(t)
	if err := device.Short(d, refusal); err != refusal { //nolint:errorlint // this very one
		t.Error(err)
	}
	ok(t, all.Free())
}
