package roofline_test

import (
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
	var sides []*analyze.Analysis
	for _, r := range []recording{
		{h100, 5, layer("nvjet_tst_192x192_64x4_bf16", "aten::cudnn_batch_norm", "cudnn::bn_fw_tr_1C11_kernel", 400, 200, fused)},
		{mi300x, 5, layer("Cijk_Alik_Bljk_BBS_BH_MT256x256x64", "aten::miopen_batch_norm", "MIOpenBatchNormFwdTrainSpatial", 600, 150, parts)},
	} {
		x := r.index(t)
		a, err := analyze.SummariseIndexes(t.Context(), []*analyze.Index{x}, analyze.Options{Rules: rules.Rules})
		if err != nil {
			t.Fatal(err)
		}
		sides = append(sides, a)
	}
	c := rules.Compare(sides[0], sides[1])
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
