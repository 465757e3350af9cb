package opcost_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/opcost"
)

// Nonzero coefficients of e3nn 0.6.0's o3.wigner_3j up to degree 8: a, b, c, terms, and pairs of a's and c's elements
// with any. (2,3,3) and (4,4,4) have zeros that no selection rule gives. The sums are over all 369 triangles, weighted
// by their number from 1 on.
func TestCouplings(t *testing.T) {
	for _, want := range [][5]int64{
		{0, 0, 0, 1, 1}, {0, 2, 2, 5, 5}, {1, 0, 1, 3, 3}, {1, 1, 1, 6, 6}, {2, 3, 3, 41, 31}, {3, 3, 2, 41, 31}, {4, 4, 4, 97, 77}, {8, 8, 8, 361, 273},
	} {
		if terms, cells := opcost.CountCoupling(want[0], want[1], want[2]); terms != want[3] || cells != want[4] {
			t.Errorf("%v: %d terms, %d cells", want, terms, cells)
		}
	}
	var terms, cells, n int64
	for a := int64(0); a <= 8; a++ {
		for b := int64(0); b <= 8; b++ {
			for c := max(a-b, b-a); c <= min(a+b, 8); c++ {
				n++
				x, y := opcost.CountCoupling(a, b, c)
				terms, cells = terms+n*x, cells+n*y
			}
		}
	}
	if n != 369 || terms != 10208605 || cells != 7847175 {
		t.Errorf("%d triangles: %d terms, %d cells", n, terms, cells)
	}
}

// The texts are those of e3nn 0.6.0's modules. The FLOPs of a row were counted from their instructions and from
// wigner_3j, which have the blocks, modes and coefficients that a text has not. The first is also the minimum of
// TestTensorProductCost of the reference workloads.
func TestTensorProducts(t *testing.T) {
	for _, c := range []struct {
		text                      string
		left, right, out, weights int
		flops                     float64
		reason                    opcost.Reason
	}{
		{"TensorProduct(2x1o x 1x1o -> 2x0e | 2 paths | 2 weights)", 6, 3, 2, 2, 20, ""},
		{"TensorProduct(128x0e+128x1o x 1x0e+1x1o+1x2e+1x3o -> 256x0e+384x1o+384x2e+256x3o | 1280 paths | 1280 weights)", 512, 16, 5120, 1280, 22188, ""},
		{"TensorProduct(32x0e+16x1o+8x2e x 1x0e+1x1o+1x2e -> 56x0e+72x1o+24x1e+64x2e+24x3o | 240 paths | 240 weights)", 120, 9, 832, 240, 4294, ""},
		{"FullyConnectedTensorProduct(8x0e+4x1o x 1x0e+1x1o -> 8x0e+4x1o | 144 paths | 144 weights)", 20, 4, 20, 144, 612, ""},
		{"FullyConnectedTensorProduct(16x0e+8x1o+4x2e+2x3o x 3x0e+2x1o+2x2e -> 16x0e+8x1o+4x2e+4x1e+2x3o | 2276 paths | 2276 weights)", 74, 19, 86, 2276, 16032, ""},
		// Paths that differ from those of any mode: the text determines nothing.
		{"TensorProduct(2x1o x 1x1o -> 2x0e | 3 paths | 3 weights)", 6, 3, 2, 3, 0, opcost.NoIrreps},
		{"TensorProduct(2x1o x 1x1o -> 4x0e | 2 paths | 2 weights)", 6, 3, 4, 2, 0, opcost.NoIrreps},
		{"TensorProduct(2x1o x 1x1o -> 2x0e | 2 paths | 1 weights)", 6, 3, 2, 1, 0, opcost.NoIrreps},
		// The range is of another product, or of none.
		{"TensorProduct(2x1o x 1x1o -> 2x0e | 2 paths | 2 weights)", 7, 3, 2, 2, 0, opcost.NoIrreps},
		{"TensorProduct(2x1o x 1x99o -> 2x0e | 2 paths | 2 weights)", 6, 3, 2, 2, 0, opcost.NoIrreps},
		{"layer 1", 6, 3, 2, 2, 0, opcost.NoIrreps},
	} {
		rows, nodes := 10, 4
		if got := opcost.IsProduct(c.text); got != (strings.Contains(c.text, "paths") && !strings.Contains(c.text, "1x99o")) {
			t.Errorf("%s: a product: %t", c.text, got)
		}
		// The kernel's text, its number, left, right, weights.
		plain := args(fmt.Sprintf(`[[900], [], [%d, %d], [%d, %d], [%d, %d], []]`, rows, c.left, rows, c.right, rows, c.weights),
			`["unsigned char", "Scalar", "float", "float", "float", "Scalar"]`, "", "")
		a, _ := opcost.Parse(plain)
		got, reason := opcost.Of("libtorch_tp_jit::jit_tp_forward", a, opcost.Hints{Range: c.text})
		bytes := 0.0
		if c.reason == "" {
			bytes = float64(4 * rows * (c.left + c.right + c.weights + c.out))
		}
		if reason != c.reason || got.FLOPs != float64(rows)*c.flops || got.Bytes != bytes {
			t.Errorf("%s: %+v %q, want %v FLOPs, %v bytes", c.text, got, reason, float64(rows)*c.flops, bytes)
		}
		// A convolution of 4 nodes over 10 edges: its features and sums have a row per node.
		conv := args(fmt.Sprintf(`[[900], [], [%d, %d], [%d, %d], [%d, %d], [], [%d], [%[3]d], [0], [1]]`, nodes, c.left, rows, c.right, rows, c.weights, rows),
			`["unsigned char", "Scalar", "double", "double", "double", "Scalar", "long int", "long int", "unsigned char", "long int"]`, "", "")
		a, _ = opcost.Parse(conv)
		if c.reason == "" {
			bytes = float64(8*(nodes*(c.left+c.out)+rows*(c.right+c.weights)) + 2*8*rows)
		}
		if got, reason := opcost.Of("libtorch_tp_jit::jit_conv_forward", a, opcost.Hints{Range: c.text}); reason != c.reason || got.FLOPs != float64(rows)*c.flops || got.Bytes != bytes {
			t.Errorf("%s, convolution: %+v %q, want %v FLOPs, %v bytes", c.text, got, reason, float64(rows)*c.flops, bytes)
		}
	}
	for text, want := range map[string]float64{ // products without weights
		"FullTensorProduct(8x0e+4x1o x 1x0e+2x1o -> 16x0e+20x1o+8x1e+8x2e | 52 paths | 0 weights)":                556,
		"ElementwiseTensorProduct(8x0e+4x1o x 6x0e+6x1o -> 6x0e+2x1o+4x0e+4x1e+4x2e | 20 paths | 0 weights)":      368,
		"ElementwiseTensorProduct(8x0e+4x1o x 6x0e+6x1o+1x0e -> 6x0e+2x1o+4x0e+4x1e+4x2e | 20 paths | 0 weights)": 0, // one copy too many
	} {
		if got, _ := opcost.ProductFLOPs(text, false); got != want {
			t.Errorf("%s: %v FLOPs, want %v", text, got, want)
		}
	}
}

// The FLOPs of the gradients, each term counted by hand. The bytes: the operands and the output's gradient are read, the
// operands' gradients are written.
func TestTensorProductGradients(t *testing.T) {
	for _, c := range []struct {
		text                      string
		left, right, out, weights int
		flops                     float64
	}{
		// The coupling of a right copy 6. For each of 2 pairs: its product with the output's gradient 6, the left copy's
		// gradient 6, the weight's 6, the scaled gradient 1, the coupling's gradient 6. The right copy's gradient 6.
		{"TensorProduct(2x1o x 1x1o -> 2x0e | 2 paths | 2 weights)", 6, 3, 2, 2, 6 + 2*(6+6+6+1+6) + 6},
		// For each of 2 pairs: its product 6; from 3 output copies its gradient 2 each, and the weights' 2 each; the
		// gradients of left copy and coupling 6 each.
		{"FullyConnectedTensorProduct(2x1o x 1x1o -> 3x0e | 6 paths | 6 weights)", 6, 3, 3, 6, 6 + 2*(6+3*2+3*2+6+6) + 6},
		// The cross product has 6 terms, each in a cell of its own. Without weights the output's gradient goes to the left
		// copy and to the coupling at once.
		{"FullTensorProduct(2x1o x 1x1o -> 2x1e | 2 paths | 0 weights)", 6, 3, 6, 0, 12 + 2*(12+12) + 12},
	} {
		if got, ok := opcost.ProductFLOPs(c.text, true); !ok || got != c.flops {
			t.Errorf("%s: %v FLOPs, want %v", c.text, got, c.flops)
		}
		const rows, nodes = 10, 4
		a, _ := opcost.Parse(args(fmt.Sprintf(`[[900], [], [%d, %d], [%d, %d], [%d, %d], [%d, %d]]`, rows, c.left, rows, c.right, rows, c.weights, rows, c.out),
			`["unsigned char", "Scalar", "float", "float", "float", "float"]`, "", ""))
		got, reason := opcost.Of("libtorch_tp_jit::jit_tp_backward", a, opcost.Hints{Range: c.text})
		if want := float64(4 * rows * (2*(c.left+c.right+c.weights) + c.out)); reason != "" || got.FLOPs != rows*c.flops || got.Bytes != want {
			t.Errorf("%s: %+v %q, want %v bytes", c.text, got, reason, want)
		}
		a, _ = opcost.Parse(args(fmt.Sprintf(`[[900], [], [%d, %d], [%d, %d], [%d, %d], [%d, %d], [%[9]d], [%[9]d], [0], [%[9]d]]`,
			nodes, c.left, rows, c.right, rows, c.weights, nodes, c.out, rows),
			`["unsigned char", "Scalar", "double", "double", "double", "double", "long int", "long int", "unsigned char", "long int"]`, "", ""))
		got, reason = opcost.Of("libtorch_tp_jit::jit_conv_backward", a, opcost.Hints{Range: c.text})
		if want := float64(8*(2*(nodes*c.left+rows*(c.right+c.weights))+nodes*c.out) + 3*8*rows); reason != "" || got.FLOPs != rows*c.flops || got.Bytes != want {
			t.Errorf("%s, convolution: %+v %q, want %v bytes", c.text, got, reason, want)
		}
	}
}

// The lists are as PyTorch 2.15 recorded a call of an operator with cuEquivariance's schema on a CPU. A list of more than 30
// numbers is not recorded: here, the indices of the paths.
func TestSegments(t *testing.T) {
	types := `["","Scalar","Scalar","Scalar","Scalar","Scalar","ScalarList","ScalarList","ScalarList","ScalarList","ScalarList","Scalar","ScalarList","ScalarList","ScalarList","ScalarList","ScalarList","","ScalarList","Scalar","TensorList"]`
	empty := strings.Repeat("[],", 20)
	for _, c := range []struct {
		name, values, tensors string
		flops, bytes          float64
		reason                opcost.Reason
	}{
		// 10 paths C = c·a·b·d of weights [1, 2 segments], features [16, 4 segments] and 4 numbers a row, with segments
		// of 32: 4 operations for each of 32 elements of 16 rows.
		{"a product", `"6","32","3","1","0","[1, 1, 0, 1]","[2, 4, 4, 4]","[0, 1, -2, 1]","[-1, -1, -1, -1]","[0, 0, 0, 0]","1","[4]","[0, 1, 2, 3]","[10]","[0]","[0]","","","16"`,
			`[[1, 64], [16, 128], [16, 4]]`, 16 * 10 * 4 * 32, 4 * (64 + 16*128 + 16*4 + 16*128), ""},
		// The batch comes from the tensors, and two operations of 2 and 3 operands share the buffers.
		{"two operations", `"7","8","2","1","0","[1, 0, 1]","[3, 5, 2]","[1, -2, -2]","[-1, -1, -1]","[0, 0, 0]","2","[2, 3]","[0, 2, 0, 1, 2]","[6, 7]","[0]","[0]","","","-2"`,
			`[[9, 24], [9, 5]]`, 9 * 8 * (6*2 + 7*3), 8 * (9*24 + 9*5 + 9*16), ""},
		// The result is a sum over 12 rows into the 3 nodes that list 2 has.
		{"an indexed result", `"6","4","2","1","1","[1, 1, 1]","[1, 1, 1]","[1, 1, -1]","[-1, -1, 3, 3]","[0, 0, 0]","1","[3]","[0, 1, 2]","[1]","[0]","[0]","","","12"`,
			`[[12, 4], [12, 4], [12]]`, 12 * 4 * 3, 4 * (12*4 + 12*4 + 3*4), ""},
		{"numbers of paths that were not recorded", `"6","32","3","1","0","[1, 1, 0, 1]","[2, 4, 4, 4]","[0, 1, -2, 1]","[-1, -1, -1, -1]","[0, 0, 0, 0]","1","[4]","[0, 1, 2, 3]","","[0]","[0]","","","16"`,
			`[[1, 64], [16, 128], [16, 4]]`, 0, 0, opcost.NoValues},
		{"more than 30 tensors", `"6","32","3","1","0","[1]","[2]","[0]","[-1]","[0]","1","[4]","[0]","[10]","[0]","[0]","","","16"`, `[]`, 0, 0, opcost.NoValues},
		{"lists that are too short", `"6","32","3","1","0","[1]","[2]","[0]","[-1]","[0]","1","[4]","[0]","[10]","[0]","[0]","","","16"`, `[[1, 64], [16, 128], [16, 4]]`, 0, 0, opcost.BadShapes},
		{"operands beyond the list", `"6","32","3","1","0","[1, 1, 0, 1]","[2, 4, 4, 4]","[0, 1, -2, 1]","[-1, -1, -1, -1]","[0, 0, 0, 0]","1","[5]","[0, 1, 2, 3]","[10]","[0]","[0]","","","16"`,
			`[[1, 64], [16, 128], [16, 4]]`, 0, 0, opcost.BadShapes},
	} {
		a, ok := opcost.Parse(args("["+empty+c.tensors+"]", types, "", `["",`+c.values+`,""]`))
		got, reason := opcost.Of("cuequivariance_ops::tensor_product_uniform_1d_jit", a, opcost.Hints{})
		if !ok || reason != c.reason || got.FLOPs != c.flops || got.Bytes != c.bytes {
			t.Errorf("%s: %+v %q, want %v FLOPs, %v bytes, %q", c.name, got, reason, c.flops, c.bytes, c.reason)
		}
	}
}
