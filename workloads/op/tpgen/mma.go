package tpgen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/workloads/so3"
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

// MMAFamilies are the families that have such a kernel: the product for which it was designed, and
// the smallest. Each adds 14 to 17 kB of PTX to the program; deepaw's two would add 83.
func MMAFamilies() []Family {
	return slices.DeleteFunc(Families(), func(f Family) bool { return f.Name != "small" && f.Name != "mace_large" })
}

// localRules are those of parts whose weights lie in shared memory: the most paths, the edges of
// a batch, and the values of a hidden layer; the zero value has none.
type localRules struct{ paths, batch, hidden int }

func (l localRules) allow(p *Part) bool {
	return l.paths == 0 || len(p.paths) <= l.paths && p.Batch == l.batch && p.Ahead >= len(p.paths)
}

// cost is that of reading an edge's hidden layer, which every part does.
func (l localRules) cost() float64 { return float64(4*l.hidden) / bytesPerIssue }

// mmaSpec is a product cut for such a kernel.
func mmaSpec(tp so3.TensorProduct) (*Spec, error) {
	spec, err := cut(tp, rules{room: mmaRoom, copies: []int{1}, batch: MMABatch, hold: true, local: localRules{mmaPaths, MMABatch, 8 * MMADepth}})
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
	return spec, nil
}

func (f Family) mmaSpecs() ([]*Spec, error) {
	var all []*Spec
	for _, l := range f.Layers {
		tp, err := l.Product()
		if err != nil {
			return nil, err
		}
		spec, err := mmaSpec(tp)
		if err != nil {
			return nil, err
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
	text, parts = mmaText("by workloads/op/tpgen/gen for "+layersOf(f), mmaPrefix+f.Name, specs)
	return text, parts, nil
}

const mmaPrefix = "tp_mma_"

// mmaText is the source of a kernel: that of one that reads weights, with another walk around the parts.
func mmaText(by, name string, specs []*Spec) (text string, parts []*Part) {
	text, parts = source(by, name, specs)
	head, body, _ := strings.Cut(text, "\n")
	sums, d1 := 0, 0
	for _, p := range parts {
		sums, d1 = max(sums, p.Sums), max(d1, 2*p.L1+1)
	}
	body = strings.NewReplacer("tensorproduct_gen.cuh", "tensorproduct_mma.cuh", "TPG_CASE(", "TPM_CASE(",
		"TPG_KERNEL("+name+",", fmt.Sprintf("TPM_KERNEL(%s, %d, %d,", name, sums, d1)).Replace(body)
	return head + "\n// kernels.sh: sm_80 ptx70\n" + body, parts
}

// MadeMMA is such a kernel of a product that no family has, as it is made where the program runs.
type MadeMMA struct {
	Warps          []MMAWarp
	Kernel, Source string // its name in Source, CUDA C++ that includes tensorproduct_mma.cuh
}

// MakeMMA cuts a uvu product with weights and harmonics of multiplicity 1 for the tensor cores and writes its source. An
// error says what of it no part can hold.
func MakeMMA(tp so3.TensorProduct) (*MadeMMA, error) {
	if err := generable(tp); err != nil {
		return nil, err
	}
	spec, err := mmaSpec(tp)
	if err != nil {
		return nil, err
	}
	name := mmaPrefix + Key(tp)
	text, _ := mmaText(fmt.Sprintf("where it runs for %v x %v -> %v", tp.In1, tp.In2, tp.Out), name, []*Spec{spec})
	return &MadeMMA{Warps: mmaPlan([]*Spec{spec}, 0), Kernel: name, Source: text}, nil
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
	return mmaPlan(specs, n), nil
}

func mmaPlan(specs []*Spec, n int) []MMAWarp {
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
	return all
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
