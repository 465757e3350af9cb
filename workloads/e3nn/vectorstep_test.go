package e3nn

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

const stepsFile, forcesFile = "../../testdata/e3nn/steps.json", "../../testdata/e3nn/forces.json"

// Forces, and a whole step of training, are those of e3nn, torch.autograd and torch.optim.Adam, on the host and on the
// simulated CUDA device: the loss, the gradients of all parameters, and the parameters.
func TestNetworksOfE3NN(t *testing.T) {
	for _, path := range []string{forcesFile, stepsFile} {
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		passOnBoth(t, file)
	}
}

func passOnBoth(t *testing.T, file []byte) {
	t.Helper()
	for name, on := range map[string]func(t *testing.T) device.Device{
		"host": func(t *testing.T) device.Device { return openHost(t, 0) }, "cuda": func(t *testing.T) device.Device { return openSimulated(t, false) },
	} {
		t.Run(name, func(t *testing.T) {
			d := on(t)
			res, err := checkNetworks(d, file)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range res {
				t.Logf("case %d %s: %.2g", r.Index, r.Precision, float64(r.RelativeError))
				if !r.Pass {
					t.Errorf("case %d %s: relative error %.3g over %.3g", r.Index, r.Precision, float64(r.RelativeError), r.Tolerance)
				}
			}
			if len(res) != 6 {
				t.Errorf("%d results of 3 cases", len(res))
			}
			if use := d.Memory().InUse; use != 0 {
				t.Errorf("%d bytes are left", use)
			}
		})
	}
}

// A step that differs in one number fails, and one that is not whole is refused.
func TestTrainingStepsCanFail(t *testing.T) {
	file, err := os.ReadFile(stepsFile)
	if err != nil {
		t.Fatal(err)
	}
	checked := func(change func(c map[string]any)) ([]gpuprof.CaseResult, error) {
		var doc struct {
			Cases []map[string]any `json:"cases"`
		}
		if err := json.Unmarshal(file, &doc); err != nil {
			t.Fatal(err)
		}
		c := doc.Cases[1] // in which the norm of the gradients is cut
		change(c)
		b, err := json.Marshal(map[string]any{"cases": []any{c}})
		if err != nil {
			t.Fatal(err)
		}
		return checkNetworks(openHost(t, 0), b)
	}
	more := func(v any) {
		row := v.([]any)
		for {
			if in, ok := row[0].([]any); ok {
				row = in
				continue
			}
			break
		}
		row[0] = row[0].(float64) + 0.01
	}
	of := func(c map[string]any, field, name string) any { return c[field].(map[string]any)[name] }
	for name, change := range map[string]func(c map[string]any){
		"loss": func(c map[string]any) { c["loss"] = c["loss"].(float64) * 1.001 }, "norm": func(c map[string]any) { c["clip"] = 1e6 }, "learning rate": func(c map[string]any) { c["lr"] = 0.011 },
		"target": func(c map[string]any) { more(c["target"]) }, "position": func(c map[string]any) { more(c["positions"]) }, "feature": func(c map[string]any) { more(c["x"]) },
		"gradient of w2": func(c map[string]any) { more(of(c, "grads", "w2")) }, "feature after the step": func(c map[string]any) { more(of(c, "parameters_after", "x")) },
		"factor after the step": func(c map[string]any) { more(of(c, "parameters_after", "readout")) },
	} {
		res, err := checked(change)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, r := range res {
			// Whatever the norm of gradients is cut to, the first step of Adam is as long, but for its eps.
			if r.Pass && (name != "norm" || r.Precision == "float64") {
				t.Errorf("with another %s, %s passes: %g", name, r.Precision, float64(r.RelativeError))
			}
		}
	}
	for want, change := range map[string]func(c map[string]any){
		"lr is 0": func(c map[string]any) { c["lr"] = 0 }, "give loss": func(c map[string]any) { delete(c, "loss") }, "target has 0 values": func(c map[string]any) { delete(c, "target") },
		"grads mix has 0 values": func(c map[string]any) { delete(c["grads"].(map[string]any), "mix") }, "parameters_after w1 has 0": func(c map[string]any) { delete(c["parameters_after"].(map[string]any), "w1") },
		"not sorted by dst": func(c map[string]any) { c["dst"].([]any)[0] = 4 },
	} {
		if _, err := checked(change); !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an input error with %q", err, want)
		}
	}
}
