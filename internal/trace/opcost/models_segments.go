package opcost

import "slices"

// scalarTypes are the names of element types by number (c10::ScalarType).
var scalarTypes = map[int64]string{5: "c10::Half", 6: "float", 7: "double", 15: "c10::BFloat16"}

// segmentedProduct counts cuEquivariance's sum of products of segments. A path multiplies a coefficient with all
// operands but the last, and adds the product to the last.
//
// Arguments, in order: name, type of the arithmetic, extent of a segment, numbers of inputs, outputs and index lists.
// Per operand: its dimension (0 a number, 1 a segment), number of segments, and rows (0 one, 1 batch, -1 by an index,
// -2 one or batch). Then a list with the rows of indexed outputs, types, and the number of operations. Per operation:
// its number of operands, the list of all operands, its number of paths. Then indices, coefficients, batch (19) and
// tensors (20).
func segmentedProduct(c *call) (flops, bytes float64) {
	extent, inputs, outputs, batch := c.requireInteger(2), c.requireInteger(3), c.requireInteger(4), c.requireInteger(19)
	dims, segments, rows, index := c.integerList(6), c.integerList(7), c.integerList(8), c.integerList(9)
	factors, operands, paths := c.integerList(12), c.integerList(13), c.integerList(14)
	tensors := c.argument(20).List
	c.scalar = scalarTypes[c.requireInteger(1)]
	all := inputs + outputs
	if c.missing = c.missing || c.scalar == ""; c.missing || len(tensors) == 0 {
		c.missing = true
		return 0, 0
	}
	if n := int64(len(tensors)); all < 1 || inputs < 1 || n < inputs || min(len(dims), len(segments), len(rows), len(index)) < int(all) || len(paths) != len(factors) {
		c.bad = true
		return 0, 0
	}
	elements := 0.0
	for i := range inputs {
		elements += countElements(tensors[i])
		if len(tensors[i]) == 2 && slices.Contains([]int64{1, -2}, rows[i]) {
			batch = max(batch, tensors[i][0])
		}
	}
	batch = max(batch, 1)
	for i := inputs; i < all; i++ {
		n := segments[i] * countRows(rows[i], index[i], index, batch)
		if dims[i] == 1 {
			n *= extent
		}
		elements += float64(n)
	}
	for i, n := range factors {
		if n < 0 || n > int64(len(operands)) {
			c.bad = true
			return 0, 0
		}
		width := int64(1)
		if slices.ContainsFunc(operands[:n], func(o int64) bool { return o >= 0 && o < all && dims[o] == 1 }) {
			width = extent
		}
		operands = operands[n:]
		flops += float64(n) * float64(paths[i]) * float64(width) * float64(batch)
	}
	return flops, elements * float64(sizes[c.scalar])
}

// countRows returns the rows of an output of segmentedProduct by their kind. For kind -1, it is the element of index
// at position at.
func countRows(kind, at int64, index []int64, batch int64) int64 {
	switch {
	case kind == 0:
		return 1
	case kind == -1 && at >= 0 && at < int64(len(index)):
		return index[at]
	}
	return batch
}
