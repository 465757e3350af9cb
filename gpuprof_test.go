package gpuprof_test

import (
	"encoding/json"
	"errors"
	"math"
	"testing"

	"github.com/gpuprof/gpuprof"
)

func TestFormat(t *testing.T) {
	tests := []struct{ got, want string }{
		{gpuprof.FormatSeconds(0.012345), "12.3 ms"},
		{gpuprof.FormatSeconds(0.00099996), "1.00 ms"},
		{gpuprof.FormatSeconds(3.2e-7), "320 ns"},
		{gpuprof.FormatSeconds(75), "75.0 s"},
		{gpuprof.FormatSeconds(12345), "12345 s"},
		{gpuprof.FormatSeconds(-3.14159e-6), "-3.14 us"},
		{gpuprof.FormatSeconds(0), "0 ns"},
		{gpuprof.FormatSeconds(math.NaN()), "unknown"},
		{gpuprof.FormatNS(999_999), "1.00 ms"},
		{gpuprof.FormatNS(9_996_000), "10.0 ms"},
		{gpuprof.Format(8.8134e-3, "s", 4), "8.813 ms"},
		{gpuprof.Format(0.5, "J", gpuprof.Digits), "500 mJ"},
		{gpuprof.FormatBytes(10 << 20), "10.0 MiB"},
		{gpuprof.FormatBytes(1023 << 20), "1023 MiB"},
		{gpuprof.FormatBytes(17), "17.0 B"},
		{gpuprof.FormatSI(2.4e9, "Hz"), "2.40 GHz"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func TestDidYouMean(t *testing.T) {
	valid := []string{"unfused", "fused", "csr"}
	for typed, want := range map[string]string{"cs": ` (did you mean "csr"?)`, "FUSED": ` (did you mean "fused"?)`, "unfsued": ` (did you mean "unfused"?)`, "zzzzzzzz": "", "-": "", "c": "", "empty": "", "on": "", "no": ""} {
		if got := gpuprof.DidYouMean(typed, valid); got != want {
			t.Errorf("%s: %q, want %q", typed, got, want)
		}
	}
}

func TestNumber(t *testing.T) {
	b, err := json.Marshal([]gpuprof.Number{1.5, gpuprof.Number(math.NaN()), gpuprof.Number(math.Inf(-1))})
	if err != nil || string(b) != "[1.5,null,null]" {
		t.Errorf("%s %v", b, err)
	}
	var n []gpuprof.Number
	if err := json.Unmarshal(b, &n); err != nil || n[0] != 1.5 || !math.IsNaN(float64(n[1])) {
		t.Errorf("%v %v", n, err)
	}
}

func TestErrorKinds(t *testing.T) {
	inner := errors.New("inner")
	err := gpuprof.Errorf(gpuprof.ErrInput, "reading x: %w", inner)
	if err.Error() != "reading x: inner" || !errors.Is(err, gpuprof.ErrInput) || !errors.Is(err, inner) || errors.Is(err, gpuprof.ErrUsage) {
		t.Errorf("%v", err)
	}
}

// A run that gets findings is another run: the first stays as it was made.
func TestWithFindings(t *testing.T) {
	findings := make([]gpuprof.Finding, 1, 4)
	first := &gpuprof.Run{Findings: findings}
	a, b := first.WithFindings(gpuprof.Finding{Rule: "a"}), first.WithFindings(gpuprof.Finding{Rule: "b"})
	if len(first.Findings) != 1 || findings[:2][1].Rule != "" || a.Findings[1].Rule != "a" || b.Findings[1].Rule != "b" {
		t.Errorf("%+v %+v %+v", first.Findings, a.Findings, b.Findings)
	}
	if none := (&gpuprof.Run{Findings: []gpuprof.Finding{}}).WithFindings(); none.Findings == nil {
		t.Error("an empty list became null")
	}
}
