package devicetest

import (
	"errors"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// checkKernelFailure makes a kernel fail. A device may refuse later calls at once or accept and drop them; in both
// cases it reports the first failure.
func checkKernelFailure(l *lab) {
	seen := l.alloc(4, device.Pinned) // visible even where the device is lost
	clear(seen.Bytes())
	before := l.record(l.main)
	l.ok(before.Wait())
	l.launch(l.main, "fail", 3)
	orNamed := func(err error) {
		l.t.Helper()
		if err != nil {
			l.wantError(err, "fail")
		}
	}
	orNamed(l.tryLaunch(l.main, "fill", 1, seen, 1))
	e := l.event()
	if err := l.main.Record(e); err != nil {
		l.wantError(err, "fail")
	} else {
		l.wantError(e.Wait(), "fail")
		_, err := l.dev.ElapsedNS(before, e)
		l.wantError(err, "fail")
	}
	for range 2 {
		err := l.main.Sync()
		l.wantError(err, "fail", "main")
		if !errors.Is(err, gpuprof.ErrDevice) {
			l.t.Errorf("%v is not ErrDevice", err)
		}
	}
	orNamed(l.tryLaunch(l.main, "fill", 1, seen, 1))
	l.wantError(l.main.Sync(), "fail")
	if device.Ints(seen)[0] != 0 {
		l.t.Error("work behind a failed kernel ran")
	}
	// A stream that waits for the failed stream fails too.
	if side, err := l.dev.NewStream("side"); err != nil {
		l.wantError(err, "fail")
	} else if err := side.WaitFor(e); err != nil {
		l.wantError(err)
	} else {
		orNamed(l.tryLaunch(side, "fill", 1, seen, 2))
		l.wantError(side.Sync(), "fail")
		if device.Ints(seen)[0] != 0 {
			l.t.Error("work that waited for a failed stream ran")
		}
	}
}

// The strange types satisfy the interfaces and belong to no device.
type (
	strangeFunc   struct{ k *device.Kernel }
	strangeEvent  struct{ device.Event }
	strangeStream struct{ device.Stream }
)

func (s strangeFunc) Kernel() *device.Kernel { return s.k }
func (strangeEvent) Done() (bool, error)     { return true, nil }

type strangeBuffer struct{ device.Buffer }

func (strangeBuffer) Place() device.Place { return device.OnDevice }
func (strangeBuffer) Len() int            { return 8 }
func (strangeBuffer) Addr() uint64        { return 64 }
func (strangeBuffer) Bytes() []byte       { return make([]byte, 8) }

func checkForeign(l *lab, other device.Device) {
	o := newLab(l.t, other, Kernels{Prepare: func(k *device.Kernel) { *k = *l.fn[k.Name].Kernel() }})
	mine := l.newBuffer(1, 2)
	e := l.record(l.main)
	l.ok(e.Wait())
	before := l.dev.Meter()

	for _, b := range []device.Buffer{o.newBuffer(3, 4), strangeBuffer{}} {
		l.wantError(l.tryLaunch(l.main, "fill", 2, b, 1), "fill", "main", "another device")
		l.wantError(l.main.Copy(mine, 0, b, 0, 8), "main", "source", "another device")
		l.wantError(l.main.Copy(b, 0, mine, 0, 8), "main", "destination", "another device")
	}
	for _, f := range []device.Event{o.record(o.main), strangeEvent{}, nil} {
		l.wantError(l.main.Record(f), "main", "event")
		l.wantError(l.main.WaitFor(f), "main", "event")
		_, err := l.dev.ElapsedNS(f, e)
		l.wantError(err, "first event")
		_, err = l.dev.ElapsedNS(e, f)
		l.wantError(err, "second event")
	}
	var a device.Args
	a.SetBuf(0, mine)
	for _, f := range []device.Func{o.fn["fill"], strangeFunc{o.fn["fill"].Kernel()}, nil} {
		l.wantError(l.main.Launch(f, 1, &a), "main")
	}
	op, err := l.dev.Capture(l.main, func() error { return l.tryLaunch(l.main, "chain", 2, mine, 0) })
	l.ok(err)
	for _, s := range []device.Stream{o.main, strangeStream{}, nil} {
		_, err := l.dev.Capture(s, func() error { return nil })
		l.wantError(err, "stream")
		l.wantError(op.Enqueue(s), "stream")
	}
	if m := l.dev.Meter(); m != before {
		l.t.Errorf("refused calls were counted: %+v", m.Sub(before))
	}
	if got := l.readInts(l.main, mine); got[0] != 1 || got[1] != 2 {
		l.t.Errorf("refused calls had an effect: %v", got)
	}
}
