package analyze_test

import (
	"bufio"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/read/kineto"
)

// equalRepeats are recorded programs whose marked step is so many equal repeats: the order of
// launches cannot tell that several of them are one step.
var equalRepeats = map[string]int{
	"h200/deterministic-clean": 4, "h200/deterministic-planted": 4, "h200/deterministic-fill-clean": 8, "h200/deterministic-fill-planted": 8,
	"h200/empty-cache-clean": 16, "h200/empty-cache-planted": 16, "h200/item-clean": 8, "h200/item-planted": 8, "h200/sync-clean": 8, "h200/sync-planted": 8,
}

// The order of launches gives the steps that PyTorch's profiler marked, within 2 % of their time,
// in every trace that was recorded on a GPU; of those with equal repeats it gives the repeat.
func TestOrderOfLaunchesGivesTheMarkedSteps(t *testing.T) {
	files, err := filepath.Glob("../../../testdata/traces/h*/*.json.gz")
	if err != nil || len(files) < 18 {
		t.Fatalf("%d traces, %v", len(files), err)
	}
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path), ".json.gz")
		t.Run(name, func(t *testing.T) {
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			tr, err := kineto.Read(t.Context(), bufio.NewReader(f), path, 0)
			if err != nil {
				t.Fatal(err)
			}
			x, err := analyze.NewIndex(t.Context(), tr)
			if err != nil || x.StepSource != "ProfilerStep" {
				t.Fatalf("%v; its steps are from %s", err, x.StepSource)
			}
			period, at := x.LaunchPeriod()
			if period == nil {
				t.Fatalf("no period in %d launches", len(at))
			}
			var marked, found, launches []int64
			for i := range x.Steps[1:] {
				from, to := x.Steps[i].Host.Start, x.Steps[i+1].Host.Start
				first, _ := slices.BinarySearch(at, from)
				behind, _ := slices.BinarySearch(at, to)
				marked, launches = append(marked, to-from), append(launches, int64(behind-first))
			}
			for _, s := range period.Steps {
				found = append(found, at[s.To]-at[s.From])
			}
			step, repeat := median(marked), median(found)
			t.Logf("%d marked steps of %.0f ns, %d repeats of %.0f ns and %d launches, %d joined", len(marked), step, len(found), repeat, period.Launches, period.Joined)
			if n := equalRepeats[name]; n > 0 {
				if ratio := median(launches) / float64(period.Launches) * float64(period.Joined); math.Abs(ratio/float64(n)-1) > 0.02 {
					t.Errorf("a marked step has %.4f times the launches of a repeat, want %d", ratio, n)
				}
			} else if math.Abs(repeat/step-1) > 0.02 {
				t.Errorf("a repeat takes %.4f of a marked step", repeat/step)
			}
		})
	}
}

func median(v []int64) float64 {
	slices.Sort(v)
	return float64(v[len(v)/2])
}
