package opcost

import "math"

// model computes the cost of one operator. operand is the index of the tensor argument whose type decides the
// arithmetic.
type model struct {
	count   func(c *call) (flops, bytes float64)
	operand int
	source  string
}

const (
	// flopCounterSource is the source of models that give the same FLOPs as torch.utils.flop_counter.FlopCounterMode
	// of PyTorch 2.9.1.
	flopCounterSource = "torch.utils.flop_counter"
	// trafficSource is the source of models that read each operand once and write each result once.
	trafficSource = "operands and results, once each"
)

// logSumExp is the bytes per row of scores that fused attention stores: one float32.
const logSumExp = 4

// models holds the models by operator name. Only the innermost operator around a launch is counted. So aten::linear,
// aten::matmul and aten::einsum have no model: they call operators that have one.
var models = addProducts(addSimpleModels(map[string]model{
	"aten::mm":          {countMM, 0, flopCounterSource},
	"aten::addmm":       {countAddMM, 1, flopCounterSource},
	"aten::addmm_":      {countAddMM, 1, flopCounterSource},
	"aten::bmm":         {countBMM, 0, flopCounterSource},
	"aten::baddbmm":     {countBAddBMM, 1, flopCounterSource},
	"aten::baddbmm_":    {countBAddBMM, 1, flopCounterSource},
	"aten::mv":          {countMV, 0, "2mk"},
	"aten::addmv_":      {countAddMV, 1, "2mk"},
	"aten::addmv":       {countAddMV, 1, "2mk"},
	"aten::dot":         {countDot, 0, "2n"},
	"aten::_scaled_mm":  {scaledMM, 0, flopCounterSource},
	"aten::_grouped_mm": {groupedMM, 0, "2·rows·k·n: each row belongs to one group"},

	"aten::convolution":          {countConvolution, 1, flopCounterSource},
	"aten::convolution_backward": {convolutionBackward, 2, flopCounterSource + ", and 1/groups of its gradient of the weights"},

	"aten::scaled_dot_product_attention": {countAttention, 0, flopCounterSource + ", half for causal, by query heads for grouped queries"},

	"aten::_scaled_dot_product_flash_attention":         {countAttention, 0, flopCounterSource},
	"aten::_scaled_dot_product_flash_attention_for_cpu": {countAttention, 0, flopCounterSource},
	"aten::_scaled_dot_product_efficient_attention":     {attentionWith(6), 0, flopCounterSource},
	"aten::_scaled_dot_product_cudnn_attention":         {attentionWith(6), 0, flopCounterSource},

	"aten::_scaled_dot_product_flash_attention_backward":         {attentionBackward(9), 1, flopCounterSource + ": five products"},
	"aten::_scaled_dot_product_flash_attention_for_cpu_backward": {attentionBackward(7), 1, flopCounterSource + ": five products"},
	"aten::_scaled_dot_product_efficient_attention_backward":     {attentionBackward(11), 1, flopCounterSource + ": five products"},
	"aten::_scaled_dot_product_cudnn_attention_backward":         {attentionBackward(13), 1, flopCounterSource + ": five products"},

	// Source: flash_attn_interface.py of FlashAttention 2.7, for batches of sequences and for concatenated sequences.
	"flash_attn::_flash_attn_forward":         {flashAttention, 0, joinedSource},
	"flash_attn::_flash_attn_backward":        {flashAttentionBackward, 1, joinedSource + ", five products"},
	"flash_attn::_flash_attn_varlen_forward":  {joinedAttention, 0, joinedSource},
	"flash_attn::_flash_attn_varlen_backward": {joinedAttentionBackward, 1, joinedSource + ", five products"},
	// No argument has the lengths of the sequences: they are in the engine's metadata or in the values of tensors.
	"vllm::unified_attention":                 {pagedAttention, 0, pagedSource},
	"vllm::unified_attention_with_output":     {pagedAttention, 0, pagedSource},
	"vllm::unified_mla_attention":             {pagedAttention, 0, pagedSource},
	"vllm::unified_mla_attention_with_output": {pagedAttention, 0, pagedSource},

	"aten::native_layer_norm":                          {layerNorm(2, 3, 2), 0, trafficSource},
	"aten::native_layer_norm_backward":                 {layerNormBackward, 0, trafficSource},
	"aten::_fused_rms_norm":                            {layerNorm(2, -1, 1), 0, trafficSource},
	"aten::native_batch_norm":                          {batchNorm, 0, trafficSource},
	"aten::cudnn_batch_norm":                           {batchNorm, 0, trafficSource},
	"aten::miopen_batch_norm":                          {batchNorm, 0, trafficSource},
	"aten::native_batch_norm_backward":                 {normBackward, 0, trafficSource},
	"aten::cudnn_batch_norm_backward":                  {normBackward, 0, trafficSource},
	"aten::miopen_batch_norm_backward":                 {normBackward, 0, trafficSource},
	"aten::native_group_norm":                          {readWrite, 0, trafficSource},
	"aten::_softmax":                                   {countSoftmax, 0, trafficSource},
	"aten::_log_softmax":                               {countSoftmax, 0, trafficSource},
	"aten::_softmax_backward_data":                     {countPointwise(2), 0, trafficSource},
	"aten::_log_softmax_backward_data":                 {countPointwise(2), 0, trafficSource},
	"aten::native_dropout":                             {countDropout, 0, trafficSource + ", a byte of mask each"},
	"aten::native_dropout_backward":                    {countPointwise(2), 0, trafficSource},
	"aten::nll_loss_forward":                           {nllLoss, 0, trafficSource},
	"aten::nll_loss_backward":                          {nllLossBackward, 1, trafficSource},
	"aten::embedding":                                  {countEmbedding, 0, "rows that are read, not the table"},
	"aten::embedding_dense_backward":                   {embeddingBackward, 0, trafficSource},
	"aten::index_select":                               {indexSelect, 0, "rows that are read"},
	"aten::gather":                                     {countGather, 0, trafficSource},
	"aten::index_add_":                                 {scatterAdd(2, 3), 0, "source, index, and the rows hit, read and written"},
	"aten::scatter_add_":                               {scatterAdd(2, 3), 0, "source, index, and the elements hit, read and written"},
	"aten::scatter_reduce_":                            {scatterAdd(2, 3), 0, "source, index, and the elements hit, read and written"},
	"aten::copy_":                                      {countCopied, 0, trafficSource},
	"aten::fill_":                                      {countWritten, 0, trafficSource},
	"aten::zero_":                                      {countWritten, 0, trafficSource},
	"aten::cat":                                        {eachElement(1, 1), -1, trafficSource},
	"aten::topk":                                       {topK, 0, trafficSource},
	"aten::sort":                                       {countSorted, 0, "one pass; a radix sort makes several"},
	"aten::_fft_r2c":                                   {fftReal, 0, "2.5·n·log2(n), the convention for transforms"},
	"aten::_fft_c2r":                                   {fftToReal, 0, "2.5·n·log2(n), the convention for transforms"},
	"aten::_fft_c2c":                                   {fftComplex, 0, "5·n·log2(n), the convention for transforms"},
	"aten::_cudnn_rnn":                                 {cudnnRNN, 0, "2·T·B·weights of every layer and direction"},
	"aten::_fused_adam_":                               {eachElement(4, 3), -1, "p, g, m, v read; p, m, v written"},
	"aten::_fused_adamw_":                              {eachElement(4, 3), -1, "p, g, m, v read; p, m, v written"},
	"aten::_fused_sgd_":                                {eachElement(3, 2), -1, "p, g, m read; p, m written"},
	"aten::_foreach_add_":                              {eachElement(2, 1), -1, trafficSource},
	"aten::_foreach_mul_":                              {eachElement(1, 1), -1, trafficSource},
	"aten::_foreach_div_":                              {eachElement(1, 1), -1, trafficSource},
	"aten::_foreach_sqrt":                              {eachElement(1, 1), -1, trafficSource},
	"aten::_foreach_lerp_":                             {eachElement(2, 1), -1, trafficSource},
	"aten::_foreach_addcmul_":                          {eachElement(3, 1), -1, trafficSource},
	"aten::_foreach_addcdiv_":                          {eachElement(3, 1), -1, trafficSource},
	"aten::_amp_foreach_non_finite_check_and_unscale_": {eachElement(1, 1), -1, trafficSource},
}))

// addSimpleModels adds reductions, and operators that read a few tensors and write one.
func addSimpleModels(models map[string]model) map[string]model {
	for k, names := range map[int][]string{
		1: {"relu", "relu_", "gelu", "silu", "silu_", "sigmoid", "sigmoid_", "tanh", "tanh_", "exp", "exp_", "neg", "abs", "sqrt", "sqrt_", "rsqrt", "pow",
			"sin", "cos", "log", "reciprocal", "clamp", "clamp_", "clamp_min", "clamp_min_", "leaky_relu", "leaky_relu_", "elu", "softplus", "hardtanh",
			"hardtanh_", "hardswish", "square", "erf", "logical_not", "bitwise_not", "cumsum", "floor", "round", "trunc", "ceil", "sign", "masked_fill_"},
		2: {"add", "add_", "sub", "sub_", "rsub", "mul", "mul_", "div", "div_", "maximum", "minimum", "atan2", "remainder", "fmod", "bitwise_and", "bitwise_or",
			"logical_and", "logical_or", "gelu_backward", "silu_backward", "threshold_backward", "sigmoid_backward", "tanh_backward", "leaky_relu_backward",
			"elu_backward", "hardtanh_backward", "softplus_backward", "hardswish_backward", "masked_fill"},
		3: {"addcmul", "addcmul_", "addcdiv", "addcdiv_", "where", "lerp", "lerp_"},
	} {
		for _, name := range names {
			models["aten::"+name] = model{countPointwise(k), 0, trafficSource}
		}
	}
	for _, name := range []string{"eq", "ne", "lt", "le", "gt", "ge"} {
		models["aten::"+name] = model{countComparison, 0, trafficSource}
	}
	for _, name := range []string{"sum", "mean", "amax", "amin", "max", "min", "var", "std", "norm", "linalg_vector_norm", "argmax", "argmin", "any", "all", "prod"} {
		models["aten::"+name] = model{countReduction(reducedDims[name]), 0, trafficSource}
	}
	return models
}

// productCost returns 2·batch·m·n·k FLOPs, and the traffic if a and b are read once and the result is written once.
func (c *call) productCost(a, b int, batch, m, k, n float64) (flops, bytes float64) {
	return 2 * batch * m * k * n, c.readBytes(a) + c.readBytes(b) + batch*m*n*c.elementSize(a)
}

func countMM(c *call) (flops, bytes float64) { return c.matrixCost(0, 1) }

func (c *call) matrixCost(a, b int) (flops, bytes float64) {
	x, y := c.tensorDims(a, 2), c.tensorDims(b, 2)
	c.requireEqual(x[1], y[0])
	c.sizes = []int64{x[0], y[1], x[1]}
	return c.productCost(a, b, 1, float64(x[0]), float64(x[1]), float64(y[1]))
}

func (c *call) batchCost(a, b int) (flops, bytes float64) {
	x, y := c.tensorDims(a, 3), c.tensorDims(b, 3)
	c.requireEqual(x[2], y[1])
	c.requireEqual(x[0], y[0])
	c.sizes = []int64{x[1], y[2], x[2]}
	return c.productCost(a, b, float64(x[0]), float64(x[1]), float64(x[2]), float64(y[2]))
}

func countBMM(c *call) (flops, bytes float64) { return c.batchCost(0, 1) }

// addedBytes returns the bytes of the tensor that is added, 0 if its factor beta is 0.
func (c *call) addedBytes(beta int) float64 {
	if c.numberOr(beta, 1) == 0 {
		return 0
	}
	return c.optionalBytes(0)
}

func countAddMM(c *call) (flops, bytes float64) {
	flops, bytes = c.matrixCost(1, 2)
	return flops, bytes + c.addedBytes(3)
}

func countBAddBMM(c *call) (flops, bytes float64) {
	flops, bytes = c.batchCost(1, 2)
	return flops, bytes + c.addedBytes(3)
}

func (c *call) vectorCost(a, b int) (flops, bytes float64) {
	x, y := c.tensorDims(a, 2), c.tensorDims(b, 1)
	c.requireEqual(x[1], y[0])
	return 2 * countElements(x), c.readBytes(a) + c.readBytes(b) + float64(x[0])*c.elementSize(a)
}

func countMV(c *call) (flops, bytes float64) { return c.vectorCost(0, 1) }

func countAddMV(c *call) (flops, bytes float64) {
	flops, bytes = c.vectorCost(1, 2)
	return flops, bytes + c.addedBytes(3)
}

func countDot(c *call) (flops, bytes float64) {
	return 2 * countElements(c.tensorDims(0, 1)), c.readBytes(0) + c.readBytes(1) + c.elementSize(0)
}

// scaledMM counts a product of 8-bit floats. The result counts as 16 bits, because its type is recorded as a number.
func scaledMM(c *call) (flops, bytes float64) {
	x, y := c.tensorDims(0, 2), c.tensorDims(1, 2)
	c.requireEqual(x[1], y[0])
	c.assumed, c.sizes = true, []int64{x[0], y[1], x[1]}
	return 2 * countElements(x) * float64(y[1]), c.readBytes(0) + c.readBytes(1) + c.optionalBytes(2) + c.optionalBytes(3) + c.optionalBytes(4) + 2*float64(x[0]*y[1])
}

// groupedMM counts the product of each row of argument 0 with the matrix of its group. The groups are not recorded
// and do not change the cost.
func groupedMM(c *call) (flops, bytes float64) {
	x, w := c.tensorDims(0, 2), c.tensorDims(1, 3)
	c.requireEqual(x[1], w[1])
	n := float64(w[2])
	return 2 * countElements(x) * n, c.readBytes(0) + c.readBytes(1) + float64(x[0])*n*c.elementSize(0)
}

// expandSpatial returns one value for each of n spatial dimensions: the elements of list, or its only element n times.
// If list has another length, all values are other.
func expandSpatial(list []int64, n int, other int64) []int64 {
	out := make([]int64, n)
	for i := range out {
		switch {
		case len(list) == n:
			out[i] = list[i]
		case len(list) == 1:
			out[i] = list[0]
		default:
			out[i] = other
		}
	}
	return out
}

// countConvolution counts 2·N·prod(spatial dims of the output)·prod(weights) FLOPs. For a transposed convolution, the
// input's spatial dims count.
func countConvolution(c *call) (flops, bytes float64) {
	x, w := c.tensorDims(0, -3), c.tensorDims(1, -3)
	n := len(w) - 2
	if len(x) != len(w) {
		c.bad = true
		return 0, 0
	}
	stride, pad, dilation := expandSpatial(c.integerList(3), n, 1), expandSpatial(c.integerList(4), n, 0), expandSpatial(c.integerList(5), n, 1)
	transposed, groups := c.flagValue(6), c.requireInteger(8)
	y := []int64{x[0], w[0]}
	if transposed {
		y[1] = w[1] * groups
		more := expandSpatial(c.integerList(7), n, 0)
		for i := range n {
			y = append(y, (x[2+i]-1)*stride[i]-2*pad[i]+dilation[i]*(w[2+i]-1)+more[i]+1)
		}
	} else {
		for i := range n {
			if stride[i] == 0 {
				c.bad = true
				return 0, 0
			}
			y = append(y, (x[2+i]+2*pad[i]-dilation[i]*(w[2+i]-1)-1)/stride[i]+1)
		}
	}
	c.bad = c.bad || !isValidShape(y)
	places := y
	if transposed {
		places = x
	}
	return 2 * float64(x[0]) * countElements(places[2:]) * countElements(w), c.readBytes(0) + c.readBytes(1) + c.optionalBytes(2) + countElements(y)*c.elementSize(0)
}

// convolutionBackward counts the arithmetic of the forward pass once for each requested gradient: of the input, of
// the weights.
func convolutionBackward(c *call) (flops, bytes float64) {
	gy, x, w := c.tensorDims(0, -3), c.tensorDims(1, -3), c.tensorDims(2, -3)
	if len(gy) != len(x) || len(x) != len(w) {
		c.bad = true
		return 0, 0
	}
	places := gy
	if c.flagValue(7) {
		places = x
	}
	one := 2 * float64(x[0]) * countElements(places[2:]) * countElements(w)
	bytes = c.readBytes(0)
	for i, wanted := range c.flagList(10) {
		switch {
		case !wanted:
		case i == 0:
			flops, bytes = flops+one, bytes+c.readBytes(2)+c.denseBytes(1)
		case i == 1:
			flops, bytes = flops+one, bytes+c.readBytes(1)+c.denseBytes(2)
		default:
			bytes += float64(gy[1]) * c.elementSize(0)
		}
	}
	return flops, bytes
}

// cudnnRNN counts every weight matrix of each layer and direction once per input row.
func cudnnRNN(c *call) (flops, bytes float64) {
	x := c.tensorDims(0, -2)
	weights := c.argument(1)
	if weights.Type != "TensorList" || len(weights.List) == 0 {
		c.missing = true
		return 0, 0
	}
	rows := countElements(x[:len(x)-1])
	out, all := 0.0, 0.0
	for _, w := range weights.List {
		all += countElements(w)
		if len(w) == 2 {
			flops += 2 * rows * countElements(w)
			out = float64(w[1])
		}
	}
	z := c.elementSize(0)
	return flops, c.readBytes(0) + all*z + rows*out*z
}

// transformSize returns n·log2(n) over the dims of a transform, times the number of transforms.
func (c *call) transformSize(dims []int64) float64 {
	n := 1.0
	for _, d := range c.integerList(1) {
		if at := c.resolveAxis(dims, d); !c.bad {
			n *= float64(dims[at])
		}
	}
	if n <= 1 {
		return 0
	}
	return n * math.Log2(n) * countElements(dims) / n
}

func fftReal(c *call) (flops, bytes float64) {
	x := c.tensorDims(0, -1)
	out := countElements(x)
	if axes := c.integerList(1); len(axes) > 0 && c.flagValue(3) {
		if last := c.resolveAxis(x, axes[len(axes)-1]); !c.bad && x[last] > 0 {
			out = out / float64(x[last]) * float64(x[last]/2+1)
		}
	}
	return 2.5 * c.transformSize(x), c.readBytes(0) + 2*out*c.elementSize(0)
}

func fftToReal(c *call) (flops, bytes float64) {
	x := append([]int64(nil), c.tensorDims(0, -1)...)
	axes := c.integerList(1)
	if len(axes) == 0 {
		c.missing = true
		return 0, 0
	}
	if last := c.resolveAxis(x, axes[len(axes)-1]); !c.bad {
		x[last] = c.requireInteger(3)
	}
	return 2.5 * c.transformSize(x), c.readBytes(0) + countElements(x)*c.elementSize(0)/2
}

func fftComplex(c *call) (flops, bytes float64) {
	x := c.tensorDims(0, -1)
	return 5 * c.transformSize(x), 2 * c.readBytes(0)
}
