package measure

import (
	"compress/gzip"
	"io"
	"math"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/workloads"
)

var threeStages = []gpuprof.Stage{
	{Name: "collate", Kind: gpuprof.HostStage}, {Name: "h2d", Role: gpuprof.RoleTransfer}, {Name: "kernel"},
}

func TestExposedOwnership(t *testing.T) {
	dev := func(stage int, a, b int64) interval { return interval{a, b, ownerOf(threeStages, stage, true)} }
	host := func(stage int, a, b int64) interval { return interval{a, b, ownerOf(threeStages, stage, false)} }
	tests := []struct {
		name  string
		spans []interval
		want  []int64 // collate h2d kernel launch gap over [0,100)
	}{
		{"nothing is gap", nil, []int64{0, 0, 0, 0, 100}},
		{"device hides host", []interval{dev(2, 20, 80), host(0, 0, 50)}, []int64{20, 0, 60, 0, 20}},
		{"compute owns an overlap with a copy", []interval{dev(2, 0, 60), dev(1, 40, 90)}, []int64{0, 30, 60, 0, 10}},
		{"a copy inside a kernel costs nothing", []interval{dev(2, 0, 60), dev(1, 20, 50)}, []int64{0, 0, 60, 0, 40}},
		{"a copy hides the caller", []interval{dev(1, 0, 60), host(0, 0, 100)}, []int64{40, 60, 0, 0, 0}},
		{"enqueueing a device stage is launch", []interval{host(2, 10, 30), dev(2, 25, 60)}, []int64{0, 0, 35, 15, 50}},
		{"host stage before launch", []interval{host(2, 0, 30), host(0, 10, 20)}, []int64{10, 0, 0, 20, 70}},
		{"cut at the border", []interval{dev(1, -50, 10), dev(2, 90, 150)}, []int64{0, 10, 10, 0, 80}},
		{"nested spans of one stage count once", []interval{dev(1, 10, 50), dev(1, 20, 30)}, []int64{0, 40, 0, 0, 60}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := splitExposed([]int64{0, 100}, tt.spans, 3)
			if d := cmp.Diff([][]int64{tt.want}, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// Whatever the spans, the exposed times of a step add up to its period, and
// no stage is exposed longer than its spans last.
func TestExposedAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		begin := []int64{0}
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			begin = append(begin, begin[len(begin)-1]+rapid.Int64Range(0, 1000).Draw(t, "period"))
		}
		last := begin[len(begin)-1]
		var spans []interval
		lasts := make([]int64, 5)
		for range rapid.IntRange(0, 30).Draw(t, "spans") {
			a := rapid.Int64Range(-100, last+100).Draw(t, "start")
			d := rapid.Int64Range(-5, 400).Draw(t, "dur")
			o := rapid.IntRange(0, 9).Draw(t, "owner")
			spans = append(spans, interval{a, a + d, o})
			col := o % 3
			if o == 9 {
				col = 3
			}
			lasts[col] += max(d, 0)
		}
		got := splitExposed(begin, spans, 3)
		total := make([]int64, 5)
		for i, row := range got {
			var sum int64
			for c, v := range row {
				sum += v
				total[c] += v
			}
			if sum != begin[i+1]-begin[i] {
				t.Fatalf("step %d adds up to %d, period %d", i, sum, begin[i+1]-begin[i])
			}
		}
		for c := range 4 {
			if total[c] > lasts[c] {
				t.Fatalf("column %d exposed %d of %d", c, total[c], lasts[c])
			}
		}
	})
}

// Whatever the spans, a copy has the time in which no kernel runs beside it and
// no more, and a kernel all of its own, wherever their stages stand in the step.
func TestExposedCopies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const period = 200
		stages := []gpuprof.Stage{{Name: "a"}, {Name: "b"}, {Name: "c"}}
		copies := rapid.IntRange(0, 2).Draw(t, "the stage that copies")
		stages[copies].Role = gpuprof.RoleTransfer
		var spans []interval
		var kernel, copied [period]bool
		for range rapid.IntRange(0, 8).Draw(t, "spans") {
			stage := rapid.IntRange(0, 2).Draw(t, "stage")
			from := rapid.Int64Range(0, period-1).Draw(t, "start")
			to := min(period, from+rapid.Int64Range(1, 60).Draw(t, "length"))
			spans = append(spans, interval{from, to, ownerOf(stages, stage, true)})
			for at := from; at < to; at++ {
				kernel[at], copied[at] = kernel[at] || stage != copies, copied[at] || stage == copies
			}
		}
		var alone, computing int64
		for at := range period {
			switch {
			case kernel[at]:
				computing++
			case copied[at]:
				alone++
			}
		}
		row := splitExposed([]int64{0, period}, spans, 3)[0]
		if others := row[0] + row[1] + row[2] - row[copies]; row[copies] != alone || others != computing {
			t.Fatalf("the copy is exposed for %d, alone for %d; kernels %d, running for %d", row[copies], alone, others, computing)
		}
	})
}

// Steps of recorded runs on an H200: in those whose copy to the device lies
// within a kernel of the step before, it costs nothing.
func TestExposedCopiesOfRecordedSteps(t *testing.T) {
	const folder = "../../baselines/nvidia-h200/gpu-check/runs/"
	for name, hidden := range map[string]bool{
		"e3nn-mace-large": true, "e3nn-mace-medium": true, "e3nn-nequip-lips": true, "e3nn-deepaw": true, "gruflow-deepbench": true,
		"e3nn-small": false, "collate-naive": false, // in line, with nothing to hide behind
	} {
		t.Run(name, func(t *testing.T) {
			r := recorded(t, folder+name+".json.gz")
			var stages []gpuprof.Stage
			index := map[string]int{}
			for _, s := range r.Stages {
				if s.Parent == "step" && s.Name != gpuprof.StageLaunch && s.Name != gpuprof.StageGap {
					st := gpuprof.Stage{Name: s.Name, Kind: gpuprof.HostStage}
					if s.Device != nil {
						st.Kind = gpuprof.DeviceStage
					}
					if s.Name == "h2d" || s.Name == "d2h" {
						st.Role = gpuprof.RoleTransfer
					}
					index[s.Name] = len(stages)
					stages = append(stages, st)
				}
			}
			var spans []interval
			from, to := int64(math.MaxInt64), int64(0)
			for _, s := range r.ExampleStep {
				if s.Kernel != "" {
					continue
				}
				onDevice := s.Lane != "host"
				start, end := int64(math.Round(s.StartS*1e9)), int64(math.Round((s.StartS+s.DurS)*1e9))
				spans = append(spans, interval{start, end, ownerOf(stages, index[s.Stage], onDevice)})
				if onDevice && s.Stage == "h2d" && s.Step == 0 {
					from, to = start, end
				}
			}
			// The recording holds the spans beside the copy, so its own time is a period.
			row := splitExposed([]int64{from, to}, spans, len(stages))[0]
			if got := row[index["h2d"]]; hidden && got != 0 || !hidden && got != to-from {
				t.Errorf("%d of %d ns of the copy are exposed, hidden is %v", got, to-from, hidden)
			}
		})
	}
}

func recorded(t *testing.T, path string) *gpuprof.Run { t.Helper(); return recordedRuns(t, path)[0] }

func recordedRuns(t *testing.T, path string) []*gpuprof.Run {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := document.Runs(text, path)
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

// The device stages of every workload that launch nothing are transfers, and no others.
func TestWorkloadsSayWhichStagesTransfer(t *testing.T) {
	for _, w := range workloadsByName() {
		p := planOf(t, w)
		s, err := w.Open(t.Context(), openHost(t), workloads.Config{Preset: p.Preset, Knobs: p.Knobs, Seed: p.Seed, Mode: p.Mode})
		if err != nil {
			t.Fatal(err)
		}
		for _, st := range s.Stages() {
			if st.Kind == gpuprof.DeviceStage && st.Role.Copies() != (len(st.Parts) == 0) {
				t.Errorf("%s: stage %s of %d launches has role %d", w.Name(), st.Name, len(st.Parts), st.Role)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
