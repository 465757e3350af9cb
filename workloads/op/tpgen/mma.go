package tpgen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/workloads/so3"
)

// Kernels that compute their weights on the tensor cores (tensorproduct_mma.cuh): a block keeps the columns of W2
// that one warp's part needs in shared memory, and each of its warps computes the weights of MMABatch edges of a
// segment before it adds those edges. Parts are narrower than in kernels that read weights: a lane has one channel,
// and a part as many paths as leave shared memory for some warps.

const (
	// MMABatch is the number of edges whose weights are computed at once, the rows of a fragment.
	MMABatch = 16
	// MMADepth is the longest hidden layer, in steps of 8 values; a block keeps W2's columns up to this length.
	MMADepth = 13
	// mmaPaths bounds the paths of a part: 32 x 7 columns of 104 values take 93 KB of the 227 KB that a block of an
	// sm_90 can have, and leave room for six warps.
	mmaPaths = 7
	// mmaRoom is Family.Room of these parts: they read no weights ahead, and a block of few warps leaves a lane 255
	// registers.
	mmaRoom = 160
)

// MMAFamilies returns the families with a kernel for tensor cores: the product for which it was designed, and the
// smallest. Each adds 14 to 17 kB of PTX to the program; deepaw's two would add 83.
func MMAFamilies() []Family {
	return slices.DeleteFunc(Families(), func(f Family) bool { return f.Name != "small" && f.Name != "mace_large" })
}

// localRules limits parts whose weights are in shared memory: the most paths, the edges of a batch, and the values of
// a hidden layer; the zero value sets no limit.
type localRules struct{ paths, batch, hidden int }

func (l localRules) allows(p *Part) bool {
	return l.paths == 0 || len(p.paths) <= l.paths && p.Batch == l.batch && p.Ahead >= len(p.paths)
}

// readCost returns the cost of reading an edge's hidden layer, which every part does.
func (l localRules) readCost() float64 { return float64(4*l.hidden) / bytesPerIssue }

// mmaSpec cuts a product for the tensor cores.
func mmaSpec(tp so3.TensorProduct) (*Spec, error) {
	spec, err := cutProduct(tp, rules{room: mmaRoom, copies: []int{1}, batch: MMABatch, hold: true, local: localRules{mmaPaths, MMABatch, 8 * MMADepth}})
	if err != nil {
		return nil, err
	}
	if !coversPaths(tp, spec.allPaths()) {
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

// MMASource returns the .cu of a family's kernel for tensor cores, and its parts in the order of their numbers.
func MMASource(f Family) (text string, parts []*Part, err error) {
	specs, err := f.mmaSpecs()
	if err != nil {
		return "", nil, err
	}
	text, parts = mmaText("by workloads/op/tpgen/gen for "+layersOf(f), mmaPrefix+f.Name, specs)
	return text, parts, nil
}

const mmaPrefix = "tp_mma_"

// mmaText returns the source of a kernel: the source of a kernel that reads weights, with another loop around the
// parts.
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

// MadeMMA is a kernel for tensor cores, generated at run time for a product that no family has.
type MadeMMA struct {
	Warps          []MMAWarp
	Kernel, Source string // its name in Source, CUDA C++ that includes tensorproduct_mma.cuh
}

// MakeMMA cuts a uvu product with weights and harmonics of multiplicity 1 for the tensor cores and writes its source.
// The error names the paths that no part can hold.
func MakeMMA(tp so3.TensorProduct) (*MadeMMA, error) {
	if err := checkGenerable(tp); err != nil {
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

// MMAWarp is one warp's part of a product with the arguments of its kernel.
type MMAWarp struct {
	Number, Paths  int
	Stride         int // floats of M an edge
	Active         int // lanes that write
	X, Copy        [warpLanes]int
	Weights, Place [warpLanes][]int // of every path: its instruction, and where the lane writes; -1 without
}

// MMAPlan returns the warps of layer number n of a family for the tensor cores.
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
			number, _ := numbers.numberOf(p.codeKey())
			if i == n {
				all = append(all, spec.mmaWarps(k, number)...)
			}
		}
	}
	return all
}

// mmaWarps returns the warps of part number k.
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

// writeTaken writes the reads of an edge's weights, which a batch keeps in shared memory, one row per edge.
func (w writer) writeTaken() {
	for i := range w.p.paths {
		if w.p.local {
			w.writeLine("  w[%d] = wp[%d];", i, w.p.columns[i])
		}
	}
}
