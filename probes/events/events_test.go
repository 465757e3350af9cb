package events_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/probes/events"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
)

// bench is a device with one stream and a kernel that spins for a while.
type bench struct {
	t      *testing.T
	dev    *events.Tracer
	main   device.Stream
	spin   device.Func
	buf    device.Buffer
	stages []gpuprof.Stage
}

const spinTime = 300 * time.Microsecond

func newBench(t *testing.T) *bench {
	t.Helper()
	d, err := host.Open(host.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	b := &bench{t: t, dev: events.NewTracer(d), stages: []gpuprof.Stage{{Name: "host", Kind: gpuprof.HostStage, MaxSpans: 1}, {Name: "dev", MaxSpans: 2}}}
	b.main, err = b.dev.NewStream("main")
	b.must(err)
	b.buf, err = b.dev.Alloc(64, device.OnDevice)
	b.must(err)
	b.spin, err = b.dev.Load(&device.Kernel{Name: "spin", Serial: true, Host: func(*device.Args, int, int) {
		for s := time.Now(); time.Since(s) < spinTime; {
		}
	}})
	b.must(err)
	return b
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) step(r *events.Recorder, i int) {
	b.must(r.Start(i))
	s := r.Begin(0, nil)
	r.End(s)
	s = r.Begin(1, b.main)
	b.must(b.main.Launch(b.spin, 1, nil))
	b.must(b.main.Copy(b.buf, 0, b.buf, 32, 16))
	r.End(s)
}

func (b *bench) block(r *events.Recorder, p events.Pass, steps int) *events.Block {
	b.t.Helper()
	b.must(b.main.Sync())
	anchor, _, err := r.Reset(p)
	b.must(err)
	for i := range steps {
		b.step(r, i)
	}
	b.must(r.Finish())
	b.must(b.main.Sync())
	blk, err := r.Drain(anchor)
	b.must(err)
	return blk
}

func TestBlocks(t *testing.T) {
	b := newBench(t)
	r, err := events.NewRecorder(b.dev, b.main, b.stages, 8, b.dev)
	b.must(err)
	h0 := events.Now()
	probed := b.block(r, events.Probed, 5)
	h1 := events.Now()
	if len(probed.Begin) != 6 || len(probed.HostBegin) != 5 || len(probed.Spans) != 10 || len(probed.Launches) != 0 {
		t.Fatalf("%d begins, %d host begins, %d spans, %d launches", len(probed.Begin), len(probed.HostBegin), len(probed.Spans), len(probed.Launches))
	}
	for i := range 5 {
		if d := probed.Begin[i+1] - probed.Begin[i]; d < int64(spinTime) {
			t.Errorf("step %d lasts %d ns, less than its kernel", i, d)
		}
	}
	for _, s := range probed.Spans {
		if s.OnDevice != (s.Stage == 1) || s.HostEnd < s.HostStart {
			t.Errorf("span %+v", s)
		}
		// Device times stand on the caller's clock, within the anchor's slack.
		const slack = int64(time.Millisecond)
		if s.OnDevice && (s.DevEnd-s.DevStart < int64(spinTime) || s.DevStart < h0-slack || s.DevEnd > h1+slack) {
			t.Errorf("device span [%d, %d] outside the block [%d, %d] or too short", s.DevStart, s.DevEnd, h0, h1)
		}
	}
	if bare := b.block(r, events.Bare, 3); len(bare.Begin) != 4 || len(bare.Spans) != 0 {
		t.Errorf("a bare block has %d begins and %d spans", len(bare.Begin), len(bare.Spans))
	}
}

func TestKernelPass(t *testing.T) {
	b := newBench(t)
	r, err := events.NewRecorder(b.dev, b.main, b.stages, 8, b.dev)
	b.must(err)
	b.must(b.dev.Enable(7)) // room for three steps and a half
	blk := b.block(r, events.Kernels, 4)
	b.dev.Disable()
	if len(blk.Launches) != 7 || b.dev.Lost() != 1 {
		t.Fatalf("%d launches traced, %d lost; want 7 and 1", len(blk.Launches), b.dev.Lost())
	}
	for i, l := range blk.Launches {
		want := []string{"spin", "copy device to device"}[i%2]
		if l.Kernel != want || l.Stage != 1 || l.End < l.Start || i%2 == 0 && l.End-l.Start < int64(spinTime) {
			t.Errorf("launch %d: %+v, want %s", i, l, want)
		}
	}
	for _, s := range blk.Spans {
		if s.OnDevice && (s.Meter.Launches != 1 || s.Meter.CopiesD2D != 1 || s.Meter.BytesD2D != 16) {
			t.Errorf("span counts %+v", s.Meter)
		}
	}
}

func TestRefusals(t *testing.T) {
	b := newBench(t)
	r, err := events.NewRecorder(b.dev, b.main, b.stages, 1, nil)
	b.must(err)
	b.block(r, events.Probed, 1)
	if err := r.Start(1); err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("a step too many: %v", err)
	}
	_, _, err = r.Reset(events.Probed)
	b.must(err)
	b.must(r.Start(0))
	for range 4 { // the step's stages have three spans
		r.End(r.Begin(0, nil))
	}
	if err := r.Err(); err == nil || !strings.Contains(err.Error(), "stage host") {
		t.Errorf("a span too many: %v", err)
	}
	if err := r.Finish(); err == nil {
		t.Error("a broken block finished")
	}
}

// A captured graph replays through the traced stream.
func TestCaptureThroughTracer(t *testing.T) {
	b := newBench(t)
	op, err := b.dev.Capture(b.main, func() error { return b.main.Launch(b.spin, 1, nil) })
	b.must(err)
	before := b.dev.Meter().Launches
	b.must(op.Enqueue(b.main))
	b.must(b.main.Sync())
	if n := b.dev.Meter().Launches - before; n != 1 {
		t.Errorf("%d launches replayed", n)
	}
}

// A block of nothing records nothing and has room for any number of steps.
func TestNothingIsRecorded(t *testing.T) {
	b := newBench(t)
	r, err := events.NewRecorder(b.dev, b.main, b.stages, 1, nil)
	b.must(err)
	_, _, err = r.Reset(events.Nothing)
	b.must(err)
	for i := range 5 {
		b.must(r.Start(i))
		if s := r.Begin(1, b.main); s != -1 {
			t.Fatalf("a span %d was opened", s)
		}
		r.End(-1)
	}
	b.must(r.EndStep())
	b.must(r.Finish())
	b.must(b.main.Sync())
}

// With events of their own ends, steps end where their work does and not where
// the next begins.
func TestStepsWithEnds(t *testing.T) {
	b := newBench(t)
	r, err := events.NewRecorder(b.dev, b.main, b.stages, 3, nil)
	b.must(err)
	b.must(r.EndEvents())
	anchor, _, err := r.Reset(events.Probed)
	b.must(err)
	for i := range 3 {
		b.step(r, i)
		b.must(r.EndStep())
		b.must(b.main.Sync())
		time.Sleep(20 * time.Millisecond)
	}
	b.must(r.Finish())
	b.must(b.main.Sync())
	blk, err := r.Drain(anchor)
	b.must(err)
	for i, end := range blk.Ends {
		if d := end - blk.Begin[i]; d < int64(spinTime) || end+int64(15*time.Millisecond) > blk.Begin[i+1] {
			t.Errorf("step %d takes %d ns and the next begins %d ns later", i, d, blk.Begin[i+1]-end)
		}
	}
	if len(blk.Ends) != 3 {
		t.Errorf("%d ends", len(blk.Ends))
	}
}

// bare is a device that offers nothing beside the interface.
type bare struct{ device.Device }

// What the device does not offer is refused, and what it was asked for is known.
func TestTracerOffers(t *testing.T) {
	d, err := host.Open(host.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	tr := events.NewTracer(bare{Device: d})
	if tr.Touched() {
		t.Error("a new tracer has asked for something")
	}
	s, err := tr.NewStream("main")
	if err != nil || !tr.Touched() {
		t.Fatalf("touched %t, %v", tr.Touched(), err)
	}
	_, gru := tr.BindGRU(device.GRUSpec{}, nil, nil, nil, nil, nil)
	_, compiler := tr.Compiler()
	_, compile := tr.Compile(device.CUDASource{})
	for name, err := range map[string]error{
		"trim": tr.TrimPool(), "peak": tr.ResetPeak(), "flush": tr.FlushCache(s), "spin": tr.Spin(s, 1), "threads": tr.SetThreads(1), "gru": gru,
		"compiler": compiler, "compile": compile,
	} {
		if !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), d.Info().Name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if tr.CanFlush() || tr.CanSpin() || tr.Reserved() != 0 || tr.Libraries() != nil || tr.CodeHash() != "" {
		t.Error("it offers what the device has not")
	}
}

// gpu says it is one, so that PTX counts.
type gpu struct{ device.Device }

func (g gpu) Info() device.Info {
	i := g.Device.Info()
	i.Kind = "cuda"
	return i
}

// The hash of the code depends on which PTX was loaded, not on when or how often.
func TestCodeHash(t *testing.T) {
	hash := func(texts ...string) string {
		d, err := host.Open(host.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		tr := events.NewTracer(gpu{Device: d})
		for _, p := range texts {
			if _, err := tr.Load(&device.Kernel{Name: "k", PTX: p, Host: func(*device.Args, int, int) {}}); err != nil {
				t.Fatal(err)
			}
		}
		return tr.CodeHash()
	}
	if a := hash("one", "two"); len(a) != 16 || a != hash("two", "one", "two") || a == hash("one") || a == hash("one", "three") {
		t.Errorf("hash %q", a)
	}
}
