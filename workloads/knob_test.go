package workloads_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
)

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

type sharedSettings struct {
	Way   string `knob:"impl"`
	Fused bool   `knob:"impl=fused"`
}

func TestRead(t *testing.T) {
	type settings struct {
		sharedSettings
		N     int     `knob:"n"`
		Rate  float64 `knob:"r"`
		Every int     `knob:"sync"`
		On    bool    `knob:"graph"`
		Other int
	}
	want := settings{sharedSettings{"fused", true}, 7, 2.5, 4, true, 0}
	if got := workloads.Read[settings](gpuprof.Settings{"n": "7", "r": "2.5", "impl": "fused", "sync": "every:4", "graph": "on"}); got != want {
		t.Errorf("%+v", got)
	}
	if got := workloads.Read[settings](gpuprof.Settings{"n": "all", "impl": "csr", "sync": "never", "graph": "off"}); got != (settings{sharedSettings: sharedSettings{Way: "csr"}}) {
		t.Errorf("%+v", got)
	}
}
