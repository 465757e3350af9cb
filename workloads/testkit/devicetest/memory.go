package devicetest

import (
	"errors"
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

func checkMemoryAccount(l *lab) {
	start, meter := l.dev.Memory(), l.dev.Meter()
	if start.InUse != 0 {
		l.t.Fatalf("%d bytes in use on a fresh device", start.InUse)
	}
	sizes := []int{1 << 20, 1000, 1, 64}
	var bufs []device.Buffer
	total := int64(0)
	for i, n := range sizes {
		b := l.alloc(n, device.OnDevice)
		bufs = append(bufs, b)
		total += int64(n)
		if b.Len() != n || b.Place() != device.OnDevice {
			l.t.Errorf("buffer %d: %d bytes of %s memory, want %d", i, b.Len(), b.Place(), n)
		}
		if m := l.dev.Memory(); m.InUse < total || m.Peak < m.InUse {
			l.t.Errorf("after %d bytes: %+v", total, m)
		}
		if b.Addr()%64 != 0 || b.Addr() == 0 {
			l.t.Errorf("buffer %d is at %#x, not 64-byte aligned", i, b.Addr())
		}
	}
	high := l.dev.Memory()
	for _, p := range []device.Place{device.Pinned, device.Pageable} {
		b := l.alloc(4096, p)
		if len(b.Bytes()) != 4096 || b.Place() != p {
			l.t.Errorf("%s buffer: %d visible bytes of %s memory", p, len(b.Bytes()), b.Place())
		}
		bufs = append(bufs, b)
	}
	if m := l.dev.Memory(); m.InUse != high.InUse {
		l.t.Errorf("host memory counts as device memory: %d bytes in use, then %d", high.InUse, m.InUse)
	}
	if got := l.dev.Meter().Sub(meter); got != (device.Meter{Allocations: int64(len(bufs))}) {
		l.t.Errorf("%d allocations counted as %+v", len(bufs), got)
	}
	for _, b := range bufs {
		l.ok(b.Free())
	}
	if m := l.dev.Memory(); m.InUse != 0 || m.Peak != high.Peak {
		l.t.Errorf("after freeing everything: %+v, peak was %d", m, high.Peak)
	}
}

func checkOutOfMemory(l *lab) {
	kept := l.newBuffer(5, 6)
	before, meter := l.dev.Memory(), l.dev.Meter()
	for _, n := range []int{int(before.Available) + 1<<30, math.MaxInt} {
		_, err := l.dev.Alloc(n, device.OnDevice)
		l.wantError(err, "allocating", "device memory", "available")
		if !errors.Is(err, gpuprof.ErrMemory) {
			l.t.Errorf("%v is not ErrMemory", err)
		}
	}
	_, err := l.dev.Alloc(-1, device.OnDevice)
	l.wantError(err)
	_, err = l.dev.Alloc(4, device.Place(9))
	l.wantError(err)
	if m := l.dev.Memory(); m.InUse != before.InUse || m.Peak != before.Peak {
		l.t.Errorf("a refusal changed the account from %+v to %+v", before, m)
	}
	if m := l.dev.Meter(); m != meter {
		l.t.Errorf("a refusal was counted: %+v", m.Sub(meter))
	}
	// The device works as before.
	more := l.alloc(8, device.OnDevice)
	l.ok(l.main.Copy(more, 0, kept, 0, 8))
	l.launch(l.main, "chain", 2, more, 0)
	if got := l.readInts(l.main, more); got[0] != 15 || got[1] != 18 {
		l.t.Errorf("got %v, want [15 18]", got)
	}
}

func checkUseAfterFree(l *lab) {
	live := l.newBuffer(1, 2)
	for _, p := range []device.Place{device.OnDevice, device.Pinned, device.Pageable} {
		b := l.alloc(8, p)
		var a device.Args
		a.SetBuf(0, b)
		l.ok(b.Free())
		before := l.dev.Meter()
		if b.Bytes() != nil {
			l.t.Errorf("a freed %s buffer still has bytes", p)
		}
		l.wantError(b.Free(), "freed")
		l.wantError(l.main.Launch(l.fn["fill"], 2, &a), "fill", "main", "freed")
		l.wantError(l.main.Copy(live, 0, b, 0, 8), "main", "freed")
		l.wantError(l.main.Copy(b, 0, live, 0, 8), "main", "freed")
		if m := l.dev.Meter(); m != before {
			l.t.Errorf("refused calls were counted: %+v", m.Sub(before))
		}
	}
	var unset device.Args
	l.wantError(l.main.Launch(l.fn["fill"], 2, &unset), "fill", "main")
	l.wantError(l.main.Copy(nil, 0, live, 0, 8), "main")
	l.wantError(l.main.Copy(live, 0, nil, 0, 8), "main")
	l.wantError(l.tryLaunch(l.main, "fill", -1, live, 0), "fill", "main")
	if got := l.readInts(l.main, live); got[0] != 1 || got[1] != 2 {
		l.t.Errorf("refused calls had an effect: %v", got)
	}
}

// checkFreeInFlight frees a buffer that queued work still reads and writes.
// Free may wait for that work or keep the memory until it is done.
func checkFreeInFlight(l *lab) {
	const n = 1 << 16
	side := l.stream("side")
	tmp, out := l.alloc(4*n, device.OnDevice), l.alloc(4*n, device.OnDevice)
	g := l.holdStream(l.main)
	l.launch(l.main, "fill", n, tmp, 4)
	filled := l.record(l.main)
	l.ok(side.WaitFor(filled))
	l.launch(side, "chain", n, tmp, 1)
	l.ok(side.Copy(out, 0, tmp, 0, 4*n))
	g.waitStarted()
	go g.open()
	l.ok(tmp.Free())
	// The queued work must not write to a new buffer in the freed memory.
	next := l.alloc(4*n, device.OnDevice)
	l.launch(l.main, "fill", n, next, 9)
	l.ok(l.main.Sync())
	l.wantAll(side, out, 13)
	l.wantAll(l.main, next, 9)
}
