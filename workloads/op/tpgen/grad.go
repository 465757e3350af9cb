package tpgen

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof/workloads/so3"
)

// GradBatch is the number of edges whose harmonics a warp of a gradient kernel holds in shared memory.
const GradBatch = warpLanes

// GradPart is a warp's share of dw and dy, a product's backward pass per edge. It has all or some paths of one degree
// of the features, for 32 lanes of Copies channels each. A lane computes dw and dy path by path from G, with neither M
// nor the products of x and dz in memory. It adds up dy over all paths with the same degree of harmonics:
//
//	G_uj = A sum_ik C_ijk x_ui dz_uk, dw_u = sum_j y_j G_uj, dy_j = sum_u w_u G_uj
type GradPart struct {
	L1, Copies int // Copies is the number of channels per lane
	Mul        int // multiplicity of each merged block: the distance between components in x and in dz
	Sums       int // number of a channel's dz: the output components of all paths
	Merged     bool
	paths      []*path // ordered by their harmonics
	columns    []int   // offset of each path's weights from the lane's first; empty where blocks are merged
	harmonics  []int   // indices in a row of harmonics, in the order in which the part adds dy
	// Cost has the units of Part.Cost.
	Cost float64
}

// GradSpec is a product cut into parts for dw and dy, the gradients with respect to weights and harmonics. The weights
// are in the order of the product's instructions. Blocks has the merged blocks of In1 that each part computes.
type GradSpec struct {
	TP     so3.TensorProduct
	Parts  []*GradPart
	Blocks [][]int
}

func (s *GradSpec) cutParts() (so3.TensorProduct, []*GradPart) { return s.TP, s.Parts }

func (p *GradPart) pathList() []*path { return p.paths }

func (f Family) cutGrad(tp so3.TensorProduct) (*GradSpec, error) { return CutGrad(tp, f.GradRoom) }

// CutGrad cuts a uvu product with weights and with harmonics of multiplicity 1 into parts. room is Family.GradRoom.
func CutGrad(tp so3.TensorProduct, room int) (*GradSpec, error) {
	groups, err := merge(tp)
	if err != nil {
		return nil, err
	}
	s := &GradSpec{TP: tp}
	for _, g := range groups {
		slices.SortStableFunc(g.paths, func(a, b *path) int { return cmp.Or(cmp.Compare(a.yAt, b.yAt), cmp.Compare(a.l3, b.l3)) })
		copies := slices.DeleteFunc(anyCopies(), func(n int) bool { return !isAligned(tp, g, n) || !gradAligned(tp, g, n) })
		for _, p := range cutGroup(g, copies, func(paths []*path, copies int) *GradPart { return newGradPart(tp, g, paths, copies, room) }) {
			s.Parts, s.Blocks = append(s.Parts, p), append(s.Blocks, g.blocks)
		}
	}
	s.Parts, s.Blocks = longestFirst(s.Parts, s.Blocks)
	return s, nil
}

// gradAligned reports whether a lane can access its channels as one vector in rows of weights and of dz.
func gradAligned(tp so3.TensorProduct, g *group, copies int) bool {
	own, at := tp.WeightOffsets(), tp.Out.Offsets()
	for _, q := range g.paths {
		for _, ins := range q.instructions {
			if ins >= 0 && (own[ins]%copies != 0 || at[tp.Instructions[ins].Out]%copies != 0) {
				return false
			}
		}
	}
	return tp.WeightNumel()%copies == 0 && tp.Out.Dim()%copies == 0
}

// newGradPart makes one part of the paths, or returns nil if they need too many registers.
func newGradPart(tp so3.TensorProduct, g *group, paths []*path, copies, room int) *GradPart {
	p := &GradPart{L1: paths[0].l1, Copies: copies, Mul: g.mul, Merged: len(g.blocks) > 1, paths: slices.Clone(paths)}
	widest, last := 0, -1
	for _, q := range paths {
		p.Sums += q.d3()
		widest = max(widest, q.d2())
		if q.yAt != last {
			last = q.yAt
			for j := range q.d2() {
				p.harmonics = append(p.harmonics, q.yAt+j)
			}
		}
	}
	d1 := 2*p.L1 + 1
	if copies*(p.Sums+2*d1+len(paths)+widest+1)+2*widest+3 > room {
		return nil
	}
	if !p.Merged {
		own := tp.WeightOffsets()
		first := own[paths[0].instructions[0]]
		for _, q := range paths {
			first = min(first, own[q.instructions[0]])
		}
		for _, q := range paths {
			p.columns = append(p.columns, own[q.instructions[0]]-first)
		}
	}
	loop := p.productCount() + 2*len(p.harmonics)/4 + p.foldCost() + d1*(1+copies) + 2*len(paths) + 24
	if p.Merged {
		loop += 4 * len(paths)
	}
	read := 4 * (copies*d1*warpLanes + len(p.harmonics))
	p.Cost = float64(loop) + float64(read)/bytesPerIssue + 2*float64(len(p.harmonics))/warpLanes
	return p
}

func (t triple) d2() int { return 2*t.l2 + 1 }

// isScalar reports whether x or dz is a scalar and all cells have the same constant up to sign. The generated code then
// first multiplies the scalar by the constant.
func (p *path) isScalar() bool {
	if p.d1() > 1 && p.d3() > 1 {
		return false
	}
	for _, s := range p.slots {
		if len(s.terms) != 1 || len(s.uses) != 1 || s.terms[0].C != p.slots[0].terms[0].C {
			return false
		}
	}
	return true
}

// Math counts the fp32 multiplications and additions of a lane for an edge.
func (p *GradPart) Math() int { return p.productCount() + 4*(p.Rows()-1) + 3 + p.halvingCount() }

// halvingCount returns the number of final steps in which a warp sums dy over lanes that hold the same harmonic; each
// step halves their number.
func (p *GradPart) halvingCount() int {
	n := 0
	for rows := p.Rows(); rows < 8; rows *= 2 {
		n++
	}
	return n
}

// productCount is the part of Math, a lane's multiplications and additions for an edge, that precedes the sums over
// lanes.
func (p *GradPart) productCount() int {
	n := 0
	for _, q := range p.paths {
		if q.isScalar() {
			n += 2*q.d2() + 3 - asInt(q.slots[0].terms[0].C == 1)
			continue
		}
		n += q.cells + q.terms + 2*q.d2()
		have := map[int]bool{}
		for _, s := range q.slots {
			for _, t := range s.terms {
				if !have[t.J] { // the first product of a sum; a constant of 1 saves the multiplication
					have[t.J] = true
					n -= asInt(t.C == 1)
				}
			}
		}
	}
	return p.Copies * n
}

// Rows returns the number of rows of four harmonics that a lane's dy takes in shared memory, rounded up to a power of
// two.
func (p *GradPart) Rows() int {
	rows := 1
	for rows*4 < len(p.harmonics) {
		rows *= 2
	}
	return rows
}

// foldCost counts the instructions that sum dy over the lanes.
func (p *GradPart) foldCost() int {
	rows, quads := p.Rows(), (len(p.harmonics)+3)/4
	return 2*quads + 2*rows + 4*(rows-1) + 12 + 2*p.halvingCount() + 8
}

// Stride returns the floats that an edge's harmonics take in shared memory. It is an odd number of float4, for the
// reason given in newPart.
func (p *GradPart) Stride() int { return 4 * ((len(p.harmonics)+3)/4 | 1) }

func (p *GradPart) floatCount() int {
	n := warpLanes * (p.Stride() + 4*p.Rows())
	if p.Merged {
		n += warpLanes * len(p.paths)
	}
	return n
}

func (p *GradPart) codeKey() string {
	s := fmt.Sprint(p.L1, p.Copies, p.Mul, p.Merged, p.columns)
	for _, q := range p.paths {
		s += fmt.Sprint(q.triple)
	}
	return s
}

// GradWarp is a warp of the kernel: the number of its part's code, and its lanes. At is the start of its columns in a
// row that holds the dy of all warps, and Harmonics lists the harmonics of these columns.
type GradWarp struct {
	Number, At int
	Harmonics  []int
	Lanes      [warpLanes]GradLane
}

// GradLane holds a lane's offsets. X is the offset of its first channel in a row of x, W of its first weight in a row
// of w, and Line of a weight that it prefetches. Places has the offset of its dz for every path, -1 for none. A lane
// writes dw only if Writes is set. Weights has the offset of the lane's weights for every path; kernels read it if
// blocks are merged.
type GradLane struct {
	X, W, Line int
	Writes     bool
	Places     []int
	Weights    []int
}

// GradPlan holds the arguments of a family's kernel for dw and dy for one layer.
type GradPlan struct {
	Spec    *GradSpec
	Warps   []GradWarp
	Floats  int // floats of shared memory per warp: the largest of all parts
	Paths   int // paths per part: the largest of all parts
	Columns int // width of a row that holds the dy of all warps
}

// GradPlanOf returns the plan of layer f.Layers[n].
func GradPlanOf(f Family, n int) (*GradPlan, error) { return planLayer(f, n, f.cutGrad, gradPlanOf) }

func gradPlanOf(specs []*GradSpec, n int) *GradPlan {
	numbers := Numbers{}
	var plan *GradPlan
	for i, spec := range specs[:n+1] {
		plan = &GradPlan{Spec: spec}
		for k, p := range spec.Parts {
			number, _ := numbers.numberOf(p.codeKey())
			plan.Floats, plan.Paths = max(plan.Floats, p.floatCount()), max(plan.Paths, len(p.paths))
			if i != n {
				continue
			}
			for _, w := range spec.partWarps(k, number) {
				w.At = plan.Columns
				plan.Columns += (len(w.Harmonics) + 3) / 4 * 4
				plan.Warps = append(plan.Warps, w)
			}
		}
	}
	return plan
}

// partWarps returns the warps of s.Parts[k]. number is the number of the part's code in the kernel.
func (s *GradSpec) partWarps(k, number int) []GradWarp {
	p, blocks := s.Parts[k], s.Blocks[k]
	x, out, own := s.TP.In1.Offsets(), s.TP.Out.Offsets(), s.TP.WeightOffsets()
	perBlock := p.Mul / p.Copies
	lanes := perBlock * len(blocks)
	all := make([]GradWarp, (lanes+warpLanes-1)/warpLanes)
	for w := range all {
		all[w].Number, all[w].Harmonics = number, p.harmonics
		touched, ends := map[int]bool{}, map[int]int{} // every 32nd weight; the last weight of each run
		for i := range warpLanes {
			at := min(w*warpLanes+i, lanes-1)
			b, u := at/perBlock, at%perBlock*p.Copies
			one := GradLane{X: x[blocks[b]] + u, W: math.MaxInt, Writes: w*warpLanes+i < lanes}
			for _, q := range p.paths {
				place, weight := -1, -1
				if ins := q.instructions[b]; ins >= 0 {
					weight = own[ins] + u
					one.W = min(one.W, weight)
					touched[weight/warpLanes*warpLanes], touched[(weight+p.Copies-1)/warpLanes*warpLanes] = true, true
					ends[ins] = max(ends[ins], weight+p.Copies-1)
					if one.Writes {
						place = out[s.TP.Instructions[ins].Out] + u
					}
				}
				one.Places, one.Weights = append(one.Places, place), append(one.Weights, weight)
			}
			for j, weight := range one.Weights { // a path that the block lacks: any weight will do, since dz is 0
				if weight < 0 {
					one.Weights[j] = one.W
				}
			}
			all[w].Lanes[i] = one
		}
		for _, end := range ends {
			touched[end] = true
		}
		lines := slices.Sorted(maps.Keys(touched))
		for i := range warpLanes {
			all[w].Lanes[i].Line = lines[i%len(lines)]
		}
	}
	return all
}
