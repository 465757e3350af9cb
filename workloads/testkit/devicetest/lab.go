package devicetest

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// patience is the time of a handshake after which the device counts as stuck.
const patience = 20 * time.Second

// lab is one check's device with the suite's kernels loaded. Its helpers stop
// the test on any error.
type lab struct {
	t    *testing.T
	dev  device.Device
	main device.Stream
	fn   map[string]device.Func
}

func newLab(t *testing.T, dev device.Device, k Kernels) *lab {
	t.Helper()
	l := &lab{t: t, dev: dev, fn: make(map[string]device.Func)}
	// Close may be called twice, so checks that close or break the device
	// need no exception. Checks of Close itself test its error.
	t.Cleanup(func() { _ = dev.Close() })
	l.main = l.stream("main")
	for _, kernel := range Catalogue() {
		if k.Prepare != nil {
			k.Prepare(kernel)
		}
		f, err := dev.Load(kernel)
		l.ok(err)
		l.fn[kernel.Name] = f
	}
	return l
}

func (l *lab) ok(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// wantError requires an error whose sentence contains every word.
func (l *lab) wantError(err error, words ...string) {
	l.t.Helper()
	if err == nil {
		l.t.Fatalf("no error; want one that says %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			l.t.Fatalf("error %q does not say %q", err, w)
		}
	}
}

func (l *lab) stream(name string) device.Stream {
	l.t.Helper()
	s, err := l.dev.NewStream(name)
	l.ok(err)
	return s
}

func (l *lab) event() device.Event {
	l.t.Helper()
	e, err := l.dev.NewEvent()
	l.ok(err)
	return e
}

func (l *lab) alloc(bytes int, p device.Place) device.Buffer {
	l.t.Helper()
	b, err := l.dev.Alloc(bytes, p)
	l.ok(err)
	return b
}

// launch enqueues a kernel of buffers and integers in the order of its signature.
func (l *lab) launch(s device.Stream, kernel string, n int, args ...any) {
	l.t.Helper()
	l.ok(l.tryLaunch(s, kernel, n, args...))
}

func (l *lab) tryLaunch(s device.Stream, kernel string, n int, args ...any) error {
	l.t.Helper()
	var a device.Args
	for i, v := range args {
		switch v := v.(type) {
		case device.Buffer:
			a.SetBuf(i, v)
		case int:
			a.SetInt(i, v)
		case float32:
			a.SetF32(i, v)
		default:
			l.t.Fatalf("argument %d: %T is no kernel argument", i, v)
		}
	}
	return s.Launch(l.fn[kernel], n, &a)
}

func (l *lab) record(s device.Stream) device.Event {
	l.t.Helper()
	e := l.event()
	l.ok(s.Record(e))
	return e
}

func (l *lab) isDone(e device.Event) bool {
	l.t.Helper()
	d, err := e.Done()
	l.ok(err)
	return d
}

func (l *lab) elapsed(from, to device.Event) int64 {
	l.t.Helper()
	ns, err := l.dev.ElapsedNS(from, to)
	l.ok(err)
	return ns
}

// newBuffer makes a device buffer with the given values.
func (l *lab) newBuffer(values ...int32) device.Buffer {
	l.t.Helper()
	b, up := l.alloc(4*len(values), device.OnDevice), l.alloc(4*len(values), device.Pinned)
	copy(device.Ints(up), values)
	l.ok(l.main.Copy(b, 0, up, 0, 4*len(values)))
	l.ok(l.main.Sync())
	l.ok(up.Free())
	return b
}

// readInts returns a device buffer's content after s has finished its work on it.
func (l *lab) readInts(s device.Stream, b device.Buffer) []int32 {
	l.t.Helper()
	down := l.alloc(b.Len(), device.Pinned)
	l.ok(s.Copy(down, 0, b, 0, b.Len()))
	l.ok(s.Sync())
	out := append([]int32(nil), device.Ints(down)...)
	l.ok(down.Free())
	return out
}

// wantAll requires that every value of the device buffer is v.
func (l *lab) wantAll(s device.Stream, b device.Buffer, v int32) {
	l.t.Helper()
	for i, got := range l.readInts(s, b) {
		if got != v {
			l.t.Fatalf("value %d is %d, want %d", i, got, v)
		}
	}
}

func (l *lab) waitUntil(what string, cond func() bool) {
	l.t.Helper()
	for deadline := time.Now().Add(patience); !cond(); time.Sleep(20 * time.Microsecond) {
		if time.Now().After(deadline) {
			l.t.Fatalf("still waiting after %v until %s", patience, what)
		}
	}
}

// gate is a kernel that runs until the test opens it.
type gate struct {
	l     *lab
	flags device.Buffer
}

// holdStream enqueues a gate on s. It opens at the end of the test at the latest, so that a failed check does not
// leave Close waiting.
func (l *lab) holdStream(s device.Stream) *gate {
	l.t.Helper()
	g := &gate{l, l.alloc(8, device.Pinned)}
	clear(device.Ints(g.flags))
	l.launch(s, "gate", 1, g.flags)
	l.t.Cleanup(g.open)
	return g
}

// waitStarted waits until the kernel runs.
func (g *gate) waitStarted() {
	g.l.t.Helper()
	g.l.waitUntil("the gate kernel runs", func() bool { return atomic.LoadInt32(&device.Ints(g.flags)[0]) == 1 })
}

// open lets the kernel end; it may be called from any goroutine.
func (g *gate) open() {
	if f := device.Ints(g.flags); len(f) > 1 { // empty once the device is closed
		atomic.StoreInt32(&f[1], 1)
	}
}
