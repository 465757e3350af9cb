package tpgen

import (
	"fmt"
	"math"
	"strings"

	"github.com/gpuprof/gpuprof/workloads/so3"
)

// XPart is one warp's share of the gradient with respect to the features, dx_ui = sum over the edges that leave a node
// of w_u sum_k M_ik dz_uk. It has all paths from one block of features. Each of the 32 lanes computes Copies channels
// u. As in Part, the warp first builds M for a batch of edges. While it adds one edge, it reads dz and the weights of
// the next edge.
type XPart struct {
	Part
	place []int // offset of each path's dz from the lane's first dz
}

// XSpec is a product cut into parts for dx, the gradient with respect to features. The weights are in the order of the
// product's instructions. Blocks has the block of In1 that each part computes.
type XSpec struct {
	TP     so3.TensorProduct
	Parts  []*XPart
	Blocks []int
}

func (s *XSpec) cutParts() (so3.TensorProduct, []*XPart) { return s.TP, s.Parts }

func (f Family) cutX(tp so3.TensorProduct) (*XSpec, error) { return CutX(tp, f.XRoom) }

// CutX cuts a uvu product with weights and with harmonics of multiplicity 1 into parts. No two blocks of features may
// agree in degree and multiplicity. room is Family.XRoom. The error names the features that no part can hold.
func CutX(tp so3.TensorProduct, room int) (*XSpec, error) {
	groups, err := merge(tp)
	if err != nil {
		return nil, err
	}
	s := &XSpec{TP: tp}
	for _, g := range groups {
		b := g.blocks[0]
		if len(g.blocks) > 1 {
			return nil, fmt.Errorf("%v has several blocks of degree %d with %d channels", tp.In1, tp.In1[b].Ir.L, g.mul)
		}
		var best *XPart
		for _, copies := range anyCopies() {
			if g.mul%copies != 0 || !isAligned(tp, g, copies) || !gradAligned(tp, g, copies) {
				continue
			}
			if p := newXPart(tp, g, copies, room); p != nil && (best == nil || p.warpCount()*p.Cost < best.warpCount()*best.Cost) {
				best = p
			}
		}
		if best == nil {
			return nil, fmt.Errorf("the paths from %v need more registers or shared memory than a warp has, or there are none", tp.In1[b])
		}
		s.Parts, s.Blocks = append(s.Parts, best), append(s.Blocks, b)
	}
	return s, nil
}

func (p *XPart) warpCount() float64 {
	return float64((p.Mul/p.Copies + warpLanes - 1) / warpLanes)
}

func newXPart(tp so3.TensorProduct, g *group, copies, room int) *XPart {
	if len(g.paths) == 0 || g.mul == 0 {
		return nil
	}
	p := &XPart{Part: Part{L1: g.paths[0].l1, Copies: copies, Mul: g.mul, paths: g.paths}}
	own, out := tp.WeightOffsets(), tp.Out.Offsets()
	slots, widest, firstW, firstZ := 0, 0, math.MaxInt, math.MaxInt
	for _, q := range p.paths {
		_, n := q.weightSide()
		p.Sums, slots, widest = p.Sums+q.d3(), slots+len(q.slots), max(widest, n)
		ins := q.instructions[0]
		firstW, firstZ = min(firstW, own[ins]), min(firstZ, out[tp.Instructions[ins].Out])
	}
	for _, q := range p.paths {
		ins := q.instructions[0]
		p.columns, p.place = append(p.columns, own[ins]-firstW), append(p.place, out[tp.Instructions[ins].Out]-firstZ)
	}
	p.columnAt = []int{firstW, firstZ}
	d1, fours := 2*p.L1+1, (slots+3)/4
	p.Stride = 4 * (fours | 1)
	p.Batch = min(warpLanes, matrixFloats/p.Stride)
	if p.Batch < leastBatch || copies*(p.Sums+d1+len(p.paths)+widest)+8 > room {
		return nil
	}
	p.Cost = float64(p.Math()+p.Sums+len(p.paths)+fours+20) + float64(4*copies*p.Sums*warpLanes)/bytesPerIssue
	return p
}

func (p *XPart) codeKey() string { return fmt.Sprint(p.Part.codeKey(), p.place) }

// XWarp is a warp of the kernel: the number of its part's code, and its lanes.
type XWarp struct {
	Number int
	Lanes  [warpLanes]XLane
}

// XLane holds a lane's offsets: X of its first channel in a row of x, W of its first weight in a row of w, Z of its
// first dz in a row of dz. A lane writes dx only if Writes is set.
type XLane struct {
	X, W, Z int
	Writes  bool
}

// XPlan holds the arguments for one layer of the dx kernel that all layers of a Family share.
type XPlan struct {
	Spec   *XSpec
	Warps  []XWarp
	Floats int // floats of shared memory per warp: the largest of all parts
}

// XPlanOf returns the plan of layer f.Layers[n].
func XPlanOf(f Family, n int) (*XPlan, error) { return planLayer(f, n, f.cutX, xPlanOf) }

func xPlanOf(specs []*XSpec, n int) *XPlan {
	numbers := Numbers{}
	var plan *XPlan
	for i, spec := range specs[:n+1] {
		plan = &XPlan{Spec: spec}
		x := spec.TP.In1.Offsets()
		for k, p := range spec.Parts {
			number, _ := numbers.numberOf(p.codeKey())
			plan.Floats = max(plan.Floats, p.floatCount())
			if i < n {
				continue
			}
			lanes := p.Mul / p.Copies
			for w := range int(p.warpCount()) {
				warp := XWarp{Number: number}
				for i := range warpLanes {
					u := min(w*warpLanes+i, lanes-1) * p.Copies
					warp.Lanes[i] = XLane{x[spec.Blocks[k]] + u, p.columnAt[0] + u, p.columnAt[1] + u, w*warpLanes+i < lanes}
				}
				plan.Warps = append(plan.Warps, warp)
			}
		}
	}
	return plan
}

// xEdges is the number of words before M in a warp's shared memory: index and destination of each edge of a batch and
// of the edge after it, rounded up to 16 bytes.
const xEdges = 2 * (warpLanes + 2)

func (p *XPart) floatCount() int { return xEdges + p.Stride*p.Batch }

// xMadeRoom is the XRoom of kernels generated at run time; see madeRoom.
const xMadeRoom = 80

// MakeX generates the kernel for dx of a product, as Make does for the product itself.
func MakeX(tp so3.TensorProduct) (*Made[XPlan], error) {
	if err := checkGenerable(tp); err != nil {
		return nil, err
	}
	spec, err := CutX(tp, xMadeRoom)
	if err != nil {
		return nil, err
	}
	return makeKernel[*XPart](gradientX, spec, xPlanOf)
}

// write writes the part as a C++ type with its constants and the device functions build, ahead (prefetching), first
// and edge.
func (p *XPart) write(b *strings.Builder, number, sh int) {
	w := writer{b, &p.Part}
	fmt.Fprintf(b, "// l1 = %d:", p.L1)
	for _, q := range p.paths {
		fmt.Fprintf(b, " (%d,%d)", q.l2, q.l3)
	}
	fmt.Fprintf(b, "\nstruct tpx_part%d {\n", number)
	w.writeLine("enum { COPIES = %d, D1 = %d, PATHS = %d, SUMS = %d, STRIDE = %d, BATCH = %d, SH = %d, STEP = %d };",
		p.Copies, 2*p.L1+1, len(p.paths), p.Sums, p.Stride, p.Batch, sh, p.Mul)
	w.writeBuild()
	w.writeLine("GP_FN void ahead(const float *wp) {")
	for i := range p.paths {
		for v := range p.Copies {
			if v > 0 && p.Mul%(p.Copies*warpLanes) != 0 { // not all warps have these lines
				continue
			}
			w.writeLine("  gp_prefetch(wp + %d);", p.columns[i]+v*warpLanes)
		}
	}
	w.writeLine("}")
	w.writeLine("GP_FN void first(float *z, float *w, const float *zp, const float *wp) {")
	sums := p.sumsAt()
	for i := range p.paths {
		p.writeReads(w, "  ", i, sums[i], "zp", "wp")
	}
	w.writeLine("}")
	p.edgeX(w)
	b.WriteString("};\n\n")
}

// writeReads writes the reads of path i's dz and weights for one edge, whose dz row is z and weight row wp. The
// parameter sum is the index of the path's first dz in the register array.
func (p *XPart) writeReads(w writer, indent string, i, sum int, z, wp string) {
	v := p.Copies
	for k := range p.paths[i].d3() {
		w.writeLine("%stpg_read<%d>(z + %d, %s + %d);", indent, v, (sum+k)*v, z, p.place[i]+k*p.Mul)
	}
	w.writeLine("%stpg_read<%d>(w + %d, %s + %d);", indent, v, i*v, wp, p.columns[i])
}

// edgeX writes the device function edge, which adds one edge's part of dx. When it is called, dz and the weights of the
// edge are already loaded. It loads dz and the weights of the next edge from rows zn and wn. gradWriter.writeEdge
// explains its branches, which are never taken. The weight multiplies the operand with the fewest values: dz, the slots
// of the edge's M, or the path's sum for dx.
func (p *XPart) edgeX(w writer) {
	w.writeLine("GP_FN void edge(float *a, float *z, float *w, const float *m, const float *zn, const float *wn, int never) {")
	at, v, sums := 0, p.Copies, p.sumsAt()
	for i, q := range p.paths {
		side, n := q.weightSide()
		if i > 0 {
			w.writeLine("  if (never == %d) return;", -i)
		}
		w.writeLine("  { // (%d,%d,%d)", q.l1, q.l2, q.l3)
		w.writeLine("    float t[%d];", n*v)
		if side == onOut {
			for k := range n {
				w.writeLine("    tpg_mul<%d>(t + %d, z + %d, w + %d);", v, k*v, (sums[i]+k)*v, i*v)
			}
		}
		started := map[int]bool{}
		for k, s := range q.slots {
			if at%4 == 0 || k == 0 {
				w.writeLine("    float4 m%d = *(const float4 *)(m + %d);", at/4, at/4*4)
			}
			cell := fmt.Sprintf("m%d.%c", at/4, "xyzw"[at%4])
			at++
			if side == onCells {
				w.writeLine("    tpg_cell<%d>(t + %d, %s, w + %d);", v, k*v, cell, i*v)
			}
			for _, u := range s.uses {
				sign, f := "", "tpg_add"
				if u.minus {
					sign = "-"
				}
				switch side {
				case onOut:
					w.writeLine("    tpg_add<%d>(a + %d, %s%s, t + %d);", v, u.i*v, sign, cell, u.k*v)
				case onCells:
					if f = "tpg_fma"; u.minus {
						f = "tpg_sub"
					}
					w.writeLine("    %s<%d>(a + %d, t + %d, z + %d);", f, v, u.i*v, k*v, (sums[i]+u.k)*v)
				case onX:
					if !started[u.i] {
						f, started[u.i] = "tpg_cell", true
					}
					w.writeLine("    %s<%d>(t + %d, %s%s, z + %d);", f, v, u.i*v, sign, cell, (sums[i]+u.k)*v)
				}
			}
		}
		if side == onX {
			for c := range n {
				w.writeLine("    tpg_fma<%d>(a + %d, w + %d, t + %d);", v, c*v, i*v, c*v)
			}
		}
		p.writeReads(w, "    ", i, sums[i], "zn", "wn")
		w.writeLine("  }")
	}
	w.writeLine("}")
}
