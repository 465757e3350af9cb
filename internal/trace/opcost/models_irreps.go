package opcost

import (
	"math"
	"strconv"
	"strings"
)

// Sources: OpenEquivariance 0.4 (TensorProduct.py, TensorProductConv.py) and cuEquivariance 0.6
// (tensor_product_uniform_1d_jit.py). Products that e3nn itself computes are PyTorch operators.
const (
	productSource   = "the coupling's terms, its cells for every pair of copies, and the weights"
	gradientsSource = "the product's terms and cells twice, and the weights and their gradient"
	segmentsSource  = "paths · factors · extent · batch; operands in the type of the arithmetic"
)

// productNamespaces are the operator namespaces of OpenEquivariance's releases.
var productNamespaces = []string{"libtorch_tp_jit", "torch_tp_jit"}

// addProducts adds fused tensor products of irreps. Gradients of gradients have no model.
func addProducts(models map[string]model) map[string]model {
	for _, library := range productNamespaces {
		for operator, convolution := range map[string]bool{"::jit_tp_": false, "::jit_conv_": true} {
			models[library+operator+"forward"] = model{tensorProduct(convolution, false), -1, productSource}
			models[library+operator+"backward"] = model{tensorProduct(convolution, true), -1, gradientsSource}
		}
	}
	models["cuequivariance_ops::tensor_product_uniform_1d_jit"] = model{segmentedProduct, -1, segmentsSource}
	return models
}

// NeedsRange reports whether the cost of an operator needs the text of a range around it, one that IsProduct accepts.
func NeedsRange(name string) bool { return strings.Contains(name, "torch_tp_jit::") && Known(name) }

// IsProduct reports whether a text describes a tensor product as e3nn's modules do.
func IsProduct(text string) bool {
	_, ok := parseProduct(text)
	return ok
}

// irrep is a number of copies of an irreducible representation of O(3). Each copy has 2·degree+1 elements.
type irrep struct {
	copies int64
	degree int64
	parity byte // 'e' even, 'o' odd
}

// largestDegree and mostCopies limit the work to compute a cost. No model of the field has more.
const (
	largestDegree = 12
	mostCopies    = 1 << 16
)

func parseIrreps(text string) (out []irrep, ok bool) {
	for term := range strings.SplitSeq(text, "+") {
		copies, ir, both := strings.Cut(term, "x")
		if !both || len(ir) < 2 {
			return nil, false
		}
		n, err := strconv.ParseInt(copies, 10, 64)
		l, errL := strconv.ParseInt(ir[:len(ir)-1], 10, 64)
		p := ir[len(ir)-1]
		if err != nil || errL != nil || n < 0 || n > mostCopies || l < 0 || l > largestDegree || p != 'e' && p != 'o' {
			return nil, false
		}
		out = append(out, irrep{n, l, p})
	}
	return out, true
}

func countDims(irreps []irrep) int64 {
	n := int64(0)
	for _, ir := range irreps {
		n += ir.copies * (2*ir.degree + 1)
	}
	return n
}

// product is a tensor product of irreps as e3nn describes it.
type product struct {
	left, right, out []irrep
	paths, weights   int64
}

// parseProduct parses "FullyConnectedTensorProduct(8x0e+4x1o x 1x0e+1x1o -> 8x0e+4x1o | 144 paths | 144 weights)".
func parseProduct(text string) (p product, ok bool) {
	_, text, _ = strings.Cut(text, "(")
	text, closed := strings.CutSuffix(text, ")")
	irreps, numbers, _ := strings.Cut(text, " | ")
	sides, out, _ := strings.Cut(irreps, " -> ")
	left, right, _ := strings.Cut(sides, " x ")
	paths, weights, _ := strings.Cut(numbers, " paths | ")
	weights, all := strings.CutSuffix(weights, " weights")
	for _, side := range []struct {
		text string
		into *[]irrep
	}{{left, &p.left}, {right, &p.right}, {out, &p.out}} {
		if *side.into, ok = parseIrreps(side.text); !ok {
			return p, false
		}
	}
	var errPaths, errWeights error
	p.paths, errPaths = strconv.ParseInt(paths, 10, 64)
	p.weights, errWeights = strconv.ParseInt(weights, 10, 64)
	return p, closed && all && errPaths == nil && errWeights == nil
}

// Modes of paths in e3nn that follow from the text of a product. The mode of a path is the pairing of left and right
// copies that the path couples, and the sum over them.
const (
	uvw  = iota // all pairs, summed with a weight for each output copy
	uvu         // all pairs, summed over the right copies
	uvuv        // all pairs, each an output copy
	uuu         // equal copies
)

// pathCost returns the FLOPs of a path for one row: pathFLOPs or gradientFLOPs.
type pathCost func(a, b irrep, degree, pairs, copies int64, mode int, weighted bool) float64

// countFLOPs returns the least FLOPs for one row. The text does not name the mode, so countFLOPs takes a mode that
// gives the text's numbers of paths, weights and output copies. ok is false if no mode fits, or if several fit with
// different FLOPs.
func (p *product) countFLOPs(cost pathCost) (n float64, ok bool) {
	for mode := range uuu + 1 {
		if got, fits := p.countModeFLOPs(mode, cost); fits {
			if ok && got != n {
				return 0, false
			}
			n, ok = got, true
		}
	}
	return n, ok
}

func (p *product) countModeFLOPs(mode int, cost pathCost) (flops float64, fits bool) {
	left, right := p.left, p.right
	if mode == uuu {
		left, right = alignCopies(left, right)
	}
	paths := int64(0)
	type kind struct {
		degree int64
		parity byte
	}
	want, made := map[kind]int64{}, map[kind]int64{}
	for _, o := range p.out {
		want[kind{o.degree, o.parity}] += o.copies
	}
	for i, a := range left {
		for k, b := range right {
			if mode == uuu && i != k {
				continue
			}
			for out, copies := range want {
				if out.degree < abs(a.degree-b.degree) || out.degree > a.degree+b.degree || (a.parity == b.parity) != (out.parity == 'e') {
					continue
				}
				pairs := a.copies * b.copies
				switch mode {
				case uvw:
					made[out] = copies
					paths += pairs * copies
				case uvu:
					made[out] += a.copies
					paths += pairs
				case uvuv:
					made[out] += pairs
					paths += pairs
				case uuu:
					pairs = a.copies
					made[out] += pairs
					paths += pairs
				}
				flops += cost(a, b, out.degree, pairs, copies, mode, p.weights > 0)
			}
		}
	}
	for out, copies := range want {
		if made[out] != copies {
			return 0, false
		}
	}
	return flops, paths == p.paths && (p.weights == paths || p.weights == 0 && mode != uvw)
}

// pathFLOPs returns the least FLOPs of a path for one row, in three products. The coupling times each right copy takes
// two FLOPs per term (see countCoupling). The result times the left copies takes two per cell and pair of copies. The
// weights of mode uvw take two per pair, output copy and output element. Other weights take one per pair and element
// of the left irrep or the output irrep, whichever is smaller.
func pathFLOPs(a, b irrep, degree, pairs, copies int64, mode int, weighted bool) float64 {
	terms, cells := countCoupling(a.degree, b.degree, degree)
	n := 2*terms*b.copies + 2*cells*pairs
	switch {
	case mode == uvw:
		n += 2 * pairs * copies * (2*degree + 1)
	case weighted:
		n += pairs * (2*min(a.degree, degree) + 1)
	}
	return float64(n)
}

// gradientFLOPs returns the least FLOPs of all gradients of a path for one row, in the products of pathFLOPs. The coupling
// times each right copy is computed again, and its gradient goes back to the right copy: four FLOPs per term. Its
// products with the output's gradient and with the left copies take four per cell and pair. In mode uvw, the product of
// a pair is computed again, and its gradient and the weights' take two FLOPs each per pair, output copy and output
// element. Other weights take four per pair and element of the left irrep, for the gradients of weight and left copy,
// and one per element of the smaller irrep.
func gradientFLOPs(a, b irrep, degree, pairs, copies int64, mode int, weighted bool) float64 {
	terms, cells := countCoupling(a.degree, b.degree, degree)
	n := 4*terms*b.copies + 4*cells*pairs
	switch {
	case mode == uvw:
		n += 2*cells*pairs + 4*pairs*copies*(2*degree+1)
	case weighted:
		n += pairs * (4*(2*a.degree+1) + 2*min(a.degree, degree) + 1)
	}
	return float64(n)
}

// alignCopies splits the irreps of a and b into blocks with equal numbers of copies. It returns nil if a and b differ
// in their total number of copies.
func alignCopies(a, b []irrep) (left, right []irrep) {
	a, b = append([]irrep(nil), a...), append([]irrep(nil), b...)
	for len(a) > 0 && len(b) > 0 {
		n := min(a[0].copies, b[0].copies)
		left = append(left, irrep{n, a[0].degree, a[0].parity})
		right = append(right, irrep{n, b[0].degree, b[0].parity})
		a[0].copies, b[0].copies = a[0].copies-n, b[0].copies-n
		if a[0].copies == 0 {
			a = a[1:]
		}
		if len(b) > 0 && b[0].copies == 0 {
			b = b[1:]
		}
	}
	if len(a)+len(b) > 0 {
		return nil, nil
	}
	return left, right
}

// countCoupling returns two numbers of the real coupling of degrees a, b and c: of its nonzero coefficients (terms),
// and of the pairs of elements of a and c that have a nonzero coefficient (cells). Elements run from -l to l; a
// negative one is a sine.
func countCoupling(a, b, c int64) (terms, cells int64) {
	for i := -a; i <= a; i++ {
		for k := -c; k <= c; k++ {
			row := terms
			for j := -b; j <= b; j++ {
				sines := isNegative(i) + isNegative(j) + isNegative(k)
				if (sines+a+b+c)%2 != 0 {
					continue
				}
				m, n := abs(i), abs(j)
				if abs(k) == m+n && hasCoupling(a, m, b, n, c) || abs(k) == abs(m-n) && hasCoupling(a, m, b, -n, c) {
					terms++
				}
			}
			if terms > row {
				cells++
			}
		}
	}
	return terms, cells
}

// hasCoupling reports whether the Wigner 3j symbol (a b c; m n -m-n) is not zero, by Racah's sum.
func hasCoupling(a, m, b, n, c int64) bool {
	sum, size := 0.0, 0.0
	for t := int64(0); t <= a+b-c; t++ {
		term := 1.0
		for _, k := range []int64{t, c - b + t + m, c - a + t - n, a + b - c - t, a - t - m, b - t + n} {
			if k < 0 {
				term = 0
				break
			}
			term /= math.Gamma(float64(k + 1))
		}
		if t%2 != 0 {
			term = -term
		}
		sum, size = sum+term, size+math.Abs(term)
	}
	return math.Abs(sum) > 1e-9*size
}

func isNegative(n int64) int64 {
	if n < 0 {
		return 1
	}
	return 0
}

func abs(n int64) int64 { return max(n, -n) }

// tensorProduct counts a tensor product of OpenEquivariance, or all its gradients. Its operands are left [rows, in1],
// right [rows, in2] and weights [rows, n] or [n]; for gradients, the output's gradient follows. In a convolution, left
// and the result have a row per node, and two lists of node indices follow.
func tensorProduct(convolution, gradients bool) func(c *call) (flops, bytes float64) {
	cost, count := pathFLOPs, 3
	if gradients {
		cost, count = gradientFLOPs, 4
	}
	return func(c *call) (flops, bytes float64) {
		p, ok := parseProduct(c.hints.Range)
		row, counted := p.countFLOPs(cost)
		operands := c.floatTensors()
		if !ok || !counted || len(operands) < count {
			c.uncounted = NoIrreps
			return 0, 0
		}
		operands = operands[:count]
		x, y, w := c.tensorDims(operands[0], 2), c.tensorDims(operands[1], 2), c.argument(operands[2]).Dims
		if x[1] != countDims(p.left) || y[1] != countDims(p.right) || w[len(w)-1] != p.weights || !convolution && x[0] != y[0] {
			c.uncounted = NoIrreps // the range describes another product
			return 0, 0
		}
		result := float64(x[0]*countDims(p.out)) * c.elementSize(operands[0])
		for _, i := range operands[:3] {
			bytes += c.readBytes(i)
		}
		if gradients { // of the three operands
			bytes *= 2
		}
		if convolution {
			for i := operands[count-1] + 1; i < len(c.args); i++ {
				if d := c.args[i].Dims; c.hasTensor(i) && len(d) == 1 && d[0] == y[0] {
					bytes += c.readBytes(i)
				}
			}
		}
		return float64(y[0]) * row, bytes + result
	}
}

// floatTensors returns the indexes of arguments that are tensors of real numbers.
func (c *call) floatTensors() []int {
	var out []int
	for i := range c.args {
		switch c.args[i].Type {
		case "float", "double", "c10::Half", "c10::BFloat16":
			if len(c.args[i].Dims) > 0 {
				out = append(out, i)
			}
		}
	}
	return out
}
