package gpuprof

import (
	"fmt"
	"math"
)

// Ceilings are peak rates measured on a device, for roofline bounds. 0 is unknown and bounds nothing.
type Ceilings struct {
	// Memory outside the last-level cache; a copy counts bytes read plus bytes written.
	CopyBytesPerS  float64 `json:"copy_bytes_per_s"`
	ReadBytesPerS  float64 `json:"read_bytes_per_s,omitempty"`
	WriteBytesPerS float64 `json:"write_bytes_per_s,omitempty"`
	// CacheBytesPerS is the highest rate of reads, writes and copies within the caches.
	CacheBytesPerS float64 `json:"cache_bytes_per_s,omitempty"`
	// Matrix products by precision; float64 by multiply-adds in registers.
	FlopsPerS     float64 `json:"flops_per_s"` // float32
	FP64FlopsPerS float64 `json:"fp64_flops_per_s,omitempty"`
	TF32FlopsPerS float64 `json:"tf32_flops_per_s,omitempty"`
	BF16FlopsPerS float64 `json:"bf16_flops_per_s,omitempty"`
	FP16FlopsPerS float64 `json:"fp16_flops_per_s,omitempty"`
	// LaunchS is the shortest time per empty kernel in a sequence of launches, s.
	LaunchS float64 `json:"launch_s,omitempty"`
}

// Best returns the better of two values for every rate. NaN, negative and infinite values count as not measured.
func (c Ceilings) Best(o Ceilings) Ceilings {
	real := func(v float64) float64 {
		if v > 0 && v <= math.MaxFloat64 {
			return v
		}
		return 0
	}
	best := func(a, b float64) float64 { return max(real(a), real(b)) }
	launch := min(real(c.LaunchS), real(o.LaunchS))
	if launch == 0 {
		launch = best(c.LaunchS, o.LaunchS)
	}
	return Ceilings{
		CopyBytesPerS: best(c.CopyBytesPerS, o.CopyBytesPerS), ReadBytesPerS: best(c.ReadBytesPerS, o.ReadBytesPerS),
		WriteBytesPerS: best(c.WriteBytesPerS, o.WriteBytesPerS), CacheBytesPerS: best(c.CacheBytesPerS, o.CacheBytesPerS),
		FlopsPerS: best(c.FlopsPerS, o.FlopsPerS), FP64FlopsPerS: best(c.FP64FlopsPerS, o.FP64FlopsPerS),
		TF32FlopsPerS: best(c.TF32FlopsPerS, o.TF32FlopsPerS), BF16FlopsPerS: best(c.BF16FlopsPerS, o.BF16FlopsPerS),
		FP16FlopsPerS: best(c.FP16FlopsPerS, o.FP16FlopsPerS), LaunchS: launch,
	}
}

// Bound is the least time for a cost at measured peak rates. It bounds this formulation of the work, not every
// algorithm.
type Bound struct {
	S       float64 // 0 if there is no bound
	By      string  // what bounds it: "bytes", "fp32 arithmetic", "launches in sequence", …
	Missing string  // the missing rate, if there is no bound for that reason
}

// Bound returns the longest of three times: the arithmetic of the slowest precision at its rate (precisions can run in
// parallel), all bytes at the rates of their traffic, and one launch per step of a sequence. cacheBytes is the size of
// the last-level cache: traffic up to this size counts at the caches' rate.
func (c Ceilings) Bound(least Cost, cacheBytes int64) Bound {
	var out Bound
	take := func(s float64, by string) {
		if s > out.S {
			out.S, out.By = s, by
		}
	}
	fp32 := least.Flops - least.FP64 - least.TF32 - least.BF16 - least.FP16
	for _, p := range []struct {
		name  string
		flops int64
		rate  float64
	}{
		{"fp32", fp32, c.FlopsPerS}, {"fp64", least.FP64, c.FP64FlopsPerS}, {"tf32", least.TF32, c.TF32FlopsPerS},
		{"bf16", least.BF16, c.BF16FlopsPerS}, {"fp16", least.FP16, c.FP16FlopsPerS},
	} {
		if p.flops <= 0 {
			continue
		}
		if !(p.rate > 0) {
			return Bound{Missing: fmt.Sprintf("the peak rate of %s arithmetic could not be measured on this device", p.name)}
		}
		take(float64(p.flops)/p.rate, p.name+" arithmetic")
	}
	bytes, missing := c.bytes(least, cacheBytes)
	if missing != "" {
		return Bound{Missing: missing}
	}
	take(bytes, "bytes")
	if least.Sequence > 0 {
		if !(c.LaunchS > 0) {
			return Bound{Missing: "the time of a launch could not be measured on this device"}
		}
		take(float64(least.Sequence)*c.LaunchS, "launches in sequence")
	}
	return out
}

// bytes returns the least time of a cost's traffic, s. Bytes that are read and written count as a copy, other bytes as
// reads or writes. missing is the reason if a peak rate is unknown.
func (c Ceilings) bytes(least Cost, cacheBytes int64) (seconds float64, missing string) {
	all := least.Bytes()
	if all <= 0 {
		return 0, ""
	}
	cached := float64(min(all, max(cacheBytes, 0)))
	both, more := min(least.BytesRead, least.BytesWritten), least.BytesRead-least.BytesWritten
	for _, t := range []struct {
		name  string
		bytes float64
		rate  float64
	}{
		{"copies in memory", 2 * float64(both) * (1 - cached/float64(all)), c.CopyBytesPerS},
		{"reads of memory", float64(max(more, 0)) * (1 - cached/float64(all)), c.ReadBytesPerS},
		{"writes of memory", float64(max(-more, 0)) * (1 - cached/float64(all)), c.WriteBytesPerS},
		{"cached data", cached, c.CacheBytesPerS},
	} {
		if t.bytes <= 0 {
			continue
		}
		if !(t.rate > 0) {
			return 0, fmt.Sprintf("the peak rate of %s could not be measured on this device", t.name)
		}
		seconds += t.bytes / t.rate
	}
	return seconds, ""
}

// Beside compares the bound with the measured time, s. A bound above the measured time is wrong: Beside removes it, and
// sets Missing to the reason.
func (b Bound) Beside(measured float64) Bound {
	if b.S <= 0 || !(measured > 0) || b.S <= measured {
		return b
	}
	return Bound{Missing: fmt.Sprintf("its roofline bound by %s (%s) is %.0f %% of the time measured: a peak rate was measured too low, or data came from a nearer cache",
		b.By, FormatSeconds(b.S), 100*b.S/measured)}
}
