package opcost

// attention of argument 4 or 5 that is causal; see attentionWith.
func attention(c *call) (flops, bytes float64) {
	causal := 4
	if len(c.args) > 5 && c.args[4].Type != "" && (c.args[5].Value == "True" || c.args[5].Value == "False") {
		causal = 5 // aten::scaled_dot_product_attention has the mask and the dropout before it
	}
	if len(c.args) > 5 && sizes[c.args[3].Type] > 0 {
		causal = 5
	}
	return c.attention(causal)
}

func attentionWith(causal int) func(c *call) (flops, bytes float64) {
	return func(c *call) (flops, bytes float64) { return c.attention(causal) }
}

// scores is the size of the scores, heads of the query, and the part of them that a causal mask leaves.
func (c *call) scores(q, k, causal int) float64 {
	a, b := c.dims(q, 4), c.dims(k, 4)
	n := float64(a[0]*a[1]) * float64(a[2]) * float64(b[2])
	if causal < len(c.args) && c.args[causal].Value == "True" && a[2] == b[2] && a[2] > 0 {
		n *= float64(a[2]+1) / float64(2*a[2])
	}
	return n
}

// attention: two products with the scores, [batch, heads, queries, keys]. Grouped queries have more heads than
// keys; the products are those of the queries. A causal mask leaves about half, and fused kernels skip the rest.
func (c *call) attention(causal int) (flops, bytes float64) {
	q, v := c.dims(0, 4), c.dims(2, 4)
	rows := float64(q[0] * q[1] * q[2])
	flops = 2 * c.scores(0, 1, causal) * float64(q[3]+v[3])
	return flops, c.read(0) + c.read(1) + c.read(2) + rows*float64(v[3])*c.size(0) + rows*logSumExp
}

// attentionBackward: five products, one of which computes the scores again. Arguments: gradient of the output, q, k, v.
func attentionBackward(causal int) func(c *call) (flops, bytes float64) {
	return func(c *call) (flops, bytes float64) {
		q, v := c.dims(1, 4), c.dims(3, 4)
		rows := float64(q[0] * q[1] * q[2])
		scores := c.scores(1, 2, causal)
		c.recomputed = 2 * scores * float64(q[3])
		flops = 2 * scores * float64(3*q[3]+2*v[3])
		bytes = c.read(0) + 2*c.read(1) + 2*c.read(2) + 2*c.read(3) + rows*float64(v[3])*c.size(1) + rows*logSumExp
		return flops, bytes
	}
}

// layerNorm: the input is read, the output written, with so many float32 of statistics a row.
func layerNorm(weight, bias, statistics int) func(c *call) (flops, bytes float64) {
	return func(c *call) (flops, bytes float64) {
		x, inner := c.at(0).Dims, c.list(1)
		rows := 1.0
		for i := range max(0, len(x)-len(inner)) {
			rows *= float64(x[i])
		}
		bytes = c.read(0) + c.whole(0) + float64(4*statistics)*rows + c.optional(weight)
		if bias >= 0 {
			bytes += c.optional(bias)
		}
		return 0, bytes
	}
}

func layerNormBackward(c *call) (flops, bytes float64) {
	bytes = c.read(0) + c.read(1) + c.whole(1) + c.optional(3) + c.optional(4)
	if c.has(5) {
		bytes += 2 * c.read(5)
	}
	if c.has(6) {
		bytes += c.read(6)
	}
	return 0, bytes
}

// batchNorm is a floor: most kernels read an input twice that does not stay in the cache.
func batchNorm(c *call) (flops, bytes float64) {
	bytes = c.read(0) + c.whole(0)
	for i := 1; i <= 4; i++ {
		bytes += c.optional(i)
	}
	return 0, bytes
}

func normBackward(c *call) (flops, bytes float64) { return 0, c.read(0) + c.read(1) + c.whole(1) }

func readWrite(c *call) (flops, bytes float64) { return 0, c.read(0) + c.whole(0) }

func written(c *call) (flops, bytes float64) { return 0, c.whole(0) }

// copied: the destination is argument 0.
func copied(c *call) (flops, bytes float64) { return 0, c.whole(0) + c.read(1) }

// softmax of 16-bit numbers may write float32, by argument 2.
func softmax(c *call) (flops, bytes float64) {
	out := c.whole(0)
	if len(c.args) > 2 && c.args[2].Value == "True" {
		out = 4 * elements(c.at(0).Dims)
	}
	return 0, c.read(0) + out
}

func dropout(c *call) (flops, bytes float64) {
	return 0, c.read(0) + c.whole(0) + elements(c.at(0).Dims)
}

// pointwise reads up to n tensors and writes one of their common shape, of the largest type among those with most
// dimensions. Numbers are recorded as tensors without dimensions; a kernel has them as arguments.
func pointwise(n int) func(c *call) (flops, bytes float64) {
	return func(c *call) (flops, bytes float64) {
		out, z, ok := c.common(n)
		if !ok {
			c.missing = true
			return 0, 0
		}
		for i := range min(n, len(c.args)) {
			if len(c.args[i].Dims) > 0 {
				bytes += c.optional(i)
			}
		}
		return 0, bytes + elements(out)*z
	}
}

// comparison writes a byte for each pair.
func comparison(c *call) (flops, bytes float64) {
	out, _, ok := c.common(2)
	if !ok {
		c.missing = true
		return 0, 0
	}
	return 0, c.optional(0) + c.optional(1) + elements(out)
}

// common is the shape to which the first n tensors are broadcast, and the bytes of an element of the result.
func (c *call) common(n int) (shape []int64, size float64, ok bool) {
	most := -1
	for i := range min(n, len(c.args)) {
		if !c.has(i) {
			continue
		}
		d := c.args[i].Dims
		z := float64(sizes[c.args[i].Type])
		if len(d) > most {
			most, size = len(d), z
		} else if len(d) == most {
			size = max(size, z)
		}
		shape = broadcast(shape, d)
		ok = true
	}
	return shape, size, ok
}

func broadcast(a, b []int64) []int64 {
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

// reducedDims is the argument with the dims of a reduction.
var reducedDims = map[string]int{
	"sum": 1, "mean": 1, "amax": 1, "amin": 1, "max": 1, "min": 1, "var": 1, "std": 1, "norm": 2, "linalg_vector_norm": 2,
	"argmax": 1, "argmin": 1, "any": 1, "all": 1, "prod": 1,
}

// reduction reads a tensor, and writes what is left of it when the dims of an argument are gone; without any all are.
func reduction(dims int) func(c *call) (flops, bytes float64) {
	return func(c *call) (flops, bytes float64) {
		x := c.at(0).Dims
		left := append([]int64(nil), x...)
		value := ""
		if dims < len(c.args) {
			value = c.args[dims].Value
		}
		var axes []int64
		switch {
		case len(value) > 0 && value[0] == '[':
			axes = c.list(dims)
		case value != "":
			axes = []int64{c.integer(dims)}
		}
		if len(axes) == 0 {
			left = nil
		}
		for _, a := range axes {
			if at := c.axis(x, a); !c.bad {
				left[at] = 1
			}
		}
		return 0, c.read(0) + elements(left)*c.size(0)
	}
}

func embedding(c *call) (flops, bytes float64) {
	table := c.dims(0, 2)
	n := elements(c.at(1).Dims)
	return 0, n*c.size(1) + 2*n*float64(table[1])*c.size(0)
}

// embeddingBackward fills the gradient of the whole table with zeros, and adds the rows.
func embeddingBackward(c *call) (flops, bytes float64) {
	gy := c.dims(0, -1)
	return 0, c.read(0) + c.read(1) + float64(c.integer(2))*float64(gy[len(gy)-1])*c.size(0)
}

func indexSelect(c *call) (flops, bytes float64) {
	x, n := c.dims(0, -1), elements(c.at(2).Dims)
	at := c.axis(x, c.integer(1))
	if c.bad || x[at] == 0 {
		return 0, 0
	}
	return 0, n*c.size(2) + 2*n*elements(x)/float64(x[at])*c.size(0)
}

func gather(c *call) (flops, bytes float64) {
	n := elements(c.at(2).Dims)
	return 0, n*c.size(2) + 2*n*c.size(0)
}

// scatterAdd reads the index and the source, and reads and writes what they hit.
func scatterAdd(index, source int) func(c *call) (flops, bytes float64) {
	return func(c *call) (flops, bytes float64) {
		n := elements(c.at(source).Dims)
		return n, c.read(index) + c.read(source) + 2*n*c.size(0)
	}
}

func nllLoss(c *call) (flops, bytes float64) {
	n := elements(c.at(1).Dims)
	return 0, n*c.size(1) + n*c.size(0) + 2*c.size(0)
}

func nllLossBackward(c *call) (flops, bytes float64) {
	return 0, elements(c.at(2).Dims)*c.size(2) + c.whole(1)
}

func topK(c *call) (flops, bytes float64) {
	x := c.dims(0, -1)
	at := c.axis(x, c.integer(2))
	if c.bad || x[at] == 0 {
		return 0, 0
	}
	return 0, c.read(0) + elements(x)/float64(x[at])*float64(c.integer(1))*(c.size(0)+8)
}

// sorted writes the values and their places.
func sorted(c *call) (flops, bytes float64) {
	return 0, c.read(0) + elements(c.at(0).Dims)*(c.size(0)+8)
}

// eachElement reads and writes so many words for each element of a list of tensors: parameters, or what is joined. A list of tensors is recorded without its type: the caller
// tells the size of an element, as the kernel's name has it.
func eachElement(read, write float64) func(c *call) (flops, bytes float64) {
	return func(c *call) (flops, bytes float64) {
		if c.element == 0 {
			c.missing = true
		}
		return 0, c.listed(0) * float64(c.element) * (read + write)
	}
}
