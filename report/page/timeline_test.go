package page

import (
	"bytes"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/tracetest"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/read/kineto"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
)

// thinnedWhole is thin of rows that were held whole.
func thinnedWhole(rows [][]box) ([][]box, int64) {
	for n := 0; ; n++ {
		total := 0
		for i := range rows {
			if n > 0 {
				rows[i] = merge(rows[i], mergeLimit(n))
			}
			total += len(rows[i])
		}
		if total <= maxBoxes {
			return rows, mergeLimit(n)
		}
	}
}

// Rows that are thinned while they are made are those that are thinned when they are
// complete, and never hold more boxes than a page.
func TestRowsAreThinnedAsTheyGrow(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		count := rapid.IntRange(1, 3).Draw(rt, "rows")
		seed := rapid.Uint64().Draw(rt, "seed")
		next := func(n int64) int64 { // xorshift: drawing each box would take the whole test
			seed ^= seed << 13
			seed ^= seed >> 7
			seed ^= seed << 17
			return int64(seed % uint64(n))
		}
		var whole [][]box
		var rows []boxRow
		for range count {
			n := rapid.SampledFrom([]int{0, 1, 100, maxBoxes, maxBoxes + 1, 3 * maxBoxes}).Draw(rt, "boxes")
			longest := rapid.SampledFrom([]int64{1, 200, 3000, 100_000}).Draw(rt, "longest")
			apart := rapid.SampledFrom([]int64{1, 600, 50_000}).Draw(rt, "apart")
			var r rowBuilder
			var all []box
			at := int64(0)
			for i := range n {
				b := box{from: at + next(apart), kind: i % 7, name: string(rune('a' + next(26))), count: 1}
				b.to = b.from + 1 + next(longest)
				at, b.ns = b.to, b.to-b.from
				all = append(all, b)
				r.add(b)
				if len(r.out) > maxBoxes {
					rt.Fatalf("a row holds %d boxes", len(r.out))
				}
			}
			whole, rows = append(whole, all), append(rows, r.buildRow("row", "stream"))
		}
		want, wantRes := thinnedWhole(whole)
		if got := thinRows(rows); got != wantRes {
			rt.Fatalf("the resolution is %d, not %d", got, wantRes)
		}
		for i := range want {
			if !slices.EqualFunc(rows[i].boxes, want[i], sameBox) {
				rt.Fatalf("row %d has %d boxes, not these %d", i, len(rows[i].boxes), len(want[i]))
			}
		}
	})
}

// sameBox compares every field without reflection, since the test has millions of boxes.
func sameBox(a, b box) bool {
	return a.from == b.from && a.to == b.to && a.kind == b.kind && a.name == b.name && a.count == b.count &&
		a.longest == b.longest && a.ns == b.ns && a.host == b.host && slices.Equal(a.parts, b.parts)
}

// A screen has no timeline: its boxes are made where they are shown, and their number does
// not grow with the recording.
func TestTimelineIsDrawnWhereItIsShown(t *testing.T) {
	var text bytes.Buffer
	stats, err := tracetest.Write(&text, tracetest.Options{Bytes: 24 << 20, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	tr, err := kineto.Read(t.Context(), &text, "trace.json", 0)
	if err != nil {
		t.Fatal(err)
	}
	x, err := analyze.NewIndex(t.Context(), tr)
	if err != nil {
		t.Fatal(err)
	}
	a, err := analyze.SummariseIndexes(t.Context(), []*analyze.Index{x}, analyze.Options{Rules: rules.Rules, Tool: gpuprof.Tool{}})
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p, err := Analysis(a, []*analyze.Index{x})
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	// Its tables have a row for each name and step and none for an event, of which there
	// are 70,000 here.
	if per := float64(after.TotalAlloc-before.TotalAlloc) / float64(stats.Events); per > 20 {
		t.Errorf("a page takes %.1f bytes for each of %d events", per, stats.Events)
	} else {
		t.Logf("%.1f bytes", per)
	}
	for _, s := range p.Sections {
		for _, b := range s.Blocks {
			if line, ok := b.(Timeline); ok {
				data, _ := line.Draw()
				n := 0
				for _, r := range data.(timelineData).Rows {
					n += len(r.Boxes) / 5
				}
				if n == 0 || n > maxBoxes {
					t.Errorf("the timeline has %d boxes", n)
				}
				return
			}
		}
	}
	t.Error("the page has no timeline")
}
