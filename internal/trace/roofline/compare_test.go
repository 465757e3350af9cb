package roofline_test

import (
	"maps"
	"math"
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
)

var (
	h100   = map[string]any{"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_000_000_000, "computeMajor": 9, "computeMinor": 0, "numSms": 132}
	mi300x = map[string]any{"id": 0, "name": "AMD Instinct MI300X", "totalGlobalMem": 206_000_000_000, "computeMajor": 9, "computeMinor": 4, "numSms": 304}
)

// layer is a linear layer, a norm and an attention as PyTorch calls them with the libraries of a vendor. No kernel has a
// name that the other vendor's has.
func layer(linear, norm string, normKernel string, linearUS, normUS int, attention []operator) []operator {
	const rows, width = 8192, 4096
	x := [][]int{{64, 128, 56, 56}, {128}, {128}, {128}, {128}}
	q := [][]int{{8, 16, 1024, 128}, {8, 16, 1024, 128}, {8, 16, 1024, 128}}
	return []operator{
		{name: "aten::linear", dims: [][]int{{rows, width}, {width, width}}, types: []string{bf16, bf16}, inner: []operator{
			{name: "aten::mm", dims: [][]int{{rows, width}, {width, width}}, types: []string{bf16, bf16}, kernels: []kernel{{linear, linearUS, nil}}},
		}},
		{name: norm, dims: x, types: []string{"float", "float", "float", "float", "float"}, kernels: []kernel{{normKernel, normUS, nil}}},
		{name: "aten::scaled_dot_product_attention", dims: q, types: []string{bf16, bf16, bf16}, inner: attention},
	}
}

// compare compares the analyses of two recordings.
func compare(t *testing.T, before, after recording) *analyze.Comparison {
	t.Helper()
	var sides []*analyze.Analysis
	for _, r := range []recording{before, after} {
		a, err := analyze.SummariseIndexes(t.Context(), []*analyze.Index{r.index(t)}, analyze.Options{Rules: rules.Rules})
		if err != nil {
			t.Fatal(err)
		}
		sides = append(sides, a)
	}
	return rules.Compare(sides[0], sides[1])
}

// Two vendors' recordings of one model are aligned by operators and shapes: a norm of two libraries, and an attention
// that is one kernel with the one and three operators with the other. Each side has its own bound.
func TestTwoVendors(t *testing.T) {
	q := [][]int{{8, 16, 1024, 128}, {8, 16, 1024, 128}, {8, 16, 1024, 128}}
	fused := []operator{{name: "aten::_scaled_dot_product_flash_attention", dims: q, types: []string{bf16, bf16, bf16}, kernels: []kernel{{"void pytorch_flash::flash_fwd_kernel<bf16>", 300, nil}}}}
	bmm := func(dims [][]int, us int) operator {
		return operator{name: "aten::bmm", dims: dims, types: []string{bf16, bf16}, kernels: []kernel{{"Cijk_Ailk_Bljk_BBS_BH_MT128x128x32", us, nil}}}
	}
	parts := []operator{
		bmm([][]int{{128, 1024, 128}, {128, 128, 1024}}, 200),
		{name: "aten::_softmax", dims: [][]int{{8, 16, 1024, 1024}, {}, {}}, types: []string{bf16, "Scalar", "Scalar"}, values: []string{"", "-1", "False"}, kernels: []kernel{{"softmax_warp_forward_hip", 400, nil}}},
		bmm([][]int{{128, 1024, 1024}, {128, 1024, 128}}, 250),
	}
	c := compare(t,
		recording{h100, 5, layer("nvjet_tst_192x192_64x4_bf16", "aten::cudnn_batch_norm", "cudnn::bn_fw_tr_1C11_kernel", 400, 200, fused)},
		recording{mi300x, 5, layer("Cijk_Alik_Bljk_BBS_BH_MT256x256x64", "aten::miopen_batch_norm", "MIOpenBatchNormFwdTrainSpatial", 600, 150, parts)},
	)
	got := map[string]analyze.BoundChange{}
	old, now := int64(0), int64(0)
	for _, b := range c.Bounds {
		got[b.Name] = b
		old, now = old+b.OldNS, now+b.NewNS
	}
	if len(c.Bounds) != 3 || old != 900_000 || now != 1_600_000 {
		t.Fatalf("%+v", c.Bounds)
	}
	flops := 2.0 * 8192 * 4096 * 4096
	mm := got["aten::mm"]
	if want := []float64{flops / 989.4e12 / 400e-6, flops / 1307.4e12 / 600e-6}; math.Abs(mm.OldShare-want[0]) > 1e-3 || math.Abs(mm.NewShare-want[1]) > 1e-3 {
		t.Errorf("%+v, want shares %v", mm, want)
	}
	if mm.OldKernel != "nvjet_tst_192x192_64x4_bf16" || mm.NewKernel != "Cijk_Alik_Bljk_BBS_BH_MT256x256x64" {
		t.Errorf("%+v", mm)
	}
	if bn := got["aten::cudnn_batch_norm"]; bn.OldNS != 200_000 || bn.NewNS != 150_000 {
		t.Errorf("%+v", bn)
	}
	if a := got["aten::scaled_dot_product_attention"]; a.OldNS != 300_000 || a.NewNS != 850_000 || a.OldKernel == "" || a.NewKernel != "softmax_warp_forward_hip" {
		t.Errorf("%+v", a)
	}
}

// A graph replays kernels without operators. Their order, names and grids are those of the operators that launched them
// before, so each operator is compared with its kernels in the graph, also two operators with one kernel.
func TestReplayedByAGraph(t *testing.T) {
	replayed := func(kernels ...kernel) operator {
		for i := range kernels {
			args := map[string]any{"graph id": 1, "graph node id": 100 + i}
			for key, v := range kernels[i].args {
				args[key] = v
			}
			kernels[i].args = args
		}
		return operator{name: "replay", kernels: kernels, inner: []operator{product(1024, 1024, 1024, 50)}}
	}
	const gemm, sum = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_nn", "void at::native::vectorized_elementwise_kernel<add>"
	wide := map[string]any{"grid": []int{999, 1, 1}}
	large, small := product(8192, 8192, 8192, 6000), product(4096, 4096, 4096, 900)
	add := operator{name: "aten::add", dims: [][]int{{8192, 8192}, {8192, 8192}, {}}, types: []string{"float", "float", "Scalar"}, kernels: []kernel{{sum, 600, nil}}}
	split := operator{name: "aten::mm", dims: [][]int{{512, 65536}, {65536, 512}}, types: []string{bf16, bf16}, kernels: []kernel{{gemm, 300, wide}, {"splitKreduce_kernel", 40, nil}}}
	mine := operator{name: "my::op", dims: [][]int{{5}}, types: []string{bf16}, kernels: []kernel{{"my_kernel", 70, nil}}}
	eager := recording{a100, 3, []operator{large, small, add, mine, split, product(1024, 1024, 1024, 50)}}
	graph := recording{a100, 3, []operator{replayed(kernel{gemm, 5500, nil}, kernel{gemm, 800, nil}, kernel{"fill", 9, nil}, kernel{sum, 500, nil},
		kernel{"my_kernel", 60, nil}, kernel{gemm, 280, wide})}}
	for _, turned := range []bool{false, true} {
		c := compare(t, eager, graph)
		if turned {
			c = compare(t, graph, eager)
		}
		got := map[string][2]int64{}
		old, now := int64(0), int64(0)
		for _, b := range c.Bounds {
			if turned {
				b.OldNS, b.NewNS, b.OldShare, b.NewShare = b.NewNS, b.OldNS, b.NewShare, b.OldShare
			}
			got[b.Name+" "+b.Shapes] = [2]int64{b.OldNS, b.NewNS}
			old, now = old+b.OldNS, now+b.NewNS
			if whole := b.OldNS >= 600_000; whole && (b.OldShare <= 0 || math.Abs(b.NewShare*float64(b.NewNS)-b.OldShare*float64(b.OldNS)) > 1) {
				t.Errorf("%s %s: shares %v, %v: the bound is one", b.Name, b.Shapes, b.OldShare, b.NewShare)
			}
			if b.OldNS == 340_000 && b.NewShare != 0 {
				t.Errorf("%s: a bound without its second kernel: %v", b.Shapes, b.NewShare)
			}
		}
		want := map[string][2]int64{
			"aten::mm [8192, 8192] [8192, 8192]": {6_000_000, 5_500_000}, "aten::mm [4096, 4096] [4096, 4096]": {900_000, 800_000},
			"aten::add [8192, 8192] [8192, 8192]": {600_000, 500_000}, "my::op ": {70_000, 60_000}, "fill ": {0, 9_000},
			"aten::mm [512, 65536] [65536, 512]": {340_000, 280_000}, "aten::mm [1024, 1024] [1024, 1024]": {50_000, 50_000},
		}
		if !maps.Equal(got, want) || old != 7_960_000 || now != 7_199_000 {
			t.Errorf("turned %t: %v, want %v", turned, got, want)
		}
	}
}
