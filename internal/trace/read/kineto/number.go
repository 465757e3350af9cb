package kineto

import (
	"bytes"
	"math"
	"strconv"
)

// timeLimitNS is the largest accepted time, so that a start plus a duration fits into int64.
const timeLimitNS = 4_000_000_000_000_000_000

// parseEightDigits returns the value of eight decimal digits packed in w, and whether w consists of digits.
func parseEightDigits(w uint64) (uint64, bool) {
	if (w&(ones*0xF0))|((w+ones*6)&(ones*0xF0))>>4 != ones*0x33 {
		return 0, false
	}
	// Combine pairs, then fours, then eights. The steps weight the left half by 10, 100 and 10,000.
	w -= ones * '0'
	w = (w*10 + w>>8) & 0x00FF00FF00FF00FF
	w = (w*100 + w>>16) & 0x0000FFFF0000FFFF
	return (w*10000 + w>>32) & 0xFFFFFFFF, true
}

// parseDigits parses up to 18 decimal digits at i and returns their value and the index after all digits.
func parseDigits(b []byte, i int) (uint64, int) {
	var v uint64
	if x, ok := parseEightDigits(load(b, i)); ok {
		v, i = x, i+8
		if x, ok = parseEightDigits(load(b, i)); ok {
			v, i = v*1e8+x, i+8
		}
	}
	for b[i]-'0' <= 9 {
		v = v*10 + uint64(b[i]-'0')
		i++
	}
	return v, i
}

// parseNanos parses the number at i, in us, as integer ns. It is exact up to three decimals and rounds further ones
// half away from zero. It returns the index after the token; ok is false without a number or out of range.
func parseNanos(b []byte, i int) (ns int64, end int, ok bool) {
	from := i
	if b[i] == '-' {
		i++
	}
	v, j := parseDigits(b, i)
	if j == i || j-i > 15+1 {
		return parseNanosSlowly(b, from)
	}
	v *= 1000
	if b[j] == '.' {
		k := j + 1
		for scale := uint64(100); scale > 0 && b[k]-'0' <= 9; scale /= 10 {
			v += uint64(b[k]-'0') * scale
			k++
		}
		if k == j+1 {
			return parseNanosSlowly(b, from)
		}
		j = k
	}
	if !endsToken[b[j]] || v > timeLimitNS {
		return parseNanosSlowly(b, from)
	}
	ns = int64(v)
	if b[from] == '-' {
		ns = -ns
	}
	return ns, j, true
}

func parseNanosSlowly(b []byte, i int) (int64, int, bool) {
	j := tokenEnd(b, i)
	ns, ok := parseDecimal(b[i:j], 3)
	return ns, j, ok && ns <= timeLimitNS && ns >= -timeLimitNS
}

// parseDecimal returns s times 10^shift, rounded half away from zero; ok is false without a number below 2^63.
func parseDecimal(s []byte, shift int) (v int64, ok bool) {
	neg := false
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		neg, s = s[0] == '-', s[1:]
	}
	s, exp, ok := splitExponent(s)
	point := bytes.IndexByte(s, '.')
	if point < 0 {
		point = len(s)
	}
	if !ok || len(s) == 0 || string(s) == "." {
		return 0, false
	}
	weight := point + shift + exp // power of ten of the digit, in units of the result
	for k, c := range s {
		if k == point {
			continue
		}
		if c-'0' > 9 {
			return 0, false
		}
		switch weight--; {
		case weight >= 0:
			if v > (math.MaxInt64-9)/10 {
				return 0, false
			}
			v = v*10 + int64(c-'0')
		case weight == -1 && c >= '5':
			v++
		}
	}
	for ; weight > 0 && v != 0; weight-- {
		if v > math.MaxInt64/10 {
			return 0, false
		}
		v *= 10
	}
	if neg {
		v = -v
	}
	return v, true
}

// splitExponent splits off the exponent. It limits the exponent to +-10^6, which is beyond every range.
func splitExponent(s []byte) (mantissa []byte, exp int, ok bool) {
	e := bytes.IndexAny(s, "eE")
	if e < 0 {
		return s, 0, true
	}
	t, sign := s[e+1:], 1
	if len(t) > 0 && (t[0] == '-' || t[0] == '+') {
		if t[0] == '-' {
			sign = -1
		}
		t = t[1:]
	}
	for _, c := range t {
		if c-'0' > 9 {
			return nil, 0, false
		}
		exp = min(exp*10+int(c-'0'), 1e6)
	}
	return s[:e], sign * exp, len(t) > 0
}

// parseInteger parses the integer at i; ok is false without one. Values up to 2^64-1, which some ids have, keep their
// bits.
func parseInteger(b []byte, i int) (v int64, end int, ok bool) {
	from := i
	if b[i] == '-' {
		i++
	}
	u, j := parseDigits(b, i)
	if j > i && j-i <= 18 && endsToken[b[j]] {
		if b[from] == '-' {
			return -int64(u), j, true
		}
		return int64(u), j, true
	}
	j = tokenEnd(b, from)
	if w, err := strconv.ParseUint(string(b[from:j]), 10, 64); err == nil {
		return int64(w), j, true
	}
	v, ok = parseDecimal(b[from:j], 0)
	return v, j, ok
}

func parseIntegerText(s []byte) (int64, bool) {
	if len(s) == 0 || len(s) > 24 {
		return 0, false
	}
	if v, err := strconv.ParseInt(string(s), 0, 64); err == nil && s[0] != '0' {
		return v, true
	}
	if v, err := strconv.ParseUint(string(s), 0, 64); err == nil && bytes.HasPrefix(s, []byte("0x")) {
		return int64(v), true
	}
	v, err := strconv.ParseInt(string(s), 10, 64)
	return v, err == nil
}
