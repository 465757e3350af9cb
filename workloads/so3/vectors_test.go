package so3

import (
	"encoding/json"
	"os"
	"testing"
)

// vectorTolerance leaves room for e3nn's own rounding, which sums in another
// order; the worst case of the file is at 3e-15.
const vectorTolerance = 1e-12

// e3nnCase is one case of testdata/e3nn/vectors.json; each kind uses a part of
// the fields. The format is described in scripts/record/export_e3nn_vectors.py.
type e3nnCase struct {
	Kind               string
	L1, L2, L3, LMax   int
	Normalization      string
	R, X, Y, W         [][]float64
	IrrepsIn1          string               `json:"irreps_in1"`
	IrrepsIn2          string               `json:"irreps_in2"`
	IrrepsOut          string               `json:"irreps_out"`
	Instructions       [][6]json.RawMessage // [i_in1, i_in2, i_out, mode, has_weight, path_weight]
	IrrepNormalization string               `json:"irrep_normalization"`
	PathNormalization  string               `json:"path_normalization"`
	Out                json.RawMessage
}

func TestE3NNVectors(t *testing.T) {
	data, err := os.ReadFile("../../testdata/e3nn/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []e3nnCase }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for i, c := range file.Cases {
		run := map[string]func(*testing.T, e3nnCase) float64{
			"wigner_3j": wignerVector, "spherical_harmonics": harmonicsVector, "tensor_product": productVector,
		}[c.Kind]
		if run == nil {
			continue // gates are checked where the gate is
		}
		seen[c.Kind]++
		if e := run(t, c); !(e < vectorTolerance) {
			t.Errorf("case %d (%s): relative error %.3g", i, c.Kind, e)
		}
	}
	for kind, least := range map[string]int{"wigner_3j": 20, "spherical_harmonics": 9, "tensor_product": 30} {
		if seen[kind] < least {
			t.Errorf("%d cases of %s, want at least %d", seen[kind], kind, least)
		}
	}
}

// rows decodes the samples of out; a case without any would pass unseen.
func rows(t *testing.T, c e3nnCase) [][]float64 {
	t.Helper()
	out := decode[[][]float64](t, c.Out)
	if len(out) == 0 {
		t.Fatalf("a %s case has no samples", c.Kind)
	}
	return out
}

func decode[T any](t *testing.T, raw json.RawMessage) (v T) {
	t.Helper()
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func wignerVector(t *testing.T, c e3nnCase) float64 {
	var want []float64
	for _, plane := range decode[[][][]float64](t, c.Out) {
		for _, row := range plane {
			want = append(want, row...)
		}
	}
	return relativeError(mustWigner(t, c.L1, c.L2, c.L3), want)
}

func harmonicsVector(t *testing.T, c e3nnCase) float64 {
	n, err := ParseNormalization(c.Normalization)
	if err != nil {
		t.Fatal(err)
	}
	worst := 0.0
	for i, want := range rows(t, c) {
		got := make([]float64, len(want))
		Harmonics(c.LMax, n, c.R[i][0], c.R[i][1], c.R[i][2], got)
		worst = max(worst, relativeError(got, want))
	}
	return worst
}

func productVector(t *testing.T, c e3nnCase) float64 {
	tp := TensorProduct{
		In1: mustParse(t, c.IrrepsIn1), In2: mustParse(t, c.IrrepsIn2), Out: mustParse(t, c.IrrepsOut),
		IrrepNorm: c.IrrepNormalization, PathNorm: c.PathNormalization,
	}
	for _, ins := range c.Instructions {
		tp.Instructions = append(tp.Instructions, Instruction{
			In1: decode[int](t, ins[0]), In2: decode[int](t, ins[1]), Out: decode[int](t, ins[2]),
			Mode: decode[Mode](t, ins[3]), HasWeight: decode[bool](t, ins[4]), PathWeight: decode[float64](t, ins[5]),
		})
	}
	worst := 0.0
	for i, want := range rows(t, c) {
		worst = max(worst, relativeError(eval(t, tp, c.X[i], c.Y[i], c.W[i]), want))
	}
	return worst
}
