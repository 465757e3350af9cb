package kineto

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// sealed is s as a window.
func sealed(s string) []byte {
	b := growBuffer([]byte(s), len(s))
	writePadding(b, len(s))
	return b
}

func TestNanos(t *testing.T) {
	for _, c := range []struct {
		in   string
		want int64
		ok   bool
	}{
		{"0", 0, true},
		{"1", 1000, true},
		{"1623142623460111", 1623142623460111000, true},
		{"1712195495519689.123", 1712195495519689123, true},
		{"1712195495519689.1", 1712195495519689100, true},
		{"1419247332972.313", 1419247332972313, true},
		{"0.0004", 0, true},
		{"0.0005", 1, true},
		{"-0.0005", -1, true},
		{"-0.0004", 0, true},
		{"1.2345", 1235, true},
		{"1.2344999", 1234, true},
		{"-7.5", -7500, true},
		{"1.5e3", 1500000, true},
		{"1.7e15", 1700000000000000000, true},
		{"1E-3", 1, true},
		{"4.9e-4", 0, true},
		{"12345e-10", 0, true},
		{"1e-999999999999", 0, true},
		{"0e999999999999", 0, true},
		{"00001.5", 1500, true},
		{"4000000000000000", 4000000000000000000, true},
		{"4000000000000000.001", 0, false},
		{"99999999999999999999", 0, false},
		{"1e300", 0, false},
		{"NaN", 0, false},
		{"nan", 0, false},
		{"inf", 0, false},
		{"-Infinity", 0, false},
		{"null", 0, false},
		{"-", 0, false},
		{".", 0, false},
		{"", 0, false},
		{"1.2.3", 0, false},
		{"1e", 0, false},
		{"0x10", 0, false},
		{"12abc", 0, false},
	} {
		for _, after := range []string{"", ",", "}", " ", "\n"} {
			v, end, ok := parseNanos(sealed(c.in+after), 0)
			if ok != c.ok || ok && (v != c.want || end != len(c.in)) {
				t.Errorf("nanos(%q) = %d, %d, %v; want %d, %d, %v", c.in+after, v, end, ok, c.want, len(c.in), c.ok)
			}
		}
	}
}

// TestNanosIsExact compares with rational arithmetic.
func TestNanosIsExact(t *testing.T) {
	number := rapid.Custom(func(t *rapid.T) string {
		s := rapid.SampledFrom([]string{"", "-"}).Draw(t, "sign") + rapid.StringMatching(`[0-9]{1,20}`).Draw(t, "whole")
		if rapid.Bool().Draw(t, "decimals") {
			s += "." + rapid.StringMatching(`[0-9]{1,12}`).Draw(t, "fraction")
		}
		if rapid.Bool().Draw(t, "exponential") {
			s += fmt.Sprintf("e%d", rapid.IntRange(-25, 18).Draw(t, "exponent"))
		}
		return s
	})
	rapid.Check(t, func(t *rapid.T) {
		s := number.Draw(t, "number")
		r, ok := new(big.Rat).SetString(s)
		if !ok {
			t.Fatalf("%q is no number", s)
		}
		r.Mul(r, big.NewRat(1000, 1))
		half := big.NewRat(1, 2)
		if r.Sign() < 0 {
			half.Neg(half)
		}
		r.Add(r, half)
		want := new(big.Int).Quo(r.Num(), r.Denom()) // toward zero
		inside := want.IsInt64() && want.Int64() <= timeLimitNS && want.Int64() >= -timeLimitNS
		v, end, ok := parseNanos(sealed(s+","), 0)
		if ok != inside || ok && (v != want.Int64() || end != len(s)) {
			t.Fatalf("nanos(%q) = %d, %d, %v; want %s, inside %v", s, v, end, ok, want, inside)
		}
	})
}

func TestInteger(t *testing.T) {
	for _, c := range []struct {
		in   string
		want int64
		ok   bool
	}{
		{"0", 0, true},
		{"7", 7, true},
		{"-7", -7, true},
		{"12345678", 12345678, true},
		{"1234567890123456", 1234567890123456, true},
		{"123456789012345678", 123456789012345678, true},
		{"9223372036854775807", 9223372036854775807, true},
		{"18446744073709551615", -1, true},
		{"18446744073709551616", 0, false},
		{"8198.0", 8198, true},
		{"1e3", 1000, true},
		{"null", 0, false},
		{"[1]", 0, false},
	} {
		v, _, ok := parseInteger(sealed(c.in+","), 0)
		if ok != c.ok || v != c.want && ok {
			t.Errorf("integer(%q) = %d, %v; want %d, %v", c.in, v, ok, c.want, c.ok)
		}
	}
	for in, want := range map[string]int64{"5555": 5555, "-3": -3, "0": 0, "0x1f": 31, "010": 10} {
		if v, ok := parseIntegerText([]byte(in)); !ok || v != want {
			t.Errorf("integerText(%q) = %d, %v; want %d", in, v, ok, want)
		}
	}
	for _, in := range []string{"", "stream 7", "1.5", strings.Repeat("9", 30)} {
		if v, ok := parseIntegerText([]byte(in)); ok {
			t.Errorf("integerText(%q) = %d; want none", in, v)
		}
	}
}

func TestEightDigits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := []byte(rapid.StringMatching(`[0-9]{8}`).Draw(t, "digits"))
		var want uint64
		for _, c := range s {
			want = want*10 + uint64(c-'0')
		}
		if v, ok := parseEightDigits(load(s, 0)); !ok || v != want {
			t.Fatalf("eight(%q) = %d, %v", s, v, ok)
		}
		at := rapid.IntRange(0, 7).Draw(t, "at")
		other := byte(rapid.IntRange(0, 255).Draw(t, "byte"))
		if s[at] = other; other-'0' > 9 {
			if _, ok := parseEightDigits(load(s, 0)); ok {
				t.Fatalf("eight(%q) took it for digits", s)
			}
		}
	})
}
