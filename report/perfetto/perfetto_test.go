package perfetto

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/read/kineto"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s differs (-want +got); run the test with -update if it is meant:\n%s", name, d)
	}
}

func render(t *testing.T, runs ...*gpuprof.Run) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, runs); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// small is a run whose steps keep apart on the host, as one that loads its
// own data has them. Times are odd so that rounding shows.
func small() *gpuprof.Run {
	r := fixture.One()
	r.Order = nil // samples have tests of their own
	r.ExampleStep = []gpuprof.Span{
		{Stage: "mlp", Lane: "host", Step: -1, StartS: -3.1e-6, DurS: 1.5e-6},
		{Stage: "h2d", Lane: "host", StartS: -1.001e-6, DurS: 0.4e-6},
		{Stage: "mlp", Lane: "host", StartS: 0.3e-6, DurS: 2.1e-6},
		{Stage: "sync", Lane: "host", StartS: 3e-6, DurS: 9e-6},
		{Stage: "mlp", Lane: "host", Step: 1, StartS: 12.345e-6, DurS: 1e-6},
		{Stage: "mlp", Lane: "stream main", Step: -1, StartS: -2e-6, DurS: 1.9e-6},
		{Stage: "h2d", Lane: "stream copy", StartS: -0.5e-6, DurS: 1.2e-6},
		{Stage: "mlp", Lane: "stream main", StartS: 1.2345678e-6, DurS: 9.8765432e-6},
		{Stage: "mlp", Kernel: "gemm", Lane: "stream main", StartS: 1.1e-6, DurS: 4e-6},
		{Stage: "mlp", Kernel: "gate", Lane: "stream main", StartS: 5.2e-6, DurS: 1e-6},
		{Stage: "mlp", Kernel: "early", Lane: "stream main", StartS: 0.1e-6, DurS: 0.1e-6},
		{Stage: "bad", Lane: "host", StartS: math.NaN(), DurS: 1},
		{Stage: "bad", Lane: "host", StartS: 0, DurS: -1},
	}
	r.Telemetry = map[string]gpuprof.Track{
		"power": {Unit: "W", TimeS: []float64{0, 2e-6, 1e-6}, Value: []gpuprof.Number{71.5, 73, gpuprof.Number(math.NaN())}},
		"load":  {Unit: "1", TimeS: []float64{0.5e-6}, Value: []gpuprof.Number{0.25}},
	}
	return r
}

func TestGolden(t *testing.T) {
	b := render(t, small())
	check(t, b)
	golden(t, "run.json", b)
}

// TestValid holds every kind of run to the rules of the format.
func TestValid(t *testing.T) {
	cuda := fixture.One()
	cuda.Device.Kind, cuda.Device.Arch, cuda.Device.Name = "cuda", "sm_103", "Made-up GPU"
	empty := &gpuprof.Run{}
	for name, runs := range map[string][]*gpuprof.Run{
		"one": {fixture.One()}, "three": {fixture.Three()}, "partial": {fixture.Partial()}, "invalid": {fixture.Invalid()},
		"sweep": fixture.Sweep(), "hostile": {fixture.Hostile()}, "cuda": {cuda}, "empty": {empty}, "with nil": {nil, small(), nil}, "mixed": {fixture.Invalid(), small(), cuda, empty},
	} {
		t.Run(name, func(t *testing.T) {
			b := render(t, runs...)
			if name == "hostile" && bytes.Contains(b, []byte("<script")) {
				t.Error("markup is written as it came")
			}
			w := check(t, b)
			if n := len(slices.DeleteFunc(slices.Clone(runs), func(r *gpuprof.Run) bool { return r == nil })); len(w.Devices) != n {
				t.Errorf("%d devices of %d runs", len(w.Devices), n)
			}
		})
	}
	if err := Write(io.Discard, []*gpuprof.Run{nil}); !errors.Is(err, gpuprof.ErrInput) {
		t.Errorf("nothing to write gives %v", err)
	}
}

// TestWriteError returns the writer's error.
func TestWriteError(t *testing.T) {
	full := errors.New("disk full")
	if err := Write(failing{full}, fixture.Sweep()); !errors.Is(err, full) {
		t.Errorf("error %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestContent looks for what must be drawn.
func TestContent(t *testing.T) {
	w := check(t, render(t, small()))
	count := map[string]int{}
	names := map[string]bool{}
	for _, e := range w.Events {
		count[e.Ph+" "+e.Cat]++
		if s, ok := e.Args["name"].(string); ok {
			names[s] = true
		}
	}
	want := map[string]int{"M ": count["M "], "X cpu_op": 5, "X user_annotation": 1, "X cuda_runtime": 3, "X kernel": 2, "X gpu_memcpy": 1, "X gpu_user_annotation": 3,
		"s ac2g": 3, "f ac2g": 3, "s marked pass": 2, "f marked pass": 2, "C ": 3}
	if d := cmp.Diff(want, count); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	for _, n := range []string{"e3nn small: host", "e3nn small: CPU streams (goroutines)", "host thread", "stream copy (goroutine)", "stream main (goroutine)", "stream main (goroutine): kernels, marked pass"} {
		if !names[n] {
			t.Errorf("no row is called %q; there are %v", n, names)
		}
	}
}

// TestCUDA: names and capability are a GPU's.
func TestCUDA(t *testing.T) {
	r := small()
	r.Device.Kind, r.Device.Arch, r.Device.Name = "cuda", "sm_90", "Made-up GPU"
	r.Stage("h2d").Counters = map[string]float64{"bytes_h2d": 100, "bytes_h2d_pageable": 100}
	b := render(t, r)
	w := check(t, b)
	if d := w.Devices[0]; *d.ComputeMajor != 9 || *d.ComputeMinor != 0 || d.Name != "Made-up GPU [cuda]" {
		t.Errorf("device %+v", d)
	}
	for _, s := range []string{`"cudaLaunchKernel"`, `"Memcpy HtoD (Pageable -\u003e Device)"`, `GPU streams`, `"bytes":100`} {
		if !bytes.Contains(b, []byte(s)) {
			t.Errorf("the file lacks %s", s)
		}
	}
	if bytes.Contains(b, []byte("goroutine")) {
		t.Error("a GPU's streams are no goroutines")
	}
}

// TestRoundTrip reads the files with the reader of PyTorch's traces and
// compares what it finds with the runs: every stage on the host and on its
// stream to the nanosecond, its launch, the steps, the device.
func TestRoundTrip(t *testing.T) {
	for name, runs := range map[string][]*gpuprof.Run{"small": {small()}, "fixture": {fixture.One()}, "sweep": fixture.Sweep()} {
		t.Run(name, func(t *testing.T) {
			b := render(t, runs...)
			tr, err := kineto.Read(t.Context(), bytes.NewReader(b), "x.perfetto.json", 0)
			if err != nil {
				t.Fatal(err)
			}
			if tr.Truncated || len(tr.Devices) != len(runs) || !strings.HasPrefix(tr.Devices[0].Name, fixture.DeviceName) {
				t.Errorf("truncated %v, devices %+v, warnings %v", tr.Truncated, tr.Devices, tr.Warnings)
			}
			var wantHost, wantGPU, gotHost, gotGPU []string
			launched := 0
			for i, r := range runs {
				base, first := runStart(t, tr, i), 0.0
				for _, s := range r.ExampleStep {
					if s.StartS < first && s.DurS >= 0 {
						first = s.StartS
					}
				}
				shift := base - int64(math.Round(first*1e9))
				for _, s := range r.ExampleStep {
					if s.Kernel != "" || math.IsNaN(s.StartS) || s.DurS < 0 {
						continue
					}
					start, dur := shift+int64(math.Round(s.StartS*1e9)), int64(math.Round(s.DurS*1e9))
					if s.Lane == "host" {
						wantHost = append(wantHost, fmt.Sprint(s.Stage, start, dur))
					} else {
						wantGPU = append(wantGPU, fmt.Sprint(i, start, dur))
					}
				}
			}
			for i := range tr.Host {
				if h := &tr.Host[i]; h.Kind == model.Op {
					gotHost = append(gotHost, fmt.Sprint(tr.Name(h.Name), h.Start, h.Dur()))
				}
			}
			for i := range tr.GPU {
				g := &tr.GPU[i]
				gotGPU = append(gotGPU, fmt.Sprint(tr.Devices[g.Device].ID, g.Start, g.Dur()))
				if g.Launch >= 0 {
					launched++
				}
			}
			for _, v := range [][]string{wantHost, wantGPU, gotHost, gotGPU} {
				slices.Sort(v)
			}
			if d := cmp.Diff(wantHost, gotHost); d != "" {
				t.Errorf("host (-want +got):\n%s", d)
			}
			if d := cmp.Diff(wantGPU, gotGPU); d != "" {
				t.Errorf("device (-want +got):\n%s", d)
			}
			if launched == 0 {
				t.Error("no operation has a launch")
			}
			x, err := analyze.NewIndex(t.Context(), tr)
			if err != nil {
				t.Fatal(err)
			}
			if x.StepSource != "ProfilerStep" || len(x.Steps) != 1 || x.Steps[0].Host.Len() != stepLength(runs[0]) {
				t.Errorf("steps from %q: %+v", x.StepSource, x.Steps)
			}
		})
	}
}

// runStart is when the first span of a run is in the file.
func runStart(t *testing.T, tr *model.Trace, run int) int64 {
	t.Helper()
	start := int64(math.MaxInt64)
	for i := range tr.Host {
		if h := &tr.Host[i]; tr.Lanes[h.Lane].Process == int32(hostPid(run)) {
			start = min(start, h.Start)
		}
	}
	for i := range tr.GPU {
		if g := &tr.GPU[i]; tr.Devices[g.Device].ID == run {
			start = min(start, g.Start)
		}
	}
	return start
}

// stepLength is from the step's begin to the end of its last span, ns.
func stepLength(r *gpuprof.Run) int64 {
	end := int64(0)
	for _, s := range r.ExampleStep {
		if s.Step == 0 && s.Kernel == "" && s.DurS >= 0 {
			end = max(end, int64(math.Round(s.StartS*1e9))+int64(math.Round(s.DurS*1e9)))
		}
	}
	return end
}

// TestTotals: what gpuprof analyze adds up of a file is what the run holds.
func TestTotals(t *testing.T) {
	r := fixture.One()
	r.Stage("h2d").Counters["bytes_h2d"] = 2.4e6
	r.Stage("d2h").Counters["bytes_d2h"] = 1.1e6
	tr, err := kineto.Read(t.Context(), bytes.NewReader(render(t, r)), "x.perfetto.json", 0)
	if err != nil {
		t.Fatal(err)
	}
	x, err := analyze.NewIndex(t.Context(), tr)
	if err != nil {
		t.Fatal(err)
	}
	a, err := analyze.SummariseIndexes(t.Context(), []*analyze.Index{x}, analyze.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var busy []model.Span
	want, got := map[string]int64{}, map[string]int64{}
	for _, s := range r.ExampleStep {
		start, dur := int64(math.Round(s.StartS*1e9)), int64(math.Round(s.DurS*1e9))
		switch {
		case s.Kernel != "":
		case s.Lane == "host" && s.Step != 0: // in no step of the file
		case s.Lane == "host":
			want["operator "+s.Stage] += dur
		default:
			busy = append(busy, model.Span{Start: start, End: start + dur})
			if _, bytes := copyName(r, s.Stage); bytes > 0 {
				want["bytes"], want["copies"] = want["bytes"]+bytes, want["copies"]+dur
			} else {
				want["kernel "+s.Stage] += dur
			}
		}
	}
	want["busy"] = model.UnionOf(busy).Total()
	want["step"] = stepLength(r)
	for _, o := range a.Operators {
		got["operator "+o.Name] = o.HostNS
	}
	for _, k := range a.Kernels {
		if want["kernel "+k.Name] > 0 { // copies are in the list too
			got["kernel "+k.Name] = k.NS
		}
	}
	for _, c := range a.Copies {
		got["bytes"], got["copies"] = got["bytes"]+c.Bytes, got["copies"]+c.GPUNS
	}
	got["busy"], got["step"] = a.Devices[0].BusyNS, a.Steps[0].HostDurNS
	if d := cmp.Diff(want, got); d != "" || len(a.Devices) != 1 || len(a.Steps) != 1 {
		t.Errorf("%d devices, %d steps (-want +got):\n%s", len(a.Devices), len(a.Steps), d)
	}
}

// TestRunsAhead: of a host that runs far ahead the example step has its
// launches, long before it begins, with arrows to its kernels; a neighbour's
// launch has none when what it launched is not recorded.
func TestRunsAhead(t *testing.T) {
	r := small()
	r.ExampleStep = []gpuprof.Span{
		{Stage: "mlp", Lane: "host", StartS: -20e-6, DurS: 1e-6}, {Stage: "h2d", Lane: "host", StartS: -22e-6, DurS: 1e-6},
		{Stage: "mlp", Lane: "host", Step: 1, StartS: 1e-6, DurS: 1e-6}, {Stage: "mlp", Lane: "host", Step: 2, StartS: 5e-6, DurS: 1e-6},
		{Stage: "mlp", Lane: "main", Step: -1, StartS: -9e-6, DurS: 9e-6}, {Stage: "mlp", Lane: "main", StartS: 0, DurS: 9e-6},
		{Stage: "h2d", Lane: "copy", StartS: -7e-6, DurS: 1e-6},
	}
	var steps, arrows []string
	for _, e := range check(t, render(t, r)).Events {
		if strings.HasPrefix(e.Name, "ProfilerStep#") {
			steps = append(steps, fmt.Sprint(e.Name, " ", e.start, " ", e.end))
		}
		if e.Ph == "s" || e.Ph == "f" {
			arrows = append(arrows, fmt.Sprint(e.Ph, *e.ID, " ", e.start))
		}
	}
	slices.Sort(arrows)
	if want := []string{"ProfilerStep#0 22000 31000"}; !slices.Equal(steps, want) {
		t.Errorf("steps %q, want %q", steps, want)
	}
	if want := []string{"f1 15000", "f2 22000", "s1 0", "s2 2000"}; !slices.Equal(arrows, want) {
		t.Errorf("arrows %q, want %q", arrows, want)
	}
}

// TestAnySpans: whatever a file holds, what is written is valid.
func TestAnySpans(t *testing.T) {
	other := small()
	rapid.Check(t, func(t *rapid.T) {
		run := *other
		r := &run
		r.ExampleStep = nil
		seconds := rapid.OneOf(rapid.Float64Range(-2e-5, 2e-5), rapid.Float64(), rapid.Just(math.NaN()), rapid.Just(0.0))
		text := rapid.OneOf(rapid.SampledFrom([]string{"", "mlp", "h2d", "sync"}), rapid.String())
		for range rapid.IntRange(0, 30).Draw(t, "spans") {
			r.ExampleStep = append(r.ExampleStep, gpuprof.Span{Stage: text.Draw(t, "stage"), Kernel: rapid.SampledFrom([]string{"", "", "gemm"}).Draw(t, "kernel"),
				Lane: rapid.SampledFrom([]string{"host", "main", "copy", ""}).Draw(t, "lane"), Step: rapid.IntRange(-1, 1).Draw(t, "step"),
				StartS: seconds.Draw(t, "start"), DurS: seconds.Draw(t, "dur")})
		}
		r.Telemetry = map[string]gpuprof.Track{text.Draw(t, "name") + "x": {Unit: text.Draw(t, "unit"), TimeS: rapid.SliceOf(seconds).Draw(t, "at"),
			Value: []gpuprof.Number{gpuprof.Number(seconds.Draw(t, "v")), gpuprof.Number(seconds.Draw(t, "w"))}}}
		var b bytes.Buffer
		if err := Write(&b, []*gpuprof.Run{r, other}); err != nil {
			t.Fatal(err)
		}
		check(t, b.Bytes())
	})
}

type interval [2]int64

func (v interval) span() (int64, int64) { return v[0], v[1] }

// TestRows: whatever comes, what shares a row nests, and nothing gets lost.
func TestRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var in []interval
		for range rapid.IntRange(0, 40).Draw(t, "n") {
			start := rapid.Int64Range(0, 50).Draw(t, "start")
			in = append(in, interval{start, start + rapid.Int64Range(0, 20).Draw(t, "len")})
		}
		out, left := nestRows(in)
		n := 0
		for _, row := range out {
			n += len(row)
			for i, a := range row {
				for _, b := range row[i+1:] {
					if b[0] < a[0] || a[0] < b[0] && b[0] < a[1] && a[1] < b[1] {
						t.Fatalf("%v and %v share a row", a, b)
					}
				}
			}
		}
		if n != len(in) || left != 0 {
			t.Fatalf("%d of %d intervals, %d left out", n, len(in), left)
		}
	})
	var crossing []interval
	for i := range int64(200) {
		crossing = append(crossing, interval{i, i + 1000})
	}
	if out, left := nestRows(crossing); len(out) != maxRows || left != 200-maxRows {
		t.Errorf("%d rows, %d left out", len(out), left)
	}
}
