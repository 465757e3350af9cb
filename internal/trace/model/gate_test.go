package model_test

import (
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

const (
	us      = int64(1000)
	epochNS = int64(1_700_000_000_000_000_000)
)

// gated is a finished trace of n kernels of 90 us, one each 100 us on stream 7, launched by n calls; change
// damages it before that.
func gated(n int, change func(t *model.Trace)) *model.Trace {
	t := &model.Trace{Names: []string{"cudaLaunchKernel", "gemm", "cudaGraphLaunch"}, Lanes: []model.Lane{{Process: 1, Thread: 1}},
		Devices: []model.Device{{Name: "NVIDIA A100", Major: 8}}}
	for i := range int64(n) {
		at := epochNS + i*100*us
		t.Host = append(t.Host, model.Host{Start: at, End: at + 5*us, Corr: i + 1, Kind: model.API})
		t.GPU = append(t.GPU, model.GPU{Start: at + 8*us, End: at + 98*us, Corr: i + 1, Stream: 7, Process: 1, Name: 1, Kind: model.Kernel})
	}
	if change != nil {
		change(t)
	}
	t.Finish()
	return t
}

// TestGate damages records in each way that profilers are known for.
func TestGate(t *testing.T) {
	year := int64(365*24*3600) * 1_000_000_000
	for name, c := range map[string]struct {
		change func(t *model.Trace)
		want   model.GateCount
		kernel int   // that stay
		busy   int64 // us
	}{
		"good": {nil, model.GateCount{Records: 10}, 10, 900},
		"time 0": {func(t *model.Trace) { t.GPU[4].Start, t.GPU[4].End = 0, 0 },
			model.GateCount{Records: 10, Untimed: 1}, 9, 810},
		"time 0 after the base time was added": {func(t *model.Trace) { t.Shift = epochNS - 1e9; t.GPU[4].Start, t.GPU[4].End = t.Shift, t.Shift },
			model.GateCount{Records: 10, Untimed: 1}, 9, 810},
		"ten years ahead": {func(t *model.Trace) { t.GPU[9].Start += 10 * year; t.GPU[9].End += 10 * year },
			model.GateCount{Records: 10, Untimed: 1}, 9, 810},
		"an end ten years ahead": {func(t *model.Trace) { t.GPU[9].End += 10 * year },
			model.GateCount{Records: 10, Untimed: 1}, 9, 810},
		"an hour from every call": {func(t *model.Trace) { t.GPU[9].Start += 3600e9; t.GPU[9].End += 3600e9 },
			model.GateCount{Records: 10, Untimed: 1}, 9, 810},
		"half without a time": {func(t *model.Trace) {
			for i := range 7 {
				t.GPU[i].Start, t.GPU[i].End = 0, 0
				t.Host[i].Start, t.Host[i].End = 0, 0
			}
		}, model.GateCount{Records: 10, Untimed: 7}, 3, 270},
		"ends before it starts": {func(t *model.Trace) { t.GPU[4].End = t.GPU[4].Start - 50*us },
			model.GateCount{Records: 10, Untimed: 1}, 10, 810},
		"an end stamped late": {func(t *model.Trace) { t.GPU[4].End += 5000 * us },
			model.GateCount{Records: 10, Overruns: 1}, 10, 910},
		"rounded to microseconds": {func(t *model.Trace) { t.GPU[4].End = t.GPU[5].Start + us },
			model.GateCount{Records: 10}, 10, 910},
		"side by side on two streams": {func(t *model.Trace) { t.GPU[4].Stream = 8; t.GPU[4].End += 200 * us },
			model.GateCount{Records: 10}, 10, 920},
		"nodes of a graph": {func(t *model.Trace) { t.Host[4].Name = 2; t.GPU[4].End += 50 * us },
			model.GateCount{Records: 10}, 10, 910},
		"dependent launch": {func(t *model.Trace) {
			t.Devices[0] = model.Device{Name: "NVIDIA H100", Major: 9}
			t.GPU[4].End += 30 * us
		},
			model.GateCount{Records: 10}, 10, 910},
		"over the end of the next, with dependent launch": {func(t *model.Trace) {
			t.Devices[0] = model.Device{Name: "NVIDIA H100", Major: 9}
			t.GPU[4].End += 150 * us
		},
			model.GateCount{Records: 10, Overruns: 1}, 10, 910},
		"an AMD device has none": {func(t *model.Trace) {
			t.Devices[0] = model.Device{Name: "AMD Instinct MI300X", Major: 9}
			t.GPU[4].End += 30 * us
		},
			model.GateCount{Records: 10, Overruns: 1}, 10, 910},
		"two kernels of one launch": {func(t *model.Trace) { t.GPU[5].Corr = t.GPU[4].Corr },
			model.GateCount{Records: 10, Shared: 1}, 10, 900},
		"two kernels of a graph launch": {func(t *model.Trace) { t.Host[4].Name = 2; t.GPU[5].Corr = t.GPU[4].Corr },
			model.GateCount{Records: 10}, 10, 900},
	} {
		t.Run(name, func(t *testing.T) {
			tr := gated(10, c.change)
			if got := tr.Gate.Devices[0]; got != c.want {
				t.Errorf("gate %+v, want %+v", got, c.want)
			}
			if len(tr.GPU) != c.kernel {
				t.Errorf("%d kernels stay, want %d", len(tr.GPU), c.kernel)
			}
			var spans []model.Span
			for i := range tr.GPU {
				spans = append(spans, model.Span{Start: tr.GPU[i].Start, End: tr.GPU[i].End})
			}
			if busy := model.UnionOf(spans).Total(); busy != c.busy*us {
				t.Errorf("busy %d us, want %d", busy/us, c.busy)
			}
			if faulty := c.want.Failed() > 0; tr.Gate.Faulty(0) != faulty {
				t.Errorf("faulty %t", !faulty)
			}
			if tr.Gate.Launches != len(tr.Host) {
				t.Errorf("%d launches of %d calls", tr.Gate.Launches, len(tr.Host))
			}
		})
	}
}

// TestGateBearsFewFaults: one record in a hundred makes no device faulty, two do.
func TestGateBearsFewFaults(t *testing.T) {
	for bad, want := range map[int]bool{1: false, 2: true} {
		tr := gated(100, func(t *model.Trace) {
			for i := range bad {
				t.GPU[10+i].Start, t.GPU[10+i].End = 0, 0
			}
		})
		if got := tr.Gate.Faulty(0); got != want {
			t.Errorf("%d of 100 records without a time: faulty %t", bad, got)
		}
	}
}
