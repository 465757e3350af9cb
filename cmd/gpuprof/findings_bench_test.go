package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/perf/benchmath"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/advise"
)

var (
	recordFindings = flag.Bool("record", false, "BenchmarkFindingBounds and BenchmarkCleanRuns: write testdata/findings anew")
	findingPairs   = flag.Int("pairs", 12, "BenchmarkFindingBounds: how often a knob is turned at least; up to four times as often where the gain is not known then")
	findingLoad    = flag.Int("load", 0, "BenchmarkFindingBounds: how many other programs keep a CPU busy meanwhile")
)

// recording is a problem measured with and without its knob turned, or a clean
// run: what testdata/findings/*.json.gz hold.
type recording struct {
	Problem  string `json:"problem"`
	Recorded string `json:"recorded"` // the day; device, versions and settings are in the runs
	How      string `json:"how"`
	Load     int    `json:"load,omitempty"` // programs that kept a CPU busy each meanwhile
	// Runs are the run to be advised on and the rest of its sweep.
	Runs   []*gpuprof.Run `json:"runs"`
	Turned *gpuprof.Run   `json:"turned,omitempty"`
	// GainsS are the seconds that the work of one step took less with the knob
	// turned, a pair of neighbouring runs each; none on a simulated device.
	GainsS []float64 `json:"gains_s,omitempty"`
}

func (r *recording) file() string {
	name := strings.ReplaceAll(r.Problem, " ", "-")
	if r.Load > 0 {
		name += loadedSuffix
	}
	return filepath.Join("..", "..", "testdata", "findings", name+".json.gz")
}

// loadedSuffix ends the names of recordings that were made beside other programs.
const loadedSuffix = "-loaded"

// burn starts n programs that keep a CPU busy each, until the benchmark ends.
func burn(b *testing.B, n int) {
	b.Helper()
	for range n {
		cmd := exec.Command("sh", "-c", "while kill -0 $PPID 2>/dev/null; do :; done") // ends with this process, however that ends
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			_ = cmd.Process.Kill() // it has nothing to lose
			_ = cmd.Wait()
		})
	}
}

// gain is the median gain with its 95 % interval by order statistics: the pairs are
// replicates of their own, unlike the samples of one process, and a burst of other
// work spoils a pair and hardly the median.
func (r *recording) gain() (median, lo, hi float64) {
	s := benchmath.AssumeNothing.Summary(benchmath.NewSample(slices.Clone(r.GainsS), &benchmath.DefaultThresholds), 0.95)
	return s.Center, s.Lo, s.Hi
}

// known says that the gain's interval is no wider than 30 % of it: bounds are to lie
// within 35 %.
func (r *recording) known() bool {
	median, lo, hi := r.gain()
	return hi-lo <= 0.3*median
}

// findings returns the findings of the recorded run.
func (r *recording) findings(o advise.Options) []gpuprof.Finding {
	o.Workload = wired.workloadNamed(r.Runs[0].Workload)
	return advise.Findings(r.Runs, o)[0]
}

// Each problem's bound beside the gain that turning its knob brings, measured in
// turn: problem, turned, turned, problem. It reports both, the interval of the
// gain and the ratio; whether a ratio is good enough is for the test of the
// recordings to say. Run it on a quiet machine:
//
//	go test ./cmd/gpuprof -run '^$' -bench 'FindingBounds|CleanRuns' -benchtime 1x -record
//
// writes the recordings anew; without -record it only prints. With -load N as many
// programs keep a CPU busy meanwhile, and the recordings are ones of their own. On a machine that
// does other work the interval of a small gain holds zero: such a recording says
// what fired, and nothing about the bound.
func BenchmarkFindingBounds(b *testing.B) {
	burn(b, *findingLoad)
	for _, p := range problems() {
		if p.sim != "" && *findingLoad > 0 { // its times say nothing
			continue
		}
		b.Run(strings.ReplaceAll(p.name, " ", "-"), func(b *testing.B) {
			for range b.N {
				r := p.record(b)
				bound := math.NaN()
				for _, f := range r.findings(advise.Options{}) {
					if f.Rule == p.rule {
						bound = f.ClaimS
					}
				}
				b.ReportMetric(r.Runs[0].Step.Median*1e6, "step-us")
				b.ReportMetric(bound*1e6, "bound-us")
				if p.sim == "" {
					gain, lo, hi := r.gain()
					b.ReportMetric(gain*1e6, "gain-us")
					b.ReportMetric(lo*1e6, "gain-lo-us")
					b.ReportMetric(hi*1e6, "gain-hi-us")
					b.ReportMetric(bound/gain, "bound/gain")
				}
				if *recordFindings {
					r.write(b)
				}
			}
		})
	}
}

// BenchmarkCleanRuns reports what is said about runs with nothing wrong. A run
// that finds itself disturbed (rule noise) is not a clean one and is repeated;
// where every one is, the last is kept, and says so.
func BenchmarkCleanRuns(b *testing.B) {
	for _, p := range clean() {
		b.Run(strings.ReplaceAll(p.name, " ", "-"), func(b *testing.B) {
			for range b.N {
				r, cache := p.newRecording(), b.TempDir()
				r.Problem = "clean " + p.name
				var found []gpuprof.Finding
				for range cleanTries {
					r.Runs = []*gpuprof.Run{p.measure(b, "", cache)}
					if found = r.findings(advise.Options{}); !slices.ContainsFunc(found, isNoise) {
						break
					}
				}
				b.ReportMetric(float64(len(found)), "findings")
				for _, f := range found {
					b.Logf("%+v", f)
				}
				if *recordFindings {
					r.write(b)
				}
			}
		})
	}
}

const cleanTries = 24

func isNoise(f gpuprof.Finding) bool { return f.Rule == "noise" }

func (p problem) newRecording() *recording {
	how := "go test ./cmd/gpuprof -bench 'FindingBounds|CleanRuns' -record, on the host device"
	if p.sim != "" {
		how = "the same on the simulated driver with " + p.sim + "; its times say nothing about any device"
	}
	return &recording{Problem: p.name, Recorded: time.Now().UTC().Format(time.DateOnly), How: how}
}

// record measures a problem and its turned knob in turn.
func (p problem) record(b *testing.B) *recording {
	b.Helper()
	out, cache := p.newRecording(), b.TempDir()
	out.Load = *findingLoad
	var before, after []*gpuprof.Run
	n := *findingPairs
	if p.sim != "" {
		n = 1
	}
	for k, again := 0, n; k < n || p.sim == "" && k < 4*n && !out.known(); k++ {
		var pair [2]*gpuprof.Run
		for _, side := range [][]int{{0, 1}, {1, 0}}[k%2] {
			pair[side] = p.measure(b, []string{"", p.to}[side], cache)
		}
		// Which pairs count is decided by the CPUs that there were, not by what they show.
		if alone := advise.HadCPUs(pair[0]) && advise.HadCPUs(pair[1]); !alone && out.Load == 0 && again > 0 {
			k, again = k-1, again-1
			continue
		}
		before, after = append(before, pair[0]), append(after, pair[1])
		if p.sim == "" {
			out.GainsS = append(out.GainsS, gainOf(pair[0], pair[1]))
		}
	}
	out.Runs, out.Turned = []*gpuprof.Run{typical(before)}, typical(after)
	for _, v := range p.sweep {
		if v == p.to {
			out.Runs = append(out.Runs, out.Turned)
			continue
		}
		out.Runs = append(out.Runs, p.measure(b, v, cache))
	}
	return out
}

// gainOf is what after takes less for the work of one step of before, in
// seconds: by the rates of whole blocks or by the median steps, whichever says
// less, because a burst of other work moves the one and steps that alternate
// the other.
func gainOf(before, after *gpuprof.Run) float64 {
	blocks := before.Step.Median * (1 - before.Throughput.Series.Median/after.Throughput.Series.Median)
	work := before.Knobs.Float("batch") / after.Knobs.Float("batch")
	if math.IsNaN(work) { // no such knob
		work = 1
	}
	return min(blocks, before.Step.Median-work*after.Step.Median)
}

// typical is the run with the median step, which bounds are parts of.
func typical(runs []*gpuprof.Run) *gpuprof.Run {
	s := slices.SortedFunc(slices.Values(runs), func(a, b *gpuprof.Run) int { return cmp.Compare(a.Step.Median, b.Step.Median) })
	return s[len(s)/2]
}

func (r *recording) write(b *testing.B) {
	b.Helper()
	lean := *r
	lean.Runs = nil
	for _, run := range r.Runs {
		lean.Runs = append(lean.Runs, leave(run))
	}
	if r.Turned != nil {
		lean.Turned = leave(r.Turned)
	}
	if err := os.MkdirAll(filepath.Dir(r.file()), 0o755); err != nil {
		b.Fatal(err)
	}
	f, err := os.Create(r.file())
	if err != nil {
		b.Fatal(err)
	}
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		b.Fatal(err)
	}
	if err := json.NewEncoder(z).Encode(&lean); err != nil {
		b.Fatal(err)
	}
	if err := z.Close(); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
}

// leave is a run with what the rules read: without spans, telemetry and the raw
// samples of times that only count by their median. Samples are rounded to 0.1 ns.
func leave(r *gpuprof.Run) *gpuprof.Run {
	out := *r
	out.ExampleStep, out.Telemetry, out.BareStep, out.Findings = nil, nil, nil, nil
	for _, name := range []string{"process_cpu_time", "cpu_idle"} { // what CPU there was: the last value
		if t, ok := r.Telemetry[name]; ok && len(t.TimeS) > 0 && len(t.TimeS) == len(t.Value) {
			if out.Telemetry == nil {
				out.Telemetry = map[string]gpuprof.Track{}
			}
			k := len(t.TimeS) - 1
			out.Telemetry[name] = gpuprof.Track{Unit: t.Unit, TimeS: t.TimeS[k:], Value: t.Value[k:]}
		}
	}
	summary := func(s *gpuprof.Series, keep bool) *gpuprof.Series {
		if s == nil {
			return nil
		}
		c := *s
		c.Runs = nil
		for _, run := range s.Runs {
			if !keep {
				break
			}
			x := make([]float64, len(run))
			for i, v := range run {
				x[i] = math.Round(v*1e10) / 1e10
			}
			c.Runs = append(c.Runs, x)
		}
		return &c
	}
	out.Step, out.ProbedStep = summary(r.Step, true), summary(r.ProbedStep, true)
	out.Stages = slices.Clone(r.Stages)
	for i := range out.Stages {
		st := &out.Stages[i]
		st.Device, st.Host, st.Exposed = summary(st.Device, false), summary(st.Host, false), summary(st.Exposed, true)
	}
	return &out
}

// readRecording is nil where nothing is recorded.
func readRecording(t testing.TB, name string) *recording {
	t.Helper()
	return readRecordingOf(t, &recording{Problem: name})
}

// readLoaded is the recording of the same problem beside other programs.
func readLoaded(t testing.TB, name string) *recording {
	t.Helper()
	return readRecordingOf(t, &recording{Problem: name, Load: 1})
}

func readRecordingOf(t testing.TB, r *recording) *recording {
	t.Helper()
	f, err := os.Open(r.file())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w", r.file(), err))
	}
	if err := json.NewDecoder(z).Decode(r); err != nil {
		t.Fatal(fmt.Errorf("%s: %w", r.file(), err))
	}
	return r
}
