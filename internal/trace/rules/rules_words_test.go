package rules

import "testing"

func TestFormatCount(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.84: "0.84", 1: "1", 2.5: "2.5", 10: "10", 99.7: "100", 100: "100", 1234: "1234"} {
		if got := formatCount(v, 2); got != want {
			t.Errorf("%g: %q, want %q", v, got, want)
		}
	}
}
