package perfetto

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// recorded is a trace with two steps: a kernel the device had to wait for, one
// that waited for the device, and one that nobody is known to have launched.
func recorded(offset int64) *model.Trace {
	tr := &model.Trace{Path: "made <up>.json", Format: model.Kineto, Rank: 1,
		Names:   []string{"ProfilerStep#1", "aten::mm", "cudaLaunchKernel", "gemm", "ProfilerStep#2"},
		Lanes:   []model.Lane{{Process: 7, Thread: 7}},
		Devices: []model.Device{{ID: 3, Name: "Made-up GPU"}}}
	host := func(kind model.Kind, name model.NameID, start, end, corr int64) {
		tr.Host = append(tr.Host, model.Host{Start: offset + start, End: offset + end, Kind: kind, Name: name, Corr: corr})
	}
	gpu := func(start, end, corr int64) {
		tr.GPU = append(tr.GPU, model.GPU{Start: offset + start, End: offset + end, Kind: model.Kernel, Name: 3, Corr: corr, Process: 7})
	}
	host(model.Step, 0, 0, 1001, 0)
	host(model.Op, 1, 10, 90, 0)
	host(model.API, 2, 20, 30, 1)
	gpu(40, 140, 1)
	host(model.Op, 1, 500, 590, 0)
	host(model.API, 2, 520, 530, 2)
	gpu(600, 700, 2) // starved from 140 to 520, queued from 520 to 600
	gpu(800, 900, 0) // unknown from 700 to 800
	host(model.Step, 4, 1001, 2000, 0)
	host(model.API, 2, 1020, 1030, 3)
	gpu(1100, 1903, 3)
	tr.Events = len(tr.Host) + len(tr.GPU)
	tr.Finish()
	return tr
}

func analysed(t *testing.T, traces ...*model.Trace) (*analyze.Analysis, []*analyze.Index) {
	t.Helper()
	var xs []*analyze.Index
	for _, tr := range traces {
		x, err := analyze.NewIndex(t.Context(), tr)
		if err != nil {
			t.Fatal(err)
		}
		xs = append(xs, x)
	}
	a, err := analyze.SummariseIndexes(t.Context(), xs, analyze.Options{})
	if err != nil {
		t.Fatal(err)
	}
	start := xs[0].Span.Start
	a.Findings = []gpuprof.Finding{
		{Rule: "hidden-sync", Severity: gpuprof.High, ClaimNS: 380, Title: "a \"sync\" <hides>", PyTorch: "non_blocking=True", Command: "gpuprof tune", Caveats: []string{"up to"},
			Evidence: map[string]any{"copies": 2}, Sites: []gpuprof.Site{{Where: "train.py:7", Count: 2, NS: 380}}},
		{Rule: "no-tf32", Severity: gpuprof.Note, Title: "nothing to draw"},
	}
	a.Claimed = [][]model.Span{{{Start: start + 300, End: start + 520}, {Start: start + 140, End: start + 300}, {Start: start + 200, End: start + 310}}, nil}
	return a, xs
}

func renderAnalysis(t *testing.T, a *analyze.Analysis, xs []*analyze.Index) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteAnalysis(&b, a, xs); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// epoch is a time as profilers write it, whose nanoseconds a float64 loses.
const epoch = 1_700_000_000_123_456_789

func TestAnalysisGolden(t *testing.T) {
	a, xs := analysed(t, recorded(epoch))
	b := renderAnalysis(t, a, xs)
	check(t, b)
	golden(t, "analysis.json", b)
}

// TestAnalysisAccount: the device's row has every nanosecond of its window
// once, and says what ended each gap.
func TestAnalysisAccount(t *testing.T) {
	a, xs := analysed(t, recorded(epoch))
	w := check(t, renderAnalysis(t, a, xs))
	sum := map[string]int64{}
	at := int64(-1)
	for _, e := range w.Events {
		if e.Ph != "X" || *e.Tid != tidDevices {
			continue
		}
		if at >= 0 && e.start != at {
			t.Errorf("%s begins at %d, what was before it ended at %d", e.Name, e.start, at)
		}
		at = e.end
		sum[e.Name] += e.end - e.start
		if e.Name == "starved" && e.start == 140 {
			for k, v := range map[string]string{"after": "gemm", "until": "gemm", "in": "aten::mm", "launched by": "cudaLaunchKernel"} {
				if e.Args[k] != v {
					t.Errorf("the gap's %q is %v, want %q", k, e.Args[k], v)
				}
			}
		}
	}
	d := a.Devices[0]
	for name, want := range map[string]int64{"busy": d.BusyNS, "starved": d.StarvedNS, "queued": d.QueuedNS, "unknown": d.UnknownNS} {
		if sum[name] != want || want == 0 {
			t.Errorf("%s: %d ns drawn, %d accounted", name, sum[name], want)
		}
	}
	if total := sum["busy"] + sum["starved"] + sum["queued"] + sum["unknown"]; total != d.SpanNS {
		t.Errorf("%d of %d ns are drawn", total, d.SpanNS)
	}
}

// TestAnalysisRanks: recordings that overlap share a clock, others do not.
func TestAnalysisRanks(t *testing.T) {
	starts := func(traces ...*model.Trace) map[int]int64 {
		a, xs := analysed(t, traces...)
		out := map[int]int64{}
		for _, e := range check(t, renderAnalysis(t, a, xs)).Events {
			if e.Ph == "X" && *e.Tid == tidAnalysisSteps && e.Name == "ProfilerStep#1" {
				out[e.Pid] = e.start
			}
		}
		return out
	}
	if got := starts(recorded(epoch+100), recorded(epoch)); got[1] != 100 || got[2] != 0 {
		t.Errorf("ranks begin at %v", got)
	}
	if got := starts(recorded(epoch), recorded(5)); got[1] != 0 || got[2] != 0 {
		t.Errorf("unrelated traces begin at %v", got)
	}
}

// TestAnalysisParts: without indices, with no steps, with nothing.
func TestAnalysisParts(t *testing.T) {
	a, _ := analysed(t, recorded(epoch))
	w := check(t, renderAnalysis(t, a, nil))
	names := ""
	for _, e := range w.Events {
		if e.Ph == "X" {
			names += e.Name + " "
			if e.start > 2000 {
				t.Errorf("%s is at %d ns", e.Name, e.start)
			}
		}
	}
	if want := "ProfilerStep#1 ProfilerStep#2 hidden-sync "; names != want {
		t.Errorf("slices %q, want %q", names, want)
	}
	check(t, renderAnalysis(t, &analyze.Analysis{Inputs: []analyze.Input{{Path: "empty", Rank: -1}}}, nil))
	if err := WriteAnalysis(io.Discard, nil, nil); err == nil {
		t.Error("no analysis is no error")
	}
	full := errors.New("disk full")
	if err := WriteAnalysis(failing{full}, a, nil); !errors.Is(err, full) {
		t.Errorf("error %v", err)
	}
}

// TestAnalysisMany: a million gaps are cut to the longest.
func TestAnalysisMany(t *testing.T) {
	a, _ := analysed(t, recorded(epoch))
	a.Findings = a.Findings[:1]
	a.Claimed = make([][]model.Span, 1)
	for i := range int64(maxSlices + 5000) {
		a.Claimed[0] = append(a.Claimed[0], model.Span{Start: epoch + 10*i, End: epoch + 10*i + 1 + i%2})
	}
	b := renderAnalysis(t, a, nil)
	// Counted rather than decoded: a hundred thousand events are dear to decode.
	n, told := bytes.Count(b, []byte(`"ph":"X","name":"hidden-sync"`)), bytes.Contains(b, []byte("5000 shorter ones left out"))
	if n != maxSlices || !told || len(b) > 64<<20 {
		t.Errorf("%d slices, told %v, %d bytes", n, told, len(b))
	}
}
