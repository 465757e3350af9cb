//go:build !race

package host

// The race detector allocates on its own account, so these counts hold for
// normal builds only.

import (
	"testing"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// step is the shape of a training step with item reads: upload on a side
// stream, wait across, kernels, events, downloads, syncs.
type step struct {
	main, side         device.Stream
	split, serial      device.Func
	args               device.Args
	up, in, out, down  device.Buffer
	ready, begin, free device.Event
}

func newStep(t testing.TB, d *Device) *step {
	buf := func(p device.Place) device.Buffer { return must[device.Buffer](t)(d.Alloc(4096, p)) }
	event := func() device.Event { return must[device.Event](t)(d.NewEvent()) }
	stream := func(name string) device.Stream { return must[device.Stream](t)(d.NewStream(name)) }
	host := func(a *device.Args, lo, hi int) {
		x, y, f := a.Floats(0), a.Floats(1), a.F32(3)
		for i := lo; i < hi; i++ {
			y[i] += f * x[i]
		}
	}
	k := &step{
		main: stream("main"), side: stream("side"),
		up: buf(device.Pinned), in: buf(device.OnDevice), out: buf(device.OnDevice), down: buf(device.Pinned),
		ready: event(), begin: event(), free: event(),
		split:  must[device.Func](t)(d.Load(&device.Kernel{Name: "split", Sig: "bbif", Host: host})),
		serial: must[device.Func](t)(d.Load(&device.Kernel{Name: "serial", Sig: "bbif", Serial: true, Host: host})),
	}
	k.args.SetBuf(0, k.in)
	k.args.SetBuf(1, k.out)
	k.args.SetInt(2, 5)
	k.args.SetF32(3, 0.5)
	return k
}

func (k *step) run(t testing.TB) {
	ok(t, k.main.Record(k.begin))
	ok(t, k.side.Copy(k.in, 0, k.up, 0, 4096))
	ok(t, k.side.Record(k.ready))
	ok(t, k.main.WaitFor(k.ready))
	for range 20 {
		ok(t, k.main.Launch(k.split, 1024, &k.args))
		ok(t, k.main.Launch(k.serial, 1024, &k.args))
	}
	ok(t, k.main.Record(k.free))
	for range 4 {
		ok(t, k.main.Copy(k.down, 0, k.out, 0, 4))
		ok(t, k.main.Sync())
	}
	ok(t, k.free.Wait())
}

func TestStepAllocatesNothing(t *testing.T) {
	for _, threads := range []int{1, 2, 4} {
		d := openTest(t, Options{Threads: threads})
		k := newStep(t, d)
		op := must[device.Op](t)(d.Capture(k.main, func() error { return k.main.Launch(k.split, 1024, &k.args) }))
		for name, f := range map[string]func(){
			"launch":  func() { ok(t, k.main.Launch(k.serial, 16, &k.args)) },
			"copy":    func() { ok(t, k.main.Copy(k.down, 0, k.out, 0, 4)) },
			"record":  func() { ok(t, k.main.Record(k.free)) },
			"waitfor": func() { ok(t, k.main.WaitFor(k.free)) },
			"replay":  func() { ok(t, op.Enqueue(k.main)) },
			"meter":   func() { _, _ = d.Meter(), d.Memory() },
			"elapsed": func() {
				ok(t, k.free.Wait())
				_, err := d.ElapsedNS(k.begin, k.free)
				ok(t, err)
			},
			"step": func() { k.run(t) },
		} {
			k.run(t)
			if n := testing.AllocsPerRun(100, f); n != 0 {
				t.Errorf("%d threads: %s allocates %v times", threads, name, n)
			}
		}
		ok(t, k.main.Sync())
	}
}

// TestStaleView checks that a kernel with a view of freed memory fails like a
// kernel with an illegal address on a GPU. Race builds use the heap, where
// such a view is harmless.
func TestStaleView(t *testing.T) {
	for _, threads := range []int{1, 3} {
		d := openTest(t, Options{Threads: threads})
		s := must[device.Stream](t)(d.NewStream("main"))
		b := must[device.Buffer](t)(d.Alloc(1<<20, device.OnDevice))
		view := device.Floats(b)
		ok(t, b.Free())
		f := must[device.Func](t)(d.Load(&device.Kernel{Name: "stale", Host: func(_ *device.Args, lo, hi int) {
			for i := lo; i < hi; i++ {
				view[i] = 1
			}
		}}))
		ok(t, s.Launch(f, len(view), &device.Args{}))
		if err := s.Sync(); err == nil {
			t.Error("a kernel wrote to freed memory and nobody noticed")
		} else {
			t.Log(err)
		}
	}
}

func BenchmarkLaunch(b *testing.B) {
	k := newStep(b, openTest(b, Options{}))
	b.ReportAllocs()
	for b.Loop() {
		ok(b, k.main.Launch(k.serial, 0, &k.args))
	}
	ok(b, k.main.Sync())
}

// BenchmarkLaunchBurst times the caller's side alone: bursts that fit the
// ring, with the stream held.
func BenchmarkLaunchBurst(b *testing.B) {
	d := openTest(b, Options{})
	k := newStep(b, d)
	release := make(chan struct{})
	hold := must[device.Func](b)(d.Load(&device.Kernel{Name: "hold", Host: func(*device.Args, int, int) { <-release }}))
	const burst = ringLen - 2
	b.ReportAllocs()
	for done := 0; done < b.N; done += burst {
		b.StopTimer()
		ok(b, k.main.Launch(hold, 1, &device.Args{}))
		b.StartTimer()
		for range min(burst, b.N-done) {
			ok(b, k.main.Launch(k.serial, 0, &k.args))
		}
		b.StopTimer()
		release <- struct{}{}
		ok(b, k.main.Sync())
		b.StartTimer()
	}
}

func BenchmarkLaunchSync(b *testing.B) {
	k := newStep(b, openTest(b, Options{}))
	b.ReportAllocs()
	for b.Loop() {
		ok(b, k.main.Launch(k.serial, 1, &k.args))
		ok(b, k.main.Sync())
	}
}

// BenchmarkSplitSync is a kernel small enough that handing it to the helpers
// is most of the cost.
func BenchmarkSplitSync(b *testing.B) {
	k := newStep(b, openTest(b, Options{}))
	b.ReportAllocs()
	for b.Loop() {
		ok(b, k.main.Launch(k.split, 1024, &k.args))
		ok(b, k.main.Sync())
	}
}

func BenchmarkRecord(b *testing.B) {
	k := newStep(b, openTest(b, Options{}))
	b.ReportAllocs()
	for b.Loop() {
		ok(b, k.main.Record(k.free))
	}
	ok(b, k.main.Sync())
}

func BenchmarkItemRead(b *testing.B) {
	k := newStep(b, openTest(b, Options{}))
	b.ReportAllocs()
	for b.Loop() {
		ok(b, k.main.Copy(k.down, 0, k.out, 0, 4))
		ok(b, k.main.Sync())
	}
}

func BenchmarkStep(b *testing.B) {
	k := newStep(b, openTest(b, Options{}))
	b.ReportAllocs()
	for b.Loop() {
		k.run(b)
	}
}
