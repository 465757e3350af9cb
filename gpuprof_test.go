package gpuprof_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
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

// toy is a workload of knobs only.
type toy struct{}

func (toy) Name() string { return "toy" }
func (toy) Doc() string  { return "" }
func (toy) Presets() []workloads.Preset {
	return []workloads.Preset{{Name: "small"}, {Name: "big", Set: gpuprof.Settings{"n": "07"}}}
}
func (toy) Knobs() []workloads.Knob {
	return []workloads.Knob{workloads.IntKnob("n", "", 3, 1, 9).AsModel(), workloads.FloatKnob("r", "", 4, 0, 10), workloads.Choice("impl", "", "csr", "fused")}
}
func (toy) Stages() []gpuprof.Stage                    { return nil }
func (toy) Refuse(device.Info, gpuprof.Settings) error { return nil }
func (toy) Open(context.Context, device.Device, workloads.Config) (workloads.Session, error) {
	return nil, nil
}

func TestResolve(t *testing.T) {
	tests := []struct {
		preset string
		set    gpuprof.Settings
		want   gpuprof.Settings
		err    string
	}{
		{"small", nil, gpuprof.Settings{"n": "3", "r": "4", "impl": "csr"}, ""},
		{"big", gpuprof.Settings{"r": "2.50"}, gpuprof.Settings{"n": "7", "r": "2.5", "impl": "csr"}, ""},
		{"big", gpuprof.Settings{"n": "9", "impl": "fused"}, gpuprof.Settings{"n": "9", "r": "4", "impl": "fused"}, ""},
		{"bgi", nil, nil, `did you mean "big"?`},
		{"small", gpuprof.Settings{"m": "1"}, nil, "no such knob; its knobs are impl, n, r"},
		{"small", gpuprof.Settings{"n": "-1"}, nil, `"-1" is outside 1 to 9; use integer from 1 to 9`},
		{"small", gpuprof.Settings{"n": "3.5"}, nil, "is not a whole number"},
		{"small", gpuprof.Settings{"r": "NaN"}, nil, "is not a number"},
		{"small", gpuprof.Settings{"r": "0"}, nil, "above 0"},
		{"small", gpuprof.Settings{"impl": "csrr"}, nil, `use csr or fused (did you mean "csr"?)`},
	}
	for _, tt := range tests {
		got, err := workloads.Resolve(toy{}, tt.preset, tt.set)
		if tt.err != "" {
			if !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%v: error %v, want usage error with %q", tt.set, err, tt.err)
			}
			continue
		}
		if d := cmp.Diff(tt.want, got); err != nil || d != "" {
			t.Errorf("%v: %v %s", tt.set, err, d)
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

func TestMeter(t *testing.T) {
	a := device.Meter{Launches: 5, BytesH2D: 7, SyncPoints: 2, Allocations: 1}
	b := device.Meter{Launches: 3, BytesH2D: 10, EventWaits: 4}
	if got := a.Add(b).Sub(b); got != a {
		t.Errorf("%+v", got)
	}
}

func TestCountAndEveryKnobs(t *testing.T) {
	threads, sync := workloads.CountKnob("threads", ""), workloads.EveryKnob("sync", "", "never", "never", "step")
	trim := workloads.EveryKnob("pool_trim", "", "never", "never")
	for _, c := range []struct {
		knob      workloads.Knob
		value     string
		canonical string
		n         int // what Int or Every reads
	}{
		{threads, "all", "all", 0}, {threads, "3", "3", 3}, {threads, "007", "7", 7}, {threads, "0", "", 0}, {threads, "x", "", 0},
		{sync, "never", "never", 0}, {sync, "step", "step", 1}, {sync, "every:1", "step", 1}, {sync, "4", "every:4", 4}, {sync, "every:0", "", 0},
		{trim, "1", "every:1", 1}, {trim, "every:5", "every:5", 5}, {trim, "step", "", 0},
	} {
		got, err := c.knob.Canonical(c.value)
		if got != c.canonical || (err == nil) != (c.canonical != "") {
			t.Errorf("%s=%s is %q, %v; want %q", c.knob.Name, c.value, got, err, c.canonical)
		}
		set := gpuprof.Settings{c.knob.Name: got}
		read := set.Every
		if c.knob.Name == "threads" {
			read = set.Int
		}
		if n := read(c.knob.Name); n != c.n {
			t.Errorf("%s=%s reads as %d, want %d", c.knob.Name, got, n, c.n)
		}
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
