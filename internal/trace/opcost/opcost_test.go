package opcost_test

import (
	"fmt"
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
			got, reason := opcost.Of(c.op, a, opcost.Hints{Element: c.element})
			if reason != c.reason || got.FLOPs != c.flops || got.Bytes != c.bytes {
				t.Errorf("%+v %q, want %v FLOPs, %v bytes, %q", got, reason, c.flops, c.bytes, c.reason)
			}
		})
	}
}

// joined is an attention of 8 query heads, 2 heads of keys and a head of 16: its sequences have the given numbers of
// tokens, and the longest of each side are queries and keys.
func joined(tokens, keyTokens, sequences, queries, keys int, causal string, paged bool) string {
	table := `""`
	if paged {
		table = `"int"`
	}
	types := `["c10::BFloat16","c10::BFloat16","c10::BFloat16","int","int","Scalar","Scalar","Scalar","Scalar","Scalar","Scalar","Scalar","Scalar","","Scalar",` + table + `]`
	dims := fmt.Sprintf(`[[%d,8,16],[%d,2,16],[%[2]d,2,16],[%d],[%[3]d],[],[],[],[],[],[],[],[],[],[],[]]`, tokens, keyTokens, sequences+1)
	values := fmt.Sprintf(`["","","","","","%d","%d","0.","0.25",%q,"-1","-1","0.","","False",""]`, queries, keys, causal)
	return args(dims, types, "", values)
}

// Sequences that are joined: by arithmetic over each sequence, where their lengths follow from the arguments.
func TestJoinedAttention(t *testing.T) {
	const forward, backward = "flash_attn::_flash_attn_varlen_forward", "flash_attn::_flash_attn_varlen_backward"
	count := func(lengths [][2]int, causal bool) float64 { // scores, one by one
		n := 0
		for _, l := range lengths {
			for q := range l[0] {
				for k := range l[1] {
					if !causal || k-q <= l[1]-l[0] {
						n++
					}
				}
			}
		}
		return float64(n) * 8 * 2 * (16 + 16)
	}
	bytes := func(tokens, keys int) float64 { return float64(2*(2*tokens*8*16+2*keys*2*16) + 4*tokens*8) }
	for _, c := range []struct {
		name, args   string
		flops, bytes float64
		reason       opcost.Reason
	}{
		{"one sequence", joined(12, 20, 1, 12, 20, "False", false), count([][2]int{{12, 20}}, false), bytes(12, 20), ""},
		{"one causal sequence", joined(12, 20, 1, 12, 20, "True", false), count([][2]int{{12, 20}}, true), bytes(12, 20), ""},
		{"three of one length, causal", joined(21, 21, 3, 7, 7, "True", false), count([][2]int{{7, 7}, {7, 7}, {7, 7}}, true), bytes(21, 21), ""},
		{"decode: a query each, and keys of any length", joined(3, 30, 3, 1, 17, "True", false), count([][2]int{{1, 5}, {1, 17}, {1, 8}}, true), bytes(3, 30), ""},
		{"queries of one length, keys of any", joined(8, 30, 2, 4, 19, "False", false), count([][2]int{{4, 19}, {4, 11}}, false), bytes(8, 30), ""},
		{"queries of one length, keys of any, causal", joined(8, 30, 2, 4, 19, "True", false), 0, 0, opcost.NoLengths},
		{"sequences of several lengths", joined(20, 20, 3, 9, 9, "False", false), 0, 0, opcost.NoLengths},
		{"keys in pages", joined(12, 20, 1, 12, 20, "False", true), 0, 0, opcost.NoLengths},
		{"a window", strings.Replace(joined(12, 12, 1, 12, 12, "True", false), `"-1","-1"`, `"4","0"`, 1), 0, 0, opcost.NoMask},
		{"more queries than keys, causal", joined(20, 12, 1, 20, 12, "True", false), 0, 0, opcost.NoMask},
		{"no values", strings.Split(joined(12, 12, 1, 12, 12, "True", false), opcost.Separator)[0], 0, 0, opcost.NoShapes},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, _ := opcost.Parse(c.args)
			got, reason := opcost.Of(forward, a, opcost.Hints{})
			if reason != c.reason || got.FLOPs != c.flops || got.Bytes != c.bytes {
				t.Errorf("%+v %q, want %v FLOPs, %v bytes, %q", got, reason, c.flops, c.bytes, c.reason)
			}
		})
	}
	q, v := `"c10::BFloat16"`, `"int"`
	types := `[` + strings.Repeat(q+",", 5) + `"float",` + strings.Repeat(q+",", 3) + v + "," + v + strings.Repeat(`,"Scalar"`, 7) + `]`
	dims := `[[12,8,16],[12,8,16],[12,2,16],[12,2,16],[12,8,16],[8,12],[12,8,16],[12,2,16],[12,2,16],[4],[4],[],[],[],[],[],[],[]]`
	a, _ := opcost.Parse(args(dims, types, "", `["","","","","","","","","","","","4","4","0.","0.25","True","-1","-1"]`))
	if got, reason := opcost.Of(backward, a, opcost.Hints{}); reason != "" || got.FLOPs != 2.5*count([][2]int{{4, 4}, {4, 4}, {4, 4}}, true) || got.Recomputed != got.FLOPs/5 {
		t.Errorf("backward: %+v %q", got, reason)
	}
	types = `[` + strings.Repeat(q+",", 3) + `"Scalar","Scalar","Scalar","Scalar","Scalar"]`
	a, _ = opcost.Parse(args(`[[2,6,8,16],[2,10,2,16],[2,10,2,16],[],[],[],[],[]]`, types, "", `["","","","0.","0.25","True","-1","-1"]`))
	if got, reason := opcost.Of("flash_attn::_flash_attn_forward", a, opcost.Hints{}); reason != "" || got.FLOPs != count([][2]int{{6, 10}, {6, 10}}, true) || got.Bytes != bytes(12, 20) {
		t.Errorf("a batch: %+v %q", got, reason)
	}
	types = `[` + strings.Repeat(q+",", 5) + `"float",` + strings.Repeat(q+",", 3) + `"Scalar","Scalar","Scalar","Scalar","Scalar"]`
	dims = `[[2,6,8,16],[2,6,8,16],[2,6,2,16],[2,6,2,16],[2,6,8,16],[2,8,6],[2,6,8,16],[2,6,2,16],[2,6,2,16],[],[],[],[],[]]`
	a, _ = opcost.Parse(args(dims, types, "", `["","","","","","","","","","0.","0.25","True","-1","-1"]`))
	if got, reason := opcost.Of("flash_attn::_flash_attn_backward", a, opcost.Hints{}); reason != "" || got.FLOPs != 2.5*count([][2]int{{6, 6}, {6, 6}}, true) {
		t.Errorf("its backward pass: %+v %q", got, reason)
	}
	a, _ = opcost.Parse(args(`[[64,8,16]]`, `[`+q+`]`, "", ""))
	if _, reason := opcost.Of("vllm::unified_attention_with_output", a, opcost.Hints{}); reason != opcost.NoLengths {
		t.Errorf("attention of an engine: %q", reason)
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
	f.Add("libtorch_tp_jit::jit_tp_forward", `[[10, 6], [10, 3], [10, 2]]␟["float", "float", "float"]␟␟`)
	f.Fuzz(func(t *testing.T, name, text string) {
		a, ok := opcost.Parse(text)
		if !ok {
			return
		}
		a.Shapes()
		if got, reason := opcost.Of(name, a, opcost.Hints{Element: 4, Range: "TensorProduct(2x1o x 1x1o -> 2x0e | 2 paths | 2 weights)"}); reason == "" && !(got.FLOPs >= 0 && got.Bytes >= 0) {
			t.Errorf("%s of %q costs %+v", name, text, got)
		}
	})
}
