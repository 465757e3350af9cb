package tpgen

import (
	"fmt"
	"slices"
	"strings"
)

// A kernel whose weights come from the tensor cores (tensorproduct_mma.cuh): a block
// keeps the columns of W2 that one warp's part needs in shared memory, and each of its
// warps makes the weights of MMABatch edges of a segment before it adds those edges.
// Its parts are cut narrower than those that read weights: a lane has one channel, and
// a part as many paths as leave room for some warps beside its columns.

const (
	// MMABatch is the edges whose weights are made at once, the rows of a fragment.
	MMABatch = 16
	// MMADepth is the longest hidden layer, in steps of 8 values: what W2's columns are
	// kept for.
	MMADepth = 13
	// mmaPaths of a part at most: 32 x 7 columns of 104 values take 93 KB of the 227 KB that a
	// block of an sm_90 can have, and leave room for six warps.
	mmaPaths = 7
	// mmaRoom is Family.Room of these parts: they read no weights ahead, and a block of few warps
	// leaves a lane 255 registers.
	mmaRoom = 160
)

// MMAFamilies are the families that have such a kernel: the products of the presets for which
// it was designed, and the smallest. Each adds 9 to 70 kB of PTX to the program.
func MMAFamilies() []Family {
	return slices.DeleteFunc(Families(), func(f Family) bool { return f.Name == "mace_medium" || f.Name == "nequip_lips" })
}

// localRules are those of parts whose weights lie in shared memory; the zero value has none.
type localRules struct{ paths, batch, hidden int }

func (l localRules) allow(p *Part) bool {
	return l.paths == 0 || len(p.paths) <= l.paths && p.Batch == l.batch && p.Ahead >= len(p.paths)
}

// cost is what every part reads of the hidden layer, and more often M for fewer edges.
func (l localRules) cost() float64 { return float64(4*l.hidden) / bytesPerIssue }

// mmaSpecs are the family's products, cut for such a kernel.
func (f Family) mmaSpecs() ([]*Spec, error) {
	var all []*Spec
	for _, l := range f.Layers {
		tp, err := l.Product()
		if err != nil {
			return nil, err
		}
		spec, err := cut(tp, rules{room: mmaRoom, copies: []int{1}, batch: MMABatch, local: localRules{mmaPaths, MMABatch, 8 * MMADepth}})
		if err != nil {
			return nil, err
		}
		if !whole(tp, spec.paths()) {
			return nil, fmt.Errorf("a path of %v x %v -> %v needs more registers than a warp has", tp.In1, tp.In2, tp.Out)
		}
		for _, p := range spec.Parts {
			p.local = true
			for i := range p.columns {
				p.columns[i] = i * warpLanes
			}
		}
		all = append(all, spec)
	}
	return all, nil
}

// MMASource is the .cu of a family's kernel, and its parts in the order of their numbers.
func MMASource(f Family) (text string, parts []*Part, err error) {
	specs, err := f.mmaSpecs()
	if err != nil {
		return "", nil, err
	}
	name := "tp_mma_" + f.Name
	text, parts = source("by workloads/op/tpgen/gen for "+layersOf(f), name, specs)
	head, body, _ := strings.Cut(text, "\n")
	body = strings.NewReplacer("tensorproduct_gen.cuh", "tensorproduct_mma.cuh", "TPG_KERNEL(", "TPM_KERNEL(", "TPG_CASE(", "TPM_CASE(").Replace(body)
	sums, d1 := 0, 0
	for _, p := range parts {
		sums, d1 = max(sums, p.Sums), max(d1, 2*p.L1+1)
	}
	body = strings.Replace(body, "TPM_KERNEL("+name+",", fmt.Sprintf("TPM_KERNEL(%s, %d, %d,", name, sums, d1), 1)
	return head + "\n// kernels.sh: sm_80 ptx70\n" + body, parts, nil
}

// MMAWarp is one warp's part of a product and what its kernel is told about it.
type MMAWarp struct {
	Number, Paths  int
	Stride         int // floats of M an edge
	Active         int // lanes that write
	X, Copy        [warpLanes]int
	Weights, Place [warpLanes][]int // of every path: its instruction, and where the lane writes; -1 without
}

// MMAPlan is layer number n of a family for that kernel.
func MMAPlan(f Family, n int) ([]MMAWarp, error) {
	specs, err := f.mmaSpecs()
	if err != nil {
		return nil, err
	}
	numbers := Numbers{}
	var all []MMAWarp
	for i, spec := range specs[:n+1] {
		for k, p := range spec.Parts {
			number, _ := numbers.of(p.identity())
			if i == n {
				all = append(all, spec.mmaWarps(k, number)...)
			}
		}
	}
	return all, nil
}

// mmaWarps are those of part number k.
func (s *Spec) mmaWarps(k, number int) []MMAWarp {
	p, blocks := s.Parts[k], s.Blocks[k]
	x, out := s.TP.In1.Offsets(), s.TP.Out.Offsets()
	lanes := p.Mul * len(blocks)
	all := make([]MMAWarp, (lanes+warpLanes-1)/warpLanes)
	for w := range all {
		one := &all[w]
		one.Number, one.Paths, one.Stride, one.Active = number, len(p.paths), p.Stride, min(lanes-w*warpLanes, warpLanes)
		for i := range warpLanes {
			at := min(w*warpLanes+i, lanes-1)
			b, u := at/p.Mul, at%p.Mul
			one.X[i], one.Copy[i] = x[blocks[b]]+u, u
			for _, q := range p.paths {
				ins, place := q.instructions[b], -1
				if ins >= 0 && i < one.Active {
					place = out[s.TP.Instructions[ins].Out] + u
				}
				one.Weights[i], one.Place[i] = append(one.Weights[i], ins), append(one.Place[i], place)
			}
		}
	}
	return all
}

// taken reads an edge's weights, which a batch has in shared memory, a row an edge.
func (w writer) taken() {
	for i := range w.p.paths {
		if w.p.local {
			w.line("  w[%d] = wp[%d];", i, w.p.columns[i])
		}
	}
}
