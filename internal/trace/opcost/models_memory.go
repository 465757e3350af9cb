package opcost

// countAttention returns the cost of an attention whose causal flag is argument 4 or 5.
func countAttention(c *call) (flops, bytes float64) {
	causal := 4
	if len(c.args) > 5 && c.args[4].Type != "" && (c.args[5].Value == "True" || c.args[5].Value == "False") {
		causal = 5 // aten::scaled_dot_product_attention has mask and dropout before it
	}
	if len(c.args) > 5 && sizes[c.args[3].Type] > 0 {
		causal = 5
	}
	return c.attentionCost(causal)
}

func attentionWith(causal int) func(c *call) (flops, bytes float64) {
	return func(c *call) (flops, bytes float64) { return c.attentionCost(causal) }
}

// scoreCount returns the number of attention scores of all query heads. The scores that a causal mask removes are not
// counted if there are as many keys as queries.
func (c *call) scoreCount(q, k, causal int) float64 {
	a, b := c.tensorDims(q, 4), c.tensorDims(k, 4)
	n := float64(a[0]*a[1]) * float64(a[2]) * float64(b[2])
	if causal < len(c.args) && c.args[causal].Value == "True" && a[2] == b[2] && a[2] > 0 {
		n *= float64(a[2]+1) / float64(2*a[2])
	}
	return n
}

// attentionCost counts two products with the scores [batch, heads, queries, keys]. With grouped queries, heads are
// the query heads. Fused kernels skip the scores that a causal mask removes.
func (c *call) attentionCost(causal int) (flops, bytes float64) {
	q, v := c.tensorDims(0, 4), c.tensorDims(2, 4)
	return c.attentionForward(c.scoreCount(0, 1, causal), q[0]*q[1]*q[2], q[3], v[3])
}

// attentionForward counts two products with the given number of scores: q·k with head elements per score, and
// scores·v with value elements. rows is the number of query rows of all heads. Arguments 0 to 2 are q, k and v.
func (c *call) attentionForward(scores float64, rows, head, value int64) (flops, bytes float64) {
	out := float64(rows)
	return 2 * scores * float64(head+value), c.readBytes(0) + c.readBytes(1) + c.readBytes(2) + out*float64(value)*c.elementSize(0) + out*logSumExp
}

// attentionBackward counts five products, one of which recomputes the scores. Arguments: gradient of the output, q, k,
// v.
func (c *call) attentionBackward(scores float64, rows, head, value int64) (flops, bytes float64) {
	c.recomputed = 2 * scores * float64(head)
	flops = 2 * scores * float64(3*head+2*value)
	out := float64(rows)
	bytes = c.readBytes(0) + 2*c.readBytes(1) + 2*c.readBytes(2) + 2*c.readBytes(3) + out*float64(value)*c.elementSize(1) + out*logSumExp
	return flops, bytes
}

func attentionBackward(causal int) func(c *call) (flops, bytes float64) {
	return func(c *call) (flops, bytes float64) {
		q, v := c.tensorDims(1, 4), c.tensorDims(3, 4)
		return c.attentionBackward(c.scoreCount(1, 2, causal), q[0]*q[1]*q[2], q[3], v[3])
	}
}

// layerNorm returns a cost model that reads input and parameters, and writes the output and the given number of float32
// statistics per row. weight and bias are indices of arguments; bias -1 none.
func layerNorm(weight, bias, statistics int) func(c *call) (flops, bytes float64) {
	return func(c *call) (flops, bytes float64) {
		x, inner := c.argument(0).Dims, c.integerList(1)
		rows := 1.0
		for i := range max(0, len(x)-len(inner)) {
			rows *= float64(x[i])
		}
		bytes = c.readBytes(0) + c.denseBytes(0) + float64(4*statistics)*rows + c.optionalBytes(weight)
		if bias >= 0 {
			bytes += c.optionalBytes(bias)
		}
		return 0, bytes
	}
}

func layerNormBackward(c *call) (flops, bytes float64) {
	bytes = c.readBytes(0) + c.readBytes(1) + c.denseBytes(1) + c.optionalBytes(3) + c.optionalBytes(4)
	if c.hasTensor(5) {
		bytes += 2 * c.readBytes(5)
	}
	if c.hasTensor(6) {
		bytes += c.readBytes(6)
	}
	return 0, bytes
}

// batchNorm counts a lower bound of the traffic: most kernels read an input twice if it does not fit in the cache.
func batchNorm(c *call) (flops, bytes float64) {
	bytes = c.readBytes(0) + c.denseBytes(0)
	for i := 1; i <= 4; i++ {
		bytes += c.optionalBytes(i)
	}
	return 0, bytes
}

func normBackward(c *call) (flops, bytes float64) {
	return 0, c.readBytes(0) + c.readBytes(1) + c.denseBytes(1)
}

func readWrite(c *call) (flops, bytes float64) { return 0, c.readBytes(0) + c.denseBytes(0) }

func countWritten(c *call) (flops, bytes float64) { return 0, c.denseBytes(0) }

func countCopied(c *call) (flops, bytes float64) { return 0, c.denseBytes(0) + c.readBytes(1) }

// countSoftmax reads a tensor and writes its softmax, which is float32 if argument 2 asks for it.
func countSoftmax(c *call) (flops, bytes float64) {
	out := c.denseBytes(0)
	if len(c.args) > 2 && c.args[2].Value == "True" {
		out = 4 * countElements(c.argument(0).Dims)
	}
	return 0, c.readBytes(0) + out
}

func countDropout(c *call) (flops, bytes float64) {
	return 0, c.readBytes(0) + c.denseBytes(0) + countElements(c.argument(0).Dims)
}

// countPointwise returns the cost model of an operator that reads up to n tensors and writes one tensor of their common
// shape. The element size of the result is the largest among the tensors with most dimensions. Tensors without
// dimensions are numbers, which kernels get as arguments.
func countPointwise(n int) func(c *call) (flops, bytes float64) {
	return func(c *call) (flops, bytes float64) {
		out, z, ok := c.commonShape(n)
		if !ok {
			c.missing = true
			return 0, 0
		}
		for i := range min(n, len(c.args)) {
			if len(c.args[i].Dims) > 0 {
				bytes += c.optionalBytes(i)
			}
		}
		return 0, bytes + countElements(out)*z
	}
}

// countComparison reads two tensors and writes one byte for each pair of elements.
func countComparison(c *call) (flops, bytes float64) {
	out, _, ok := c.commonShape(2)
	if !ok {
		c.missing = true
		return 0, 0
	}
	return 0, c.optionalBytes(0) + c.optionalBytes(1) + countElements(out)
}

// commonShape returns the shape to which the first n tensors broadcast, and the bytes per element of the result.
func (c *call) commonShape(n int) (shape []int64, size float64, ok bool) {
	most := -1
	for i := range min(n, len(c.args)) {
		if !c.hasTensor(i) {
			continue
		}
		d := c.args[i].Dims
		z := float64(sizes[c.args[i].Type])
		if len(d) > most {
			most, size = len(d), z
		} else if len(d) == most {
			size = max(size, z)
		}
		shape = broadcastShape(shape, d)
		ok = true
	}
	return shape, size, ok
}

func broadcastShape(a, b []int64) []int64 {
	if len(a) < len(b) {
		a, b = b, a
	}
	out := append([]int64(nil), a...)
	for i, d := range b {
		if at := len(a) - len(b) + i; out[at] == 1 {
			out[at] = d
		}
	}
	return out
}

// reducedDims is the index of the argument that lists the reduced dims, by name of the reduction.
var reducedDims = map[string]int{
	"sum": 1, "mean": 1, "amax": 1, "amin": 1, "max": 1, "min": 1, "var": 1, "std": 1, "norm": 2, "linalg_vector_norm": 2,
	"argmax": 1, "argmin": 1, "any": 1, "all": 1, "prod": 1,
}

// countReduction returns the cost model of a reduction. It reads a tensor and writes it with the reduced dims at
// length 1. dims is the index of the argument that lists them; without a list all dims are reduced.
func countReduction(dims int) func(c *call) (flops, bytes float64) {
	return func(c *call) (flops, bytes float64) {
		x := c.argument(0).Dims
		left := append([]int64(nil), x...)
		value := ""
		if dims < len(c.args) {
			value = c.args[dims].Value
		}
		var axes []int64
		switch {
		case len(value) > 0 && value[0] == '[':
			axes = c.integerList(dims)
		case value != "":
			axes = []int64{c.requireInteger(dims)}
		}
		if len(axes) == 0 {
			left = nil
		}
		for _, a := range axes {
			if at := c.resolveAxis(x, a); !c.bad {
				left[at] = 1
			}
		}
		return 0, c.readBytes(0) + countElements(left)*c.elementSize(0)
	}
}

func countEmbedding(c *call) (flops, bytes float64) {
	table := c.tensorDims(0, 2)
	n := countElements(c.argument(1).Dims)
	return 0, n*c.elementSize(1) + 2*n*float64(table[1])*c.elementSize(0)
}

// embeddingBackward returns the cost of setting the gradient of the whole table to 0 and adding the gradients of rows.
func embeddingBackward(c *call) (flops, bytes float64) {
	gy := c.tensorDims(0, -1)
	return 0, c.readBytes(0) + c.readBytes(1) + float64(c.requireInteger(2))*float64(gy[len(gy)-1])*c.elementSize(0)
}

func indexSelect(c *call) (flops, bytes float64) {
	x, n := c.tensorDims(0, -1), countElements(c.argument(2).Dims)
	at := c.resolveAxis(x, c.requireInteger(1))
	if c.bad || x[at] == 0 {
		return 0, 0
	}
	return 0, n*c.elementSize(2) + 2*n*countElements(x)/float64(x[at])*c.elementSize(0)
}

func countGather(c *call) (flops, bytes float64) {
	n := countElements(c.argument(2).Dims)
	return 0, n*c.elementSize(2) + 2*n*c.elementSize(0)
}

// scatterAdd reads index and source, and reads and writes the elements that they address.
func scatterAdd(index, source int) func(c *call) (flops, bytes float64) {
	return func(c *call) (flops, bytes float64) {
		n := countElements(c.argument(source).Dims)
		return n, c.readBytes(index) + c.readBytes(source) + 2*n*c.elementSize(0)
	}
}

func nllLoss(c *call) (flops, bytes float64) {
	n := countElements(c.argument(1).Dims)
	return 0, n*c.elementSize(1) + n*c.elementSize(0) + 2*c.elementSize(0)
}

func nllLossBackward(c *call) (flops, bytes float64) {
	return 0, countElements(c.argument(2).Dims)*c.elementSize(2) + c.denseBytes(1)
}

func topK(c *call) (flops, bytes float64) {
	x := c.tensorDims(0, -1)
	at := c.resolveAxis(x, c.requireInteger(2))
	if c.bad || x[at] == 0 {
		return 0, 0
	}
	return 0, c.readBytes(0) + countElements(x)/float64(x[at])*float64(c.requireInteger(1))*(c.elementSize(0)+8)
}

// countSorted reads a tensor, and writes the sorted values and an int64 index for each.
func countSorted(c *call) (flops, bytes float64) {
	return 0, c.readBytes(0) + countElements(c.argument(0).Dims)*(c.elementSize(0)+8)
}

// eachElement returns a cost model for a tensor list, such as parameters or concatenated tensors. read and write are
// the elements read and written per element of the list. The element size comes from Hints, because lists are recorded
// without a type.
func eachElement(read, write float64) func(c *call) (flops, bytes float64) {
	return func(c *call) (flops, bytes float64) {
		if c.hints.Element == 0 {
			c.missing = true
		}
		return 0, c.listElements(0) * float64(c.hints.Element) * (read + write)
	}
}
