package collate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// A check that cannot fail checks nothing: break one thing at a time, in the
// batch or on its way, and see the stage that made it fail.
func TestCheckCatches(t *testing.T) {
	spoil := func(f, at int, v int32) func(*session, *slot) {
		return func(_ *session, sl *slot) { sl.intField(f)[(at+sl.wordsOf(f))%sl.wordsOf(f)] = v }
	}
	nan := int32(0x7fc00000)
	tests := []struct {
		name   string
		set    string
		spoil  func(*session, *slot)
		stages []string
	}{
		{"a neighbour's vector", "", spoil(fPVec, 5, nan), []string{"sample", "consume"}},
		{"an atom's position", "", spoil(fPos, -1, 0), []string{"sample"}},
		{"a probe's position", "", spoil(fProbe, 0, 0x3f800000), []string{"sample"}},
		{"a species", "", spoil(fSpecies, 3, 1), []string{"sample"}},
		{"an atom edge's vector", "", spoil(fEVec, 9, 0), []string{"sample"}},
		{"a count", "", spoil(fCounts, 6, 1), []string{"collate"}},
		{"an index of another sample", "", spoil(fPSrc, -1, 0), []string{"collate"}},
		{"a neighbour that is not", "", func(_ *session, sl *slot) { v := sl.intField(fPSrc); v[0] = (v[0] + 1) % 12 }, []string{"sample"}},
		{"rows out of order", "", spoil(fPDst, 0, 2), []string{"collate"}},
		{"padding", "padded=on", spoil(fESrc, -1, 7), []string{"collate"}},
		{"padding of coordinates", "padded=on", func(_ *session, sl *slot) { poison(sl.bytesOf(fProbe)) }, []string{"collate"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := openSession(t, "small", "batch=6", "probes=12", "workers=0", "padded="+map[bool]string{true: "on", false: "off"}[tt.set != ""])
			sl, err := s.fetch(0, loop.Silent{})
			if err != nil {
				t.Fatal(err)
			}
			tt.spoil(s, sl)
			c := &checker{s: s, ctx: t.Context(), rng: newDrawer().rng}
			if err := c.checkAssembly(sl); err != nil {
				t.Fatal(err)
			}
			failed := false
			for _, check := range c.stageChecks() {
				failed = failed || !check.Pass && slices.Contains(tt.stages, check.Stage)
			}
			if !failed {
				t.Errorf("none of %v failed: %+v", tt.stages, c.stageChecks())
			}
		})
	}
}

func TestCheckCatchesStagingAndCopies(t *testing.T) {
	s := openSession(t, "small", "batch=6", "probes=12", "workers=0")
	sl, err := s.fetch(0, loop.Silent{})
	if err != nil {
		t.Fatal(err)
	}
	l := &s.lanes[0]
	if err := errors.Join(s.stageBatch(l, sl), s.sendBatch(l, loop.Silent{}), s.run(l, loop.Silent{}), s.Compute.Sync()); err != nil {
		t.Fatal(err)
	}
	l.from.bytesOf(fPos)[3]++
	l.dev.Bytes()[4*l.placed.at[fPVec]]++
	device.Floats(l.out)[3] *= 1.01
	c := &checker{s: s, ctx: t.Context(), rng: newDrawer().rng}
	err = errors.Join(
		c.compareFields(stStage, sl, func(f int) ([]byte, error) { return l.from.bytesOf(f), nil }),
		c.compareFields(stH2D, sl, func(f int) ([]byte, error) { return c.read(l.dev, 4*l.placed.at[f], 4*sl.wordsOf(f)) }),
		c.checkConsumed(l, sl))
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range []int{stStage, stH2D, stConsume} {
		i := slices.IndexFunc(c.stageChecks(), func(x gpuprof.Check) bool { return x.Stage == allStages()[st].Name })
		if i < 0 || c.stageChecks()[i].Pass {
			t.Errorf("stage %s passed", allStages()[st].Name)
		}
	}
}

// Every knob must change something that can be counted.
func TestEveryKnobChangesWhatRuns(t *testing.T) {
	other := map[string]string{
		"structures": writeStructures(t, 9), "probes": "7", "spread": "0", "cutoff": "5", "padded": "on", "consume": "3", "batch": "5",
		"workers": "2", "worker_kind": "process", "persistent": "off", "epoch": "2", "prefetch": "3", "impl": "naive", "reuse": "off",
		"shortcut": "off", "pinned": "off", "async_copy": "off", "streams": "1", "sync": "never", "item_reads": "3", "threads": "1",
	}
	// What a step is: input, stages with their costs, what it asks of the device,
	// and how often whoever makes the batches allocates.
	picture := func(set ...string) string {
		s := openSession(t, "small", set...)
		for i := range 2 {
			if err := s.Step(i, loop.Silent{}); err != nil {
				t.Fatal(err)
			}
		}
		before := s.dev.Meter()
		for i := 2; i < 6; i++ {
			if err := s.Step(i, loop.Silent{}); err != nil {
				t.Fatal(err)
			}
		}
		m := s.dev.Meter().Sub(before)
		m.BlockedNS = 0
		if err := s.Compute.Sync(); err != nil {
			t.Fatal(err)
		}
		seen, _ := s.Observed(time.Now())
		alone := s.maker != nil
		step := 6
		allocs := ""
		if alone {
			allocs = fmt.Sprint(testing.AllocsPerRun(3, func() {
				_ = s.maker.drawSamples(s.own[0])
				_ = s.maker.collate(s.own[0])
			}) > 2)
			if s.maker.r.Batch == 1 && len(s.maker.samples[0].probes) > 0 {
				allocs += fmt.Sprint(startsWith(s.own[0].floatField(fProbe), s.maker.samples[0].probes))
			}
		}
		return fmt.Sprint(s.Input(), s.Stages(), m, s.dev.Info().Cores, seen["workers_started"], s.Copies == s.Compute, allocs, step)
	}
	for _, k := range New().Knobs() {
		t.Run(k.Name, func(t *testing.T) {
			v, ok := other[k.Name]
			if !ok {
				t.Fatalf("knob %s is not in this test", k.Name)
			}
			base := map[string][]string{
				"worker_kind": {"workers=1"}, "persistent": {"workers=1", "epoch=3"}, "epoch": {"workers=1", "persistent=off", "epoch=4"},
				"prefetch": {"workers=1"}, "impl": {"workers=0"}, "reuse": {"workers=0"}, "shortcut": {"workers=0", "batch=1"},
			}[k.Name]
			if k.Name != "batch" && k.Name != "shortcut" {
				base = append(base, "batch=4")
			}
			base = append(base, "probes=12")
			if k.Name == "probes" {
				base = base[:len(base)-1]
			}
			if picture(base...) == picture(append(base, k.Name+"="+v)...) {
				t.Errorf("%s=%s changes nothing", k.Name, v)
			}
		})
	}
}

func TestBadInput(t *testing.T) {
	empty := t.TempDir()
	if err := os.WriteFile(filepath.Join(empty, "notes.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		set   []string
		limit int64
		kind  error
		text  []string
	}{
		{"no structures", []string{"structures=" + empty}, 0, gpuprof.ErrInput, []string{empty, "none of its 1 files"}},
		{"no neighbours", []string{"cutoff=0.01", "batch=4"}, 0, gpuprof.ErrInput, []string{"0.01 angstrom", "larger --set cutoff"}},
		{"too large for memory", []string{"batch=2000"}, 1 << 26, gpuprof.ErrMemory, []string{"1.42 GiB", "64.0 MiB are left", "smaller --set batch"}},
		{"so large that counting would take minutes", []string{"batch=65536", "probes=100000"}, 1 << 30, gpuprof.ErrMemory, []string{"TiB"}},
		{"too many workers for memory", []string{"workers=256", "prefetch=64"}, 1 << 28, gpuprof.ErrMemory, []string{"256 workers", "prefetch"}},
		{"too large a cutoff", []string{"cutoff=1000"}, 0, gpuprof.ErrInput, []string{"periodic images", "smaller cutoff"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := openHost(t, tt.limit)
			workloadtest.Refused(t, d, tt.kind, tt.text, func() error {
				_, err := open(t.Context(), d, resolve(t, "small", tt.set...))
				return err
			})
		})
	}
}

func TestBadKnobs(t *testing.T) {
	for kv, want := range map[string]string{
		"batch=0": "outside 1", "impl=bulky": `did you mean "bulk"`, "worker=2": `did you mean "workers"`, "workers=-1": "outside 0", "workers=many": "whole number",
		"sync=sometimes": "every:K", "structures=/no/such": "neither hfo2 nor a folder", "structures=/etc/hostname": "a file, not a folder",
		"worker_kind=thread": "goroutine", "spread=101": "outside 0 to 100", "threads=0": "at least 1", "consume=-1": "outside 0",
	} {
		k, v, _ := strings.Cut(kv, "=")
		_, err := workloads.Resolve(New(), "small", gpuprof.Settings{k: v})
		if !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want usage error with %q", kv, err, want)
		}
	}
	if err := New().Refuse(device.Info{MaxThreads: 8}, resolve(t, "small", "threads=4096").Knobs); !errors.Is(err, gpuprof.ErrUsage) {
		t.Errorf("threads=4096: %v", err)
	}
	if err := New().Refuse(device.Info{Kind: "cuda", Name: "some GPU"}, resolve(t, "small", "threads=2").Knobs); !errors.Is(err, gpuprof.ErrUsage) {
		t.Errorf("threads on a GPU: %v", err)
	}
	t.Setenv(workerVariable, protocol)
	if err := New().Refuse(device.Info{}, resolve(t, "small", "worker_kind=process").Knobs); !errors.Is(err, gpuprof.ErrUsage) {
		t.Errorf("a worker that hires workers: %v", err)
	}
}

// The size that the preset is named for.
func TestDeepawSize(t *testing.T) {
	s := openSession(t, "deepaw", "workers=0")
	if n := s.survey.mean[uReach]; n < 73_500 || n > 75_000 {
		t.Errorf("%.0f probe edges a batch, want about 74,250", n)
	}
	if n := s.survey.most[uProbe]; n != 3000 {
		t.Errorf("%d probes a batch", n)
	}
}

func TestLargestWindow(t *testing.T) {
	for _, tt := range []struct {
		ring    []int
		n, want int
	}{{[]int{1, 5, 2}, 1, 5}, {[]int{1, 5, 2}, 2, 7}, {[]int{4, 1, 5}, 2, 9}, {[]int{1, 5, 2}, 3, 8}, {[]int{1, 5, 2}, 4, 13}, {[]int{3}, 5, 15}} {
		if got := largestWindow(tt.ring, tt.n); got != tt.want {
			t.Errorf("%v, %d: %d, want %d", tt.ring, tt.n, got, tt.want)
		}
	}
}
