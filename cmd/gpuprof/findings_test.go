package main

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/advise"
	"github.com/gpuprof/gpuprof/internal/host"
	"github.com/gpuprof/gpuprof/internal/measure"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/workloads/collate"
	"github.com/gpuprof/gpuprof/workloads/e3nn"
	"github.com/gpuprof/gpuprof/workloads/gruflow"
)

// problem is a setting of a real workload that wastes time on the host device,
// and the finding that must say so. The knob is turned from its value in set.
type problem struct {
	workload    gpuprof.Workload
	preset      string
	set         string // knob=value, separated by spaces
	rule, stage string
	knob, to    string
	samples     int
}

// problems are those the host device can have at a size above its noise. What
// only a GPU has (pageable copies, copies in line, launches, precision) is
// planted in made-up runs beside the rules.
func problems() map[string]problem {
	const tiny = "flows=8 hidden=8 depth=4 " // waits as long as it computes
	return map[string]problem{
		"item reads":        {gruflow.New(), "small", tiny + "item_reads=256", "item-reads", "sync", "item_reads", "packed", 400},
		"sync every step":   {gruflow.New(), "small", tiny + "sync=step", "sync", "sync", "sync", "never", 1000},
		"pinned anew":       {collate.New(), "small", "pinned=batch", "pin-every-batch", "stage", "pinned", "on", 40},
		"naive collation":   {collate.New(), "naive", "probes=500", "collate-bound", "collate", "impl", "cached", 12},
		"nobody loads":      {collate.New(), "small", "workers=0 probes=32", "starved-device", "starved", "workers", "auto", 40},
		"unfused product":   {e3nn.New(), "small", "impl=unfused batch=64", "far-from-floor", "tensor_product", "impl", "csr", 20},
		"an operation each": {gruflow.New(), "small", "impl=plain flows=512", "far-from-floor", "gru", "impl", "fused", 100},
		"memory filled":     {gruflow.New(), "small", "impl=plain flows=512 fill=on", "deterministic-fill", "gru", "fill", "off", 100},
	}
}

func (p problem) knobs(t testing.TB, turned bool) gpuprof.Settings {
	t.Helper()
	set := gpuprof.Settings{}
	for _, kv := range strings.Fields(p.set) {
		k, v, _ := strings.Cut(kv, "=")
		set[k] = v
	}
	if turned {
		set[p.knob] = p.to
	}
	knobs, err := gpuprof.Resolve(p.workload, p.preset, set)
	if err != nil {
		t.Fatal(err)
	}
	return knobs
}

func (p problem) base(t testing.TB) gpuprof.Settings {
	t.Helper()
	base, err := gpuprof.Resolve(p.workload, p.preset, nil)
	if err != nil {
		t.Fatal(err)
	}
	return base
}

func (p problem) measure(t testing.TB, knobs gpuprof.Settings) *gpuprof.Run {
	t.Helper()
	d, err := host.Open(host.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	r, err := measure.Run(context.Background(), d, measure.Plan{
		Workload: p.workload, Preset: p.preset, Knobs: knobs, Seed: 1, Mode: gpuprof.Steady, NoEnergy: true,
		MaxTime: 20 * time.Second, Warmup: measure.Warmup{Steps: 3}, Samples: p.samples, CacheDir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// claims are the findings that promise time.
func claims(r *gpuprof.Run, o advise.Options) []gpuprof.Finding {
	return slices.DeleteFunc(advise.Findings([]*gpuprof.Run{r}, o)[0], func(f gpuprof.Finding) bool { return f.ClaimS == 0 })
}

// find is the finding of the run that p is about, of several runs: another
// program that takes the CPUs for one of them does not hide what was planted.
func (p problem) find(t testing.TB, runs int) (gpuprof.Finding, bool) {
	t.Helper()
	for range runs {
		for _, f := range claims(p.measure(t, p.knobs(t, false)), advise.Options{Base: p.base(t)}) {
			if f.Rule == p.rule {
				return f, true
			}
		}
	}
	return gpuprof.Finding{}, false
}

// Real runs of real workloads, each with one thing wrong. That the right rule
// fires on the right stage does not depend on how fast the machine is; how good
// the bound is, is for the benchmark below to say.
func TestPlantedProblemsAreFound(t *testing.T) {
	for name, p := range problems() {
		t.Run(name, func(t *testing.T) {
			f, ok := p.find(t, 3)
			if !ok {
				t.Fatalf("no finding of %s in three runs with %s", p.rule, p.set)
			}
			if f.Stage != p.stage || f.Knob != p.knob || f.To != p.to {
				t.Errorf("found %+v", f)
			}
			// The command must parse and set what it says.
			if from := p.knobs(t, false)[p.knob]; !strings.HasPrefix(f.Command, "gpuprof run "+p.workload.Name()+" --preset "+p.preset) ||
				!strings.HasSuffix(f.Command, " --set "+p.knob+"="+from+","+p.to) {
				t.Errorf("command %q", f.Command)
			}
		})
	}
}

// The three workloads as they come: nothing to gain, nothing said. Findings that
// claim nothing (a busy machine) are about the machine. A rule that speaks up in
// one run of three had a disturbed run to speak about.
func TestDefaultRunsAreSilent(t *testing.T) {
	for _, w := range []gpuprof.Workload{e3nn.New(), gruflow.New(), collate.New()} {
		t.Run(w.Name(), func(t *testing.T) {
			p := problem{workload: w, preset: "small", samples: 40}
			var found []gpuprof.Finding
			for range 3 {
				r := p.measure(t, p.base(t))
				if found = claims(r, advise.Options{}); len(found) == 0 {
					return
				}
			}
			t.Errorf("%+v", found)
		})
	}
}

// Each problem's bound beside the gain that turning its knob brings, measured in
// turn: problem, turned, turned, problem. It reports both and their ratio, and
// fails where a bound is off by more than half although the gain is known: five
// times what pairs differ by. Run it on a quiet machine:
//
//	go test ./cmd/gpuprof -run '^$' -bench FindingBounds -benchtime 1x
func BenchmarkFindingBounds(b *testing.B) {
	for name, p := range problems() {
		b.Run(strings.ReplaceAll(name, " ", "_"), func(b *testing.B) {
			var gains, bounds []float64
			for range b.N {
				for range 3 {
					var took [2][]float64
					var work float64
					for _, turned := range []bool{false, true, true, false} {
						r := p.measure(b, p.knobs(b, turned))
						side := 0
						if turned {
							side = 1
						}
						// By whole blocks: steps that run ahead may alternate.
						took[side] = append(took[side], 1/r.Throughput.Series.Median)
						if !turned {
							work = r.Step.Median * r.Throughput.Series.Median // of a step
						}
						if turned {
							continue
						}
						for _, f := range claims(r, advise.Options{}) {
							if f.Rule == p.rule {
								bounds = append(bounds, f.ClaimS)
							}
						}
					}
					gains = append(gains, work*(took[0][0]-took[1][0]), work*(took[0][1]-took[1][1]))
				}
			}
			gain, bound := stats.Median(gains), stats.Median(bounds)
			var off []float64
			for _, g := range gains {
				off = append(off, math.Abs(g-gain))
			}
			// 1.4826 x the median deviation is the standard deviation of normal noise.
			noise := 1.4826 * stats.Median(off)
			b.ReportMetric(gain*1e6, "gain-us")
			b.ReportMetric(bound*1e6, "bound-us")
			b.ReportMetric(noise*1e6, "noise-us")
			b.ReportMetric(bound/gain, "bound/gain")
			if ratio := bound / gain; gain > 5*noise && (ratio > 1.5 || ratio < 1/1.5 || math.IsNaN(ratio)) {
				b.Errorf("the bound is %.1f us and the gain %.1f +- %.1f us", bound*1e6, gain*1e6, noise*1e6)
			}
		})
	}
}
