// Package latency stores times as HdrHistograms: recording allocates nothing, and merging is exact.
package latency

import (
	"fmt"
	"math"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"github.com/gpuprof/gpuprof/internal/loadtest"
)

// A histogram covers 1 us (exact to half) to 1 h with three digits. Longer times count as an hour.
const (
	lowest  = int64(time.Microsecond)
	highest = int64(time.Hour)
	digits  = 3
)

// Histogram is a distribution of times with exact mean and maximum, and percentiles within 0.1 %.
type Histogram struct {
	h    *hdr.Histogram
	sum  int64 // ns
	most int64
}

// New returns an empty histogram of 197 kB.
func New() *Histogram { return &Histogram{h: hdr.New(lowest, highest, digits)} }

// Record adds a time without allocating.
func (h *Histogram) Record(d time.Duration) {
	v := max(int64(d), 0)
	h.sum += v
	h.most = max(h.most, v)
	_ = h.h.RecordValue(min(v, highest)) // cannot fail within the range
}

// Reset empties the histogram.
func (h *Histogram) Reset() {
	h.h.Reset()
	h.sum, h.most = 0, 0
}

// Merge adds the counts of another histogram.
func (h *Histogram) Merge(o *Histogram) {
	h.h.Merge(o.h)
	h.sum += o.sum
	h.most = max(h.most, o.most)
}

// Count returns the number of recorded times.
func (h *Histogram) Count() int64 { return h.h.TotalCount() }

// Mean returns the mean, s; NaN without values.
func (h *Histogram) Mean() float64 { return float64(h.sum) * 1e-9 / float64(h.Count()) }

// Max returns the maximum, s.
func (h *Histogram) Max() float64 { return float64(h.most) * 1e-9 }

// At returns the time, s, within which a share of the values falls: the upper end of a bin, at most Max.
func (h *Histogram) At(share float64) float64 {
	if n := float64(h.Count()); n > 0 {
		share = math.Ceil(share*n*(1-1e-12)) / n // the library would round the rank down to a value that covers fewer times
	}
	return math.Min(float64(h.h.ValueAtPercentile(100*share)), float64(h.most)) * 1e-9
}

// Recorded encodes the histogram for a result file.
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

// Decode decodes a histogram of a result file. It returns an error if the text is invalid.
func Decode(r loadtest.Recorded) (*Histogram, error) {
	got, err := hdr.Decode([]byte(r.HDR))
	if err != nil {
		return nil, fmt.Errorf("decoding an HdrHistogram: %w", err)
	}
	if n := got.TotalCount(); n != r.Count {
		return nil, fmt.Errorf("decoding an HdrHistogram: it holds %d times and should hold %d", n, r.Count)
	}
	// Merge into a histogram of the standard range, because later merges require equal ranges.
	out := New()
	if dropped := out.h.Merge(got); dropped > 0 {
		return nil, fmt.Errorf("decoding an HdrHistogram: %d times are out of the range of 1 us to 1 h", dropped)
	}
	out.sum, out.most = int64(math.Round(r.MeanS*1e9*float64(r.Count))), int64(math.Round(r.MaxS*1e9))
	return out, nil
}

// Merged returns the sum of recorded distributions.
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
