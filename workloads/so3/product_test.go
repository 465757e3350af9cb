package so3

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// single is a product with one unweighted uuu path.
func single(t *testing.T, in1, in2, out string) TensorProduct {
	return TensorProduct{
		In1: mustParse(t, in1), In2: mustParse(t, in2), Out: mustParse(t, out),
		Instructions: []Instruction{{Mode: UUU, PathWeight: 1}},
		IrrepNorm:    IrrepNormComponent, PathNorm: PathNormElement,
	}
}

func eval(t *testing.T, tp TensorProduct, x, y, w []float64) []float64 {
	t.Helper()
	out := slices.Repeat([]float64{math.NaN()}, tp.Out.Dim()) // Eval must overwrite
	if err := tp.Eval(x, y, w, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTensorProductKnownAnswers(t *testing.T) {
	x, y := []float64{0.3, -1.2, 2.5}, []float64{1.1, 0.4, -0.7}
	dot := x[0]*y[0] + x[1]*y[1] + x[2]*y[2]
	cross := []float64{x[1]*y[2] - x[2]*y[1], x[2]*y[0] - x[0]*y[2], x[0]*y[1] - x[1]*y[0]}
	for i := range cross {
		cross[i] /= math.Sqrt2
	}
	five := []float64{1, -2, 3, -4, 5}
	for _, tc := range []struct {
		name       string
		tp         TensorProduct
		x, y, want []float64
	}{
		{"1o x 1o -> 0e is x.y/sqrt3", single(t, "1o", "1o", "0e"), x, y, []float64{dot / math.Sqrt(3)}},
		{"1o x 1o -> 1e is (x cross y)/sqrt2", single(t, "1o", "1o", "1e"), x, y, cross},
		{"0e x 2e is the identity", single(t, "0e", "2e", "2e"), []float64{1}, five, five},
		{"2o x 0e is the identity", single(t, "2o", "0e", "2o"), five, []float64{1}, five},
	} {
		if e := relativeError(eval(t, tc.tp, tc.x, tc.y, nil), tc.want); !(e < 1e-15) {
			t.Errorf("%s: relative error %.2g", tc.name, e)
		}
	}
}

// TestModesOnScalars spells the five modes out on scalars, where C = 1.
func TestModesOnScalars(t *testing.T) {
	x2, x3 := []float64{2, 3}, []float64{5, 7, 11}
	w := []float64{1, 10, 100, 1000, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11}
	for _, tc := range []struct {
		name       string
		m1, m2, mo int
		mode       Mode
		weights    int
		want       []float64
	}{
		{"uvw", 2, 3, 2, UVW, 12, []float64{ // w[(u*3+v)*2+o]
			10 + 1e2*14 + 1e4*22 + 1e6*15 + 1e8*21 + 1e10*33,
			10*10 + 1e3*14 + 1e5*22 + 1e7*15 + 1e9*21 + 1e11*33}},
		{"uvu", 2, 3, 2, UVU, 6, []float64{2 * (5 + 10*7 + 100*11), 3 * (1000*5 + 1e4*7 + 1e5*11)}},
		{"uvv", 2, 3, 3, UVV, 6, []float64{5 * (2 + 1000*3), 7 * (10*2 + 1e4*3), 11 * (100*2 + 1e5*3)}},
		{"uuw", 2, 2, 3, UUW, 6, []float64{10 + 1000*21, 10*10 + 1e4*21, 100*10 + 1e5*21}},
		{"uuu", 2, 2, 2, UUU, 2, []float64{10, 10 * 21}},
		{"uvu without weight", 2, 3, 2, UVU, 0, []float64{2 * 23, 3 * 23}},
		{"uvv without weight", 2, 3, 3, UVV, 0, []float64{25, 35, 55}},
		{"uuw without weight", 2, 2, 1, UUW, 0, []float64{31}},
		{"uuu without weight", 2, 2, 2, UUU, 0, []float64{10, 21}},
	} {
		scalars := func(mul int) Irreps { return Irreps{{mul, Irrep{0, 1}}} }
		tp := TensorProduct{
			In1: scalars(tc.m1), In2: scalars(tc.m2), Out: scalars(tc.mo), PathNorm: NormNone,
			Instructions: []Instruction{{Mode: tc.mode, HasWeight: tc.weights > 0, PathWeight: 1}},
		}
		if got := tp.WeightNumel(); got != tc.weights {
			t.Errorf("%s: %d weights, want %d", tc.name, got, tc.weights)
			continue
		}
		if got := eval(t, tp, x2, x3[:tc.m2], w[:tc.weights]); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestPathCoefficients(t *testing.T) {
	base := TensorProduct{
		In1: mustParse(t, "2x1o+3x0e"), In2: mustParse(t, "4x1o"), Out: mustParse(t, "2x2e+5x1o"),
		Instructions: []Instruction{
			{0, 0, 0, UVU, true, 1},   // n = 4
			{0, 0, 0, UVW, true, 0.5}, // n = 8
			{1, 0, 1, UVW, true, 2},   // n = 12
		},
	}
	for _, tc := range []struct {
		irrep, path string
		want        [3]float64 // alpha
	}{
		{"component", "element", [3]float64{5. / 12, .5 * 5 / 12, 2 * 3. / 12}},
		{"", "", [3]float64{5. / 12, .5 * 5 / 12, 2 * 3. / 12}},
		{"component", "path", [3]float64{5. / 8, .5 * 5 / 16, 2 * 3. / 12}},
		{"norm", "element", [3]float64{9. / 12, .5 * 9 / 12, 2 * 3. / 12}},
		{"norm", "path", [3]float64{9. / 8, .5 * 9 / 16, 2 * 3. / 12}},
		{"none", "none", [3]float64{1, .5, 2}},
	} {
		tp := base
		tp.IrrepNorm, tp.PathNorm = tc.irrep, tc.path
		got, err := tp.PathCoefficients()
		if err != nil {
			t.Fatal(err)
		}
		for i, alpha := range tc.want {
			if math.Abs(got[i]-math.Sqrt(alpha)) > 1e-15 {
				t.Errorf("%s/%s instruction %d: %v, want sqrt(%v)", tc.irrep, tc.path, i, got[i], alpha)
			}
		}
	}
}

func TestWeightLayout(t *testing.T) {
	tp := TensorProduct{
		In1: mustParse(t, "2x0e"), In2: mustParse(t, "2x0e+3x0e"), Out: mustParse(t, "2x0e+3x0e+4x0e"),
		Instructions: []Instruction{
			{0, 1, 0, UVU, true, 1}, {0, 0, 0, UUU, false, 1}, {0, 1, 2, UVW, true, 1},
			{0, 0, 2, UUW, true, 1}, {0, 0, 0, UUU, true, 1}, {0, 1, 1, UVV, true, 1},
		},
	}
	if err := tp.Validate(); err != nil {
		t.Fatal(err)
	}
	if got, want := tp.WeightOffsets(), []int{0, -1, 6, 30, 38, 40}; !slices.Equal(got, want) {
		t.Errorf("offsets %v, want %v", got, want)
	}
	if got := tp.WeightNumel(); got != 46 {
		t.Errorf("%d weights, want 46", got)
	}
	if tp.WeightShape(-1) != nil || tp.WeightShape(6) != nil {
		t.Error("an instruction that does not exist has weights")
	}
	for i, want := range [][]int{{2, 3}, nil, {2, 3, 4}, {2, 4}, {2}, {2, 3}} {
		if got := tp.WeightShape(i); !slices.Equal(got, want) {
			t.Errorf("shape of instruction %d: %v, want %v", i, got, want)
		}
	}
}

func TestValidateNamesInstructionAndReason(t *testing.T) {
	good := Instruction{In1: 0, In2: 0, Out: 0, Mode: UUU, PathWeight: 1}
	for _, tc := range []struct {
		name, in1, in2, out string
		ins                 Instruction
		mention             string
	}{
		{"parity", "1o", "1o", "1o", good, "parity of 1o x 1o is not that of 1o"},
		{"triangle", "1o", "1o", "3e", good, "1o x 1o does not contain 3e (triangle rule); choose l from 0 to 2"},
		{"degree", "9e", "1o", "8o", good, "degree 9 is above 8"},
		{"in1", "1o", "1o", "1e", Instruction{In1: 1, Mode: UUU, PathWeight: 1}, "block 1 of in1 does not exist"},
		{"in2", "1o", "1o", "1e", Instruction{In2: -1, Mode: UUU, PathWeight: 1}, "block -1 of in2 does not exist"},
		{"out", "1o", "1o", "1e", Instruction{Out: 3, Mode: UUU, PathWeight: 1}, "block 3 of out does not exist"},
		{"mode", "1o", "1o", "1e", Instruction{Mode: "uvuv", PathWeight: 1}, `unknown mode "uvuv"`},
		{"uvw", "1o", "1o", "1e", Instruction{Mode: UVW, PathWeight: 1}, "needs a weight"},
		{"uvu", "2x1o", "1o", "3x1e", Instruction{Mode: UVU, PathWeight: 1}, "in1 and out, they are 2 and 3"},
		{"uvv", "2x1o", "4x1o", "3x1e", Instruction{Mode: UVV, PathWeight: 1}, "in2 and out, they are 4 and 3"},
		{"uuw", "2x1o", "4x1o", "3x1e", Instruction{Mode: UUW, HasWeight: true, PathWeight: 1}, "in1 and in2, they are 2 and 4"},
		{"uuw bare", "2x1o", "2x1o", "3x1e", Instruction{Mode: UUW, PathWeight: 1}, "output multiplicity of 1, it is 3"},
		{"uuu", "2x1o", "2x1o", "3x1e", good, "in1 and out, they are 2 and 3"},
		{"negative path weight", "1o", "1o", "1e", Instruction{Mode: UUU, PathWeight: -1}, "path weight -1"},
		{"NaN path weight", "1o", "1o", "1e", Instruction{Mode: UUU, PathWeight: math.NaN()}, "path weight NaN"},
	} {
		tp := TensorProduct{In1: mustParse(t, tc.in1), In2: mustParse(t, tc.in2), Out: mustParse(t, tc.out), Instructions: []Instruction{tc.ins}}
		err := tp.Validate()
		if err == nil || !strings.Contains(err.Error(), tc.mention) || !strings.Contains(err.Error(), "instruction 0") {
			t.Errorf("%s: error %v does not name instruction 0 and %q", tc.name, err, tc.mention)
		}
		tp.Instructions[0].HasWeight = tc.ins.Mode != UVW // reading the layout of a bad product must not panic
		if tc.name != "uvw" && tc.name != "uuw bare" && tp.WeightNumel() != 0 {
			t.Errorf("%s: an invalid instruction has %d weights", tc.name, tp.WeightNumel())
		}
		tp.Instructions[0] = tc.ins
		if _, err := tp.PathCoefficients(); err == nil {
			t.Errorf("%s: PathCoefficients accepted it", tc.name)
		}
	}
	tp := single(t, "1o", "1o", "1e")
	tp.IrrepNorm = "compnent"
	if err := tp.Validate(); err == nil || !strings.Contains(err.Error(), "compnent") {
		t.Errorf("irrep normalization: %v", err)
	}
	tp = single(t, "1o", "1o", "1e")
	tp.PathNorm = "elements"
	if err := tp.Validate(); err == nil || !strings.Contains(err.Error(), "elements") {
		t.Errorf("path normalization: %v", err)
	}
	tp = single(t, "1o", "1o", "1e")
	tp.In2[0].Mul = -1
	if err := tp.Validate(); err == nil || !strings.Contains(err.Error(), "irreps in2") {
		t.Errorf("negative multiplicity: %v", err)
	}
}

func TestEvalChecksLengths(t *testing.T) {
	tp := single(t, "1o", "1o", "1e")
	for name, n := range map[string][4]int{"x": {2, 3, 0, 3}, "y": {3, 4, 0, 3}, "w": {3, 3, 1, 3}, "out": {3, 3, 0, 2}} {
		err := tp.Eval(make([]float64, n[0]), make([]float64, n[1]), make([]float64, n[2]), make([]float64, n[3]))
		if err == nil || !strings.Contains(err.Error(), ": "+name+" has ") {
			t.Errorf("wrong length of %s: error %v", name, err)
		}
	}
}

// TestUVUProductDeepAW: the published sizes of the three layers.
func TestUVUProductDeepAW(t *testing.T) {
	muls := []int{100, 33, 20, 14, 11}
	var natural, not0o, all Irreps
	for l, mul := range muls {
		for _, p := range []int8{-1, 1} {
			block := MulIrrep{mul, Irrep{l, p}}
			all = append(all, block)
			if block.Ir != (Irrep{0, -1}) {
				not0o = append(not0o, block)
			}
			if p == harmonicParity(l) {
				natural = append(natural, block)
			}
		}
	}
	if all.Dim() != 992 {
		t.Fatalf("hidden dimension %d, want 992", all.Dim())
	}
	for _, tc := range []struct {
		name           string
		in, target     Irreps
		paths, weights int
	}{
		{"layer 1", natural, natural, 42, 1203}, {"layer 2", not0o, not0o, 121, 2660}, {"layer 3", all, all, 130, 3238},
	} {
		tp := UVUProduct(tc.in, HarmonicIrreps(4), tc.target)
		if err := tp.Validate(); err != nil {
			t.Fatal(err)
		}
		if tp.NumPaths() != tc.paths || tp.WeightNumel() != tc.weights || tp.Out.NumIrreps() != tc.weights {
			t.Errorf("%s: %d paths, %d weights; want %d and %d", tc.name, tp.NumPaths(), tp.WeightNumel(), tc.paths, tc.weights)
		}
	}
}

func TestUVUProductOrder(t *testing.T) {
	tp := UVUProduct(mustParse(t, "4x0e+3x1o"), mustParse(t, "0e+1o"), mustParse(t, "0e+1o+1e"))
	if got, want := tp.Out.String(), "4x0e+3x0e+4x1o+3x1o+3x1e"; got != want {
		t.Errorf("out %s, want %s", got, want)
	}
	want := []Instruction{
		{0, 0, 0, UVU, true, 1}, {1, 1, 1, UVU, true, 1}, {0, 1, 2, UVU, true, 1}, {1, 0, 3, UVU, true, 1}, {1, 1, 4, UVU, true, 1},
	}
	if !slices.Equal(tp.Instructions, want) {
		t.Errorf("instructions %v, want %v", tp.Instructions, want)
	}
	coefficients, err := tp.PathCoefficients()
	if err != nil {
		t.Fatal(err)
	}
	for i, ins := range tp.Instructions {
		if want := math.Sqrt(float64(tp.Out[ins.Out].Ir.Dim())); math.Abs(coefficients[i]-want) > 1e-15 {
			t.Errorf("instruction %d: coefficient %v, want %v", i, coefficients[i], want)
		}
	}
	if empty := UVUProduct(mustParse(t, "1o"), mustParse(t, "1o"), nil); empty.NumPaths() != 0 || empty.Validate() != nil {
		t.Errorf("a product with no target: %+v", empty)
	}
}

// TestComponentNormalisation: inputs of unit variance give outputs of unit
// variance, which is what the path coefficients are for.
func TestComponentNormalisation(t *testing.T) {
	tp := TensorProduct{
		In1: mustParse(t, "4x0e+3x1o"), In2: mustParse(t, "2x1o+2x2e"), Out: mustParse(t, "3x1o"),
		Instructions: []Instruction{{0, 0, 0, UVW, true, 1}, {1, 1, 0, UVW, true, 1}, {1, 1, 0, UVU, true, 1}},
	}
	r := rand.New(rand.NewPCG(11, 12))
	sum, n := 0.0, 0
	for range 4000 {
		for _, v := range eval(t, tp, normals(r, tp.In1.Dim()), normals(r, tp.In2.Dim()), normals(r, tp.WeightNumel())) {
			sum += v * v
			n++
		}
	}
	if mean := sum / float64(n); math.Abs(mean-1) > 0.05 { // sampling error of 36,000 correlated values is about 0.01; the seed is fixed
		t.Errorf("mean square of the output %v, want 1", mean)
	}
}
