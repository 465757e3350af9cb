package op

import "github.com/gpuprof/gpuprof/workloads/device"

func transposeHost(args *device.Args, lo, hi int) {
	a := device.View[transposeView](args)
	x, out, table := a.x.Floats(), a.out.Floats(), a.table.Ints()
	dim, blocks, add := a.dim.Int(), a.blocks.Int(), a.add.Int() != 0
	for r := lo; r < hi; r++ {
		src, dst := x[r*dim:(r+1)*dim], out[r*dim:(r+1)*dim]
		for b := range blocks {
			at, rows, cols := int(table[4*b]), int(table[4*b+1]), int(table[4*b+2])
			transposeBlock(src[at:at+rows*cols], dst[at:at+rows*cols], rows, cols, add)
		}
	}
}

// transposeBlock writes the transpose of src [rows,cols] to dst [cols,rows], or adds it to dst if add is set.
func transposeBlock(src, dst []float32, rows, cols int, add bool) {
	if (rows == 1 || cols == 1) && !add {
		copy(dst, src)
		return
	}
	// The inner loop runs over the longer side: a block has few components and many copies.
	if rows < cols {
		for r := range rows {
			line, at := src[r*cols:(r+1)*cols], r
			for _, v := range line {
				storeValue(&dst[at], v, add)
				at += rows
			}
		}
		return
	}
	for c := range cols {
		line, at := dst[c*rows:(c+1)*rows], c
		for r := range line {
			storeValue(&line[r], src[at], add)
			at += cols
		}
	}
}

func storeValue(p *float32, v float32, add bool) {
	if add {
		v += *p
	}
	*p = v
}
