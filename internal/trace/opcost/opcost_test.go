package opcost_test

import (
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/opcost"
)

func args(parts ...string) string { return strings.Join(parts, opcost.Separator) }

// Operators that exist on CUDA only, and what recordings lack.
func TestCosts(t *testing.T) {
	bf16 := `"c10::BFloat16"`
	for _, c := range []struct {
		name, op, args string
		element        int64
		flops, bytes   float64
		reason         opcost.Reason
	}{
		{"fp8", "aten::_scaled_mm", args(`[[16, 32], [32, 8], [], [], [], [], [], []]`, `["c10::Float8_e4m3fn", "c10::Float8_e4m3fn", "float", "float", "", "", "", ""]`, "", ""),
			0, 2 * 16 * 32 * 8, 16*32 + 32*8 + 4 + 4 + 2*16*8, ""},
		{"groups", "aten::_grouped_mm", args(`[[32, 64], [4, 64, 48], [4]]`, `[`+bf16+`, `+bf16+`, "int"]`, "", ""), 0, 2 * 32 * 64 * 48, 2 * (32*64 + 4*64*48 + 32*48), ""},
		{"a GRU of two layers", "aten::_cudnn_rnn", args(`[[10, 3, 8], [[15, 8], [15, 5], [15], [15], [15, 5], [15, 5], [15], [15]]]`, `["float", "TensorList"]`, "", ""), 0,
			2 * 30 * 15 * (8 + 5 + 5 + 5), 4*240 + 4*(15*(8+15)+60) + 4*30*5, ""},
		{"a list of more than 30 tensors", "aten::_fused_adam_", args(`[[], [], [], []]`, `["TensorList", "TensorList", "TensorList", "TensorList"]`, "", ""), 4, 0, 0, opcost.NoValues},
		{"a list of unknown type", "aten::_foreach_add_", args(`[[[5], [6]], [[5], [6]]]`, `["TensorList", "TensorList"]`, "", ""), 0, 0, 0, opcost.NoValues},
		{"a list of known type", "aten::_foreach_add_", args(`[[[5], [6]], [[5], [6]]]`, `["TensorList", "TensorList"]`, "", ""), 2, 0, 11 * 2 * 3, ""},
		{"an old recording without values", "aten::convolution", args(`[[1, 3, 8, 8], [4, 3, 3, 3], [4], [], [], [], [], [], []]`, `["float", "float", "float", "", "", "", "", "", ""]`, "", ""), 0, 0, 0, opcost.NoValues},
		{"shapes that do not fit", "aten::mm", args(`[[2, 3], [4, 5]]`, `["float", "float"]`, "", ""), 0, 0, 0, opcost.BadShapes},
		{"a vector for a matrix", "aten::mm", args(`[[2], [4, 5]]`, `["float", "float"]`, "", ""), 0, 0, 0, opcost.BadShapes},
		{"an unknown type", "aten::mm", args(`[[2, 3], [3, 5]]`, `["strange", "strange"]`, "", ""), 0, 0, 0, opcost.NoValues},
		{"no arguments", "aten::mm", "", 0, 0, 0, opcost.NoShapes},
		{"no model", "aten::view", args(`[[2, 3]]`, `["float"]`, "", ""), 0, 0, 0, opcost.NoModel},
		{"tensors that are joined", "aten::cat", args(`[[[5, 2], [6, 2]], []]`, `["TensorList", "Scalar"]`, "", ""), 4, 0, 22 * 4 * 2, ""},
		{"a dense flash attention", "aten::_scaled_dot_product_flash_attention", args(`[[2, 4, 16, 8], [2, 2, 32, 8], [2, 2, 32, 8], [], []]`, `[`+bf16+`, `+bf16+`, `+bf16+`, "Scalar", "Scalar"]`, "", `["", "", "", "0.", "False"]`), 0,
			2 * 2 * 4 * 16 * 32 * 16, 2*(2*4*16*8+2*(2*2*32*8)+2*4*16*8) + 4*2*4*16, ""},
		{"a causal one", "aten::_scaled_dot_product_flash_attention", args(`[[2, 4, 16, 8], [2, 4, 16, 8], [2, 4, 16, 8], [], []]`, `[`+bf16+`, `+bf16+`, `+bf16+`, "Scalar", "Scalar"]`, "", `["", "", "", "0.", "True"]`), 0,
			2 * 2 * 4 * 16 * 16 * 16 * 17 / 32., 2*(4*2*4*16*8) + 4*2*4*16, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, _ := opcost.Parse(c.args)
			got, reason := opcost.Of(c.op, a, c.element)
			if reason != c.reason || got.FLOPs != c.flops || got.Bytes != c.bytes {
				t.Errorf("%+v %q, want %v FLOPs, %v bytes, %q", got, reason, c.flops, c.bytes, c.reason)
			}
		})
	}
}

func TestEveryModelHasASource(t *testing.T) {
	for _, name := range []string{"aten::mm", "aten::relu", "aten::sum", "aten::convolution_backward"} {
		if opcost.Source(name) == "" {
			t.Errorf("%s has no source", name)
		}
	}
}

// No text that a file may have stops the program, or gives a cost that is no number.
func FuzzOf(f *testing.F) {
	f.Add("aten::mm", `[[33, 40], [40, 56]]␟["float", "float"]␟[[40, 1], [56, 1]]␟["", ""]`)
	f.Add("aten::convolution_backward", `[[1, 2, 3, 3]]␟["float"]␟␟["[True, True]"]`)
	f.Add("aten::_fft_c2r", `[[4, 9]]␟["c10::complex<float>", "ScalarList"]␟␟["", "[1]", "0", "16"]`)
	f.Add("aten::sum", `[[], [9223372036854775807, 9223372036854775807]]␟["float", ""]␟␟["", "[-1]"]`)
	f.Fuzz(func(t *testing.T, name, text string) {
		a, ok := opcost.Parse(text)
		if !ok {
			return
		}
		a.Shapes()
		if got, reason := opcost.Of(name, a, 4); reason == "" && !(got.FLOPs >= 0 && got.Bytes >= 0) {
			t.Errorf("%s of %q costs %+v", name, text, got)
		}
	})
}
