package gpuprof

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Number is a float64 that JSON writes as null when it is not finite.
type Number float64

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	f := float64(n)
	if !IsFinite(f) {
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

// Interval holds the ends of an interval; both are NaN, and null in JSON, if there is none.
type Interval [2]float64

// NoInterval returns the value of an Interval that does not exist.
func NoInterval() Interval { return Interval{math.NaN(), math.NaN()} }

// Known reports whether the interval exists.
func (i Interval) Known() bool { return !math.IsNaN(i[0]) && !math.IsNaN(i[1]) }

// MarshalJSON implements json.Marshaler.
func (i Interval) MarshalJSON() ([]byte, error) {
	if !i.Known() {
		return []byte("null"), nil
	}
	return json.Marshal([2]float64(i))
}

// UnmarshalJSON implements json.Unmarshaler; null becomes NaN.
func (i *Interval) UnmarshalJSON(b []byte) error {
	if bytes.Equal(b, []byte("null")) {
		*i = NoInterval()
		return nil
	}
	return json.Unmarshal(b, (*[2]float64)(i))
}

// Values are in base units (seconds, bytes, hertz, joules); the functions below scale them for printing.

// Digits is the number of significant digits to print, right for a median with an interval of about one percent.
const Digits = 3

// FormatSeconds formats a time: "12.3 ms", or "unknown" if it is not finite.
func FormatSeconds(s float64) string { return Format(s, "s", Digits) }

// FormatNS formats a time in nanoseconds like FormatSeconds.
func FormatNS(ns int64) string { return FormatSeconds(Seconds(ns)) }

// FormatBytes formats a size in binary units: "9.54 MiB".
func FormatBytes(b float64) string {
	return scaled(b, Digits, []scale{{1 << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}, {1, "B"}})
}

// FormatSI formats a quantity with a decimal prefix and the given unit: "2.40 GHz".
func FormatSI(v float64, unit string) string { return Format(v, unit, Digits) }

// Format scales a quantity to between 1 and 1000 by a decimal prefix, and formats it with the given number of
// significant digits.
func Format(v float64, unit string, digits int) string {
	switch unit {
	case "s":
		return scaled(v, digits, []scale{{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}})
	case "J":
		return scaled(v, digits, []scale{{1e3, "kJ"}, {1, "J"}, {1e-3, "mJ"}, {1e-6, "uJ"}})
	}
	return scaled(v, digits, []scale{{1e12, "T" + unit}, {1e9, "G" + unit}, {1e6, "M" + unit}, {1e3, "k" + unit}, {1, unit}})
}

// IsFinite reports whether v is neither infinite nor a NaN.
func IsFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Unknown is the text for a value that is not finite.
const Unknown = "unknown"

type scale struct {
	size float64
	unit string
}

func scaled(v float64, digits int, scales []scale) string {
	if !IsFinite(v) {
		return Unknown
	}
	last := scales[len(scales)-1]
	if v == 0 {
		return "0 " + last.unit
	}
	for _, s := range scales {
		// Round first, so that 999.96 us prints as 1.00 ms and not as 1000 us.
		if math.Abs(Rounded(v/s.size, digits)) >= 1 {
			return Significant(v/s.size, digits) + " " + s.unit
		}
	}
	return Significant(v/last.size, digits) + " " + last.unit
}

// MostShare is the largest share that is printed; above, the data give no useful bound.
const MostShare = 9.99

// FormatPercent formats a share of 0 or more with the given number of significant digits: 0.031 is "3.1 %". It
// returns ">999 %" above MostShare, and "unknown" for NaN.
func FormatPercent(share float64, digits int) string {
	switch {
	case math.IsNaN(share):
		return Unknown
	case share > MostShare:
		return ">999 %"
	case share > 0 && share < 5e-5:
		return "<0.01 %"
	}
	return Significant(100*share, digits) + " %"
}

// FormatChange formats a relative change of -1 or more: "+5.3 %", "-41.1 %". It returns "above +999 %" or "below
// -99.9 %" beyond these limits, and "unknown" for NaN.
func FormatChange(change float64) string {
	switch {
	case math.IsNaN(change):
		return Unknown
	case change > MostShare:
		return "above +999 %"
	case change < -0.999:
		return "below -99.9 %"
	}
	return fmt.Sprintf("%+.1f %%", 100*change)
}

// Significant formats v with n significant digits; "0" if v is not finite. It keeps all digits before the point, up to
// 15. Only tiny and huge values have an exponent.
func Significant(v float64, n int) string {
	r := Rounded(v, n)
	if r == 0 || !IsFinite(r) {
		return "0"
	}
	// 1e-12 corrects logarithms of powers of ten that are slightly too small.
	whole := int(math.Floor(math.Log10(math.Abs(r))+1e-12)) + 1
	if whole < -4 || whole > 15 {
		return strconv.FormatFloat(v, 'g', n, 64)
	}
	return strconv.FormatFloat(v, 'f', max(0, n-whole), 64)
}

// Rounded returns v rounded to n significant digits.
func Rounded(v float64, n int) float64 {
	out, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', n-1, 64), 64)
	if err != nil {
		return v
	}
	return out
}

// The parsers of times, sizes and shares from users. They refuse values that are not finite, and times and sizes that
// are not above 0. Their errors have the fix.

// ParseTime parses a time such as "2s", "500ms", "1m30s" or "400d".
func ParseTime(text string) (time.Duration, error) {
	const day, mostDays = 24 * float64(time.Hour), 36500
	text = strings.TrimSpace(text)
	if inSeconds := strings.TrimLeft(text, "+-") + "s"; text != "0" {
		_, err := strconv.ParseFloat(text, 64)
		// The number plus "s" may still be no time: NaN, 1e3.
		if _, not := time.ParseDuration(inSeconds); err == nil && not == nil {
			return 0, Errorf(ErrUsage, "%s has no unit", text).WithFix("give a time such as %s", inSeconds)
		}
	}
	d, err := time.ParseDuration(text)
	if number, is := strings.CutSuffix(text, "d"); is {
		var days float64
		if days, err = strconv.ParseFloat(number, 64); err == nil && !(math.Abs(days) <= mostDays) {
			return 0, Errorf(ErrUsage, "%s is more than a hundred years", text).WithFix("give a time such as 2s, 1m30s or 400d")
		}
		d = time.Duration(days * day)
	}
	switch {
	case err != nil:
		return 0, Errorf(ErrUsage, "%q is not a time", text).WithFix("give a time such as 2s, 500ms or 1m30s")
	case d <= 0:
		return 0, Errorf(ErrUsage, "%s is not above 0", text).WithFix("give a time such as 2s, 500ms or 1m30s")
	}
	return d, nil
}

// mostBytes is the largest accepted size.
const mostBytes = 1 << 60

// ParseBytes parses a size such as "512MiB", "1GB" (10^9 bytes), "2g" (2 GiB) or a number of bytes.
func ParseBytes(text string) (int64, error) {
	v, err := sizeIn(text)
	const fix = "give bytes, or a size such as 512MiB or 2GB"
	switch {
	case err != nil || math.IsNaN(v):
		return 0, Errorf(ErrUsage, "%q is not a size", text).WithFix(fix)
	case v < 1:
		return 0, Errorf(ErrUsage, "%s is less than a byte", text).WithFix(fix)
	case v > mostBytes:
		return 0, Errorf(ErrUsage, "%s is more than any memory has", text).WithFix(fix)
	}
	return int64(v), nil
}

// ParseLimit parses a limit of 0 or more on a counter; with bytes also a size as in ParseBytes.
func ParseLimit(text string, bytes bool) (float64, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	fix := "give a number of 0 or more, such as 3"
	if bytes {
		v, err = sizeIn(text)
		fix = "give bytes, 0 or more, or a size such as 512MiB or 2GB"
	}
	if err != nil || !(v >= 0 && v <= math.MaxFloat64) {
		return 0, Errorf(ErrUsage, "%q is no limit of 0 or more", text).WithFix("%s", fix)
	}
	return v, nil
}

// sizeIn parses a size in bytes, such as "2 GiB"; it accepts negative numbers too.
func sizeIn(text string) (float64, error) {
	lower, unit := strings.ToLower(strings.TrimSpace(text)), 1.0
	for _, u := range []struct {
		name string
		size float64
	}{{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40}, {"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12}, {"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"t", 1 << 40}, {"b", 1}} {
		if rest, ok := strings.CutSuffix(lower, u.name); ok {
			lower, unit = strings.TrimSpace(rest), u.size
			break
		}
	}
	v, err := strconv.ParseFloat(lower, 64)
	return v * unit, err
}

// ParseShare parses a share from 0: "5%" or "0.05". It refuses a bare number from 1: a user who types 5 means 5 %.
func ParseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	number = strings.TrimSpace(number)
	v, err := strconv.ParseFloat(number, 64)
	const fix = "give a share such as 5%% or 0.05"
	switch {
	case err != nil || !IsFinite(v):
		return 0, Errorf(ErrUsage, "%q is not a number", text).WithFix(fix)
	case v < 0:
		return 0, Errorf(ErrUsage, "%s is below 0", text).WithFix(fix)
	case percent:
		return v / 100, nil
	case v >= 1:
		return 0, Errorf(ErrUsage, "%s without %% is %s%%", number, strconv.FormatFloat(100*v, 'g', -1, 64)).WithFix("did you mean %s%%?", number)
	}
	return v, nil
}
