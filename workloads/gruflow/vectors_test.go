package gruflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device/host"
)

func TestVectorsOfTorch(t *testing.T) {
	file, err := os.ReadFile("../../testdata/gruflow/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	both(t, func(t *testing.T) {
		res, err := Workload{}.CheckVectors(context.Background(), openHost(t, host.Options{}), file, "vectors.json")
		if err != nil {
			t.Fatal(err)
		}
		worst := map[string]float64{}
		for _, r := range res {
			worst[r.Precision] = max(worst[r.Precision], float64(r.RelativeError))
			if !r.Pass {
				t.Errorf("case %d %s: relative error %.3g over %.3g", r.Index, r.Precision, float64(r.RelativeError), r.Tolerance)
			}
		}
		if len(res) < 2*12 {
			t.Errorf("%d results; want at least 12 cases, each in float32 and float64", len(res))
		}
		t.Log(len(res)/2, "cases; worst:", worst)
	})
}

// knownCase is the known answer as a vectors file has it.
const knownCase = `{"kind":"gru","input_size":1,"hidden_size":1,"num_layers":1,
"weight_ih_l0":[[0.1],[0.2],[0.3]],"weight_hh_l0":[[0.4],[0.5],[0.6]],"bias_ih_l0":[0.01,0.02,0.03],"bias_hh_l0":[0.04,0.05,0.06],
"x":[[[0.5]]],"h0":[[[-0.25]]],"out":[[[-0.06222845619118353]]],"hn":[[[-0.06222845619118353]]]}`

func TestVectorsCanFail(t *testing.T) {
	change := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(knownCase) }
	tests := []struct {
		name, text string
		fails      bool
		err        string
	}{
		{"right", knownCase, false, ""},
		{"flat", change(`[[0.1],[0.2],[0.3]]`, `[0.1,0.2,0.3]`, `[[[0.5]]]`, `[0.5]`, `[[[-0.25]]]`, `[-0.25]`), false, ""},
		{"weights in an object", change(`"weight_ih_l0"`, `"weights":{"weight_ih_l0"`, `[0.04,0.05,0.06]`, `[0.04,0.05,0.06]}`), false, ""},
		{"unbatched", change(`[[[0.5]]]`, `[[0.5]]`, `[[[-0.25]]]`, `[[-0.25]]`, `[[[-0.06222845619118353]]]`, `[[-0.06222845619118353]]`), false, ""},
		{"without hn", change(`,"hn":[[[-0.06222845619118353]]]`, ``), false, ""},
		{"an unknown field", change(`"kind"`, `"torch":"2.9","kind"`), false, ""},
		{"b_hn outside the reset gate", change(`-0.06222845619118353`, `-0.047891924`), true, ""},
		{"wrong only in hn", change(`"hn":[[[-0.06222845619118353]]]`, `"hn":[[[-0.0622]]]`), true, ""},
		{"without h0 it starts from zero", change(`,"h0":[[[-0.25]]]`, ``), true, ""},
		{"biases off but given", change(`"kind"`, `"bias":false,"kind"`), true, ""},
		{"missing weights", change(`"weight_hh_l0"`, `"weight_hh_l7"`), false, "case 0 (gru): weight_hh_l0 is missing"},
		{"missing bias", change(`"bias_hh_l0"`, `"bias_hh"`), false, "bias_hh_l0 is missing"},
		{"wrong shape", change(`[[0.1],[0.2],[0.3]]`, `[[0.1,0.2,0.3]]`), false, "weight_ih_l0 has shape [1 3], the case needs [3 1]"},
		{"ragged", change(`[[0.1],[0.2],[0.3]]`, `[[0.1],[0.2],[]]`), false, "case 0: weight_ih_l0: rows differ in length"},
		{"uneven depth", change(`[[0.1],[0.2],[0.3]]`, `[[0.1],0.2,[0.3]]`), false, "rows differ in depth"},
		{"text for numbers", change(`[0.01,0.02,0.03]`, `["a"]`), false, "a stands where a number is expected"},
		{"a null among the numbers", change(`"out":[[[-0.06222845619118353]]]`, `"out":[[[null]]]`), false, "null stands where a number is expected"},
		{"an object for numbers", change(`[0.01,0.02,0.03]`, `[{}]`), false, "an object stands"},
		{"a number for an array", change(`[0.01,0.02,0.03]`, `5`), false, "5 stands where an array"},
		{"too few outputs", change(`"out":[[[-0.06222845619118353]]]`, `"out":[]`, `,"hn":[[[-0.06222845619118353]]]`, ``), false, "neither out nor hn"},
		{"out of another length", change(`"out":[[[-0.06222845619118353]]]`, `"out":[[[1,2]]]`), false, "out has shape [1 1 2], the case needs [1 1 1]"},
		{"no input", change(`[[[0.5]]]`, `[]`), false, "x holds no values"},
		{"too many axes", change(`[[[0.5]]]`, `[[[[0.5]]]]`), false, "x has 4 axes"},
		{"no sizes", change(`"hidden_size":1,`, ``), false, "hidden_size 0"},
		{"sizes that overflow", change(`"num_layers":1`, `"num_layers":4`, `"hidden_size":1`, `"hidden_size":4611686018427387904`, `[[[0.5]]]`, `[0.5]`), false, "hidden_size 4611686018427387904 and num_layers 4; give at most 1048576"},
		{"too many layers", change(`"num_layers":1`, `"num_layers":2`), false, "h0 has shape [1 1 1], the case needs [2 1 1]"},
		{"too few layers", change(`"kind"`, `"weight_ih_l1":[[1],[1],[1]],"kind"`), false, "num_layers is 1"},
		{"both directions", change(`"kind"`, `"bidirectional":true,"kind"`), false, "one direction only"},
		{"the other direction's weights", change(`"kind"`, `"weight_ih_l0_reverse":[[1],[1],[1]],"kind"`), false, "one direction only"},
		{"both directions as torch exports them", change(`"kind"`, `"bias_hh_l0_reverse":[1,1,1],"kind"`, `"h0":[[[-0.25]]]`, `"h0":[[[1]],[[1]]]`), false, "bias_hh_l0_reverse is given, so the GRU is bidirectional"},
		{"NaN as Python writes it", change(`[[[0.5]]]`, `[[[NaN]]]`), false, "no NaN"},
		{"unknown kind", change(`"kind":"gru"`, `"kind":"gruu"`), false, `did you mean "gru"`},
		{"flat input and no state", change(`[[[0.5]]]`, `[0.5]`, `,"h0":[[[-0.25]]]`, ``), false, "x is flat"},
		{"a wrong type", change(`"num_layers":1`, `"num_layers":"one"`), false, "case 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { expectVectors(t, `{"cases":[`+tt.text+`]}`, tt.fails, tt.err) })
	}
	expectVectors(t, `{}`, false, "holds no cases")
	expectVectors(t, `cases`, false, "must hold")
	expectVectors(t, `{"cases":[`+knownCase+`,`+change(`0.05`, `"x"`)+`]}`, false, "case 1")
}

func expectVectors(t *testing.T, file string, fails bool, want string) {
	t.Helper()
	res, err := Workload{}.CheckVectors(context.Background(), openHost(t, host.Options{}), []byte(file), "file.json")
	if want != "" {
		if errors.Is(err, gpuprof.ErrUsage) || !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), want) {
			t.Fatalf("error %v, want input error with %q", err, want)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	failed := slices.ContainsFunc(res, func(r gpuprof.CaseResult) bool { return !r.Pass })
	if failed != fails {
		t.Errorf("failed %t, want %t: %+v", failed, fails, res)
	}
}

// Vectors of a GRU in torch's default precision are compared within it; what is
// off by more than that fails, and so does one number of float64 among them that
// float64's limit does not let pass.
func TestVectorsOfFloat32(t *testing.T) {
	single := func(hn float64) string {
		return fmt.Sprintf(`{"cases":[{"kind":"gru","input_size":1,"hidden_size":1,"weight_ih_l0":[[0.5],[0.25],[1]],"weight_hh_l0":[[0.5],[0.5],[0.5]],
"x":[[[0.5]]],"h0":[[[-0.25]]],"hn":[[[%.17g]]]}]}`, hn)
	}
	s := shape{I: 1, H: 1, L: 1, T: 1, B: 1}
	_, hn := refForward(s, []layer64{{wi: []float64{0.5, 0.25, 1}, wh: []float64{0.5, 0.5, 0.5}, bi: make([]float64, 3), bh: make([]float64, 3)}}, []float64{0.5}, []float64{-0.25})
	exact := hn[0]
	rounded := float64(float32(exact))
	if rounded == exact {
		t.Fatal("the answer is a float32 number: the test shows nothing")
	}
	expectVectors(t, single(exact), false, "")
	expectVectors(t, single(rounded), false, "")
	expectVectors(t, single(float64(float32(exact*(1+3e-6)))), true, "")
	expectVectors(t, single(exact*(1+1e-9)), true, "")
}

func TestTensorShapes(t *testing.T) {
	for text, want := range map[string][]int{
		`[1,2,3]`: {3}, `[[1,2],[3,4],[5,6]]`: {3, 2}, `[[[1]],[[2]]]`: {2, 1, 1}, `[]`: {0}, `[[],[]]`: {2, 0}, `null`: nil,
	} {
		var x tensor
		if err := json.Unmarshal([]byte(text), &x); err != nil || !slices.Equal(x.shape, want) {
			t.Errorf("%s: shape %v (%v), want %v", text, x.shape, err, want)
		}
	}
	for _, text := range []string{`[[1],[2,3]]`, `[1,[2]]`, `[[1],2]`, `[[1],[[2]]]`, `[[],1]`, `[true]`, `[null]`, `[1,null]`, `[[[[[[[[[1]]]]]]]]]`, `{}`, `"a"`} {
		var x tensor
		if err := json.Unmarshal([]byte(text), &x); err == nil {
			t.Errorf("%s was taken, with shape %v", text, x.shape)
		}
	}
}

func FuzzVectors(f *testing.F) {
	f.Add([]byte(`{"cases":[` + knownCase + `]}`))
	f.Add([]byte(`{"cases":[{"kind":"gru","input_size":1,"hidden_size":1,"weights":{"weight_ih_l0":[1,2,3],"weight_hh_l0":[1,2,3]},"x":[[1],[2]],"out":[[1],[2]]}]}`))
	f.Add([]byte(`{"cases":[{"kind":"gru","input_size":2,"hidden_size":1,"batch_first":true,"x":[[[1,2]]],"hn":[1]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := (Workload{}).CheckVectors(context.Background(), openHost(t, host.Options{MemoryLimit: 1 << 26}), b, "fuzz"); err != nil && len(err.Error()) > 4096 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	})
}
