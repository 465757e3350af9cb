package latency

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof/internal/loadtest"
)

// Percentiles lie within 0.1 % of the sorted values', the mean and the largest are exact.
func TestAgainstSorted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, int64(2*time.Hour)), 1, 300).Draw(t, "ns")
		h := New()
		sum := 0.0
		for _, v := range values {
			h.Record(time.Duration(v))
			sum += float64(v)
		}
		slices.Sort(values)
		n := len(values)
		for _, share := range []float64{0.01, 0.5, 0.9, 0.99, 1} {
			rank := sort.Search(n, func(i int) bool { return float64(i+1) >= share*float64(n)*(1-1e-12) }) + 1
			want := min(float64(values[rank-1]), float64(time.Hour)) * 1e-9
			if got := h.At(share); math.Abs(got-want) > 1e-3*want+1e-6 {
				t.Fatalf("p%g of %d is %g, want %g", 100*share, n, got, want)
			}
		}
		if got, want := h.Mean(), sum/float64(n)*1e-9; math.Abs(got-want) > 1e-9*want {
			t.Fatalf("the mean is %g, want %g", got, want)
		}
		if h.Max() != float64(values[n-1])*1e-9 {
			t.Fatalf("the largest is %g, want %d ns", h.Max(), values[n-1])
		}
	})
}

// Decoded histograms merge to that of all values.
func TestMerge(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	whole := New()
	var parts []loadtest.Recorded
	for range 4 {
		h := New()
		for range 1000 {
			d := time.Duration(rng.ExpFloat64() * 1e6)
			h.Record(d)
			whole.Record(d)
		}
		r, err := h.Recorded()
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, r)
	}
	got, err := Merged(parts)
	if err != nil {
		t.Fatal(err)
	}
	if !got.h.Equals(whole.h) || math.Abs(got.Mean()-whole.Mean()) > 1e-12 || got.Max() != whole.Max() {
		t.Errorf("%d values, mean %g, max %g; want %d, %g, %g", got.Count(), got.Mean(), got.Max(), whole.Count(), whole.Mean(), whole.Max())
	}
	for _, bad := range []loadtest.Recorded{{HDR: "no"}, {HDR: "", Count: 1}, {HDR: parts[0].HDR, Count: 7}} {
		if _, err := Decode(bad); err == nil {
			t.Errorf("%.20s of %d was decoded", bad.HDR, bad.Count)
		}
	}
}

// Recording allocates nothing.
func TestRecordAllocates(t *testing.T) {
	h := New()
	if n := testing.AllocsPerRun(100, func() { h.Record(time.Millisecond) }); n > 0 {
		t.Errorf("%g allocations", n)
	}
}

// A percentile has ten times beyond it, and intervals need blocks.
func TestSummary(t *testing.T) {
	var blocks []*Histogram
	all := New()
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		b := New()
		for range 100 {
			b.Record(time.Duration(rng.ExpFloat64() * 1e6))
		}
		all.Merge(b)
		blocks = append(blocks, b)
	}
	s := Summary(all, []*Histogram{all}, blocks, 1)
	if len(s.Percentiles) != 3 { // p99.9 would need 10,000
		t.Fatalf("%+v", s.Percentiles)
	}
	for _, p := range s.Percentiles {
		if p.CI95 == nil || p.CI95[0] > p.S*1.002 || p.CI95[1] < p.S*0.998 {
			t.Errorf("%+v", p)
		}
	}
	if s := Summary(all, []*Histogram{all}, blocks[:9], 1); s.Percentiles[0].CI95 != nil {
		t.Error("an interval of nine blocks")
	}
	if s := Summary(all, blocks[:3], nil, 1); s.Percentiles[0].CI95 == nil || s.Percentiles[2].CI95 != nil {
		t.Errorf("three processes of 100: %+v", s.Percentiles)
	}
	if s := Summary(New(), nil, nil, 1); len(s.Percentiles) != 0 || s.MeanS != 0 {
		t.Errorf("of nothing: %+v", s)
	}
}
