package xla

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// elementType is a type of numbers in XLA.
type elementType struct {
	name, precision string // precision of matrix products
	bits            uint64
}

// elementTypes are XLA's types by their number in xla_data.proto. float32 has the precision TF32, with whose higher
// rate a bound stays a bound.
var elementTypes = map[uint64]elementType{
	1: {"pred", "", 8}, 2: {"s8", "", 8}, 3: {"s16", "", 16}, 4: {"s32", "", 32}, 5: {"s64", "", 64},
	6: {"u8", "", 8}, 7: {"u16", "", 16}, 8: {"u32", "", 32}, 9: {"u64", "", 64},
	10: {"f16", "16-bit", 16}, 11: {"f32", "tf32", 32}, 12: {"f64", "fp64", 64}, 15: {"c64", "", 64}, 16: {"bf16", "16-bit", 16},
	18: {"c128", "", 128}, 19: {"f8e5m2", "fp8", 8}, 20: {"f8e4m3fn", "fp8", 8}, 21: {"s4", "", 4}, 22: {"u4", "", 4},
	23: {"f8e4m3b11fnuz", "fp8", 8}, 24: {"f8e5m2fnuz", "fp8", 8}, 25: {"f8e4m3fnuz", "fp8", 8},
}

// partialAccess are opcodes that may read or write only a part of an operand.
var partialAccess = map[string]bool{
	"slice": true, "dynamic-slice": true, "gather": true, "dynamic-update-slice": true, "scatter": true, "select-and-scatter": true,
}

// unknownCost are opcodes whose work does not follow from their shapes.
var unknownCost = map[string]bool{
	"custom-call": true, "while": true, "conditional": true, "call": true, "sort": true, "fft": true, "rng": true, "infeed": true, "outfeed": true,
	"triangular-solve": true, "cholesky": true, "rng-bit-generator": true,
}

// elements returns the number of elements; NaN if a dimension is out of range.
func (s shape) elements() float64 {
	n := 1.0
	for _, d := range s.dims {
		if d > math.MaxInt64 {
			return math.NaN()
		}
		n *= float64(d)
	}
	return n
}

// bytes returns the size of an array or a tuple; NaN if a type is unknown.
func (s shape) bytes() float64 {
	if len(s.tuple) > 0 {
		sum := 0.0
		for _, p := range s.tuple {
			sum += p.bytes()
		}
		return sum
	}
	e, ok := elementTypes[s.element]
	if !ok {
		return math.NaN()
	}
	return s.elements() * float64(e.bits) / 8
}

// text returns "bf16[128,256]".
func (s shape) text() string {
	words := make([]string, len(s.dims))
	for i, d := range s.dims {
		words[i] = strconv.FormatUint(d, 10)
	}
	return elementTypes[s.element].name + "[" + strings.Join(words, ",") + "]"
}

func (s shape) dim(i uint64) float64 {
	if i >= uint64(len(s.dims)) {
		return math.NaN()
	}
	return float64(s.dims[i])
}

// costOf returns the cost of one execution of an instruction. FLOPs counts matrix products and convolutions, as XLA's
// cost analysis does (hlo_cost_analysis.cc); elementwise arithmetic is left out. Bytes counts each operand and the result
// once, or is 0 if the instruction may read or write only a part of an operand.
func (p *program) costOf(in *instruction) model.Instruction {
	out := model.Instruction{Name: in.name, Kind: in.opcode, Type: in.shape.array().text(), Computed: true}
	w := &productSum{p: p, whole: true}
	w.add(in, 0)
	out.Product, out.Precision = w.product, w.precision
	flops, bytes := w.flops, 0.0
	if w.whole && in.opcode != "custom-call" || w.library {
		bytes = in.shape.array().bytes()
		if len(in.shape.tuple) > 0 && !w.library {
			bytes = in.shape.bytes()
		}
		seen := map[uint64]bool{}
		for i, id := range in.operands {
			if !seen[id] {
				seen[id] = true
				bytes += p.operand(in, i).bytes()
			}
		}
	}
	if w.unknown || math.IsNaN(flops) || math.IsInf(flops, 0) {
		return out
	}
	out.FLOPs, out.Bytes = flops, finitePositive(bytes)
	out.Costed = out.FLOPs+out.Bytes > 0
	return out
}

// productSum adds up the matrix products and convolutions of an instruction, and of the computations that it fuses.
type productSum struct {
	p         *program
	flops     float64
	precision string
	product   bool // has products or convolutions, or may have them
	library   bool // is one call of cuBLAS or cuDNN
	whole     bool // reads its operands as a whole
	unknown   bool // its work does not follow from its shapes
	visited   int  // instructions
}

// Limits of the fusions inside an instruction. Beyond them its cost is unknown.
const (
	mostNested  = 16 // fusions in fusions
	mostVisited = 1 << 16
)

// add adds the products of an instruction. depth counts the fusions around it.
func (w *productSum) add(in *instruction, depth int) {
	w.visited++
	switch {
	case w.visited > mostVisited:
		w.unknown = true
	case in.opcode == "dot":
		w.addProduct(in, in.summed)
	case in.opcode == "convolution":
		w.addConvolution(in, forward)
	case cudnnConvolutions[in.target] != nil:
		w.library = true
		w.addConvolution(in, cudnnConvolutions[in.target])
	case strings.HasPrefix(in.target, "__cublas$"):
		summed, ok := gemmSummed(in.config)
		w.library, w.unknown = ok, w.unknown || !ok
		w.addProduct(in, summed)
	case in.opcode == "fusion" && depth < mostNested:
		for _, id := range in.called {
			for _, inner := range w.p.computations[id] {
				w.add(inner, depth+1)
			}
		}
	case unknownCost[in.opcode], in.opcode == "fusion", strings.HasSuffix(in.opcode, "-start"), strings.HasSuffix(in.opcode, "-done"):
		w.unknown, w.product = true, true
	case partialAccess[in.opcode]:
		w.whole = false
	}
}

// addProduct adds a matrix product: two FLOPs for each element of the result and each number that is summed over.
func (w *productSum) addProduct(in *instruction, summed []uint64) {
	left := w.p.operand(in, 0)
	n := 2 * in.shape.array().elements()
	for _, i := range summed {
		n *= left.dim(i)
	}
	w.product = true
	w.precision = elementTypes[left.element].precision
	w.flops += n
}

// gemmSummed returns the dimensions of the left operand that a product by cuBLAS sums over, from its backend_config,
// which is JSON.
func gemmSummed(config []byte) (summed []uint64, ok bool) {
	type dims struct {
		Left []json.Number `json:"lhs_contracting_dimensions"`
	}
	type gemm struct {
		Dot *dims `json:"dot_dimension_numbers"`
	}
	var c struct {
		gemm
		Gemm *gemm `json:"gemm_backend_config"`
	}
	if json.Unmarshal(config, &c) != nil {
		return nil, false
	}
	found := c.Dot
	if c.Gemm != nil {
		found = c.Gemm.Dot
	}
	if found == nil {
		return nil, false
	}
	for _, n := range found.Left {
		v, err := strconv.ParseUint(n.String(), 10, 32)
		if err != nil {
			return nil, false
		}
		summed = append(summed, v)
	}
	return summed, true
}

// convolutionArrays returns the input and the output of a convolution.
type convolutionArrays func(p *program, in *instruction) (input, output shape)

func forward(p *program, in *instruction) (input, output shape) {
	return p.operand(in, 0), in.shape.array()
}

// cudnnConvolutions are the targets of XLA's calls of cuDNN (xla/service/gpu/cublas_cudnn.cc). The window and the numbers
// of the dimensions are those of the forward convolution. Gradients have its input or its output as an operand or as
// their result (xla/service/gpu/gpu_conv_runner.cc).
var cudnnConvolutions = map[string]convolutionArrays{
	"__cudnn$convForward": forward, "__cudnn$convBiasActivationForward": forward, "__cudnn$convForwardGraph": forward,
	"__cudnn$convBackwardInput":  func(p *program, in *instruction) (shape, shape) { return in.shape.array(), p.operand(in, 0) },
	"__cudnn$convBackwardFilter": func(p *program, in *instruction) (shape, shape) { return p.operand(in, 0), p.operand(in, 1) },
}

// addConvolution adds a convolution: two FLOPs for each pair of a kernel element and an input element that is not
// padding, for each sample, input feature of the group and output feature. Arrays with more dimensions hold int8
// features in vectors, and their FLOPs are unknown.
func (w *productSum) addConvolution(in *instruction, arrays convolutionArrays) {
	input, output := arrays(w.p, in)
	d := in.conv
	w.product = true
	w.precision = elementTypes[w.p.operand(in, 0).element].precision
	flops := 2 * input.dim(d.inputFeature) / float64(in.groups) * output.dim(d.outputFeature) * input.dim(d.inputBatch) / float64(in.batchGroups)
	if n := len(in.window); n != len(d.input) || n != len(d.output) || n+2 != len(input.dims) || n+2 != len(output.dims) {
		flops = math.NaN()
	} else {
		for i, dim := range in.window {
			flops *= dim.countPairs(input.dim(d.input[i]), output.dim(d.output[i]))
		}
	}
	w.flops += flops
}

// countPairs returns the number of pairs of an output position and a kernel position, in one dimension, that meet an
// input element. NaN for dimensions too large to count.
func (w windowDim) countPairs(inputs, outputs float64) float64 {
	const most = 1 << 18
	if !(inputs >= 0 && outputs >= 0) || w.size < 0 || float64(w.size)*outputs > most || w.base < 1 {
		return math.NaN()
	}
	reach := (inputs-1)*float64(w.base) + 1 // input elements with the holes between them
	n := 0.0
	for k := range w.size {
		for o := range int64(outputs) {
			at := o*w.stride - w.low + k*w.dilation
			if at >= 0 && float64(at) < reach && at%w.base == 0 {
				n++
			}
		}
	}
	return n
}
