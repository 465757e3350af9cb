package e3nn

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
)

func TestVectorsOfE3NN(t *testing.T) {
	file, err := os.ReadFile("../../testdata/e3nn/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	res, err := Workload{}.CheckVectors(context.Background(), openHost(t, 0), file, "vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	cases := map[int]bool{}
	kinds := map[string]float64{}
	for _, r := range res {
		cases[r.Index] = true
		kinds[r.Kind+" "+r.Precision] = max(kinds[r.Kind+" "+r.Precision], float64(r.RelativeError))
		if !r.Pass {
			t.Errorf("case %d %s %s: relative error %.3g over %.3g", r.Index, r.Kind, r.Precision, float64(r.RelativeError), r.Tolerance)
		}
	}
	// The kernels' way back takes the mode uvu alone: other modes are checked in float64.
	wide := 0
	for _, r := range res {
		if r.Precision == "float64" {
			wide++
		}
	}
	if narrow := len(res) - wide; len(cases) < 125 || wide != len(cases) || narrow < 100 {
		t.Errorf("%d cases, %d results in float64 and %d in float32; want 125 cases, each in float64 and 100 in float32", len(cases), wide, narrow)
	}
	t.Log(len(cases), "cases; worst:", kinds)
}

// oneForce is two atoms and one edge whose energy does not depend on positions: the
// readout is 0. Its expected force is wrong.
const oneForce = `{"kind":"forces","irreps_in":"1x0e","lmax":0,"irreps_out":"1x0e","basis":"gaussian","functions":2,"cutoff":4,"hidden":1,` +
	`"positions":[0,0,0,1,0,0],"src":[1],"dst":[0],"x":[1,1],"w1":[1,1],"w2":[1],"mix":[1],"readout":[0],"out":[0,-0.5,0,0,0,0,0]}`

// is wrong.

func TestVectorsCanFail(t *testing.T) {
	good := `{"kind":"wigner_3j","l1":1,"l2":1,"l3":0,"out":[[0.5773502691896258],[0],[0],[0],[0.5773502691896258],[0],[0],[0],[0.5773502691896258]]}`
	tests := []struct {
		name, file string
		fails      bool
		err        string
	}{
		{"flat and right", `{"cases":[` + good + `]}`, false, ""},
		{"wrong value", `{"cases":[` + strings.Replace(good, "[0]", "[0.1]", 1) + `]}`, true, ""},
		{"wrong sign of a gate", `{"cases":[{"kind":"gate","irreps_scalars":"1x0e","irreps_gates":"","irreps_gated":"","activations":[["none"],[]],"normalisation":"exact","x":[[1]],"out":[[-1]]}]}`, true, ""},
		{"wrong length", `{"cases":[{"kind":"wigner_3j","l1":1,"l2":1,"l3":0,"out":[1]}]}`, false, "case 0 (wigner_3j): out has 1 values, the case needs 9"},
		{"outside the triangle", `{"cases":[{"kind":"wigner_3j","l1":1,"l2":1,"l3":4,"out":[1]}]}`, false, "case 0"},
		{"unknown kind", `{"cases":[{"kind":"gates"}]}`, false, `did you mean "gate"`},
		{"text for numbers", `{"cases":[{"kind":"wigner_3j","out":["a"]}]}`, false, "case 0: a stands where a number is expected"},
		{"missing l1", `{"cases":[{"kind":"wigner_3j","l2":0,"l3":0,"out":[1]}]}`, false, "l1, l2 or l3 is missing"},
		{"missing lmax", `{"cases":[{"kind":"spherical_harmonics","normalization":"norm","r":[1,0,0],"out":[1]}]}`, false, "lmax is missing"},
		{"nothing to compare", `{"cases":[{"kind":"gate","irreps_scalars":"1x0e","irreps_gates":"","irreps_gated":"","activations":[["none"],[]],"normalisation":"exact","x":[],"out":[]}]}`, false, "holds no sample"},
		{"no directions", `{"cases":[{"kind":"spherical_harmonics","lmax":1,"normalization":"norm","r":[],"out":[]}]}`, false, "holds no sample"},
		{"unknown normalisation of a gate", `{"cases":[{"kind":"gate","irreps_scalars":"1x0e","irreps_gates":"","irreps_gated":"","activations":[["silu"],[]],"normalisation":"foo","x":[1],"out":[1]}]}`, false, "unknown normalisation"},
		{"a long direction", `{"cases":[{"kind":"spherical_harmonics","lmax":1,"normalization":"norm","r":[0,1e300,0],"out":[1,0,1,0]}]}`, false, ""},
		{"wrong force", `{"cases":[` + strings.Replace(oneForce, "-0.5", "0.5", 1) + `]}`, true, ""},
		{"a force that is right", `{"cases":[` + strings.Replace(oneForce, "-0.5", "0", 1) + `]}`, false, ""},
		{"an atom that does not exist", `{"cases":[` + strings.Replace(oneForce, `"src":[1]`, `"src":[2]`, 1) + `]}`, false, "src of edge 0 is 2, which is none of 2 atoms"},
		{"edges out of order", `{"cases":[` + strings.NewReplacer(`"src":[1]`, `"src":[1,0]`, `"dst":[0]`, `"dst":[1,0]`).Replace(oneForce) + `]}`, false, "not sorted by dst"},
		{"an edge without end", `{"cases":[` + strings.Replace(oneForce, `"dst":[0]`, `"dst":[]`, 1) + `]}`, false, "src has 1 edges and dst 0"},
		{"no neurons", `{"cases":[` + strings.Replace(oneForce, `"hidden":1`, `"hidden":0`, 1) + `]}`, false, "hidden is 0"},
		{"no functions", `{"cases":[` + strings.Replace(oneForce, `"functions":2`, `"functions":0`, 1) + `]}`, false, "functions is 0"},
		{"no cutoff", `{"cases":[` + strings.Replace(oneForce, `"cutoff":4`, `"cutoff":0`, 1) + `]}`, false, "cutoff 0"},
		{"a feature is missing", `{"cases":[` + strings.Replace(oneForce, `"x":[1,1]`, `"x":[1]`, 1) + `]}`, false, "x has 1 values, the case needs 2"},
		{"a cotangent is missing", `{"cases":[{"kind":"radial_grad","basis":"bessel","functions":2,"cutoff":4,"r":[1],"db":[1],"out":[1]}]}`, false, "db has 1 values"},
		{"unknown basis", `{"cases":[{"kind":"radial_grad","basis":"fourier","functions":2,"cutoff":4,"r":[1],"db":[1,1],"out":[1]}]}`, false, `unknown kind "fourier"`},
		{"harmonics without a cotangent", `{"cases":[{"kind":"spherical_harmonics_grad","lmax":1,"normalization":"norm","r":[1,0,0],"dy":[1],"out":[1,0,0]}]}`, false, "dy has 1 values, the case needs 4"},
		{"a gate's gradient", `{"cases":[{"kind":"gate_grad","irreps_scalars":"1x0e","irreps_gates":"","irreps_gated":"","activations":[["none"],[]],"normalisation":"exact","x":[[1]],"dout":[[2]],"out":[[2]]}]}`, false, ""},
		{"a product's gradient of too few values", `{"cases":[{"kind":"tensor_product_grad","irreps_in1":"1x0e","irreps_in2":"1x0e","irreps_out":"1x0e","instructions":[[0,0,0,"uvu",true,1]],"x":[1],"y":[1],"w":[1],"dout":[1],"out":[1,1]}]}`, false, "out has 2 values, the case needs 3"},
		{"no cases", `{}`, false, "holds no cases"},
		{"not JSON", `cases`, false, "must hold"},
		{"bad irreps", `{"cases":[{"kind":"tensor_product","irreps_in1":"3x"}]}`, false, "irreps_in1"},
		{"bad instruction", `{"cases":[{"kind":"tensor_product","instructions":[[0,0]]}]}`, false, "an instruction has 2 entries"},
		{"parity", `{"cases":[{"kind":"tensor_product","irreps_in1":"1x1o","irreps_in2":"1x1o","irreps_out":"1x1o","instructions":[[0,0,0,"uvu",false,1]],"x":[1,2,3],"y":[1,2,3],"w":[],"out":[1,2,3]}]}`, false, "case 0 (tensor_product)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res, err := Workload{}.CheckVectors(context.Background(), openHost(t, 0), []byte(tt.file), "file.json")
			if strings.Contains(tt.file, `"forces"`) {
				res, err = checkNetworks(openHost(t, 0), []byte(tt.file))
			}
			if tt.err != "" {
				if errors.Is(err, gpuprof.ErrUsage) || !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want input error with %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			failed := slices.ContainsFunc(res, func(r gpuprof.CaseResult) bool { return !r.Pass })
			if failed != tt.fails {
				t.Errorf("failed %t, want %t: %+v", failed, tt.fails, res)
			}
		})
	}
}

func TestArrayFlattens(t *testing.T) {
	for text, want := range map[string][]float64{
		`[1,2,3]`: {1, 2, 3}, `[[1],[2,[3]],[]]`: {1, 2, 3}, `[]`: nil, `[[],[]]`: nil, `5`: {5},
	} {
		var a array
		if err := json.Unmarshal([]byte(text), &a); err != nil || !slices.Equal(a, want) {
			t.Errorf("%s: %v %v, want %v", text, a, err, want)
		}
	}
	var a array
	if err := json.Unmarshal([]byte(`[1,{"a":2}]`), &a); err == nil {
		t.Error("an object was taken for numbers")
	}
}

func FuzzVectors(f *testing.F) {
	f.Add([]byte(`{"cases":[{"kind":"wigner_3j","l1":1,"l2":1,"l3":0,"out":[1,2]}]}`))
	f.Add([]byte(`{"cases":[{"kind":"tensor_product","irreps_in1":"1x1o","irreps_in2":"1x1o","irreps_out":"1x0e","instructions":[[0,0,0,"uvu",false,1]],"x":[1,2,3],"y":[1,2,3],"out":[1]}]}`))
	f.Add([]byte(`{"cases":[{"kind":"gate","irreps_scalars":"1x0e","irreps_gates":"1x0e","irreps_gated":"1x1o","activations":[["silu"],["sigmoid"]],"normalisation":"exact","x":[1,2,3,4,5],"out":[1,2,3,4]}]}`))
	f.Add([]byte(`{"cases":[{"kind":"radial_grad","basis":"bessel","functions":2,"cutoff":4,"r":[1],"db":[1,2],"out":[1]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := (Workload{}).CheckVectors(context.Background(), openHost(t, 1<<26), b, "fuzz"); err != nil && len(err.Error()) > 4096 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	})
}
