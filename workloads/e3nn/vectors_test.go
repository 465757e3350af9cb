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
	if len(cases) < 40 || len(res) < 2*len(cases) {
		t.Errorf("%d cases, %d results; want at least 40 cases, each in float32 and float64", len(cases), len(res))
	}
	t.Log(len(cases), "cases; worst:", kinds)
}

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
		{"no cases", `{}`, false, "holds no cases"},
		{"not JSON", `cases`, false, "must hold"},
		{"bad irreps", `{"cases":[{"kind":"tensor_product","irreps_in1":"3x"}]}`, false, "irreps_in1"},
		{"bad instruction", `{"cases":[{"kind":"tensor_product","instructions":[[0,0]]}]}`, false, "an instruction has 2 entries"},
		{"parity", `{"cases":[{"kind":"tensor_product","irreps_in1":"1x1o","irreps_in2":"1x1o","irreps_out":"1x1o","instructions":[[0,0,0,"uvu",false,1]],"x":[1,2,3],"y":[1,2,3],"w":[],"out":[1,2,3]}]}`, false, "case 0 (tensor_product)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res, err := Workload{}.CheckVectors(context.Background(), openHost(t, 0), []byte(tt.file), "file.json")
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
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := (Workload{}).CheckVectors(context.Background(), openHost(t, 1<<26), b, "fuzz"); err != nil && len(err.Error()) > 4096 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	})
}
