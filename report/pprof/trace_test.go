package pprof_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/report/pprof"
)

func stacks(t *testing.T, xs ...*analyze.Index) *profile.Profile {
	t.Helper()
	var b bytes.Buffer
	if err := pprof.WriteTrace(&b, xs, "v0-test"); err != nil {
		t.Fatal(err)
	}
	p, err := profile.Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestTraceProfileAddsUp: device time and launches are those of the trace,
// and the host time of a thread is the time of its outermost events.
func TestTraceProfileAddsUp(t *testing.T) {
	_, xs := fixture.Study(t, "item-fires.json")
	p := stacks(t, xs...)
	var device, host, launches int64
	for _, s := range p.Sample {
		device, host, launches = device+s.Value[0], host+s.Value[1], launches+s.Value[2]
	}
	var wantDevice, wantHost int64
	for i := range xs[0].T.GPU {
		wantDevice += xs[0].T.GPU[i].Dur()
	}
	for i := range xs[0].T.Host {
		h := &xs[0].T.Host[i]
		counted := func(h *model.Host) bool { return h.Kind != model.Step && h.Kind != model.Instant }
		if counted(h) && xs[0].Up(int32(i), counted) < 0 {
			wantHost += h.Dur()
		}
	}
	if device != wantDevice || launches != int64(len(xs[0].T.GPU)) || host != wantHost {
		t.Errorf("device %d of %d, launches %d of %d, host %d of %d", device, wantDevice, launches, len(xs[0].T.GPU), host, wantHost)
	}
}

func TestTraceStacksNest(t *testing.T) {
	tr := &model.Trace{Path: "s.json", Rank: -1, Names: []string{"train.py(12): step", "aten::mm", "cudaLaunchKernel", "gemm_kernel"},
		Lanes: []model.Lane{{Process: 1, Thread: 1}}, Devices: []model.Device{{ID: 3}}}
	tr.Host = []model.Host{{Start: 0, End: 100, Kind: model.Python, Name: 0}, {Start: 10, End: 90, Kind: model.Op, Name: 1}, {Start: 20, End: 30, Kind: model.API, Name: 2, Corr: 7}}
	tr.GPU = []model.GPU{{Start: 50, End: 80, Corr: 7, Name: 3, Kind: model.Kernel, Process: 1}}
	tr.Finish()
	x, err := analyze.NewIndex(t.Context(), tr)
	if err != nil {
		t.Fatal(err)
	}
	p := stacks(t, x)
	for _, s := range p.Sample {
		if s.Value[0] == 0 {
			continue
		}
		var names []string
		for _, l := range s.Location {
			names = append(names, l.Line[0].Function.Name)
		}
		if !slices.Equal(names, []string{"gemm_kernel", "cudaLaunchKernel", "aten::mm", "step"}) || s.Value[0] != 30 || s.Label["device"][0] != "3" {
			t.Errorf("%v %v %v", names, s.Value, s.Label)
		}
		if f := s.Location[3].Line[0].Function; f.Filename != "train.py" || f.StartLine != 12 {
			t.Errorf("file %s, line %d", f.Filename, f.StartLine)
		}
		return
	}
	t.Error("no sample has device time")
}

func TestTraceRanksAndMark(t *testing.T) {
	_, xs := fixture.Study(t, "exposed-comm-fires.json", "exposed-comm-quiet.json")
	xs[0].T.Rank, xs[1].T.Rank = 0, 1
	p := stacks(t, xs...)
	seen := map[string]bool{}
	for _, s := range p.Sample {
		for _, r := range s.Label["rank"] {
			seen[r] = true
		}
	}
	if !seen["0"] || !seen["1"] {
		t.Errorf("ranks %v", seen)
	}
	if !strings.HasPrefix(p.Comments[0], "written by gpuprof") {
		t.Errorf("comments %v", p.Comments)
	}
}

// Sampled stacks have a value of their own, innermost frame first, and leave the other values as they are.
func TestSampledStacks(t *testing.T) {
	tr := &model.Trace{Path: "s.json", Rank: -1, Names: []string{"aten::mm"}, Lanes: []model.Lane{{Process: 1, Thread: 1}},
		Host: []model.Host{{Start: 0, End: 100, Kind: model.Op}}}
	tr.Finish()
	tr.Sampled = &model.HostSamples{Frames: []model.HostFrame{{File: "train.py", Function: "<module>", Line: 20}, {File: "train.py", Function: "features", Line: 3}},
		Stacks: []model.HostStack{{Doing: model.InPython, S: 0.012, Count: 1, Frames: []int{0, 1}}, {Doing: model.Blocked, S: 0.024, Count: 2, Frames: []int{0, 1}}}}
	x, err := analyze.NewIndex(t.Context(), tr)
	if err != nil {
		t.Fatal(err)
	}
	p := stacks(t, x)
	if p.DefaultSampleType != "sampled_time" || len(p.SampleType) != 4 {
		t.Fatalf("%d values, by default %s", len(p.SampleType), p.DefaultSampleType)
	}
	var host, sampled int64
	for _, s := range p.Sample {
		host, sampled = host+s.Value[1], sampled+s.Value[3]
		if s.Value[3] > 0 && (s.Location[0].Line[0].Function.Name != "features" || s.Location[0].Line[0].Line != 3) {
			t.Errorf("the innermost frame is %+v", s.Location[0].Line[0])
		}
	}
	if host != 100 || sampled != 100 { // the account's window of 100 ns
		t.Errorf("host %d, sampled %d ns", host, sampled)
	}
}
