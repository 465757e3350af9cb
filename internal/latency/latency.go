// Package latency holds distributions of times as HdrHistograms: recorded without
// allocation, merged exactly, and read as percentiles with intervals.
package latency

import (
	"fmt"
	"math"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"github.com/gpuprof/gpuprof/internal/loadtest"
)

// The range of a histogram: 1 us to 1 h, three digits. A shorter time counts as it is to
// half a microsecond, a longer one as an hour.
const (
	lowest  = int64(time.Microsecond)
	highest = int64(time.Hour)
	digits  = 3
)

// Histogram is a distribution of times. Its mean and its largest value are exact, its
// percentiles are within 0.1 %.
type Histogram struct {
	h    *hdr.Histogram
	sum  int64 // ns
	most int64
}

// New makes an empty histogram of 197 kB.
func New() *Histogram { return &Histogram{h: hdr.New(lowest, highest, digits)} }

// Record counts a time. It allocates nothing.
func (h *Histogram) Record(d time.Duration) {
	v := max(int64(d), 0)
	h.sum += v
	h.most = max(h.most, v)
	_ = h.h.RecordValue(min(v, highest)) // it is in range
}

// Reset empties the histogram.
func (h *Histogram) Reset() {
	h.h.Reset()
	h.sum, h.most = 0, 0
}

// Merge adds another one's counts.
func (h *Histogram) Merge(o *Histogram) {
	h.h.Merge(o.h)
	h.sum += o.sum
	h.most = max(h.most, o.most)
}

// Count is how many times were recorded.
func (h *Histogram) Count() int64 { return h.h.TotalCount() }

// Mean is in seconds; NaN of nothing.
func (h *Histogram) Mean() float64 { return float64(h.sum) * 1e-9 / float64(h.Count()) }

// Max is in seconds.
func (h *Histogram) Max() float64 { return float64(h.most) * 1e-9 }

// At is the time in seconds within which at least a share of the values lies (nearest rank): the highest value that
// the histogram cannot tell from it, and no more than the largest.
func (h *Histogram) At(share float64) float64 {
	if n := float64(h.Count()); n > 0 {
		share = math.Ceil(share*n*(1-1e-12)) / n // the library rounds the rank, to a value that fewer lie within
	}
	return math.Min(float64(h.h.ValueAtPercentile(100*share)), float64(h.most)) * 1e-9
}

// Recorded is the histogram as a result holds it.
func (h *Histogram) Recorded() (loadtest.Recorded, error) {
	out := loadtest.Recorded{Count: h.Count(), MaxS: h.Max()}
	if out.Count > 0 {
		out.MeanS = h.Mean()
	}
	text, err := h.h.Encode(hdr.V2CompressedEncodingCookieBase)
	if err != nil {
		return out, fmt.Errorf("encoding a histogram of %d times: %w", out.Count, err)
	}
	out.HDR = string(text)
	return out, nil
}

// Decode reads what Recorded made. An error says why the text is no such histogram.
func Decode(r loadtest.Recorded) (*Histogram, error) {
	got, err := hdr.Decode([]byte(r.HDR))
	if err != nil {
		return nil, fmt.Errorf("decoding an HdrHistogram: %w", err)
	}
	if n := got.TotalCount(); n != r.Count {
		return nil, fmt.Errorf("decoding an HdrHistogram: it holds %d times and should hold %d", n, r.Count)
	}
	// Into one of our range: what is merged has to have the same.
	out := New()
	if dropped := out.h.Merge(got); dropped > 0 {
		return nil, fmt.Errorf("decoding an HdrHistogram: %d times are out of the range of 1 us to 1 h", dropped)
	}
	out.sum, out.most = int64(math.Round(r.MeanS*1e9*float64(r.Count))), int64(math.Round(r.MaxS*1e9))
	return out, nil
}

// Merged is the sum of recorded distributions.
func Merged(rs []loadtest.Recorded) (*Histogram, error) {
	out := New()
	for _, r := range rs {
		h, err := Decode(r)
		if err != nil {
			return nil, err
		}
		out.Merge(h)
	}
	return out, nil
}
