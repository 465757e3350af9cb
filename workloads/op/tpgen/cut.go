package tpgen

import (
	"cmp"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof/workloads/so3"
)

const (
	// warpLanes are the lanes of a warp, and the most edges of a batch.
	warpLanes = 32
	// matrixFloats is the room of a warp's M in shared memory. With the KiB that the
	// system takes for each block, 16 warps take 196 KiB of an H100's 256, which is one
	// of the sizes it can set apart; 60 are left for the first-level cache.
	matrixFloats = 2872
	// leastBatch edges are built at once at the least: the others of the 32 lanes idle.
	leastBatch = 8
	// edgeRegisters are what a lane may have of sums, x, weights and products while it
	// adds an edge, of the 128 that 16 warps leave each. The rest are addresses and cells.
	edgeRegisters = 96
	// scalarRoom is Family.Room for scalar features, whose code is short whatever the family.
	scalarRoom = 88
	// bytesPerIssue is what the second-level cache of an H100 delivers in the time of one
	// instruction, of those that all multiprocessors can issue.
	bytesPerIssue = 5
)

// Part is a warp's share of a product. Its code depends on all but the blocks'
// places, so several products may have it in common.
type Part struct {
	L1, Copies int // channels of a lane
	Mul        int // of each merged block: the step between components of x and out
	Sums       int // components of all outputs
	Stride     int // floats of M an edge
	Batch      int // edges whose M is built at once
	Ahead      int // paths between reading a weight and using it
	PairedOut  bool
	hold       bool    // Family.Hold
	paths      []*path // in the order in which they are computed
	columns    []int   // where each has its weights, from the part's first column on
	columnAt   []int   // the same from the start of a row: one for each merged block
	local      bool    // its weights are in shared memory, see mma.go
	// Cost is the instructions that a warp executes for an edge, and as many as could be
	// executed while the cache delivers what it reads again because of the cut.
	Cost float64
}

// Math is the fp32 products and sums of a lane for an edge.
func (p *Part) Math() int {
	n := 0
	for _, q := range p.paths {
		_, products := q.side()
		n += p.Copies * (q.cells + products)
	}
	return n
}

// Spec is a product cut into parts.
type Spec struct {
	TP      so3.TensorProduct
	Parts   []*Part
	Blocks  [][]int // of every part: the merged blocks of In1
	Columns Columns
	own     bool // the columns are the product's own
}

// Straight says that the weights lie where the product itself has them.
func (s *Spec) Straight() bool { return s.own }

// Columns is where the weights of a product lie in a row: those of instruction i
// from At[i] on. Between them there may be columns that belong to none.
type Columns struct {
	At     []int
	Stride int
}

// group is the merged blocks of one degree.
type group struct {
	blocks []int
	mul    int
	paths  []*path
}

// rules are what a cut may do.
type rules struct {
	room   int   // Family.Room
	copies []int // of a lane
	batch  int   // the most edges of a batch
	hold   bool  // Family.Hold
	local  localRules
}

// anyCopies are what a lane of a generated product may have.
func anyCopies() []int { return []int{1, 2, 4} }

// cut makes the parts of a uvu product with weights and harmonics of multiplicity 1.
func cut(tp so3.TensorProduct, r rules) (*Spec, error) {
	groups, err := merge(tp)
	if err != nil {
		return nil, err
	}
	s := &Spec{TP: tp, Columns: Columns{At: make([]int, len(tp.Instructions))}}
	for _, g := range groups {
		copies := slices.DeleteFunc(slices.Clone(r.copies), func(n int) bool { return !aligned(tp, g, n) })
		for _, p := range best(g, copies, func(paths []*path, copies int) *Part { return newPart(tp, g, paths, copies, r) }) {
			s.Parts, s.Blocks = append(s.Parts, p), append(s.Blocks, g.blocks)
		}
	}
	s.place()
	s.Parts, s.Blocks = longestFirst(s.Parts, s.Blocks)
	return s, nil
}

// costs is a part, nil where paths make none.
type costs interface {
	comparable
	cost() float64
}

func (p *Part) cost() float64     { return p.Cost }
func (p *GradPart) cost() float64 { return p.Cost }

// longestFirst orders parts and their blocks by cost: what is left at the end is short.
func longestFirst[P costs](parts []P, blocks [][]int) ([]P, [][]int) {
	order := make([]int, len(parts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(parts[b].cost(), parts[a].cost()) })
	var toParts []P
	var toBlocks [][]int
	for _, i := range order {
		toParts, toBlocks = append(toParts, parts[i]), append(toBlocks, blocks[i])
	}
	return toParts, toBlocks
}

// merge collects the paths of every degree, those of blocks that are merged once.
func merge(tp so3.TensorProduct) ([]*group, error) {
	coefficients, err := tp.PathCoefficients()
	if err != nil {
		return nil, err
	}
	var groups []*group
	at, place := make([]*group, len(tp.In1)), make([]int, len(tp.In1))
	for b, m := range tp.In1 {
		i := slices.IndexFunc(groups, func(g *group) bool { return tp.In1[g.blocks[0]].Ir.L == m.Ir.L && g.mul == m.Mul })
		if i < 0 {
			i = len(groups)
			groups = append(groups, &group{mul: m.Mul})
		}
		groups[i].blocks = append(groups[i].blocks, b)
		at[b] = groups[i]
	}
	// Those of natural parity first: the others may lack the path into scalars.
	for _, g := range groups {
		slices.SortStableFunc(g.blocks, func(a, b int) int { return cmp.Compare(unnatural(tp.In1[a].Ir), unnatural(tp.In1[b].Ir)) })
		for i, b := range g.blocks {
			place[b] = i
		}
	}
	yAt := tp.In2.Offsets()
	for n, ins := range tp.Instructions {
		g := at[ins.In1]
		t := triple{tp.In1[ins.In1].Ir.L, tp.In2[ins.In2].Ir.L, tp.Out[ins.Out].Ir.L, yAt[ins.In2], coefficients[n]}
		// A block may have a path twice, into two outputs: then there are two.
		i := slices.IndexFunc(g.paths, func(p *path) bool { return p.triple == t && p.instructions[place[ins.In1]] < 0 })
		if i < 0 {
			p, err := newPath(t, len(g.blocks))
			if err != nil {
				return nil, err
			}
			i = len(g.paths)
			g.paths = append(g.paths, p)
		}
		g.paths[i].instructions[place[ins.In1]] = n
	}
	for _, g := range groups {
		slices.SortStableFunc(g.paths, func(a, b *path) int { return cmp.Or(cmp.Compare(a.l2, b.l2), cmp.Compare(a.l3, b.l3)) })
	}
	return groups, nil
}

// best cuts a group's paths, in order, where it costs least: part makes one of some paths with so many
// copies a lane, nil where that cannot be.
func best[P costs](g *group, copies []int, part func(paths []*path, copies int) P) []P {
	if g.mul == 0 || len(g.paths) == 0 {
		return nil
	}
	var none P
	var found []P
	least := math.Inf(1)
	for _, copies := range copies {
		if g.mul%copies != 0 {
			continue
		}
		lanes := len(g.blocks) * g.mul / copies
		warps := float64((lanes + warpLanes - 1) / warpLanes)
		// total[n] is the least cost of the first n paths, from[n] where their last part begins.
		total, from := make([]float64, len(g.paths)+1), make([]int, len(g.paths)+1)
		for n := 1; n <= len(g.paths); n++ {
			total[n] = math.Inf(1)
			for first := range n {
				if p := part(g.paths[first:n], copies); p != none && total[first]+p.cost() < total[n] {
					total[n], from[n] = total[first]+p.cost(), first
				}
			}
		}
		if warps*total[len(g.paths)] >= least {
			continue
		}
		least, found = warps*total[len(g.paths)], nil
		for n := len(g.paths); n > 0; n = from[n] {
			found = append(found, part(g.paths[from[n]:n], copies))
		}
		slices.Reverse(found)
	}
	return found
}

// aligned says that the copies of a lane can be read as one vector.
func aligned(tp so3.TensorProduct, g *group, copies int) bool {
	at := tp.In1.Offsets()
	return tp.In1.Dim()%copies == 0 && !slices.ContainsFunc(g.blocks, func(b int) bool { return at[b]%copies != 0 })
}

// newPart is the paths as one part, nil where they take too many registers or too
// much shared memory.
func newPart(tp so3.TensorProduct, g *group, paths []*path, copies int, r rules) *Part {
	p := &Part{L1: paths[0].l1, Copies: copies, Mul: g.mul, paths: slices.Clone(paths), PairedOut: tp.Out.Dim()%copies == 0, hold: r.hold}
	slots, cells, products, terms, widest, d1 := 0, 0, 0, 0, 0, paths[0].d1()
	ys, most := map[int]bool{}, 0
	at := tp.Out.Offsets()
	for _, q := range paths {
		_, n := q.side()
		slots, cells, products, terms, widest = slots+len(q.slots), cells+q.cells, products+n, terms+q.terms, max(widest, n)
		p.Sums += q.d3()
		most = max(most, 2*q.l2+1)
		for j := range 2*q.l2 + 1 {
			ys[q.yAt+j] = true
		}
		for _, ins := range q.instructions {
			if ins >= 0 && at[tp.Instructions[ins].Out]%copies != 0 {
				p.PairedOut = false
			}
		}
	}
	room := r.room
	if p.L1 == 0 {
		room = max(room, scalarRoom)
	}
	fours := (slots + 3) / 4
	// An odd number of float4: eight lanes that write at once meet in no bank.
	p.Stride = 4 * (fours | 1)
	p.Batch = min(r.batch, matrixFloats/p.Stride)
	p.Ahead = min(len(paths), min(edgeRegisters-copies*(p.Sums+d1+widest), room-copies*(p.Sums+d1)-most)/copies)
	if p.Batch < leastBatch || p.Ahead < min(2, len(paths)) || !r.local.allow(p) {
		return nil
	}
	loop := copies*(cells+products) + len(paths) + d1 + fours + 12
	rows := copies*p.Sums + 2*len(paths)
	read := 4 * (copies*d1*warpLanes + len(ys))
	p.Cost = float64(loop) + float64(read)/bytesPerIssue + float64(terms+fours+len(ys))/float64(p.Batch) + float64(rows)/warpLanes + r.local.cost()
	// The last path multiplies x by its weight and is done with it, so that the
	// next edge's x is read while most is still to do.
	last := -1
	for i, q := range p.paths {
		if side, _ := q.side(); side == onX && (last < 0 || q.cells > p.paths[last].cells) {
			last = i
		}
	}
	if last >= 0 {
		q := p.paths[last]
		p.paths = append(slices.Delete(p.paths, last, last+1), q)
	}
	return p
}

// place puts the weights where the parts read them: in the order of the
// product's own where every lane's are aligned there, else part by part. Every
// path then has a column for each channel of the merged blocks, all but those of
// the last blocks that have no such path, and the next begins at a multiple of
// four.
func (s *Spec) place() {
	own := s.TP.WeightOffsets()
	straight := s.TP.WeightNumel()%4 == 0
	for i, p := range s.Parts {
		for _, q := range p.paths {
			straight = straight && len(s.Blocks[i]) == 1 && own[q.instructions[0]]%p.Copies == 0
		}
	}
	if straight {
		s.Columns, s.own = Columns{At: own, Stride: s.TP.WeightNumel()}, true
		for _, p := range s.Parts {
			first := slices.MinFunc(p.paths, func(a, b *path) int { return own[a.instructions[0]] - own[b.instructions[0]] })
			p.columnAt = []int{own[first.instructions[0]]}
			for _, q := range p.paths {
				p.columns = append(p.columns, own[q.instructions[0]]-p.columnAt[0])
			}
		}
		return
	}
	next, read := 0, 0
	for _, p := range s.Parts {
		next, read = s.placePart(p, next, read)
	}
	s.Columns.Stride = (max(next, read) + 3) / 4 * 4
}

// placePart places a part's paths from column first on. Those that some block
// lacks come last, so that the others' places are the same in every product. It
// returns where the next part begins, and how far lanes read until now: those of a
// block without the last path read what follows, and it reaches no output.
func (s *Spec) placePart(p *Part, first, read int) (int, int) {
	width := len(p.paths[0].instructions) * p.Mul
	order := make([]int, len(p.paths))
	for i := range order {
		order[i] = i
	}
	lacks := func(i int) int {
		if slices.Contains(p.paths[i].instructions, -1) {
			return 1
		}
		return 0
	}
	// In the order of degrees: the order of computing depends on what the part has.
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := p.paths[a], p.paths[b]
		return cmp.Or(cmp.Compare(zero(x), zero(y)), cmp.Compare(lacks(a), lacks(b)), cmp.Compare(x.l2, y.l2), cmp.Compare(x.l3, y.l3))
	})
	p.columnAt = []int{first}
	p.columns = make([]int, len(p.paths))
	next := first
	for _, i := range order {
		q := p.paths[i]
		p.columns[i] = next - first
		end := 0
		for b, ins := range q.instructions {
			if ins >= 0 {
				s.Columns.At[ins] = next + b*p.Mul
				end = (b + 1) * p.Mul
			}
		}
		read = max(read, next+width)
		next += (end + 3) / 4 * 4
	}
	return next, read
}

// unnatural is 1 where the parity is not that of harmonics.
func unnatural(ir so3.Irrep) int {
	if (ir.L%2 == 0) == (ir.P == 1) {
		return 0
	}
	return 1
}

// zero is 1 for a path into scalars: the one that a model without pseudoscalars lacks.
func zero(p *path) int {
	if p.l3 == 0 {
		return 1
	}
	return 0
}
