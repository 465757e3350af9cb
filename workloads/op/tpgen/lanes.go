package tpgen

import "github.com/gpuprof/gpuprof/workloads/so3"

// Warp is a warp of the kernel: the number of its part's code in the family's kernel, and its lanes.
type Warp struct {
	Number int
	Lanes  [warpLanes]Lane
}

// Lane holds a lane's offsets. X is the offset of its first channel in a row of x, W of its first weight in a row of w,
// and Line of a weight that it prefetches. Places has, for every path, the offset of its first channel in a row of the
// output, or -1 if it writes none.
type Lane struct {
	X, W, Line int
	Places     []int
}

// Plan holds the arguments of a family's kernel for one layer.
type Plan struct {
	Spec   *Spec
	Warps  []Warp
	Floats int // floats of M per warp: the largest of all parts
	Paths  int // paths per part: the largest of all parts
}

// PlanOf returns the plan of layer f.Layers[n].
func PlanOf(f Family, n int) (*Plan, error) { return planLayer(f, n, f.cutForward, planOf) }

func planLayer[S, L any](f Family, n int, cutLayer func(so3.TensorProduct) (S, error), plan func([]S, int) *L) (*L, error) {
	specs, err := cutLayers(f, cutLayer)
	if err != nil {
		return nil, err
	}
	return plan(specs, n), nil
}

func planOf(specs []*Spec, n int) *Plan {
	numbers := Numbers{}
	var plan *Plan
	for i, spec := range specs[:n+1] {
		plan = &Plan{Spec: spec}
		for k, p := range spec.Parts {
			number, _ := numbers.numberOf(p.codeKey())
			plan.Floats, plan.Paths = max(plan.Floats, p.Stride*p.Batch), max(plan.Paths, len(p.paths))
			if i == n {
				plan.Warps = append(plan.Warps, spec.partWarps(k, number)...)
			}
		}
	}
	return plan
}

// partWarps returns the warps of s.Parts[k]. number is the number of the part's code in the kernel.
func (s *Spec) partWarps(k, number int) []Warp {
	p, blocks := s.Parts[k], s.Blocks[k]
	x, out := s.TP.In1.Offsets(), s.TP.Out.Offsets()
	perBlock := p.Mul / p.Copies
	lanes := perBlock * len(blocks)
	all := make([]Warp, (lanes+warpLanes-1)/warpLanes)
	for w := range all {
		lines := p.prefetchColumns(w, lanes)
		all[w].Number = number
		for i := range warpLanes {
			at := min(w*warpLanes+i, lanes-1)
			b, u := at/perBlock, at%perBlock*p.Copies
			one := Lane{X: x[blocks[b]] + u, W: p.columnAt[0] + b*p.Mul + u, Line: p.columnAt[0] + lines[i%len(lines)]}
			for _, q := range p.paths {
				place := -1
				if ins := q.instructions[b]; ins >= 0 && w*warpLanes+i < lanes {
					place = out[s.TP.Instructions[ins].Out] + u
				}
				one.Places = append(one.Places, place)
			}
			all[w].Lanes[i] = one
		}
	}
	return all
}

// prefetchColumns returns the columns of weights that warp w prefetches, counted from the part's first column. They are
// one in every 32 columns (a cache line) and the last column of every path, so that all weights are fetched. Each lane
// prefetches one, so the list is cut at 32.
func (p *Part) prefetchColumns(w, lanes int) []int {
	var all, ends []int
	from, to := w*warpLanes*p.Copies, min((w+1)*warpLanes, lanes)*p.Copies
	for _, c := range p.columns {
		for u := from; u < to; u += warpLanes {
			all = append(all, c+u)
		}
		ends = append(ends, c+to-1)
	}
	all = append(all, ends...)
	return all[:min(len(all), warpLanes)]
}
