package gpuprof

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Number is a float64 that JSON writes as null when it is not finite.
type Number float64

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	f := float64(n)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(f)
}

// UnmarshalJSON implements json.Unmarshaler; null becomes NaN.
func (n *Number) UnmarshalJSON(b []byte) error {
	if bytes.Equal(b, []byte("null")) {
		*n = Number(math.NaN())
		return nil
	}
	return json.Unmarshal(b, (*float64)(n))
}

// Values inside gpuprof are in base units (seconds, bytes, hertz, joules).
// The functions below scale them for people, and only for printing.

// FormatSeconds prints a time with a unit that leaves 1 to 3 digits before
// the point and four significant digits: "12.35 ms".
func FormatSeconds(s float64) string {
	return scaled(s, []scale{{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}})
}

// FormatBytes prints a size in binary units: "9.54 MiB".
func FormatBytes(b float64) string {
	return scaled(b, []scale{{1 << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}, {1, "B"}})
}

// FormatSI prints a quantity with a decimal prefix and the given unit: "2.400 GHz".
func FormatSI(v float64, unit string) string {
	return scaled(v, []scale{{1e12, "T" + unit}, {1e9, "G" + unit}, {1e6, "M" + unit}, {1e3, "k" + unit}, {1, unit}})
}

type scale struct {
	size float64
	unit string
}

func scaled(v float64, scales []scale) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "unknown"
	}
	for i, s := range scales {
		// 0.9995 so that 999.96 us prints as 1 ms rather than 1000 us.
		if math.Abs(v) >= 0.99995*s.size || i == len(scales)-1 {
			return trimDigits(v/s.size, 4) + " " + s.unit
		}
	}
	return ""
}

// trimDigits prints v with n significant digits and no exponent.
func trimDigits(v float64, n int) string {
	if v == 0 {
		return "0"
	}
	whole := int(math.Floor(math.Log10(math.Abs(v)))) + 1
	dec := max(0, n-max(whole, 1))
	out := strconv.FormatFloat(v, 'f', dec, 64)
	if strings.Trim(out, "-0.") == "" { // too small for n decimals
		return fmt.Sprintf("%.*g", n, v)
	}
	return out
}
