package op

import (
	_ "embed"
	"fmt"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

//go:embed tensorproduct_unfused.ptx.zst
var tpUnfusedPTX string

// The kernels of the unfused product; an item is one edge, and pairs are copies (u,v), or u alone if same is set:
//
//	gather    copies the source's features to the edge
//	outer     x [E,in dim], y [E,sh dim] -> [E,pairs,d1,d2] for one pair of blocks
//	contract  outer -> [E,pairs,d3], by the terms (ij, k) and 3j values of one path
//	weight    contracted and w -> mid [E,out dim]; wAt is -1 for a path without weights
var (
	gatherKernel   = device.Typed[tpGatherArgs](device.Kernel{Name: "tp_gather", Host: tpGatherHost, Grain: 16, PTX: tpUnfusedPTX, Threads: 256, PerBlock: 1})
	outerKernel    = device.Typed[tpOuterArgs](device.Kernel{Name: "tp_outer", Host: tpOuterHost, Grain: 16, PTX: tpUnfusedPTX, Threads: 256, PerBlock: 4})
	contractKernel = device.Typed[tpContractArgs](device.Kernel{Name: "tp_contract", Host: tpContractHost, Grain: 16, PTX: tpUnfusedPTX, Threads: 128, PerBlock: 4, SharedBytes: 32 << 10})
	weightKernel   = device.Typed[tpWeightArgs](device.Kernel{Name: "tp_weight", Host: tpWeightHost, Grain: 16, PTX: tpUnfusedPTX, Threads: 256, PerBlock: 4})
)

var modeNumber = map[so3.Mode]int{so3.UVW: modeUVW, so3.UVU: modeUVU, so3.UVV: modeUVV, so3.UUW: modeUUW, so3.UUU: modeUUU}

const (
	modeUVW = iota
	modeUVU
	modeUVV
	modeUUW
	modeUUU
)

// pairKey is a pair of blocks whose outer product some path needs. If same is set, only equal copies are multiplied
// (uuw and uuu).
type pairKey struct {
	in1, in2 int
	same     bool
}

func keyOf(ins so3.Instruction) pairKey {
	return pairKey{ins.In1, ins.In2, ins.Mode == so3.UUW || ins.Mode == so3.UUU}
}

func (t TensorProduct) pairOrder() []pairKey {
	var order []pairKey
	seen := map[pairKey]bool{}
	for _, ins := range t.TP.Instructions {
		if key := keyOf(ins); !seen[key] {
			seen[key] = true
			order = append(order, key)
		}
	}
	return order
}

// pairCount returns the number of pairs of copies that the key couples.
func (t TensorProduct) pairCount(key pairKey) int {
	m1, m2 := t.TP.In1[key.in1].Mul, t.TP.In2[key.in2].Mul
	if key.same {
		return m1
	}
	return m1 * m2
}

// edgeWidths returns the largest number of values per edge of an outer product, and of a contraction. The launches for
// the paths of a pair directly follow those for its outer product, so one buffer of each size is enough.
func (t TensorProduct) edgeWidths() (outer, contracted int) {
	for _, ins := range t.TP.Instructions {
		key := keyOf(ins)
		n := t.pairCount(key)
		outer = max(outer, n*t.TP.In1[key.in1].Ir.Dim()*t.TP.In2[key.in2].Ir.Dim())
		contracted = max(contracted, n*t.TP.Out[ins.Out].Ir.Dim())
	}
	return outer, contracted
}

// unfusedTerms is the table of the contractions: (ij, k) and 3j value of each term, and the first term of each path.
type unfusedTerms struct {
	ints      []int32
	constants []float32
	start     []int
}

func (t TensorProduct) unfusedTerms() (unfusedTerms, error) {
	var u unfusedTerms
	coefficients, err := t.TP.PathCoefficients()
	if err != nil {
		return u, err
	}
	for p, ins := range t.TP.Instructions {
		a, b, o := t.TP.In1[ins.In1].Ir, t.TP.In2[ins.In2].Ir, t.TP.Out[ins.Out].Ir
		terms, err := pathTerms(a.L, b.L, o.L, coefficients[p])
		if err != nil {
			return u, err
		}
		u.start = append(u.start, len(u.constants))
		for _, term := range terms {
			u.ints = append(u.ints, int32(term.i*b.Dim()+term.j), int32(term.k))
			u.constants = append(u.constants, float32(term.c))
		}
	}
	u.start = append(u.start, len(u.constants))
	return u, nil
}

// bindUnfused binds two operations: product writes every edge's result to the buffer mid [E,out dim], scatter sums mid
// over edges. product owns the memory of both.
func (k *binder) bindUnfused(t TensorProduct, b TPBuffers, rows int) (product, scatter *Bound, err error) {
	terms, err := t.unfusedTerms()
	k.failOn(err)
	e := int64(k.b.capacity)
	outerWidth, contractedWidth := t.edgeWidths()
	m := unfusedMemory{terms: terms,
		ints: k.uploadInts(terms.ints), constants: k.uploadFloats(terms.constants),
		x: k.allocateScratch(e * int64(t.TP.In1.Dim())), outer: k.allocateScratch(e * int64(outerWidth)),
		contracted: k.allocateScratch(e * int64(contractedWidth)), mid: k.allocateScratch(e * int64(t.TP.Out.Dim()))}
	inDim := t.TP.In1.Dim()
	k.addLaunch(shapeTeams(&gatherKernel, inDim), items{perEdge: 1}, rate{perEdge: Moved(0, inDim+1, inDim)}, tpGatherArgs{
		x: b.X, src: b.Src, out: m.x, count: itemCount, dim: inDim,
	})
	written := make([]bool, len(t.TP.Out))
	if t.hasUncovered() {
		k.addFill(m.mid, 0, t.TP.Out.Dim(), 0)
	}
	for _, key := range t.pairOrder() {
		k.addOuter(t, key, m, b.Y)
		for p, ins := range t.TP.Instructions {
			if keyOf(ins) == key {
				k.addPath(t, p, m, b.W, written[ins.Out])
				written[ins.Out] = true
			}
		}
	}
	if product, err = k.finishBinding(); err != nil {
		return nil, nil, err
	}
	product.output = m.mid
	scatter, err = ScatterAdd{C: t.TP.Out.Dim(), Deterministic: t.Deterministic, Scale: t.Scale}.
		Bind(k.dev, ScatterBuffers{Src: m.mid, Dst: b.Dst, RowPtr: b.RowPtr, Out: b.Out}, rows, k.b.capacity)
	if err != nil {
		_ = product.Close() // report the scatter's error
		return nil, nil, fmt.Errorf("binding tensor product: %w", err)
	}
	return product, scatter, nil
}

type unfusedMemory struct {
	terms                     unfusedTerms
	ints, constants           device.Buffer
	x, outer, contracted, mid device.Buffer
}

// hasUncovered reports whether an output block has no path; such blocks stay zero.
func (t TensorProduct) hasUncovered() bool {
	written := make([]bool, len(t.TP.Out))
	for _, ins := range t.TP.Instructions {
		written[ins.Out] = true
	}
	for i, m := range t.TP.Out {
		if !written[i] && m.Dim() > 0 {
			return true
		}
	}
	return false
}

func (k *binder) addOuter(t TensorProduct, key pairKey, m unfusedMemory, y device.Buffer) {
	a, b := t.TP.In1[key.in1], t.TP.In2[key.in2]
	xu, xi := t.Layout.blockStrides(a)
	yv, yj := t.Layout.blockStrides(b)
	n := t.pairCount(key) * a.Ir.Dim() * b.Ir.Dim()
	k.addLaunch(&outerKernel, items{perEdge: 1}, rate{perEdge: Moved(n, a.Dim()+b.Dim(), n)},
		tpOuterArgs{
			x: m.x, y: y, out: m.outer, count: itemCount, inDim: t.TP.In1.Dim(), shDim: t.TP.In2.Dim(),
			xAt: t.TP.In1.Offsets()[key.in1], yAt: t.TP.In2.Offsets()[key.in2], m1: a.Mul, m2: b.Mul, d1: a.Ir.Dim(),
			d2: b.Ir.Dim(), xu: xu, xi: xi, yv: yv, yj: yj, same: key.same,
		})
}

func (k *binder) addPath(t TensorProduct, p int, m unfusedMemory, w device.Buffer, add bool) {
	ins := t.TP.Instructions[p]
	a, b, o := t.TP.In1[ins.In1], t.TP.In2[ins.In2], t.TP.Out[ins.Out]
	n, d3, d12 := t.pairCount(keyOf(ins)), o.Ir.Dim(), a.Ir.Dim()*b.Ir.Dim()
	if k.err != nil {
		return
	}
	first, count := m.terms.start[p], m.terms.start[p+1]-m.terms.start[p]
	k.addLaunch(&contractKernel, items{perEdge: 1}, rate{perEdge: Moved(2*n*count, n*d12, n*d3)},
		tpContractArgs{
			outer: m.outer, out: m.contracted, terms: m.ints, values: m.constants, count: itemCount, pairs: n,
			d12: d12, d3: d3, first: first, number: count,
		})

	ou, ok := t.Layout.blockStrides(o)
	_, fed := coupledPairs(ins.Mode, a.Mul, b.Mul, o.Mul)
	numel, extra := 0, 0
	if ins.HasWeight {
		numel = 1
		for _, d := range t.TP.WeightShape(p) {
			numel *= d
		}
	}
	if add {
		extra = o.Dim()
	}
	columns, stride := t.Columns()
	k.addLaunch(&weightKernel, items{perEdge: 1}, rate{perEdge: Moved(2*n*fed*d3, n*d3+numel+extra, o.Dim())},
		tpWeightArgs{
			z: m.contracted, w: w, mid: m.mid, count: itemCount, numel: stride, wAt: columns[p],
			outDim: t.TP.Out.Dim(), oAt: t.TP.Out.Offsets()[ins.Out], m1: a.Mul, m2: b.Mul, mo: o.Mul, d3: d3,
			mode: modeNumber[ins.Mode], ou: ou, ok: ok, add: add,
		})
}
