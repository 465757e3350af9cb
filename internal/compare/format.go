package compare

import (
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// FormatMetric formats a value in its unit: counts whole and with separators, "unknown" if it is not finite.
func FormatMetric(v float64, unit string, exact bool) string {
	switch {
	case !gpuprof.IsFinite(v):
		return "unknown"
	case unit == "s":
		return gpuprof.FormatSeconds(v)
	case exact && unit == "B":
		return gpuprof.FormatCount(v) + " B"
	case exact:
		return strings.TrimSpace(gpuprof.FormatCount(v) + " " + strings.TrimSuffix(unit, "count"))
	case unit == "B", unit == "B/op":
		return gpuprof.FormatBytes(v) + strings.TrimPrefix(unit, "B")
	case unit == "" || unit == "count":
		return strconv.FormatFloat(v, 'g', 5, 64)
	}
	return gpuprof.FormatSI(v, unit)
}
