package trace

import "slices"

// MedianStep is the median duration of the steps that count, in ns; 0 where
// there are none.
func MedianStep(a *Analysis) int64 {
	var v []int64
	for _, s := range a.Steps {
		if !s.Dropped {
			v = append(v, s.DurNS)
		}
	}
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
