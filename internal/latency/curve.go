package latency

// Curve returns the distribution as points of (share beyond, time in s), the share falling from 1, with perHalving
// points per halving, for an axis of percentiles.
func (h *Histogram) Curve(perHalving int32) [][2]float64 {
	var out [][2]float64
	if h.Count() == 0 {
		return nil
	}
	for _, b := range h.h.CumulativeDistributionWithTicks(perHalving) {
		beyond := 1 - b.Quantile/100
		v := float64(b.ValueAt) * 1e-9
		if v > h.Max() {
			v = h.Max()
		}
		if beyond <= 0 {
			beyond = 1 / float64(h.Count())
		}
		out = append(out, [2]float64{beyond, v})
	}
	return out
}
