//go:build !race

package cuda

// The race detector allocates on its own account, so these counts hold for
// normal builds only.

import (
	"fmt"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// step is what a training step asks of a device.
type step struct {
	dev                *Device
	main, side         device.Stream
	mix                device.Func
	args               device.Args
	up, in, out, down  device.Buffer
	ready, begin, free device.Event
}

const stepBytes = 4096

func newStep(t testing.TB) *step {
	d := openWith(t, fmt.Sprintf("attr.%d=65536", attrL2), Options{})
	buf := func(p device.Place) device.Buffer { return must(d.Alloc(stepBytes, p))(t) }
	event := func() device.Event { return must(d.NewEvent())(t) }
	k := device.Kernel{Name: "mix", Sig: "bbif"}
	twin(&k)
	s := &step{
		dev: d, main: must(d.NewStream("main"))(t), side: must(d.NewStream("side"))(t), mix: must(d.Load(&k))(t),
		up: buf(device.Pinned), in: buf(device.OnDevice), out: buf(device.OnDevice), down: buf(device.Pinned),
		ready: event(), begin: event(), free: event(),
	}
	s.args.SetBuf(0, s.out)
	s.args.SetBuf(1, s.in)
	s.args.SetInt(2, 5)
	s.args.SetF32(3, 0.5)
	return s
}

func (k *step) run(t testing.TB) {
	ok(t, k.main.Record(k.begin))
	ok(t, k.side.WaitFor(k.begin)) // before in is written again, main has read it
	ok(t, k.side.Copy(k.in, 0, k.up, 0, stepBytes))
	ok(t, k.side.Record(k.ready))
	ok(t, k.main.WaitFor(k.ready))
	for range 20 {
		ok(t, k.main.Launch(k.mix, 16, &k.args))
	}
	ok(t, k.main.Record(k.free))
	for range 4 {
		ok(t, k.main.Copy(k.down, 0, k.out, 0, 4))
		ok(t, k.main.Sync())
	}
	ok(t, k.free.Wait())
}

func TestStepAllocatesNothing(t *testing.T) {
	k := newStep(t)
	op := must(k.dev.Capture(k.main, func() error {
		return first2(k.main.Launch(k.mix, 16, &k.args), k.main.Record(k.free))
	}))(t)
	if !op.(*captured).Graph() {
		t.Error("the capture is no graph")
	}
	k.run(t)
	for name, f := range map[string]func(){
		"launch":  func() { ok(t, k.main.Launch(k.mix, 16, &k.args)) },
		"copy":    func() { ok(t, k.main.Copy(k.down, 0, k.out, 0, 4)) },
		"upload":  func() { ok(t, k.main.Copy(k.in, 0, k.up, 0, 4)) },
		"record":  func() { ok(t, k.main.Record(k.begin)) },
		"waitfor": func() { ok(t, k.main.WaitFor(k.begin)) },
		"sync":    func() { ok(t, k.main.Sync()) },
		"replay":  func() { ok(t, op.Enqueue(k.main)) },
		"meter":   func() { _ = k.dev.Meter() },
		"spin":    func() { ok(t, k.dev.Spin(k.main, 10)) },
		"flush":   func() { ok(t, k.dev.FlushCache(k.main)) },
		"trim":    func() { ok(t, k.dev.TrimPool()) },
		"peak":    func() { ok(t, k.dev.ResetPeak()) },
		"query":   func() { _ = must(k.begin.Done())(t) },
		"elapsed": func() {
			ok(t, k.begin.Wait())
			ok(t, k.main.Record(k.free))
			ok(t, k.free.Wait())
			_ = must(k.dev.ElapsedNS(k.begin, k.free))(t)
		},
		"step": func() { k.run(t) },
	} {
		f()
		if n := testing.AllocsPerRun(50, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
	ok(t, k.main.Sync())
}

func first2(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// bench runs f, which must not allocate and must not fail.
func bench(b *testing.B, f func() error) {
	b.ReportAllocs()
	for b.Loop() {
		if err := f(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLaunchGo times the caller's side of a launch: everything but the
// driver, whose function is replaced by one that does nothing. What is added
// to a C program's launch is this and BenchmarkCall's way into C and back.
func BenchmarkLaunchGo(b *testing.B) {
	k := newStep(b)
	k.mix.(*kernelFunc).launch = func(*launch) Result { return success }
	bench(b, func() error { return k.main.Launch(k.mix, 16, &k.args) })
}

// BenchmarkCall is the way into C and back, through purego, to a function that
// locks, counts and stores one word.
func BenchmarkCall(b *testing.B) {
	k := newStep(b)
	bench(b, func() error { return k.dev.check(k.dev.drv.CtxSet(k.dev.ctx), "calling") })
}

// The others include the simulator's own work.

func BenchmarkLaunch(b *testing.B) {
	k := newStep(b)
	bench(b, func() error { return k.main.Launch(k.mix, 1, &k.args) })
	ok(b, k.main.Sync())
}

func BenchmarkRecord(b *testing.B) {
	k := newStep(b)
	bench(b, func() error { return k.main.Record(k.free) })
	ok(b, k.main.Sync())
}
