package measure

import (
	"math"

	"github.com/gpuprof/gpuprof/internal/stats"
)

// theilSen returns the median slope between all pairs of points with different x, NaN without such pairs (Theil 1950,
// Sen 1968). Up to 29 % of the points may be outliers.
func theilSen(x, y []float64) float64 {
	var slopes []float64
	for i := range x {
		for j := range i {
			if x[i] != x[j] {
				slopes = append(slopes, (y[i]-y[j])/(x[i]-x[j]))
			}
		}
	}
	if len(slopes) == 0 {
		return math.NaN()
	}
	return stats.Median(slopes)
}
