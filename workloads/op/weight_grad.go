package op

import (
	_ "embed"
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/vec"
)

//go:embed weight_grad.ptx.zst
var weightGradPTX string

// outerBlock is one block of a weight gradient W. W is a sum over rows r of outer products of a block in a's row with a
// block in b's row. The kernel sums each outerChunk rows separately, then adds these partial sums in order. One float32
// sum over all rows would lose digits of small terms. A fixed order gives the same bits for any number of threads:
//
//	W_uv = k sum_r sum_i a_r[aAt + i m1 + u] b_r[bAt + i m3 + v]
type outerBlock struct {
	a, b, w   int // offsets of the blocks in a row of a, in a row of b and in W
	m1, m3, d int
	k         float32
}

// outerSum is one sum over rows with all its blocks. a and b are the widths of a row of a and of b, w is the size of W.
type outerSum struct {
	blocks    []outerBlock
	a, b, w   int
	precision string
	add       bool // add to the existing W
}

const (
	outerChunk = 4096
	outerInts  = 12
	outerRows  = 256 // rows that the host adds at a time
	// A host item takes outerFewest to outerMost copies of a. Their number is a multiple of outerStep, the tile height of
	// package vec's product. More copies reuse a packed row of b more often, but give fewer items. outerTile is the side
	// of a CUDA block's tile.
	outerFewest, outerMost, outerStep = 24, 96, 6
	outerTile                         = 64
)

// An item of weightGradKernel is one tile of one chunk of rows. A tile is outerInts integers: the fields a, b, w, m1,
// m3, d of its block; first copy and number of copies of a, then of b; bits of k; words of work memory per item. An
// item of weightSumKernel is a value of W, an item of roundKernel a value of x.
var (
	weightGradKernel = device.Typed[weightGradArgs](device.Kernel{Name: "weight_grad", Host: weightGradHost, PTX: weightGradPTX, Threads: 256, PerBlock: 1})
	weightSumKernel  = device.Typed[weightSumArgs](device.Kernel{Name: "weight_sum", Host: weightSumHost, Grain: 1 << 12, PTX: weightGradPTX, Threads: 256, PerBlock: 1024})
	roundKernel      = device.Typed[roundInplaceArgs](device.Kernel{Name: "round_inplace", Host: roundHost, Grain: 1 << 14, PTX: weightGradPTX, Threads: 256, PerBlock: 1024})
)

var roundings = map[string]int{TF32: 1, BF16: 2, FP16: 3}

func (o outerSum) tileTable(square bool) (table []int32) {
	for _, b := range o.blocks {
		du, dv := outerCopies(b.m1), max(b.m3, 1)
		if square {
			du, dv = outerTile, outerTile
		}
		for u := 0; u < b.m1; u += du {
			for v := 0; v < b.m3; v += dv {
				table = append(table, int32(b.a), int32(b.b), int32(b.w), int32(b.m1), int32(b.m3), int32(b.d),
					int32(u), int32(min(du, b.m1-u)), int32(v), int32(min(dv, b.m3-v)), int32(math.Float32bits(b.k)), int32(o.itemWork()))
			}
		}
	}
	return table
}

// outerCopies returns the number of copies of a per host item: few enough for at least four items, but within
// outerFewest and outerMost.
func outerCopies(m1 int) int {
	return min(max(ceilDiv(m1, 4*outerStep)*outerStep, outerFewest), outerMost)
}

// itemWork returns how many four-byte words of work memory a host item needs.
func (o outerSum) itemWork() int64 {
	most := 0
	for _, b := range o.blocks {
		most = max(most, min(outerCopies(b.m1), b.m1))
	}
	return int64(vec.WorkT(most, outerRows))
}

// rowFlops counts the operations of one row: per component two for each weight, and one product with k for each copy of
// a.
func (o outerSum) rowFlops() int {
	n := 0
	for _, b := range o.blocks {
		n += b.d * b.m1 * (2*b.m3 + 1)
	}
	return n
}

// weightGrad appends the launches that sum over the given rows, or over edges if rows is negative. With o.precision
// they may round a and b in place.
func (k *binder) weightGrad(o outerSum, a, b, w device.Buffer, rows int) rate {
	capacity, per := k.b.capacity, items{perEdge: 1, per: outerChunk}
	if rows >= 0 {
		capacity, per = rows, items{fixed: ceilDiv(rows, outerChunk)}
	}
	k.checkBuffer("a", a, int64(capacity)*int64(o.a))
	k.checkBuffer("b", b, int64(capacity)*int64(o.b))
	k.checkBuffer("dw", w, int64(o.w))
	if mode := roundings[o.precision]; mode > 0 {
		for _, side := range []struct {
			buf   device.Buffer
			width int
		}{{a, o.a}, {b, o.b}} {
			all, cost := items{perEdge: side.width}, rate{perEdge: Moved(0, side.width, side.width)}
			if rows >= 0 {
				all, cost = items{fixed: rows * side.width}, rate{fixed: Moved(0, rows*side.width, rows*side.width)}
			}
			k.addLaunch(&roundKernel, all, cost, roundInplaceArgs{x: side.buf, count: itemCount, mode: mode})
		}
	}
	tiles := o.tileTable(k.isTiled())
	across := len(tiles) / outerInts
	table := k.uploadInts(tiles)
	chunks := ceilDiv(capacity, outerChunk)
	partial := k.allocateScratch(int64(chunks) * int64(o.w))
	work := k.allocateScratch(o.workWords(capacity, across, k.isTiled()))
	per.times = max(across, 1)
	least := rate{perEdge: Moved(o.rowFlops(), o.a+o.b, 0)}
	count := any(edgeCount)
	if rows >= 0 {
		least, count = rate{fixed: Moved(rows*o.rowFlops(), rows*(o.a+o.b), 0)}, rows
	}
	cost := least
	cost.fixed = cost.fixed.Add(Moved(0, 0, chunks*o.w))
	k.addLaunch(&weightGradKernel, per, cost, weightGradArgs{
		a: a, b: b, partial: partial, tiles: table, work: work, rows: count, aDim: o.a, bDim: o.b, numel: o.w,
		across: across,
	})
	k.addLaunch(&weightSumKernel, items{fixed: o.w}, rate{fixed: o.sumCost(capacity)}, weightSumArgs{
		partial: partial, out: w, count: itemCount, rows: count, add: o.add,
	})
	least.fixed = least.fixed.Add(Moved(0, 0, o.w))
	return least
}

// sumCost returns the cost of adding the partial sums of the given rows.
func (o outerSum) sumCost(rows int) gpuprof.Cost {
	chunks := ceilDiv(rows, outerChunk)
	read := chunks * o.w
	if o.add {
		read += o.w
	}
	return Moved(chunks*o.w, read, o.w)
}

// workWords returns how many four-byte words of work memory all host items need; a GPU needs none.
func (o outerSum) workWords(capacity, across int, tiled bool) int64 {
	if tiled {
		return 1
	}
	return int64(ceilDiv(capacity, outerChunk)) * int64(across) * o.itemWork()
}

// Outer is the gradient of one weight matrix, for a workload that binds its own launches. It sums the rows in chunks:
//
//	a [Rows,M], b [Rows,K] -> w [M,K] = sum over rows of a_ru b_rv, added to w with Add
type Outer struct {
	Rows, M, K int
	Add        bool
}

// OuterBuffers are the arguments of Outer's launches: the arrays A, B and W, and memory that the caller may reuse. The
// methods Partial, Work and Table give the sizes of the buffers of these names; the contents of Table depend on M and
// K.
type OuterBuffers struct{ A, B, W, Partial, Table, Work any }

func (o Outer) outerSum() outerSum {
	return outerSum{blocks: []outerBlock{{m1: o.M, m3: o.K, d: 1, k: 1}}, a: o.M, b: o.K, w: o.M * o.K, add: o.Add}
}

// Table returns the contents of the buffer Table for a kind of device ("host" or a GPU's).
func (o Outer) Table(kind string) []int32 { return o.outerSum().tileTable(kind != "host") }

// Partial returns the number of four-byte words of the partial sums.
func (o Outer) Partial() int64 { return int64(ceilDiv(o.Rows, outerChunk)) * int64(o.M) * int64(o.K) }

// Work returns the number of four-byte words of work memory on a kind of device.
func (o Outer) Work(kind string) int64 {
	return o.outerSum().workWords(o.Rows, len(o.Table(kind))/outerInts, kind != "host")
}

// Launches returns the launches: the partial sums of every chunk, then their sum.
func (o Outer) Launches(kind string, b OuterBuffers) []Launch {
	all, across := o.outerSum(), len(o.Table(kind))/outerInts
	chunks, sum := ceilDiv(o.Rows, outerChunk), all.sumCost(o.Rows)
	return []Launch{
		{Kernel: &weightGradKernel, N: chunks * across, Cost: Moved(o.Rows*all.rowFlops(), o.Rows*(o.M+o.K), chunks*all.w),
			Args: weightGradArgs{
				a: b.A, b: b.B, partial: b.Partial, tiles: b.Table, work: b.Work, rows: o.Rows, aDim: all.a,
				bDim: all.b, numel: all.w, across: across,
			}},
		{Kernel: &weightSumKernel, N: all.w, Cost: sum, Args: weightSumArgs{
			partial: b.Partial, out: b.W, count: all.w, rows: o.Rows, add: o.Add,
		}},
	}
}

// RoundInPlace returns a launch that rounds n values of x in place to tf32, bf16 or fp16.
func RoundInPlace(x any, n int, precision string) Launch {
	return Launch{Kernel: &roundKernel, N: n, Cost: Moved(0, n, n), Args: roundInplaceArgs{
		x: x, count: n, mode: roundings[precision],
	}}
}

// LinearWeightGrad is the gradient of a Linear's weights:
//
//	x [rows,In.Dim], dout [rows,Out.Dim] -> dw [WeightNumel]
//	dw_uw = sum over rows and i of x_ui dout_wi / sqrt(fan-in)
type LinearWeightGrad struct {
	Linear Linear
	Add    bool // add to the existing dw
}

func (g LinearWeightGrad) outerSum() outerSum {
	l := g.Linear
	o := outerSum{a: l.In.Dim(), b: l.Out.Dim(), w: l.WeightNumel(), add: g.Add}
	pairs, coefficients := l.pairTable()
	for p, k := range coefficients {
		q := pairs[p*pairInts:]
		o.blocks = append(o.blocks, outerBlock{int(q[0]), int(q[1]), int(q[2]), int(q[3]), int(q[4]), int(q[5]), k})
	}
	return o
}

// Bind binds the operation for the given number of rows.
func (g LinearWeightGrad) Bind(dev device.Device, x, dout, dw device.Buffer, rows int) (*Bound, error) {
	k := newBinder(dev, "gradient of linear weights", 0)
	k.checkLinear(g.Linear, rows)
	rows = max(rows, 0)
	if g.Linear.Layout == MulIr {
		x, dout = k.addToIrMul(g.Linear.In, x, rows), k.addToIrMul(g.Linear.Out, dout, rows)
	}
	k.b.minimum = k.weightGrad(g.outerSum(), x, dout, dw, rows)
	return k.finishBinding()
}

// MLPWeightGrad is the gradient of an MLP's weights, from the results of BindKept and MLPGrad. A precision below fp32
// rounds b, da, h and dw in place, to the values that the other products of the MLP use:
//
//	b [E,In], da [E,Hidden] -> dw1 [In,Hidden] = s1 b^T da
//	h [E,Hidden], dw [E,Out] -> dw2 [Hidden,Out] = s2 h^T dw
type MLPWeightGrad struct {
	MLP MLP
	Add bool // add to the existing dw1 and dw2
}

func (g MLPWeightGrad) outerSums() (first, second outerSum) {
	m := g.MLP
	one, two := m.gemmLayers()
	of := func(l Gemm) outerSum {
		return outerSum{[]outerBlock{{m1: l.K, m3: l.N, d: 1, k: l.Scale}}, l.K, l.N, l.K * l.N, m.Precision, g.Add}
	}
	return of(one), of(two)
}

// Bind binds the operation for up to edgeCap edges.
func (g MLPWeightGrad) Bind(dev device.Device, b, da, h, dw, dw1, dw2 device.Buffer, edgeCap int) (*Bound, error) {
	k := newBinder(dev, "gradient of mlp weights", edgeCap)
	k.checkPositive("In", g.MLP.In)
	k.checkPositive("Hidden", g.MLP.Hidden)
	k.checkPositive("Out", g.MLP.Out)
	first, second := g.outerSums()
	k.b.minimum = k.weightGrad(first, b, da, dw1, -1).add(k.weightGrad(second, h, dw, dw2, -1))
	return k.finishBinding()
}

// BindWeightGrad binds the gradient of a readout's factors, da [Count] = sum over rows of drho x; see Readout.
func (r Readout) BindWeightGrad(dev device.Device, drho, x, da device.Buffer, rows int) (*Bound, error) {
	k := newBinder(dev, "gradient of a readout", 0)
	k.checkReadout(r, rows)
	k.b.minimum = k.weightGrad(r.outerSum(), drho, x, da, max(rows, 0))
	return k.finishBinding()
}

func (r Readout) outerSum() outerSum {
	return outerSum{blocks: []outerBlock{{b: r.First, m1: 1, m3: r.Count, d: 1, k: 1}}, a: 1, b: r.Width, w: r.Count, add: r.Add}
}
