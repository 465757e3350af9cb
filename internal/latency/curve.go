package latency

// Curve returns the distribution, for a percentile axis, as points of (share of requests that take longer, time in s).
// The share falls from 1, with perHalving points per halving.
func (h *Histogram) Curve(perHalving int32) [][2]float64 {
	var out [][2]float64
	if h.Count() == 0 {
		return nil
	}
	for _, b := range h.h.CumulativeDistributionWithTicks(perHalving) {
		beyond := 1 - b.Quantile/100
		if beyond <= 0 {
			beyond = 1 / float64(h.Count())
		}
		out = append(out, [2]float64{beyond, min(float64(b.ValueAt)*1e-9, h.Max())})
	}
	return out
}
