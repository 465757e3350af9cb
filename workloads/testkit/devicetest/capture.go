package devicetest

import (
	"errors"
	"reflect"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

func checkCapture(l *lab) {
	const n, rounds = 33, 3
	y, z := l.alloc(4*n, device.OnDevice), l.alloc(4*n, device.OnDevice)
	e := l.event()
	sequence := func() error {
		var a device.Args // one Args for both launches: capture copies it
		a.SetBuf(0, y)
		a.SetInt(1, 2)
		err := l.main.Launch(l.fn["chain"], n, &a)
		err = errors.Join(err, l.main.Copy(z, 4, y, 0, 4*(n-1)))
		a.SetBuf(0, z)
		a.SetInt(1, -1)
		err = errors.Join(err, l.main.Launch(l.fn["chain"], n, &a), l.main.Record(e))
		a.SetInt(1, 1000)
		return err
	}
	reset := func() {
		l.launch(l.main, "fill", n, y, 1)
		l.launch(l.main, "fill", n, z, 1)
		l.ok(l.main.Sync())
	}
	reset()
	before := l.dev.Meter()
	for range rounds {
		l.ok(sequence())
	}
	direct := l.dev.Meter().Sub(before)
	wantY, wantZ := l.readInts(l.main, y), l.readInts(l.main, z)

	reset()
	e = l.event()
	before = l.dev.Meter()
	op, err := l.dev.Capture(l.main, sequence)
	l.ok(err)
	if m := l.dev.Meter(); m != before {
		l.t.Errorf("capturing was counted: %+v", m.Sub(before))
	}
	_, err = e.Done()
	l.wantError(err, "never recorded")
	l.wantAll(l.main, y, 1) // nothing ran
	l.wantAll(l.main, z, 1)
	before = l.dev.Meter()
	for range rounds {
		l.ok(op.Enqueue(l.main))
	}
	if m := l.dev.Meter().Sub(before); m != direct {
		l.t.Errorf("replaying counts %+v, direct calls %+v", m, direct)
	}
	l.ok(e.Wait())
	if got := l.readInts(l.main, y); !reflect.DeepEqual(got, wantY) {
		l.t.Errorf("replayed %v, direct %v", got, wantY)
	}
	if got := l.readInts(l.main, z); !reflect.DeepEqual(got, wantZ) {
		l.t.Errorf("replayed %v, direct %v", got, wantZ)
	}
	part := gpuprof.Part{Kernel: "chain", Cost: gpuprof.Cost{Launches: 1}}
	if got := op.Parts(); !reflect.DeepEqual(got, []gpuprof.Part{part, part}) {
		l.t.Errorf("parts %+v", got)
	}
	reset() // and on another stream
	side := l.stream("side")
	for range rounds {
		l.ok(op.Enqueue(side))
	}
	if got := l.readInts(side, z); !reflect.DeepEqual(got, wantZ) {
		l.t.Errorf("on another stream %v, direct %v", got, wantZ)
	}
}

func checkCaptureMisuse(l *lab) {
	y := l.newBuffer(1)
	past := l.record(l.main)
	side := l.stream("side")
	nothing := func() error { return nil }
	mine := errors.New("my own reason")
	for name, c := range map[string]struct {
		fn   func() error
		says string
	}{
		"sync":           {func() error { return l.main.Sync() }, "main"},
		"sync, ignored":  {func() error { _ = l.main.Sync(); return nil }, "main"},
		"wait":           {func() error { return l.main.WaitFor(past) }, "main"},
		"nested":         {func() error { _, err := l.dev.Capture(side, nothing); return err }, "side"},
		"nested in self": {func() error { _, err := l.dev.Capture(l.main, nothing); return err }, "main"},
		"refused launch": {func() error { return l.tryLaunch(l.main, "fill", -1, y, 1) }, "fill"},
		"own error":      {func() error { return mine }, "my own reason"},
	} {
		_, err := l.dev.Capture(l.main, c.fn)
		if err == nil {
			l.t.Errorf("%s: the capture succeeded", name)
			continue
		}
		l.wantError(err, c.says)
		if name == "own error" && !errors.Is(err, mine) {
			l.t.Errorf("%v does not wrap the error of the function", err)
		}
	}
	// The stream is back in order, and a capture works.
	op, err := l.dev.Capture(l.main, func() error { return l.tryLaunch(l.main, "chain", 1, y, 1) })
	l.ok(err)
	l.ok(op.Enqueue(l.main))
	l.wantAll(l.main, y, 4)
	// What was captured is checked again when it is replayed.
	l.ok(y.Free())
	l.wantError(op.Enqueue(l.main), "chain", "freed")
}
