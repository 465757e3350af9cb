package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/bucket"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/internal/launch"
)

func by() gpuprof.Tool { return gpuprof.Tool{Name: "gpuprof", Version: "v1"} }

// folder is a bucket whose writes do not wait for the disk.
func folder(t testing.TB) *bucket.Folder {
	return &bucket.Folder{Dir: t.TempDir(), Words: bucket.Words{What: "folder of the job"}, Flush: func(*os.File) error { return nil }}
}

// healthOf is the report of a node with GPUs of one rate of copies each.
func healthOf(rank int, rates ...float64) *health.Report {
	r := &health.Report{Head: document.NewHead(document.Health, by()), Verdict: health.Unknown, Off: []health.Off{}, Notes: []string{}}
	for i, v := range rates {
		r.Devices = append(r.Devices, health.Card{Device: fmt.Sprint("cuda:", i), Name: "H200", Sources: sound(), UUID: fmt.Sprintf("GPU-%d-%d", rank, i),
			Metrics: []health.Metric{{Name: "copy", Unit: "B/s", Value: gpuprof.Number(v)}, {Name: "launch", Unit: "s", Value: 5e-6}}})
	}
	return r
}

// sound is a source that decides and reports no fault.
func sound() []health.Source {
	return []health.Source{{Name: health.SourceECC, Answer: health.NoFault, Decides: true}}
}

// runOf is the run of a rank whose step takes so long.
func runOf(seconds float64, edit func(*gpuprof.Run)) *gpuprof.Run {
	samples := slices.Repeat([]float64{seconds, seconds * 1.001, seconds * 0.999}, 3)
	r := &gpuprof.Run{Head: document.NewHead(document.Run, by()), Status: gpuprof.Complete, Workload: "e3nn", Preset: "small", Mode: gpuprof.Steady, Knobs: gpuprof.Settings{"impl": "csr"},
		Device: gpuprof.Env{Kind: "host", Name: "CPU"}, Step: &gpuprof.Series{Unit: "s", Runs: [][]float64{samples}}}
	r.Tool = by()
	if edit != nil {
		edit(r)
	}
	return r
}

func leave(t testing.TB, b bucket.Bucket, p launch.Place, of gpuprof.DocumentKind, payload any) string {
	t.Helper()
	text, err := json.Marshal(payload)
	if run, is := payload.(*gpuprof.Run); is {
		var out bytes.Buffer
		err = document.EncodeRuns(&out, run)
		text = out.Bytes()
	}
	if err != nil {
		t.Fatal(err)
	}
	if p.Node == "" {
		p.Node = "n" + fmt.Sprint(p.Rank/2)
	}
	name, err := New(p, of, time.Unix(1000, 0), by(), text).Write(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func merged(t testing.TB, b bucket.Bucket, o Options) *Report {
	t.Helper()
	job, err := Gather(t.Context(), b, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Merge(job, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func place(rank, world int) launch.Place {
	return launch.Place{Launcher: "srun", Rank: rank, World: world, Local: rank % 2}
}

// TestSlowRank: of 8 ranks the slow one is named with its machine's difference, and 8
// equal ones are even.
func TestSlowRank(t *testing.T) {
	b := folder(t)
	for rank := range 8 {
		leave(t, b, place(rank, 8), document.Run, runOf(0.01*(1+0.001*float64(rank)), nil))
	}
	if r := merged(t, b, Options{}); r.Verdict != Even || r.ExitCode != 0 || len(r.Metrics) == 0 || r.World != 8 || len(r.Nodes) != 4 {
		t.Errorf("%+v", r)
	}
	slow := place(5, 8)
	slow.Attempt = 1
	leave(t, b, slow, document.Run, runOf(0.013, func(r *gpuprof.Run) { r.Device.DeviceInfo = map[string]string{"power_limit_w": "400"} }))
	r := merged(t, b, Options{})
	if r.Verdict != Uneven || r.ExitCode != 1 || len(r.Off) == 0 || r.Off[0].Rank != 5 || !strings.Contains(r.Off[0].Cause, "power_limit_w is 400") {
		t.Fatalf("%+v", r)
	}
	if w := float64(r.Off[0].Worse); math.Abs(w-0.3) > 0.01 {
		t.Errorf("worse by %g, want 0.3", w)
	}
	if r.Metrics[0].Slowest[0].Rank != 5 {
		t.Errorf("%+v", r.Metrics[0])
	}
}

// TestBrokenObjects: what is missing, torn, doubled, of another version or another
// workload is named and the rest is merged.
func TestBrokenObjects(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(t *testing.T, b *bucket.Folder)
		want string
		ok   bool // the verdict is not touched
	}{
		"missing": {func(t *testing.T, b *bucket.Folder) { remove(t, b, 3) }, "1 of 8 ranks left no object: rank 3", false},
		"torn": {func(t *testing.T, b *bucket.Folder) {
			change(t, b, 3, func(text []byte) []byte { return text[:len(text)/2] })
		}, "cut off", false},
		"torn, by its rank": {func(t *testing.T, b *bucket.Folder) {
			change(t, b, 3, func(text []byte) []byte { return text[:len(text)/2] })
		}, "1 of 8 ranks left no object that can be used: rank 3", false},
		"no object": {func(t *testing.T, b *bucket.Folder) { change(t, b, 3, func([]byte) []byte { return []byte("x") }) }, "run/000003", false},
		"another workload": {func(t *testing.T, b *bucket.Folder) {
			remove(t, b, 3)
			leave(t, b, place(3, 8), document.Run, runOf(1, func(r *gpuprof.Run) { r.Preset = "large" }))
		}, "rank 3 measured something else: preset is large, on most ranks small", false},
		"another version": {func(t *testing.T, b *bucket.Folder) {
			remove(t, b, 3)
			leave(t, b, place(3, 8), document.Run, runOf(1, func(r *gpuprof.Run) { r.Tool.Version = "v2" }))
		}, "version is v2", false},
		"failed": {func(t *testing.T, b *bucket.Folder) {
			remove(t, b, 3)
			leave(t, b, place(3, 8), document.Run, runOf(1, func(r *gpuprof.Run) { r.Status, r.Reason = gpuprof.Partial, "it was interrupted" }))
		}, "rank 3: ", false},
		"a step of 0": {func(t *testing.T, b *bucket.Folder) {
			remove(t, b, 3)
			leave(t, b, place(3, 8), document.Run, runOf(0, nil))
		}, "rank 3: its step has a sample of 0 or none", false},
		"another kind": {func(t *testing.T, b *bucket.Folder) {
			leave(t, b, place(3, 8), document.Bisect, runOf(1, nil))
		}, "does not merge", false},
		"newer": {func(t *testing.T, b *bucket.Folder) {
			o := New(place(3, 8), document.Run, time.Unix(2000, 0), by(), []byte("{}"))
			o.Version = "9.0.0"
			if _, err := o.Write(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}, "update gpuprof", false},
		"twice": {func(t *testing.T, b *bucket.Folder) {
			leave(t, b, place(3, 8), document.Run, runOf(0.0101, nil))
		}, "more than one object of one attempt was found for rank 3", true},
		"the same again": {func(t *testing.T, b *bucket.Folder) {
			leave(t, b, place(3, 8), document.Run, runOf(0.01, nil))
		}, "", true},
		"a rank beyond the world": {func(t *testing.T, b *bucket.Folder) {
			leave(t, b, place(9, 8), document.Run, runOf(0.01, nil))
		}, "no rank 9 of 8", false},
	} {
		t.Run(name, func(t *testing.T) {
			b := folder(t)
			for rank := range 8 {
				leave(t, b, place(rank, 8), document.Run, runOf(0.01, nil))
			}
			c.harm(t, b)
			r := merged(t, b, Options{})
			said := r.Reason + "\n" + strings.Join(slices.Concat(r.Problems, r.Notes), "\n")
			if !strings.Contains(said, c.want) || (r.Verdict == Even) != c.ok || r.Metrics[0].Count < 7 {
				t.Errorf("%s: %s", r.Verdict, said)
			}
		})
	}
}

func objectOf(t *testing.T, b *bucket.Folder, rank int) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(b.Dir, "run", fmt.Sprintf("%06d-*", rank)))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	return found[0]
}

func remove(t *testing.T, b *bucket.Folder, rank int) {
	t.Helper()
	if err := os.Remove(objectOf(t, b, rank)); err != nil {
		t.Fatal(err)
	}
}

func change(t *testing.T, b *bucket.Folder, rank int, edit func([]byte) []byte) {
	t.Helper()
	file := objectOf(t, b, rank)
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, edit(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestHealthOverNodes: a GPU slow beside the fleet, a whole node, a GPU in two objects,
// and fewer than 8 siblings.
func TestHealthOverNodes(t *testing.T) {
	node := func(rank int, slow ...int) []float64 {
		v := []float64{1e12, 1.001e12, 0.999e12, 1e12}
		for _, i := range slow {
			v[i] *= 0.8
		}
		for i := range v {
			v[i] *= 1 + 0.0005*float64(rank%3)
		}
		return v
	}
	fleet := func(nodes int, slow map[int][]int) *Report {
		b := folder(t)
		for rank := range nodes {
			leave(t, b, place(rank, nodes), document.Health, healthOf(rank, node(rank, slow[rank]...)...))
		}
		return merged(t, b, Options{})
	}
	if r := fleet(4, nil); r.Verdict != Even || r.GPUs != 16 {
		t.Errorf("healthy: %+v", r)
	}
	if r := fleet(4, map[int][]int{2: {1}}); r.Verdict != Uneven || len(r.Off) != 1 || r.Off[0].Rank != 2 || r.Off[0].Device != "cuda:1" || r.Off[0].Siblings != 16 {
		t.Errorf("one GPU: %+v", r.Off)
	}
	if r := fleet(8, map[int][]int{2: {0, 1, 2}}); len(r.Off) != 1 || r.Off[0].Device != "3 of 4 GPUs" {
		t.Errorf("a node: %+v", r.Off)
	}
	if r := fleet(1, map[int][]int{0: {3}}); r.Verdict != TooFew || r.ExitCode != 3 || len(r.Off) != 0 || !strings.Contains(r.Reason, "copy of cuda:3 of rank 0 is 20 % worse than the median of the 3 others") {
		t.Errorf("4 siblings: %+v", r)
	}
	if r := fleet(1, nil); r.Verdict != Even {
		t.Errorf("4 equal siblings: %+v", r)
	}
	b := folder(t)
	leave(t, b, place(0, 2), document.Health, healthOf(0, 1e12))
	leave(t, b, place(1, 2), document.Health, healthOf(0, 1e12))
	if r := merged(t, b, Options{}); r.Verdict != Broken || !strings.Contains(r.Problems[0], "measured the same GPU (GPU-0-0)") {
		t.Errorf("%+v", r)
	}
}

// TestFewOrNoisyRanks: of few ranks none is accused, and of many none whose own interval is wider
// than the difference.
func TestFewOrNoisyRanks(t *testing.T) {
	fleet := func(ranks int, slow float64, noise []float64) *Report {
		b := folder(t)
		for rank := range ranks {
			seconds := 0.01
			if rank == 2 {
				seconds *= slow
			}
			leave(t, b, place(rank, ranks), document.Run, runOf(seconds, func(r *gpuprof.Run) {
				if rank == 2 && noise != nil {
					for i := range r.Step.Runs[0] {
						r.Step.Runs[0][i] *= noise[i%len(noise)]
					}
				}
			}))
		}
		return merged(t, b, Options{})
	}
	for ranks := 2; ranks < LeastSiblings; ranks++ {
		if r := fleet(ranks, 1.4, nil); ranks > 2 && (r.Verdict != TooFew || r.ExitCode != 3 || len(r.Off) != 0) {
			t.Errorf("%d ranks, one slow: %s, %s, %+v", ranks, r.Verdict, r.Reason, r.Off)
		}
		if r := fleet(ranks, 1.02, nil); r.Verdict != Even {
			t.Errorf("%d ranks, alike: %s, %s", ranks, r.Verdict, r.Reason)
		}
	}
	if r := fleet(12, 1.4, nil); r.Verdict != Uneven || r.Off[0].Rank != 2 {
		t.Errorf("12 ranks, one slow: %s, %s", r.Verdict, r.Reason)
	}
	if r := fleet(12, 1.4, []float64{0.5, 1, 1.5}); r.Verdict != Even || !strings.Contains(strings.Join(r.Notes, "\n"), "its own interval is") || !strings.Contains(r.Reason, "no rank of 12 is shown to be slower than its siblings: ") {
		t.Errorf("12 ranks, one noisy: %s, %s, %q", r.Verdict, r.Reason, r.Notes)
	}
}

// TestWait: objects that come later are waited for, on the clock that is handed in.
func TestWait(t *testing.T) {
	b, slept := folder(t), time.Duration(0)
	leave(t, b, place(0, 2), document.Run, runOf(0.01, nil))
	job, err := Gather(t.Context(), b, time.Minute, func(_ context.Context, d time.Duration) error {
		if slept += d; slept > 5*time.Second {
			leave(t, b, place(1, 2), document.Run, runOf(0.01, nil))
		}
		return nil
	})
	if err != nil || len(job.Objects) != 2 || len(job.Missing) != 0 || slept > 6*time.Second {
		t.Errorf("%v: %d objects after %s", err, len(job.Objects), slept)
	}
	slept = 0
	leave(t, b, launch.Place{Launcher: "srun", Rank: 0, World: 3, Attempt: 1}, document.Run, runOf(0.01, nil))
	job, err = Gather(t.Context(), b, time.Minute, func(_ context.Context, d time.Duration) error { slept += d; return nil })
	if err != nil || slept != time.Minute || !slices.Equal(job.Missing, []int{2}) {
		t.Errorf("%v %s %v", err, slept, job.Missing)
	}
}

// BenchmarkMerge merges 1,024 objects.
func BenchmarkMerge(b *testing.B) {
	f := folder(b)
	for rank := range 1024 {
		leave(b, f, place(rank, 1024), document.Run, runOf(0.01*(1+0.0001*float64(rank%17)), func(r *gpuprof.Run) {
			r.Step.Runs[0] = slices.Repeat(r.Step.Runs[0], 333)
		}))
	}
	b.ReportAllocs()
	for b.Loop() {
		if r := merged(b, f, Options{}); r.Verdict != Even {
			b.Fatal(r.Reason)
		}
	}
}

// TestShortStage: a stage far below 5 % of the step is not judged, and one that grows
// beyond that is.
func TestShortStage(t *testing.T) {
	for _, c := range []struct {
		sph  float64 // seconds of the stage on rank 3; 3 us elsewhere
		want Verdict
	}{{5e-6, Even}, {2e-3, Uneven}} {
		b := folder(t)
		for rank := range 8 {
			leave(t, b, place(rank, 8), document.Run, runOf(0.01, func(r *gpuprof.Run) {
				took := 3e-6
				if rank == 3 {
					took = c.sph
				}
				samples := [][]float64{slices.Repeat([]float64{took, took * 1.01, took * 0.99}, 3)}
				r.Stages = []gpuprof.StageResult{{Name: "sph", Parent: "step", Exposed: &gpuprof.Series{Unit: "s", Runs: samples}}}
			}))
		}
		if r := merged(t, b, Options{}); r.Verdict != c.want {
			t.Errorf("sph takes %g s on one rank: %s, %+v", c.sph, r.Verdict, r.Off)
		}
	}
}

// TestFaultsOverNodes: a GPU that a node lost is off by its own account and named in full, a
// node whose GPUs could not be asked is named, and a GPU that was not checked is not passed
// over in silence.
func TestFaultsOverNodes(t *testing.T) {
	lost := health.Card{Device: "gpu1", PCI: "0000:ca:00.0", UUID: "GPU-b", Sources: []health.Source{health.FaultOf(health.SourceNVML, "NVML reports: the GPU has fallen off the bus", health.FixRestart)}}
	for name, c := range map[string]struct {
		edit    func(*health.Report)
		verdict Verdict
		reason  string
		says    string // in the notes, the problems or what is off
	}{
		"all checked": {func(*health.Report) {}, Even, "no rank of 8 is slower than its siblings", ""},
		"lost": {func(r *health.Report) { r.Devices = append(r.Devices, lost); r.Off = lost.Faults() }, Uneven, "1 of 8 ranks slower than their siblings or faulty: rank 3",
			"lost of gpu1 (PCI 0000:ca:00.0, GPU-b) of rank 3 on n1"},
		"lost, and no other": {func(r *health.Report) { r.Devices, r.Off = []health.Card{lost}, lost.Faults() }, Uneven, "1 of 8 ranks", "lost of gpu1 (PCI 0000:ca:00.0, GPU-b) of rank 3 on n1"},
		"not asked": {func(r *health.Report) {
			r.Devices = []health.Card{{Device: health.AllGPUs, Error: "starting NVML: no"}}
		}, Broken, "1 rank failed", "rank 3 on n1, GPUs: starting NVML: no"},
		"not checked": {func(r *health.Report) {
			r.Devices[0].Sources = []health.Source{{Name: health.SourceECC, Answer: health.Unanswered, Decides: true, Text: "not permitted"}}
		}, Even, "no rank of 8 is slower than its siblings; 1 of 8 GPUs were not checked for faults", "cuda:0 of rank 3 on n1 was not checked for faults: ecc_errors (not permitted)"},
		"an older gpuprof": {func(r *health.Report) { r.Devices[0].Sources = nil }, Even, "no rank of 8 is slower than its siblings", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := folder(t)
			for rank := range 8 {
				r := healthOf(rank, 1e12)
				if rank == 3 {
					c.edit(r)
				}
				leave(t, b, place(rank, 8), document.Health, r)
			}
			r := merged(t, b, Options{})
			said := slices.Concat(r.Notes, r.Problems)
			for _, o := range r.Off {
				said = append(said, fmt.Sprintf("%s of %s of rank %d on %s", o.Metric, o.Device, o.Rank, o.Node))
			}
			if r.Verdict != c.verdict || !strings.HasPrefix(r.Reason, c.reason) || strings.HasSuffix(r.Reason, "faults") != strings.HasSuffix(c.reason, "faults") || !strings.Contains(strings.Join(said, "\n"), c.says) {
				t.Errorf("%s: %s; %q", r.Verdict, r.Reason, said)
			}
		})
	}
}
