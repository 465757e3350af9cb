package host

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/testkit/devicetest"
)

func openTest(t testing.TB, o Options) *Device {
	t.Helper()
	d, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestConformance(t *testing.T) {
	for name, threads := range map[string]int{"one thread": 1, "more threads than processors": 4} {
		t.Run(name, func(t *testing.T) {
			devicetest.Run(t, func(t *testing.T) device.Device {
				return openTest(t, Options{Threads: threads})
			}, devicetest.Kernels{})
		})
	}
}

// TestSplit checks that every item is computed exactly once, in ranges of at
// least the grain.
func TestSplit(t *testing.T) {
	devices := make(map[int]*Device)
	streams := make(map[int]device.Stream)
	for threads := 1; threads <= 4; threads++ {
		devices[threads] = openTest(t, Options{Threads: threads})
		streams[threads] = must[device.Stream](t)(devices[threads].NewStream("s"))
	}
	rapid.Check(t, func(r *rapid.T) {
		threads := rapid.IntRange(1, 4).Draw(r, "threads")
		n := rapid.IntRange(0, 3000).Draw(r, "n")
		grain := rapid.SampledFrom([]int{0, 1, 2, 7, 100, 5000, math.MaxInt}).Draw(r, "grain")
		serial := rapid.Bool().Draw(r, "serial")
		counts := make([]int32, n)
		var mu sync.Mutex
		var short, calls int
		k := &device.Kernel{Name: "count", Grain: grain, Serial: serial, Host: func(_ *device.Args, lo, hi int) {
			for i := lo; i < hi; i++ {
				counts[i]++ // not atomic: the race detector checks that ranges are disjoint
			}
			mu.Lock()
			defer mu.Unlock()
			calls++
			if hi < n && hi-lo < grain {
				short++
			}
		}}
		d, s := devices[threads], streams[threads]
		f, err := d.Load(k)
		if err != nil {
			r.Fatal(err)
		}
		var a device.Args
		if err := errors.Join(s.Launch(f, n, &a), s.Sync()); err != nil {
			r.Fatal(err)
		}
		if i := slices.IndexFunc(counts, func(c int32) bool { return c != 1 }); i >= 0 {
			r.Fatalf("item %d of %d was computed %d times", i, n, counts[i])
		}
		if short > 0 {
			r.Fatalf("%d ranges shorter than the grain %d", short, grain)
		}
		if (serial || threads == 1) && n > 0 && calls != 1 {
			r.Fatalf("%d calls of a kernel that is not to be split", calls)
		}
	})
}

// TestThreadsTakePart holds every thread inside one kernel at once.
func TestThreadsTakePart(t *testing.T) {
	const threads = 4
	d := openTest(t, Options{Threads: 1})
	s := must[device.Stream](t)(d.NewStream("s"))
	ok(t, d.SetThreads(threads))
	if got := d.Info().Cores; got != threads {
		t.Errorf("Info shows %d threads, want %d", got, threads)
	}
	var inside atomic.Int32
	f := must[device.Func](t)(d.Load(&device.Kernel{Name: "meet", Host: func(*device.Args, int, int) {
		inside.Add(1)
		for inside.Load() < threads {
			runtime.Gosched()
		}
	}}))
	ok(t, s.Launch(f, threads, &device.Args{}))
	ok(t, s.Sync())
	for _, n := range []int{0, -1, 4*runtime.NumCPU() + 1} {
		if err := d.SetThreads(n); !errors.Is(err, gpuprof.ErrUsage) {
			t.Errorf("SetThreads(%d): %v", n, err)
		}
	}
}

// TestStreamsShareThePool runs split kernels on several streams at once.
func TestStreamsShareThePool(t *testing.T) {
	d := openTest(t, Options{Threads: 3})
	const n, streams, rounds = 500, 5, 100
	f := must[device.Func](t)(d.Load(&device.Kernel{Name: "add", Sig: "b", Host: func(a *device.Args, lo, hi int) {
		x := a.Ints(0)
		for i := lo; i < hi; i++ {
			x[i]++
		}
	}}))
	var ss []device.Stream
	var bufs []device.Buffer
	for range streams {
		ss = append(ss, must[device.Stream](t)(d.NewStream("s")))
		b := must[device.Buffer](t)(d.Alloc(4*n, device.OnDevice))
		clear(b.Bytes())
		bufs = append(bufs, b)
	}
	for range rounds {
		for i, s := range ss {
			var a device.Args
			a.SetBuf(0, bufs[i])
			ok(t, s.Launch(f, n, &a))
		}
	}
	for i, s := range ss {
		ok(t, s.Sync())
		for k, v := range device.Ints(bufs[i]) {
			if v != rounds {
				t.Fatalf("stream %d, item %d: %d, want %d", i, k, v, rounds)
			}
		}
	}
}

func TestPanicInKernel(t *testing.T) {
	var nobody *int
	for name, c := range map[string]struct {
		host func(*device.Args, int, int)
		says string
	}{
		"panic": {func(*device.Args, int, int) { panic("too curved") }, "too curved (host_test.go:"},
		"index": {func(a *device.Args, _, hi int) { a.Ints(0)[hi+100] = 1 }, "index out of range [101] with length 1 (host_test.go:"},
		"nil":   {func(*device.Args, int, int) { *nobody = 1 }, "nil pointer dereference (host_test.go:"},
		"some":  {func(_ *device.Args, lo, _ int) { time.Sleep(time.Nanosecond); panic(errors.ErrUnsupported) }, "unsupported operation (host_test.go:"},
	} {
		t.Run(name, func(t *testing.T) {
			d := openTest(t, Options{Threads: 3})
			s := must[device.Stream](t)(d.NewStream("main"))
			f := must[device.Func](t)(d.Load(&device.Kernel{Name: "tp_csr", Sig: "b", Host: c.host}))
			var a device.Args
			a.SetBuf(0, must[device.Buffer](t)(d.Alloc(4, device.OnDevice)))
			n := 1
			if name == "some" {
				n = 100
			}
			ok(t, s.Launch(f, n, &a))
			err := s.Sync()
			if err == nil || !strings.HasPrefix(err.Error(), "kernel tp_csr on stream main failed: ") || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
			if !errors.Is(err, gpuprof.ErrDevice) || name == "some" && !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%v has lost its kind or its cause", err)
			}
			// The device's other streams and its helpers are unharmed.
			other := must[device.Stream](t)(d.NewStream("other"))
			var ran atomic.Int32
			good := must[device.Func](t)(d.Load(&device.Kernel{Name: "good", Host: func(_ *device.Args, lo, hi int) { ran.Add(int32(hi - lo)) }}))
			ok(t, other.Launch(good, 1000, &a))
			ok(t, other.Sync())
			if ran.Load() != 1000 {
				t.Errorf("%d items of 1000", ran.Load())
			}
			ok(t, d.Close()) // the failure has been told
		})
	}
}

func TestUntoldFailureAtClose(t *testing.T) {
	d := openTest(t, Options{})
	s := must[device.Stream](t)(d.NewStream("main"))
	f := must[device.Func](t)(d.Load(&device.Kernel{Name: "bad", Host: func(*device.Args, int, int) { panic("unheard") }}))
	ok(t, s.Launch(f, 1, &device.Args{}))
	if err := d.Close(); err == nil || !strings.Contains(err.Error(), "unheard") || !errors.Is(err, gpuprof.ErrDevice) {
		t.Errorf("Close hides the failure: %v", err)
	}
}

func TestCloseRunsWhatIsQueued(t *testing.T) {
	d := openTest(t, Options{})
	s := must[device.Stream](t)(d.NewStream("main"))
	var ran int
	f := must[device.Func](t)(d.Load(&device.Kernel{Name: "count", Serial: true, Host: func(*device.Args, int, int) { ran++ }}))
	for range 500 {
		ok(t, s.Launch(f, 1, &device.Args{}))
	}
	ok(t, d.Close())
	if ran != 500 {
		t.Errorf("%d of 500 launches ran", ran)
	}
	for name, err := range map[string]error{
		"SetThreads": d.SetThreads(1),
		"Ceilings":   func() error { _, err := d.Ceilings(context.Background()); return err }(),
	} {
		if err == nil || !strings.Contains(err.Error(), "closed") {
			t.Errorf("%s on a closed device: %v", name, err)
		}
	}
}

func TestNoGoroutineLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 5 {
		d := must[*Device](t)(Open(Options{Threads: 4}))
		for _, name := range []string{"a", "b"} {
			s := must[device.Stream](t)(d.NewStream(name))
			if name == "a" {
				ok(t, s.Close())
			}
		}
		ok(t, d.SetThreads(2))
		ok(t, d.Close())
	}
	// A goroutine that has told Close it is ending may still be counted.
	for deadline := time.Now().Add(4 * time.Minute); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

func TestOverlappingCopy(t *testing.T) {
	d := openTest(t, Options{})
	s := must[device.Stream](t)(d.NewStream("main"))
	for _, c := range []struct{ dst, src, n int }{{3, 0, 90}, {0, 3, 90}, {5, 5, 10}} {
		b := must[device.Buffer](t)(d.Alloc(100, device.OnDevice))
		for i := range b.Bytes() {
			b.Bytes()[i] = byte(i)
		}
		want := slices.Clone(b.Bytes())
		copy(want[c.dst:c.dst+c.n], want[c.src:c.src+c.n])
		ok(t, s.Copy(b, c.dst, b, c.src, c.n))
		ok(t, s.Sync())
		if !slices.Equal(b.Bytes(), want) {
			t.Errorf("%+v: not as memmove", c)
		}
	}
}

func TestCeilingsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := openTest(t, Options{}).Ceilings(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
