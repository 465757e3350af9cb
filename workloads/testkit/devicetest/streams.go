package devicetest

import (
	"math"
	"sync/atomic"

	"github.com/gpuprof/gpuprof/workloads/device"
)

func checkOrder(l *lab) {
	const n = 1003
	y := l.alloc(4*n, device.OnDevice)
	l.launch(l.main, "fill", n, y, 1)
	want := int32(1)
	for v := range 50 {
		l.launch(l.main, "chain", n, y, v)
		want = 3*want + int32(v)
	}
	l.wantAll(l.main, y, want)
}

// checkOverlap fails on a device that runs a launch inside the call: the
// caller would never get to open the gate.
func checkOverlap(l *lab) {
	y := l.newBuffer(0)
	g := l.holdStream(l.main)
	l.launch(l.main, "fill", 1, y, 7)
	e := l.record(l.main)
	g.waitStarted()
	if l.isDone(e) {
		l.t.Error("an event behind a running kernel is done")
	}
	g.open()
	l.ok(e.Wait())
	if !l.isDone(e) {
		l.t.Error("an event is not done after Wait")
	}
	l.wantAll(l.main, y, 7)
}

// checkTwoStreams holds one stream until the other has run a kernel.
func checkTwoStreams(l *lab) {
	side := l.stream("side")
	g := l.holdStream(l.main)
	g.waitStarted()
	l.launch(side, "raise", 1, g.flags, 1)
	l.ok(l.main.Sync())
	l.ok(side.Sync())
	// And the other way round, so that no stream is the privileged one.
	g = l.holdStream(side)
	g.waitStarted()
	l.launch(l.main, "raise", 1, g.flags, 1)
	l.ok(side.Sync())
	l.ok(l.main.Sync())
}

func checkWaitAcross(l *lab) {
	side, third := l.stream("side"), l.stream("third")
	y, z := l.newBuffer(1, 1, 1), l.newBuffer(0, 0, 0)
	flag := l.alloc(4, device.Pinned)
	clear(flag.Bytes())

	g := l.holdStream(l.main)
	l.launch(l.main, "chain", 3, y, 5) // 8
	ready := l.record(l.main)
	l.ok(side.WaitFor(ready))
	l.launch(side, "raise", 1, flag, 0)
	l.launch(side, "chain", 3, y, 2) // 26
	l.ok(side.Copy(z, 0, y, 0, 12))
	last := l.record(side)

	// The caller and a third stream continue; the waiting stream must not.
	l.launch(third, "fill", 0, y, 0)
	l.ok(third.Sync())
	g.waitStarted()
	if l.isDone(last) || atomic.LoadInt32(&device.Ints(flag)[0]) != 0 {
		l.t.Error("a stream ran past an event that has not happened")
	}
	g.open()
	l.ok(last.Wait())
	l.wantAll(side, z, 26)
	// A wait for an event that is done, or of the same stream, does not block.
	l.ok(l.main.WaitFor(last))
	l.ok(l.main.WaitFor(ready))
	l.ok(l.main.Sync())
}

// checkWaitLatest records an event again behind a gate after a stream has started to wait for it: the stream waits
// for the first record only.
func checkWaitLatest(l *lab) {
	side := l.stream("side")
	e := l.record(l.main)
	l.ok(side.WaitFor(e))
	g := l.holdStream(l.main)
	g.waitStarted()
	l.ok(l.main.Record(e))
	l.launch(side, "raise", 1, g.flags, 1) // opens the gate, if side gets here
	l.ok(side.Sync())
	l.ok(e.Wait())
}

func checkBeyondQueue(l *lab) {
	const launches = 5000
	y := l.newBuffer(1, 1)
	g := l.holdStream(l.main)
	g.waitStarted()
	// A device with a bounded queue blocks the caller until the queue has a
	// free place, so the gate is opened in another goroutine.
	go g.open()
	before := l.dev.Meter()
	want := int32(1)
	for v := range launches {
		l.launch(l.main, "chain", 2, y, v)
		want = 3*want + int32(v)
	}
	if got := l.dev.Meter().Sub(before).Launches; got != launches {
		l.t.Errorf("counted %d launches, want %d", got, launches)
	}
	l.wantAll(l.main, y, want)
}

func checkArgsCopied(l *lab) {
	y, other := l.newBuffer(0, 0), l.newBuffer(0, 0)
	g := l.holdStream(l.main)
	var a device.Args
	a.SetBuf(0, y)
	a.SetInt(1, 41)
	l.ok(l.main.Launch(l.fn["fill"], 2, &a))
	a.SetBuf(0, other)
	a.SetInt(1, -1)
	g.open()
	l.wantAll(l.main, y, 41)
	l.wantAll(l.main, other, 0)
}

func checkArgsRoundTrip(l *lab) {
	const n = 5
	in, out := l.alloc(4*n, device.Pinned), l.alloc(4*n, device.Pinned)
	dIn, dOut := l.alloc(4*n, device.OnDevice), l.alloc(4*n, device.OnDevice)
	for _, c := range []struct {
		i int
		f float32
	}{
		{0, 0}, {7, 1.5}, {-7, -0.25}, {1 << 24, 1}, {-1 << 24, 2},
		{math.MinInt32, 0}, {3, math.MaxFloat32}, {3, math.SmallestNonzeroFloat32},
	} {
		for k := range n { // powers of two: exact with and without a fused product
			device.Floats(in)[k] = float32(int32(1)<<k) / 16
		}
		l.ok(l.main.Copy(dIn, 0, in, 0, 4*n))
		l.launch(l.main, "mix", n, dOut, dIn, c.i, c.f)
		l.ok(l.main.Copy(out, 0, dOut, 0, 4*n))
		l.ok(l.main.Sync())
		for k, got := range device.Floats(out) {
			want := float32(float64(c.f)*float64(device.Floats(in)[k]) + float64(c.i))
			if got != want {
				l.t.Errorf("mix(%d, %g) of %g is %g, want %g", c.i, c.f, device.Floats(in)[k], got, want)
			}
		}
	}
}

// checkNoArgs launches with no Args at all, which is legal only for a kernel without parameters.
func checkNoArgs(l *lab) {
	f, err := l.dev.Load(&device.Kernel{Name: "null", Host: func(*device.Args, int, int) {}})
	l.ok(err)
	l.ok(l.main.Launch(f, 1, nil))
	op, err := l.dev.Capture(l.main, func() error { return l.main.Launch(f, 1, nil) })
	l.ok(err)
	l.ok(op.Enqueue(l.main))
	l.ok(l.main.Sync())
	before := l.dev.Meter()
	l.wantError(l.main.Launch(l.fn["fill"], 1, nil), "fill", "main", `"bi"`)
	if m := l.dev.Meter(); m != before {
		l.t.Errorf("a refused launch was counted: %+v", m.Sub(before))
	}
}

func checkStreamClosed(l *lab) {
	s := l.stream("short")
	y := l.newBuffer(3)
	l.launch(s, "chain", 1, y, 1)
	e := l.record(s)
	l.ok(s.Close()) // waits: the event is done
	if !l.isDone(e) {
		l.t.Error("a stream was closed before its work was done")
	}
	l.ok(l.main.WaitFor(e)) // events outlive their stream
	l.wantAll(l.main, y, 10)
	var a device.Args
	a.SetBuf(0, y)
	for doing, err := range map[string]error{
		"launch":   s.Launch(l.fn["fill"], 1, &a),
		"copy":     s.Copy(y, 0, y, 0, 0),
		"record":   s.Record(e),
		"wait for": s.WaitFor(e),
		"sync":     s.Sync(),
	} {
		if err == nil {
			l.t.Errorf("%s works on a closed stream", doing)
			continue
		}
		l.wantError(err, "closed")
	}
	l.ok(s.Close())
}

func checkCloseInFlight(l *lab) {
	y := l.newBuffer(0)
	side := l.stream("side")
	e := l.event()
	g := l.holdStream(l.main)
	g.waitStarted()
	l.launch(l.main, "fill", 1, y, 1)
	l.ok(l.main.Record(e))
	l.ok(side.WaitFor(e))
	l.launch(side, "fill", 1, y, 2)
	go g.open()
	l.ok(l.dev.Close())
	l.ok(l.dev.Close())

	_, err := l.dev.Alloc(4, device.OnDevice)
	l.wantError(err, "closed")
	_, err = l.dev.NewStream("late")
	l.wantError(err, "closed")
	_, err = l.dev.NewEvent()
	l.wantError(err, "closed")
	_, err = l.dev.Load(Catalogue()[0])
	l.wantError(err, "closed")
	_, err = l.dev.Capture(l.main, func() error { return nil })
	l.wantError(err, "closed")
	var a device.Args
	l.wantError(l.main.Launch(l.fn["fail"], 1, &a), "closed")
	l.wantError(l.main.Sync(), "closed")
	l.wantError(l.main.Record(e), "closed")
	l.wantError(e.Wait(), "closed")
	l.wantError(y.Free())
	if m := l.dev.Memory(); m.InUse != 0 {
		l.t.Errorf("%d bytes in use after Close", m.InUse)
	}
}
