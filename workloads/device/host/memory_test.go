package host

import (
	"errors"
	"math"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

func TestMemoryLimit(t *testing.T) {
	const limit = 1 << 20
	d := openTest(t, Options{MemoryLimit: limit})
	alloc := must[device.Buffer](t)
	want := func(inUse, peak, available int64) {
		t.Helper()
		if got := d.Memory(); got != (device.Memory{InUse: inUse, Peak: peak, Available: available}) {
			t.Errorf("got %+v, want %d in use, %d peak, %d available", got, inUse, peak, available)
		}
	}
	want(0, 0, limit)
	a := alloc(d.Alloc(limit/2, device.OnDevice))
	host := alloc(d.Alloc(limit/4, device.Pinned))
	want(limit/2, limit/2, limit/4)
	if got := d.HostMemory(); got != (device.Memory{InUse: limit / 4, Peak: limit / 4, Available: limit / 4}) {
		t.Errorf("host memory: %+v", got)
	}
	for _, p := range []device.Place{device.OnDevice, device.Pinned, device.Pageable} {
		_, err := d.Alloc(limit/4+1, p)
		if !errors.Is(err, gpuprof.ErrMemory) {
			t.Errorf("%s: %v", p, err)
		}
	}
	_, err := d.Alloc(10<<30, device.OnDevice)
	if want := "allocating 10.0 GiB of device memory on host: 256 KiB available; reduce batch, edges or flows"; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	b := alloc(d.Alloc(limit/4, device.OnDevice)) // exactly what is left
	want(limit*3/4, limit*3/4, 0)
	ok(t, a.Free())
	ok(t, host.Free())
	want(limit/4, limit*3/4, limit*3/4)
	ok(t, b.Free())
	want(0, limit*3/4, limit)
	ok(t, d.Close())
	want(0, limit*3/4, 0)
}

// TestReuse allocates and frees more often than ranges are kept back.
func TestReuse(t *testing.T) {
	d := openTest(t, Options{MemoryLimit: 1 << 20})
	for i := range 1000 {
		b := must[device.Buffer](t)(d.Alloc(1<<20-i, device.OnDevice))
		b.Bytes()[0], b.Bytes()[b.Len()-1] = 1, 1
		ok(t, b.Free())
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{Threads: -1}, {Threads: 1 << 20}, {MemoryLimit: -1}, {MemoryLimit: math.MinInt64}} {
		if d, err := Open(o); !errors.Is(err, gpuprof.ErrUsage) {
			t.Errorf("%+v: %v, %v", o, d, err)
		}
	}
}
