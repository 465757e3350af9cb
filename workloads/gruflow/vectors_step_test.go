package gruflow

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
)

// stepCases are the cases of whole training steps among the vectors of torch.
func stepCases(t *testing.T) []json.RawMessage {
	t.Helper()
	file, err := os.ReadFile("../../testdata/gruflow/steps.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Cases []json.RawMessage `json:"cases"`
	}
	if err := json.Unmarshal(file, &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Cases
}

// checked compares one case on a device.
func checked(t *testing.T, d device.Device, c any) ([]gpuprof.CaseResult, error) {
	t.Helper()
	b, err := json.Marshal(map[string]any{"cases": []any{c}})
	if err != nil {
		t.Fatal(err)
	}
	return checkSteps(d, b)
}

// A whole step of training is torch's, on the host and on the simulated CUDA device: the loss,
// the gradients of all parameters, and the parameters behind clipping and Adam.
func TestTrainingStepsOfTorch(t *testing.T) {
	cases := stepCases(t)
	if len(cases) < 4 {
		t.Fatalf("%d cases", len(cases))
	}
	for name, on := range map[string]func(t *testing.T) device.Device{
		"host": func(t *testing.T) device.Device { return openHost(t, host.Options{}) },
		"cuda": func(t *testing.T) device.Device { return openSimulated(t, false) }, "cuda with cuBLAS": func(t *testing.T) device.Device { return openSimulated(t, true) },
	} {
		t.Run(name, func(t *testing.T) {
			d := on(t)
			for i, c := range cases {
				res, err := checked(t, d, c)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range res {
					t.Logf("case %d %s: %.2g", i, r.Precision, float64(r.RelativeError))
					if !r.Pass {
						t.Errorf("case %d %s: relative error %.3g over %.3g", i, r.Precision, float64(r.RelativeError), r.Tolerance)
					}
				}
				if len(res) != 2 {
					t.Errorf("case %d has %d results", i, len(res))
				}
			}
			if use := d.Memory().InUse; use != 0 {
				t.Errorf("%d bytes are left", use)
			}
		})
	}
}

// A step that differs in one number fails, and one that is not whole is refused.
func TestTrainingStepsCanFail(t *testing.T) {
	d := openHost(t, host.Options{})
	raw := stepCases(t)[1] // in which the norm of the gradients is cut
	fresh := func() map[string]any {
		c := map[string]any{}
		if err := json.Unmarshal(raw, &c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	numbers := func(v any) []any {
		for {
			row := v.([]any)
			if _, ok := row[0].([]any); !ok {
				return row
			}
			v = row[0]
		}
	}
	of := func(c map[string]any, field, name string) []any { return numbers(c[field].(map[string]any)[name]) }
	more := func(row []any) { row[0] = row[0].(float64) + 1e-3 }
	for name, change := range map[string]func(c map[string]any){
		"loss": func(c map[string]any) { c["loss"] = c["loss"].(float64) * 1.001 }, "a gradient": func(c map[string]any) { more(of(c, "grads", "weight_hh_l0")) },
		"a parameter": func(c map[string]any) { more(of(c, "parameters_after", "projection_bias")) }, "the norm": func(c map[string]any) { c["clip"] = 1e6 },
		"the learning rate": func(c map[string]any) { c["lr"] = 0.011 }, "a target": func(c map[string]any) { c["target"].([]any)[0] = 8.0 },
		"the order of levels": func(c map[string]any) { slices.Reverse(c["level"].([]any)) }, "the state": func(c map[string]any) { numbers(c["h0"])[0] = 0.75 },
	} {
		c := fresh()
		change(c)
		res, err := checked(t, d, c)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, r := range res {
			// Whatever the norm of gradients is cut to, the first step of Adam is as long, but for its eps.
			if r.Pass && (name != "the norm" || r.Precision == "float64") {
				t.Errorf("with another %s, %s passes: %g", name, r.Precision, float64(r.RelativeError))
			}
		}
	}
	for want, change := range map[string]func(c map[string]any){
		"depth is 0":                  func(c map[string]any) { c["depth"] = 0 },
		"level of carrier 0 is 3":     func(c map[string]any) { c["level"].([]any)[0] = 3 },
		"x has 1 axes":                func(c map[string]any) { c["x"] = []any{1.0} },
		"target has shape [1]":        func(c map[string]any) { c["target"] = []any{1.0} },
		"lr 0":                        func(c map[string]any) { c["lr"] = 0 },
		"an input is no float32":      func(c map[string]any) { numbers(c["h0"])[0] = 0.1 },
		"grads lacks bias_hh_l0":      func(c map[string]any) { delete(c["grads"].(map[string]any), "bias_hh_l0") },
		"parameters_after lacks proj": func(c map[string]any) { delete(c["parameters_after"].(map[string]any), "projection") },
		"weight_hh_l0 is missing":     func(c map[string]any) { delete(c["weights"].(map[string]any), "weight_hh_l0") },
		"num_layers is -1":            func(c map[string]any) { c["num_layers"] = -1 },
		"lr 0.01 and clip 0.05":       func(c map[string]any) { delete(c, "loss") },
	} {
		c := fresh()
		change(c)
		if _, err := checked(t, d, c); err == nil || !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an input error with %q", err, want)
		}
	}
}
