package roofline_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/read/kineto"
	"github.com/gpuprof/gpuprof/internal/trace/roofline"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
)

// operator is one operator of each step with the kernels that it launches.
type operator struct {
	name    string // of a range, if it has no types but operators inside
	dims    any
	types   []string
	values  []string
	kernels []kernel
	inner   []operator // after its kernels
	seq     int        // autograd sequence number, 0 none
}

type kernel struct {
	name string
	us   int
	args map[string]any
}

type recording struct {
	device map[string]any
	steps  int
	ops    []operator
}

var a100 = map[string]any{"id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85_000_000_000, "computeMajor": 8, "computeMinor": 0, "numSms": 108}

// index writes the recording as PyTorch's profiler does, and reads it.
func (r recording) index(t *testing.T) *analyze.Index {
	t.Helper()
	var events []any
	corr, at := 0, 1000
	event := func(cat, name string, tid any, ts, dur int, args map[string]any) {
		pid := any(1)
		if cat == "kernel" {
			pid = 0
		}
		events = append(events, map[string]any{"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args})
	}
	for step := range r.steps {
		begin := at
		busy := at + 2
		var call func(o operator)
		call = func(o operator) {
			start := at
			for _, k := range o.kernels {
				corr++
				event("cuda_runtime", "cudaLaunchKernel", 1, at+1, 1, map[string]any{"correlation": corr})
				args := map[string]any{"correlation": corr, "device": 0, "stream": 7, "grid": []int{216, 1, 1}, "block": []int{128, 1, 1}}
				for key, v := range k.args {
					args[key] = v
				}
				busy = max(busy, at+2)
				event("kernel", k.name, 7, busy, k.us, args)
				busy += k.us
				at += 3
			}
			for _, in := range o.inner {
				at++
				call(in)
				at++
			}
			if o.types == nil && o.dims == nil && len(o.inner) > 0 {
				event("user_annotation", o.name, 1, start, at-start, nil)
				return
			}
			args := map[string]any{"Input type": o.types}
			if o.dims != nil {
				args["Input Dims"] = o.dims
			}
			if o.values != nil {
				args["Concrete Inputs"] = o.values
			}
			if o.seq > 0 {
				args["Sequence number"] = o.seq
			}
			event("cpu_op", o.name, 1, start, at-start, args)
		}
		for _, o := range r.ops {
			call(o)
		}
		at = busy + 5
		event("user_annotation", fmt.Sprintf("ProfilerStep#%d", step), 1, begin, at-begin, nil)
	}
	text, err := json.Marshal(map[string]any{"deviceProperties": []any{r.device}, "traceEvents": events})
	if err != nil {
		t.Fatal(err)
	}
	tr, err := kineto.Read(t.Context(), strings.NewReader(string(text)), "made.json", 0)
	if err != nil {
		t.Fatal(err)
	}
	x, err := analyze.NewIndex(t.Context(), tr)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func (r recording) roofline(t *testing.T) *analyze.Roofline {
	t.Helper()
	x := r.index(t)
	rules.Rules(x, x.NewLedger())
	if x.Roofline == nil {
		t.Fatal("no roofline")
	}
	return x.Roofline
}

const bf16 = "c10::BFloat16"

func product(m, k, n int, us int) operator {
	return operator{"aten::mm", [][]int{{m, k}, {k, n}}, []string{bf16, bf16}, nil, []kernel{{"ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_nn", us, nil}}, nil, 0}
}

func find(t *testing.T, r *analyze.Roofline, name string) analyze.RooflineOperator {
	t.Helper()
	for _, o := range r.Operators {
		if o.Name == name {
			return o
		}
	}
	t.Fatalf("no %s among %v", name, r.Operators)
	return analyze.RooflineOperator{}
}

// The bound of a product is its arithmetic at the data sheet's rate, that of an addition its traffic, and that of operators which stay
// in the cache the launch.
func TestBounds(t *testing.T) {
	add := operator{"aten::add", [][]int{{8192, 8192}, {8192, 8192}, {}}, []string{"float", "float", "Scalar"}, nil, []kernel{{"void at::native::vectorized_elementwise_kernel<4, AddFunctor<float>>", 500, nil}}, nil, 0}
	small := operator{"aten::mul", [][]int{{64}, {64}}, []string{"float", "float"}, nil, []kernel{{"void at::native::vectorized_elementwise_kernel<4, MulFunctor<float>>", 2, nil}}, nil, 0}
	r := recording{a100, 4, []operator{product(4096, 4096, 4096, 800), product(4096, 4096, 4096, 600), add, small}}.roofline(t)
	if r.Device != "A100 SXM4 80 GB" || r.ModelledNS != r.DeviceNS || r.DeviceNS != 1_902_000 {
		t.Errorf("%s: %d of %d ns", r.Device, r.ModelledNS, r.DeviceNS)
	}
	flops := 2.0 * 4096 * 4096 * 4096
	mm := find(t, r, "aten::mm")
	if want := int64(math.Round(2 * flops / 312e12 * 1e9)); mm.Bound != "compute" || mm.BoundNS != want || mm.NS != 1_400_000 || mm.Calls != 2 || mm.AboveNS != mm.NS-want || mm.Precision != "16-bit" {
		t.Errorf("%+v, want %d ns", mm, want)
	}
	if o := find(t, r, "aten::add"); o.Bound != "memory" || o.BoundNS != int64(math.Round(3*4*8192*8192/2039e9*1e9)) {
		t.Errorf("%+v", o)
	}
	if o := find(t, r, "aten::mul"); o.Bound != analyze.BoundInCache || o.BoundNS != 0 {
		t.Errorf("%+v", o)
	}
	if r.Operators[0].Name != "aten::mm" {
		t.Errorf("%s has most time above its bound", r.Operators[0].Name)
	}
	step := 1.907e-3 // 1,902 us of kernels, 5 us until the next step begins
	if want := 2 * flops / (step * 312e12); math.Abs(r.HFU-want) > 0.003*want || r.MFU != r.HFU || r.StepFLOPs != 2*flops {
		t.Errorf("HFU %v, want %v; MFU %v", r.HFU, want, r.MFU)
	}
	if !r.Assumed {
		t.Error("without strides operands are not said to be taken as dense")
	}
}

// What is faster than its bound has none: a record that is too short, or another rate than the table's.
func TestFasterThanTheBound(t *testing.T) {
	r := recording{a100, 3, []operator{product(4096, 4096, 4096, 100)}}.roofline(t)
	if o := r.Operators[0]; o.Bound != analyze.BoundExceeded || o.BoundNS != 0 || o.AboveNS != 0 || o.Share() != 0 {
		t.Errorf("%+v", o)
	}
}

// A product of two kernels is one call, by the precision of its product and not of its reduction.
func TestTwoKernelsOfOneCall(t *testing.T) {
	mm := product(512, 8192, 512, 90)
	mm.kernels = append(mm.kernels, kernel{"void cublasLt::splitKreduce_kernel<32, 16>", 10, nil})
	r := recording{a100, 3, []operator{mm}}.roofline(t)
	if o := r.Operators[0]; o.Calls != 1 || o.NS != 100_000 || o.Precision != "16-bit" || o.FLOPs != 2*512*8192*512 {
		t.Errorf("%+v", o)
	}
}

// Time without a cost is told by what it lacks, and a utilisation only where the products are counted.
func TestUnmodelled(t *testing.T) {
	gemm := []kernel{{"ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_nn", 50, nil}}
	r := recording{a100, 3, []operator{
		product(1024, 1024, 1024, 50),
		{"my::fused_linear", [][]int{{5}}, []string{bf16}, nil, gemm, nil, 0},
		{"aten::convolution", [][]int{{1, 3, 8, 8}, {4, 3, 3, 3}, {}, {}, {}, {}, {}, {}, {}}, []string{bf16, bf16, "", "", "", "", "", "", ""}, nil, gemm, nil, 0},
	}}.roofline(t)
	got := map[string]string{}
	for _, u := range r.Unmodelled {
		got[u.Name] = u.Reason
		if u.NS != 50_000 {
			t.Errorf("%+v", u)
		}
	}
	if got["my::fused_linear"] != "no model" || got["aten::convolution"] != "an argument was not recorded" || len(got) != 2 {
		t.Errorf("%v", got)
	}
	if r.HFU != 0 || math.Abs(r.ProductsCounted-1.0/3) > 1e-9 || r.ModelledNS != 50_000 {
		t.Errorf("HFU %v of %v of the products", r.HFU, r.ProductsCounted)
	}
}

// Fused attention computes its scores twice in training: MFU counts them once.
func TestRecomputedScores(t *testing.T) {
	dims, types := [][]int{{2, 16, 1024, 64}, {2, 16, 1024, 64}, {2, 16, 1024, 64}, {2, 16, 1024, 64}}, []string{bf16, bf16, bf16, bf16}
	r := recording{a100, 3, []operator{{"aten::_scaled_dot_product_flash_attention_backward", dims, types, nil, []kernel{{"flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel_bf16", 400, nil}}, nil, 0}}}.roofline(t)
	if math.Abs(r.MFU/r.HFU-0.8) > 1e-9 {
		t.Errorf("HFU %v, MFU %v", r.HFU, r.MFU)
	}
}

// TestMeasuredPeak: the rate that doctor measured replaces that of the best public product, and never exceeds the peak.
func TestMeasuredPeak(t *testing.T) {
	for rate, want := range map[float64]float64{0: 0.87, 156e12: 0.5, 900e12: 1} {
		x := recording{a100, 3, []operator{product(4096, 4096, 4096, 600)}}.index(t)
		if rate > 0 {
			x.T.Devices[0].ProductFLOPsPerS, x.T.Devices[0].MeasuredBy = rate, "gpuprof doctor"
		}
		rules.Rules(x, x.NewLedger())
		if r := x.Roofline; math.Abs(r.Reachable-want) > 1e-9 || (r.ReachedBy != "") != (rate > 0) {
			t.Errorf("measured %g FLOP/s: %v of the peak by %q, want %v", rate, r.Reachable, r.ReachedBy, want)
		}
	}
}

// TestMeasuredCopies: the rate of copies that doctor measured is a share of the data sheet's bandwidth, which stays the bound.
func TestMeasuredCopies(t *testing.T) {
	bound := recording{a100, 3, []operator{product(4096, 4096, 4096, 600)}}.roofline(t).BytesPerS
	for rate, want := range map[float64]float64{0: 0, bound / 2: 0.5, 2 * bound: 1} {
		x := recording{a100, 3, []operator{product(4096, 4096, 4096, 600)}}.index(t)
		x.T.Devices[0].CopyBytesPerS, x.T.Devices[0].MeasuredBy = rate, "gpuprof doctor"
		rules.Rules(x, x.NewLedger())
		if r := x.Roofline; math.Abs(r.CopyShare-want) > 1e-9 || (r.CopyBy != "") != (rate > 0) || r.BytesPerS != bound || r.ReachedBy != "" {
			t.Errorf("copies of %g B/s: %v by %q, bandwidth %g, products by %q", rate, r.CopyShare, r.CopyBy, r.BytesPerS, r.ReachedBy)
		}
	}
}

// A device that is in no table, and a part of a card, have costs and no bounds.
func TestUnknownDevice(t *testing.T) {
	for name, sms := range map[string]int{"NVIDIA Strange 9000": 108, "NVIDIA A100-SXM4-80GB": 42} {
		d := map[string]any{"id": 0, "name": name, "totalGlobalMem": 85_000_000_000, "computeMajor": 8, "numSms": sms}
		r := recording{d, 3, []operator{product(1024, 1024, 1024, 50)}}.roofline(t)
		if o := r.Operators[0]; r.Device != "" || o.Bound != analyze.BoundUnknown || o.BoundNS != 0 || o.FLOPs == 0 || r.HFU != 0 {
			t.Errorf("%s of %d: %q %+v", name, sms, r.Device, o)
		}
	}
}

// Devices are told apart by their name, their memory and their multiprocessors.
func TestRowsOfDevices(t *testing.T) {
	for _, c := range []struct {
		name string
		sms  int
		gb   float64
		want string
	}{
		{"Tesla V100-SXM2-16GB", 80, 16.9, "V100 SXM2"},
		{"Tesla T4", 40, 15.6, "T4"},
		{"NVIDIA A100-PG509-200", 108, 42.5, "A100 40 GB"},
		{"NVIDIA A100-SXM4-80GB", 108, 85, "A100 SXM4 80 GB"},
		{"NVIDIA A100 80GB PCIe", 108, 85, "A100 PCIe 80 GB"},
		{"NVIDIA H100 80GB HBM3", 132, 85, "H100 SXM5"},
		{"NVIDIA H100 PCIe", 114, 85, "H100 PCIe"},
		{"NVIDIA H200", 132, 150.7, "H200 SXM"},
		{"NVIDIA B200", 148, 191.5, "B200 (HGX)"},
		{"NVIDIA A10", 72, 24, "A10"},
		{"NVIDIA A10G", 80, 24, ""},
		{"NVIDIA L4", 58, 24, "L4"},
		{"NVIDIA L40S", 142, 48, "L40S"},
		{"NVIDIA GeForce RTX 4090", 128, 25.3, "RTX 4090"},
		{"AMD Instinct MI210", 104, 68.7, "MI210"},
		{"AMD Instinct MI300X VF", 304, 205.6, "MI300X"},
		{"", 304, 206.1, "MI300X"},
		{"", 108, 85, ""},
		{"NVIDIA GH200 480GB", 132, 102, ""},
		{"AMD Instinct MI300X", 38, 25, ""},
	} {
		if got := roofline.RowOf(&model.Device{Name: c.name, SMs: c.sms, TotalBytes: int64(c.gb * 1e9)}); got != c.want {
			t.Errorf("%q with %d multiprocessors and %v GB is %q, want %q", c.name, c.sms, c.gb, got, c.want)
		}
	}
}

// The bus bandwidth is that of nccl-tests, of the shortest call.
func TestCollectives(t *testing.T) {
	call := func(kind string, us, in, out int) operator {
		return operator{"c10d::" + kind, [][]int{{in}}, []string{bf16}, nil, []kernel{{"ncclDevKernel_" + kind, us, map[string]any{
			"Collective name": kind, "In msg nelems": in, "Out msg nelems": out, "Group size": 8, "dtype": "BFloat16",
		}}}, nil, 0}
	}
	r := recording{a100, 3, []operator{
		product(1024, 1024, 1024, 50), call("allreduce_", 120, 1<<20, 1<<20), call("allreduce_", 100, 1<<20, 1<<20), call("_allgather_base_", 22, 25_136, 201_088),
	}}.roofline(t)
	if len(r.Collectives) != 2 {
		t.Fatalf("%+v", r.Collectives)
	}
	reduce, gather := r.Collectives[0], r.Collectives[1]
	if reduce.Calls != 2 || reduce.NS != 220_000 || reduce.ShortestNS != 100_000 || reduce.Bytes != 2<<20 || math.Abs(reduce.BusBytesPerS/(2*7/8.*float64(2<<20)/100e-6)-1) > 1e-9 {
		t.Errorf("%+v", reduce)
	}
	if gather.Bytes != 402_176 || math.Abs(gather.AlgorithmBytesPerS-18.28e9) > 0.01e9 || math.Abs(gather.BusBytesPerS-16.0e9) > 0.01e9 {
		t.Errorf("%+v", gather)
	}
	for _, u := range r.Unmodelled {
		if u.Name == "communication" && u.NS != 242_000 {
			t.Errorf("%+v", u)
		}
	}
}

// Lists of tensors are recorded without their type, which the kernel's name has.
func TestLists(t *testing.T) {
	list := func(op, kernelName string) operator {
		return operator{op, []any{[][]int{{1 << 20}, {1 << 20}}, []int{}}, []string{"TensorList", "Scalar"}, nil, []kernel{{kernelName, 50, nil}}, nil, 0}
	}
	for name, bytes := range map[string]float64{
		"void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::(anonymous namespace)::OpaqueType<2u>, unsigned int, 2, 64, 64>": 2,
		"void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>":                                             4,
		"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<1>, UnaryOpFunctor<c10::BFloat16, 1, 1, 0>>":        2,
		"some_kernel": 0,
	} {
		r := recording{a100, 3, []operator{product(1024, 1024, 1024, 50), list("aten::cat", name)}}.roofline(t)
		if bytes == 0 {
			if len(r.Unmodelled) != 1 || r.Unmodelled[0].Reason != "an argument was not recorded" {
				t.Errorf("%s: %+v", name, r.Unmodelled)
			}
			continue
		}
		if o := find(t, r, "aten::cat"); o.Bytes != bytes*2*(2<<20) {
			t.Errorf("%s: %v bytes", name, o.Bytes)
		}
	}
}

// The irreps of a fused tensor product are in the range around it. Two modules with operands of the same sizes are two
// operators, and a product without a range has no cost.
func TestTensorProductsByRange(t *testing.T) {
	product := func(text string) operator {
		o := operator{
			name: "libtorch_tp_jit::jit_tp_forward", dims: [][]int{{900}, {}, {50000, 6}, {50000, 3}, {50000, 2}, {}},
			types: []string{"unsigned char", "Scalar", "float", "float", "float", "Scalar"}, kernels: []kernel{{"forward", 90, nil}},
		}
		if text == "" {
			return o
		}
		return operator{name: text, inner: []operator{o}}
	}
	r := recording{a100, 3, []operator{
		product("TensorProduct(2x1o x 1x1o -> 2x0e | 2 paths | 2 weights)"), product("TensorProduct(2x1o x 1x1o -> 2x1e | 2 paths | 2 weights)"), product(""),
	}}.roofline(t)
	if len(r.Operators) != 2 || r.ModelledNS != 180_000 {
		t.Fatalf("%+v", r.Operators)
	}
	flops := map[float64]bool{}
	for _, o := range r.Operators {
		flops[o.FLOPs/50000] = true
	}
	if !flops[20] || !flops[2*6+2*2*6+2*3] { // the cross product has 6 terms, each in a cell of its own, and 3 results
		t.Errorf("FLOPs of a row: %v", flops)
	}
	if u := r.Unmodelled; len(u) != 1 || u[0].NS != 90_000 || !strings.Contains(u[0].Reason, "irreps") {
		t.Errorf("%+v", u)
	}
}

// Gradients run outside the range. Their irreps are in the range around the forward operator of the same autograd node.
func TestTensorProductGradientsByRange(t *testing.T) {
	types := []string{"unsigned char", "Scalar", "float", "float", "float", "float"}
	forward := func(text string, seq int) operator {
		return operator{name: text, inner: []operator{{
			name: "libtorch_tp_jit::jit_tp_forward", dims: [][]int{{900}, {}, {50000, 6}, {50000, 3}, {50000, 2}, {}}, types: types,
			kernels: []kernel{{"forward", 90, nil}}, seq: seq,
		}}}
	}
	backward := func(out, seq int) operator {
		return operator{name: "GeneratedBackwardFor_libtorch_tp_jit_jit_tp_forward_defaultBackward", dims: []int{}, types: []string{}, seq: seq, inner: []operator{{
			name: "libtorch_tp_jit::jit_tp_backward", dims: [][]int{{900}, {}, {50000, 6}, {50000, 3}, {50000, 2}, {50000, out}}, types: types,
			kernels: []kernel{{"backward", 200, nil}},
		}}}
	}
	r := recording{a100, 1, []operator{
		forward("TensorProduct(2x1o x 1x1o -> 2x0e | 2 paths | 2 weights)", 5), forward("TensorProduct(2x1o x 1x1o -> 2x1e | 2 paths | 2 weights)", 6),
		backward(6, 6), backward(2, 5), backward(2, 99),
	}}.roofline(t)
	flops := map[float64]bool{}
	for _, o := range r.Operators {
		if o.Name == "libtorch_tp_jit::jit_tp_backward" {
			flops[o.FLOPs/50000] = true
		}
	}
	if len(flops) != 2 || !flops[62] || !flops[4*6+2*4*6+2*(4*3+3)] {
		t.Errorf("FLOPs of a row: %v", flops)
	}
	if u := r.Unmodelled; len(u) != 1 || u[0].NS != 200_000 || !strings.Contains(u[0].Reason, "irreps") {
		t.Errorf("%+v", u)
	}
}

// A program with new shapes in every call does not fill the document; the time of those left out is told.
func TestManyShapes(t *testing.T) {
	var ops []operator
	for k := range 1100 {
		ops = append(ops, product(1024, 1024, 1024+8*k, 50))
	}
	r := recording{a100, 2, ops}.roofline(t)
	if len(r.Operators) != 1000 || r.ModelledNS != 1100*50_000 || r.Unlisted != 100 || r.UnlistedNS != 100*50_000 {
		t.Errorf("%d operators, %d ns, %d unlisted of %d ns", len(r.Operators), r.ModelledNS, r.Unlisted, r.UnlistedNS)
	}
}

// A recording without shapes has no roofline.
func TestNoShapes(t *testing.T) {
	for _, name := range []string{"aten::view", "aten::mm"} { // without a model, and with one
		x := recording{a100, 3, []operator{{name, nil, nil, nil, []kernel{{"k", 5, nil}}, nil, 0}}}.index(t)
		if rules.Rules(x, x.NewLedger()); x.Roofline != nil {
			t.Errorf("%s: %+v", name, x.Roofline)
		}
	}
}

// No operator of a recording takes less time than a bound that is told: such a bound is withheld.
func TestNoOperatorBelowItsBound(t *testing.T) {
	recordings, bounded := 0, 0
	err := filepath.WalkDir("../../../testdata/traces", func(path string, _ fs.DirEntry, err error) error {
		plain, zipped := strings.HasSuffix(path, ".json"), strings.HasSuffix(path, ".json.gz")
		if err != nil || !plain && !zipped {
			return err
		}
		text := unpack(t, path, zipped)
		if !bytes.Contains(text, []byte(`"Input Dims"`)) {
			return nil
		}
		tr, err := kineto.Read(t.Context(), bytes.NewReader(text), path, 0)
		if err != nil {
			return err
		}
		x, err := analyze.NewIndex(t.Context(), tr)
		if err != nil {
			return err
		}
		if rules.Rules(x, x.NewLedger()); x.Roofline == nil {
			return nil
		}
		recordings++
		for _, o := range x.Roofline.Operators {
			if o.BoundNS > 0 {
				bounded++
			}
			if o.BoundNS > o.NS || o.Share() > 1 || o.AboveNS < 0 || o.BoundNS > 0 && (o.Bound == analyze.BoundExceeded || o.Bound == analyze.BoundInCache) {
				t.Errorf("%s: %+v", path, o)
			}
		}
		return nil
	})
	if err != nil || recordings < 8 || bounded < 20 {
		t.Errorf("%v: %d operators with a bound in %d recordings", err, bounded, recordings)
	}
}

func unpack(t *testing.T, path string, zipped bool) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil && zipped {
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(text)); err == nil {
			text, err = io.ReadAll(z)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}
