package tpgen

import (
	"cmp"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof/workloads/so3"
)

const (
	// warpLanes is the number of lanes of a warp, and the largest number of edges per batch.
	warpLanes = 32
	// matrixFloats is the maximum number of floats of shared memory for the M of a warp's batch. The system reserves one
	// more KiB per block. So 16 warps use 196 KiB of the 256 KiB that an H100 divides between shared memory and L1 cache,
	// and leave 60 KiB to the cache.
	matrixFloats = 2872
	// leastBatch is the least number of edges whose M a warp builds together, one lane per edge. The other lanes are then
	// idle.
	leastBatch = 8
	// edgeRegisters limits the registers in which a lane holds data of an edge: sums, features x, weights and products.
	// With 16 warps on a multiprocessor a lane has 128 registers; the other 32 hold addresses and elements of the edge's
	// matrix M.
	edgeRegisters = 96
	// scalarRoom is Family.Room for scalar features, whose code is short in every family.
	scalarRoom = 88
	// bytesPerIssue is the number of bytes that the second-level cache of an H100 delivers per instruction issued,
	// counting the issues of all multiprocessors.
	bytesPerIssue = 5
)

// Part is a warp's share of a product. Its code does not depend on the offsets of its blocks in a row, so products may
// share it.
type Part struct {
	L1, Copies int // Copies is the number of channels per lane
	Mul        int // multiplicity of each merged block: the distance between components in x and in the output
	Sums       int // number of a channel's sums: the output components of all paths
	Stride     int // floats of M per edge
	Batch      int // number of edges whose M a warp builds together
	Ahead      int // a weight is read this many paths before its use
	PairedOut  bool
	hold       bool    // Family.Hold
	paths      []*path // in the order of computation
	columns    []int   // offset of each path's weights from the part's first column
	columnAt   []int   // the part's first column in a row of weights; in an XPart also its first dz in a row of dz
	// Cost is the number of instructions that a warp executes per edge, plus the number that could be issued while the
	// cache delivers x and the harmonics. The second term makes a fine cut costly, because its warps read these more
	// often.
	Cost float64
}

// Math counts the fp32 multiplications and additions of a lane for an edge.
func (p *Part) Math() int {
	n := 0
	for _, q := range p.paths {
		_, products := q.weightSide()
		n += p.Copies * (q.cells + products)
	}
	return n
}

// Spec is a product cut into parts.
type Spec struct {
	TP      so3.TensorProduct
	Parts   []*Part
	Blocks  [][]int // the merged blocks of In1 that each part computes
	Columns Columns
	own     bool // the weights are in the order of the product's instructions
}

func (s *Spec) cutParts() (so3.TensorProduct, []*Part) { return s.TP, s.Parts }

func (p *Part) pathList() []*path { return p.paths }

// Straight reports whether the weights are in the order of the product's instructions.
func (s *Spec) Straight() bool { return s.own }

// Columns gives the columns of a product's weights in a row of Stride columns: the weights of instruction i start at
// At[i]. Some columns may belong to no instruction.
type Columns struct {
	At     []int
	Stride int
}

// group holds the merged blocks of one degree and multiplicity, and their paths.
type group struct {
	blocks []int
	mul    int
	paths  []*path
}

type rules struct {
	room int  // Family.Room
	hold bool // Family.Hold
}

func anyCopies() []int { return []int{1, 2, 4} }

// cutProduct cuts a uvu product with weights and harmonics of multiplicity 1 into parts.
func cutProduct(tp so3.TensorProduct, r rules) (*Spec, error) {
	groups, err := merge(tp)
	if err != nil {
		return nil, err
	}
	s := &Spec{TP: tp, Columns: Columns{At: make([]int, len(tp.Instructions))}}
	for _, g := range groups {
		copies := slices.DeleteFunc(anyCopies(), func(n int) bool { return !isAligned(tp, g, n) })
		for _, p := range cutGroup(g, copies, func(paths []*path, copies int) *Part { return newPart(tp, g, paths, copies, r) }) {
			s.Parts, s.Blocks = append(s.Parts, p), append(s.Blocks, g.blocks)
		}
	}
	s.placeWeights()
	s.Parts, s.Blocks = longestFirst(s.Parts, s.Blocks)
	return s, nil
}

// costs is the constraint for types of parts, *Part and *GradPart. A nil part means that its paths do not fit into one
// part.
type costs interface {
	comparable
	cost() float64
}

func (p *Part) cost() float64     { return p.Cost }
func (p *GradPart) cost() float64 { return p.Cost }

// longestFirst orders parts, each with its blocks, by decreasing cost, so that the last warps to start are short.
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

// merge groups the blocks of the features by degree and multiplicity, and collects the paths of each group. Equal paths
// of different blocks become one.
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
	// Blocks of natural parity come first, because blocks of unnatural parity may lack the path into scalars.
	for _, g := range groups {
		slices.SortStableFunc(g.blocks, func(a, b int) int { return cmp.Compare(unnaturalParity(tp.In1[a].Ir), unnaturalParity(tp.In1[b].Ir)) })
		for i, b := range g.blocks {
			place[b] = i
		}
	}
	yAt := tp.In2.Offsets()
	for n, ins := range tp.Instructions {
		g := at[ins.In1]
		t := triple{tp.In1[ins.In1].Ir.L, tp.In2[ins.In2].Ir.L, tp.Out[ins.Out].Ir.L, yAt[ins.In2], coefficients[n]}
		// A block may have the same path twice, into two outputs: keep two.
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

// cutGroup cuts a group's ordered paths into parts with the least total cost. The argument part makes one part of some
// paths for the given copies per lane, or returns nil if they do not fit.
func cutGroup[P costs](g *group, copies []int, part func(paths []*path, copies int) P) []P {
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
		// total[n] is the least cost of the first n paths, from[n] the first path of the last part in that cut.
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

// isAligned reports whether a lane can read as many consecutive channels as copies in one vector access. This depends
// on the offsets of the group's blocks in a row of In1.
func isAligned(tp so3.TensorProduct, g *group, copies int) bool {
	at := tp.In1.Offsets()
	return tp.In1.Dim()%copies == 0 && !slices.ContainsFunc(g.blocks, func(b int) bool { return at[b]%copies != 0 })
}

// newPart makes one part of the given paths. It returns nil if they need too many registers or too much shared memory.
func newPart(tp so3.TensorProduct, g *group, paths []*path, copies int, r rules) *Part {
	p := &Part{L1: paths[0].l1, Copies: copies, Mul: g.mul, paths: slices.Clone(paths), PairedOut: tp.Out.Dim()%copies == 0, hold: r.hold}
	slots, cells, products, terms, widest, d1 := 0, 0, 0, 0, 0, paths[0].d1()
	ys, most := map[int]bool{}, 0
	at := tp.Out.Offsets()
	for _, q := range paths {
		_, n := q.weightSide()
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
	// With an odd number of float4, eight lanes that write at once use different banks of shared memory.
	p.Stride = 4 * (fours | 1)
	p.Batch = min(warpLanes, matrixFloats/p.Stride)
	p.Ahead = min(len(paths), min(edgeRegisters-copies*(p.Sums+d1+widest), room-copies*(p.Sums+d1)-most)/copies)
	if p.Batch < leastBatch || p.Ahead < min(2, len(paths)) {
		return nil
	}
	loop := copies*(cells+products) + len(paths) + d1 + fours + 12
	rows := copies*p.Sums + 2*len(paths)
	read := 4 * (copies*d1*warpLanes + len(ys))
	p.Cost = float64(loop) + float64(read)/bytesPerIssue + float64(terms+fours+len(ys))/float64(p.Batch) + float64(rows)/warpLanes
	// The last path should multiply x by its weight. After that it no longer needs x, so that x of the next edge is read
	// while most of the work is still to do.
	last := -1
	for i, q := range p.paths {
		if side, _ := q.weightSide(); side == onX && (last < 0 || q.cells > p.paths[last].cells) {
			last = i
		}
	}
	if last >= 0 {
		q := p.paths[last]
		p.paths = append(slices.Delete(p.paths, last, last+1), q)
	}
	return p
}

// placeWeights assigns columns to the weights. It keeps the order of the product's instructions if every lane can then
// read its weights as aligned vectors. Otherwise it assigns the columns part by part. Every path has a column per
// channel of the merged blocks, except for trailing blocks without that path. The next path begins at a multiple of
// four.
func (s *Spec) placeWeights() {
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

// placePart assigns columns of a row of weights to a part's paths, from column first on. Paths into scalars come
// last. Within both groups the paths that some merged block lacks come last, so that all other paths have the same
// columns in every product. It returns the first column of the next part, and the end of the columns read so far.
// This end can be larger: for a path that a block lacks, the block's lanes read columns of later paths and do not use
// them.
func (s *Spec) placePart(p *Part, first, read int) (int, int) {
	width := len(p.paths[0].instructions) * p.Mul
	order := make([]int, len(p.paths))
	for i := range order {
		order[i] = i
	}
	lacks := func(i int) int { return asInt(slices.Contains(p.paths[i].instructions, -1)) }
	// The last two keys are degrees: unlike the order in which the part computes its paths, they are the same in every
	// product.
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := p.paths[a], p.paths[b]
		return cmp.Or(cmp.Compare(intoScalars(x), intoScalars(y)), cmp.Compare(lacks(a), lacks(b)), cmp.Compare(x.l2, y.l2), cmp.Compare(x.l3, y.l3))
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

// unnaturalParity returns 1 if the parity of the irrep differs from the parity of harmonics of its degree, otherwise 0.
func unnaturalParity(ir so3.Irrep) int { return asInt((ir.L%2 == 0) != (ir.P == 1)) }

// intoScalars returns 1 for a path into scalars, otherwise 0. A model without pseudoscalars lacks such paths.
func intoScalars(p *path) int { return asInt(p.l3 == 0) }

func asInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
