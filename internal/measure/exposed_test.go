package measure

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof"
)

var threeStages = []gpuprof.Stage{
	{Name: "collate", Kind: gpuprof.HostStage}, {Name: "h2d"}, {Name: "kernel"},
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
		{"earliest device stage owns overlap", []interval{dev(2, 0, 60), dev(1, 40, 90)}, []int64{0, 50, 40, 0, 10}},
		{"enqueueing a device stage is launch", []interval{host(2, 10, 30), dev(2, 25, 60)}, []int64{0, 0, 35, 15, 50}},
		{"host stage before launch", []interval{host(2, 0, 30), host(0, 10, 20)}, []int64{10, 0, 0, 20, 70}},
		{"cut at the border", []interval{dev(1, -50, 10), dev(2, 90, 150)}, []int64{0, 10, 10, 0, 80}},
		{"nested spans of one stage count once", []interval{dev(1, 10, 50), dev(1, 20, 30)}, []int64{0, 40, 0, 0, 60}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := exposed([]int64{0, 100}, tt.spans, 3)
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
			o := rapid.IntRange(0, 6).Draw(t, "owner")
			spans = append(spans, interval{a, a + d, o})
			col := o % 3
			if o == 6 {
				col = 3
			}
			lasts[col] += max(d, 0)
		}
		got := exposed(begin, spans, 3)
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
