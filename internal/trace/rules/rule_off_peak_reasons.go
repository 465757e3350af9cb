package rules

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/lazyregexp"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// leastWaveLoss is the least share of multiprocessor time that the last wave must leave free to count as a cause.
const leastWaveLoss = 0.1

// tileSize matches the tile of a product in kernel names of cuBLAS and CUTLASS: 128x256.
var tileSize = lazyregexp.New(`(?:_|tilesize)(\d{2,3})x(\d{2,3})[x_]`)

// productGrid describes how a kernel divides a matrix product among multiprocessors.
type productGrid struct {
	rows, columns int64   // tile size, elements
	blocks, sms   int64   // thread blocks of the kernel, and multiprocessors of the device; 0 unknown
	splits        int64   // split-K: blocks per tile, each for a part of K; 1 without split-K, 0 unknown
	sumsNS, sums  int64   // time (ns) and number of the kernels that add up the parts of split-K
	fill          float64 // share of the elements of all tiles that the product needs; 0 unknown
}

func (g *productGrid) waves() int64 { return (g.blocks + g.sms - 1) / g.sms }

// waveLoss returns the share of multiprocessor time that the last wave leaves free, 0 unknown (wave quantization:
// NVIDIA's Matrix Multiplication Background User's Guide). The rule small-grid covers products of a single wave.
func (g *productGrid) waveLoss() float64 {
	if g.blocks <= g.sms || g.sms == 0 {
		return 0
	}
	return 1 - float64(g.blocks)/float64(g.waves()*g.sms)
}

// reasons lists the causes that keep a product below the peak, with figures.
func (g *productGrid) reasons() []string {
	var out []string
	if loss := g.waveLoss(); loss >= leastWaveLoss {
		out = append(out, fmt.Sprintf("%d tiles of %dx%d on %d multiprocessors need %d rounds, %.0f %% of which stay empty",
			g.blocks, g.rows, g.columns, g.sms, g.waves(), 100*loss))
	}
	if g.fill > 0 && g.fill < 1-leastWaveLoss {
		out = append(out, fmt.Sprintf("the sizes fill %.0f %% of the tiles of %dx%d", 100*g.fill, g.rows, g.columns))
	}
	if g.splits > 1 {
		out = append(out, fmt.Sprintf("split-K computes each tile of %dx%d in %d parts", g.rows, g.columns, g.splits))
	}
	if g.sums > 0 {
		out = append(out, "split-K adds up its parts in a kernel of "+gpuprof.FormatNS(g.sumsNS/g.sums))
	}
	return out
}

// readGrids returns the grids of the matrix products in the steps that are not dropped, by operator. It fills in the
// tiles only if the kernel's grid fits them (see tilesOf), unlike the grids of persistent kernels and batches.
func (c *ruleContext) readGrids(r *analyze.Roofline) map[*analyze.RooflineOperator]productGrid {
	out := map[*analyze.RooflineOperator]productGrid{}
	for _, d := range c.devices {
		for _, g := range d.Ops {
			op := &c.t.GPU[g]
			if r.Rows[g] < 0 || !c.x.Steady.Contains(op.Start) {
				continue
			}
			o := &r.Operators[r.Rows[g]]
			if len(o.Product) != 3 {
				continue
			}
			grid, name := out[o], c.t.Name(op.Name)
			if isSplitSum(name) {
				grid.sumsNS, grid.sums = grid.sumsNS+op.Dur(), grid.sums+1
			} else if rows, columns, parts := tilesOf(name, o.Product, op.Blocks); parts > 0 && grid.rows == 0 {
				grid.rows, grid.columns = rows, columns
				grid.fill = float64(o.Product[0]) * float64(o.Product[1]) * float64(parts) / (float64(op.Blocks) * float64(rows) * float64(columns))
				if grid.splits = parts; parts == 1 {
					grid.blocks, grid.sms = op.Blocks, int64(d.props.SMs)
				}
			}
			out[o] = grid
		}
	}
	return out
}

func isSplitSum(kernel string) bool {
	return strings.Contains(kernel, "splitKreduce") || strings.Contains(kernel, "SplitKReduce") || strings.Contains(kernel, "splitk_reduce")
}

// tilesOf returns the tile size in a kernel's name if a grid of this many blocks covers M and N of the product with one
// block per tile; with split-K, with an equal number of blocks per tile. parts is the number of blocks per tile, 0 if
// the grid does not fit. It tries both orders of the tile's sides, because cuBLAS computes products of row-major
// matrices transposed.
func tilesOf(kernel string, product []int64, blocks int64) (rows, columns, parts int64) {
	m := tileSize.FindStringSubmatch(kernel)
	if m == nil || blocks <= 0 {
		return 0, 0, 0
	}
	a, _ := strconv.ParseInt(m[1], 10, 64)
	b, _ := strconv.ParseInt(m[2], 10, 64)
	if a == 0 || b == 0 {
		return 0, 0, 0
	}
	split := strings.Contains(strings.ToLower(kernel), "splitk")
	for _, t := range [][2]int64{{a, b}, {b, a}} {
		tiles := ((product[0]-1)/t[0] + 1) * ((product[1]-1)/t[1] + 1)
		if tiles == blocks || split && tiles > 0 && blocks%tiles == 0 {
			return t[0], t[1], blocks / tiles
		}
	}
	return 0, 0, 0
}
