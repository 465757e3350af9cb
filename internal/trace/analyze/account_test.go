package analyze

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// TestIdle: who is to blame for a wait, worked out by hand.
func TestIdle(t *testing.T) {
	for _, c := range []struct {
		name                     string
		second                   func(*builder) // the operation after one at [100, 200)
		starved, queued, unknown model.Spans
	}{
		{"launched during the wait", func(b *builder) { b.launch("k", 240, 5, 300, 400) }, model.Spans{{Start: 200, End: 240}}, model.Spans{{Start: 240, End: 300}}, nil},
		{"launched before the wait", func(b *builder) { b.launch("k", 150, 5, 300, 400) }, nil, model.Spans{{Start: 200, End: 300}}, nil},
		{"launched when it began", func(b *builder) { b.launch("k", 200, 5, 300, 400) }, nil, model.Spans{{Start: 200, End: 300}}, nil},
		{"starts before its launch", func(b *builder) { b.launch("k", 320, 5, 300, 400) }, model.Spans{{Start: 200, End: 300}}, nil, nil},
		{"no launch", func(b *builder) { b.gpu(model.Kernel, "k", 300, 400) }, nil, nil, model.Spans{{Start: 200, End: 300}}},
		{"launch not recorded", func(b *builder) { b.gpu(model.Kernel, "k", 300, 400, func(g *model.GPU) { g.Corr = 99 }) }, nil, nil, model.Spans{{Start: 200, End: 300}}},
		{"no wait", func(b *builder) { b.launch("k", 150, 5, 200, 400) }, nil, nil, nil},
		{"overlap", func(b *builder) { b.launch("k", 150, 5, 180, 400) }, nil, nil, nil},
		{"the shortest of two that start together", func(b *builder) {
			b.launch("long", 260, 5, 300, 500).launch("short", 220, 5, 300, 400)
		}, model.Spans{{Start: 200, End: 220}}, model.Spans{{Start: 220, End: 300}}, nil},
		{"an operation without length ends no wait", func(b *builder) {
			b.gpu(model.Kernel, "none", 250, 250).launch("k", 240, 5, 300, 400)
		}, model.Spans{{Start: 200, End: 240}}, model.Spans{{Start: 240, End: 300}}, nil},
		{"but it can end the window", func(b *builder) { b.launch("none", 220, 5, 250, 250) }, model.Spans{{Start: 200, End: 220}}, model.Spans{{Start: 220, End: 250}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuilder().launch("first", 50, 5, 100, 200)
			c.second(b)
			d := b.index(t).Devices[0]
			later := model.Span{Start: 200, End: d.Window.End} // behind the lead-in
			for _, v := range []struct {
				what      string
				got, want model.Spans
			}{{"starved", d.Starved.Within(later), c.starved}, {"queued", d.Queued.Within(later), c.queued}, {"unknown", d.Unknown.Within(later), c.unknown}} {
				if len(v.got)+len(v.want) > 0 && !cmp.Equal(v.got, v.want) {
					t.Errorf("%s %v, want %v", v.what, v.got, v.want)
				}
			}
		})
	}
}

// TestNoDeviceFix: the remedy for a trace without a device is an option of its recorder, unless the calls of CUDA that
// Nsight Systems recorded show that the option was set.
func TestNoDeviceFix(t *testing.T) {
	for _, c := range []struct {
		format model.Format
		kind   model.Kind
		want   string
	}{
		{model.Kineto, model.Op, "ProfilerActivity.CUDA"},
		{model.Nsys, model.Annotation, "record with nsys profile --trace=cuda,nvtx"},
		{model.Nsys, model.API, "let the recording cover work on a GPU"},
		{model.XLA, model.Op, "GPU or TPU"},
		{model.Rocpd, model.Op, "let the recording cover work on a GPU"},
	} {
		b := newBuilder()
		b.t.Format = c.format
		x := b.host(c.kind, "cudaGetDevice", 0, 1000).index(t)
		i := slices.IndexFunc(x.Warnings, func(w gpuprof.Warning) bool { return w.Code == "no-device" })
		if i < 0 || !strings.Contains(x.Warnings[i].Fix, c.want) {
			t.Errorf("%s: %+v, want %q", c.format, x.Warnings, c.want)
		}
	}
}

// TestOverlap: where operations overlap, computation counts before
// communication, kernels before copies, copies before fills, then what began
// first.
func TestOverlap(t *testing.T) {
	b := newBuilder()
	b.gpu(model.Memset, "Memset (Device)", 0, 100)
	b.gpu(model.Memcpy, "Memcpy HtoD (Pinned -> Device)", 10, 90)
	b.gpu(model.Kernel, "ncclKernel_AllReduce", 20, 80)
	b.gpu(model.Kernel, "volta_sgemm_64x64_nn", 30, 50)
	b.gpu(model.Kernel, "elementwise_kernel", 40, 70)
	d := b.index(t).Devices[0]
	want := map[model.Class]int64{model.Copy: 20 + 20, model.Communication: 10 + 10, model.GEMM: 20, model.Elementwise: 20}
	if diff := cmp.Diff(want, d.Classes); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[model.Class]int64{model.GEMM: 5, model.Elementwise: 10}, d.ClassesIn(model.Span{Start: 45, End: 60})); diff != "" {
		t.Error(diff)
	}
	for _, v := range []struct {
		what      string
		got, want model.Spans
	}{
		{"busy", d.Busy, model.Spans{{Start: 0, End: 100}}},
		{"kernel", d.Kernel, model.Spans{{Start: 20, End: 80}}},
		{"compute", d.Compute, model.Spans{{Start: 30, End: 70}}},
		{"communication", d.Comm, model.Spans{{Start: 20, End: 80}}},
		{"memcpy", d.Memcpy, model.Spans{{Start: 10, End: 90}}},
		{"memset", d.Memset, model.Spans{{Start: 0, End: 100}}},
	} {
		if !cmp.Equal(v.got, v.want) {
			t.Errorf("%s %v, want %v", v.what, v.got, v.want)
		}
	}
}

// randomTrace draws a trace of a few hundred ns, with everything that broken
// profilers write: operations without launch, launches after their operation,
// shared ids, events without length, several lanes, processes and devices.
func randomTrace(r *rapid.T) *model.Trace {
	const long = 400
	b := newBuilder()
	b.lane(2)
	b.t.Lanes[2].Process = 2
	at := rapid.Int64Range(0, long)
	lane := func(h *model.Host) { h.Lane = uint32(rapid.IntRange(0, 2).Draw(r, "lane")) }
	ranges := []struct {
		kind model.Kind
		name string
	}{
		{model.Op, "aten::mm"}, {model.Op, "aten::add"}, {model.Op, "CompiledFxGraph"}, {model.Annotation, "forward"}, {model.Annotation, "Optimizer.step#SGD.step"},
		{model.Annotation, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"}, {model.Annotation, "iteration 4"}, {model.Python, "train.py(3): main"},
		{model.Python, "nn.Module: TensorProduct_0"}, {model.Instant, "mark"}, {model.Overhead, "Activity Buffer Request"}, {model.API, "cudaStreamSynchronize"}, {model.API, "cudaDeviceSynchronize"},
	}
	for range rapid.IntRange(0, 12).Draw(r, "ranges") {
		e := rapid.SampledFrom(ranges).Draw(r, "range")
		from := at.Draw(r, "from")
		b.host(e.kind, e.name, from, from+rapid.Int64Range(0, 120).Draw(r, "length"), lane, func(h *model.Host) {
			if h.Kind == model.Op {
				h.Seq, h.Corr = rapid.Int64Range(0, 3).Draw(r, "seq"), rapid.Int64Range(0, 4).Draw(r, "ext")
			}
		})
	}
	from := int64(0)
	for i := range rapid.IntRange(0, 4).Draw(r, "steps") {
		to := from + rapid.Int64Range(1, 150).Draw(r, "step")
		b.host(model.Step, fmt.Sprintf("ProfilerStep#%d", i), from, to)
		from = to + rapid.Int64Range(0, 5).Draw(r, "between")
	}
	kernels := []string{"volta_sgemm_64x64_nn", "elementwise_kernel", "ncclKernel_AllReduce", "reduce_kernel"}
	for range rapid.IntRange(0, 14).Draw(r, "operations") {
		from := at.Draw(r, "begins")
		to := from + rapid.Int64Range(0, 60).Draw(r, "lasts")
		kind := rapid.SampledFrom([]model.Kind{model.Kernel, model.Kernel, model.Kernel, model.Memcpy, model.Memset}).Draw(r, "kind")
		corr := rapid.Int64Range(0, 12).Draw(r, "id")
		b.gpu(kind, rapid.SampledFrom(kernels).Draw(r, "kernel"), from, to, func(g *model.GPU) {
			g.Corr, g.Ext = corr, rapid.Int64Range(0, 4).Draw(r, "ext")
			g.Process = rapid.SampledFrom([]int32{1, 2, -1}).Draw(r, "process")
			g.Device = uint16(rapid.IntRange(0, 1).Draw(r, "device"))
		})
		if rapid.Bool().Draw(r, "has a call") {
			call := at.Draw(r, "call")
			name := rapid.SampledFrom([]string{"cudaLaunchKernel", "cudaGraphLaunch", "cudaMemcpyAsync", "cudaEventRecord"}).Draw(r, "function")
			b.host(model.API, name, call, call+rapid.Int64Range(0, 20).Draw(r, "calls for"), lane, func(h *model.Host) { h.Corr = corr })
		}
	}
	return b.t
}

// where says for every ns of a device's window what became of it, the slow way.
func where(x *Index, d *DeviceTime, at int64) (string, model.Class) {
	best := int32(-1)
	rank := func(i int32) int {
		g := &x.T.GPU[i]
		switch {
		case g.Kind == model.Memcpy:
			return 2
		case g.Kind == model.Memset:
			return 3
		case x.Class(i) == model.Communication:
			return 1
		}
		return 0
	}
	for _, i := range d.Ops {
		g := &x.T.GPU[i]
		if g.Start <= at && at < g.End && (best < 0 || rank(i) < rank(best)) {
			best = i // of one rank the first by start stays
		}
	}
	if best >= 0 {
		return "busy", x.Class(best)
	}
	next := int32(-1)
	for _, i := range d.Ops {
		g := &x.T.GPU[i]
		if g.Start > at && g.End > g.Start {
			next = i
			break
		}
	}
	if next < 0 && d.Window.End > d.ActiveSpan.End { // the rest of the only step
		return "starved", ""
	}
	if next < 0 { // only operations without length are left: the last instant ends the wait
		for _, i := range d.Ops {
			if x.T.GPU[i].Start == d.Window.End {
				next = i
				break
			}
		}
	}
	switch launch := x.T.GPU[next].Launch; {
	case launch < 0:
		return "unknown", ""
	case at < x.T.Host[launch].Start:
		return "starved", ""
	}
	return "queued", ""
}

// TestEveryNanosecond: over random traces each ns of each device is in one
// account, the one that the slow way finds.
func TestEveryNanosecond(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		tr := randomTrace(r)
		tr.Finish()
		x, err := NewIndex(context.Background(), tr)
		if err != nil {
			r.Fatal(err)
		}
		for _, d := range x.Devices {
			classes := map[model.Class]int64{}
			for at := d.Window.Start; at < d.Window.End; at++ {
				want, class := where(x, d, at)
				if want == "busy" {
					classes[class]++
				}
				for _, v := range []struct {
					what string
					set  model.Spans
				}{{"busy", d.Busy}, {"starved", d.Starved}, {"queued", d.Queued}, {"unknown", d.Unknown}} {
					if got := v.set.Contains(at); got != (want == v.what) {
						r.Fatalf("device %d at %d: in %s is %v; it is %s", d.Device, at, v.what, got, want)
					}
				}
			}
			if diff := cmp.Diff(classes, d.Classes); diff != "" {
				r.Fatalf("device %d: classes %s", d.Device, diff)
			}
			if sum := d.Busy.Total() + d.Starved.Total() + d.Queued.Total() + d.Unknown.Total(); sum != d.Window.Len() {
				r.Fatalf("device %d: accounts add up to %d of %d ns", d.Device, sum, d.Window.Len())
			}
			if all := (model.Spans{d.Window}); !cmp.Equal(d.Compute.Or(d.Comm), d.Kernel.Or(nil)) || len(d.Busy.Minus(all)) > 0 {
				r.Fatalf("device %d: kernels %v, computation %v, communication %v", d.Device, d.Kernel, d.Compute, d.Comm)
			}
		}
	})
}
