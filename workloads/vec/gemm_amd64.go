package vec

// Sizes of gemm. A panel is a packed part of b, kc x nr values or 16 KiB. It stays in the L1 cache while all rows use
// it. Packing also keeps its rows from sharing a cache set, as they would if ldb is a power of two. Packing does not
// pay for fewer than packRows rows of a or packDepth rows of b.
const (
	nr        = 16
	packRows  = 64
	packDepth = 32
)

func gemm(rows, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, row, c []float32, ldc int) {
	if !fast {
		gemmGeneric(rows, n, k, alpha, a, lda, b, ldb, row, c, ldc)
		return
	}
	whole := coveredRows(rows)
	var panel [kc * nr]float32
	for l := 0; l < k; l += kc {
		depth := min(kc, k-l)
		for j := 0; j < n; j += nr {
			cols := min(nr, n-j)
			right, stride := b[l*ldb+j:], ldb
			if cols < nr || rows > packRows || depth > packDepth || whole < rows {
				packColumns(panel[:depth*nr], right, ldb, cols)
				right, stride = panel[:], nr
			}
			// The first block starts from row, if given, all others from c.
			from, ldfrom := c[j:], ldc
			if l == 0 && row != nil {
				from, ldfrom = row[j:], 0
			}
			r := 0
			if cols == nr {
				for ; whole-r >= mr && whole-r != 8; r += mr {
					gemm6x16(depth, &a[r*lda+l], lda, 1, &right[0], stride, &from[r*ldfrom], ldfrom, &c[r*ldc+j], ldc, alpha)
				}
				for ; r < whole; r += 4 {
					gemm4x16(depth, &a[r*lda+l], lda, 1, &right[0], stride, &from[r*ldfrom], ldfrom, &c[r*ldc+j], ldc, alpha)
				}
			}
			for ; r < rows; r += mr {
				size := min(mr, rows-r)
				if size == mr {
					gemmEdge(mr, cols, depth, alpha, a[r*lda+l:], lda, 1, &panel, from[r*ldfrom:], ldfrom, c[r*ldc+j:], ldc)
					continue
				}
				var left [mr * kc]float32
				for i := range size {
					copy(left[i*depth:(i+1)*depth], a[(r+i)*lda+l:])
				}
				gemmEdge(size, cols, depth, alpha, left[:], depth, 1, &panel, from[r*ldfrom:], ldfrom, c[r*ldc+j:], ldc)
			}
		}
	}
}

// gemmT computes c += alpha aT b, with aT the transpose of a, for a [k,rows], b [k,n] and c [rows,n] with leading
// dimensions lda, ldb and ldc. It packs a block of a into work, in tiles of mr columns, for use by all columns of b.
func gemmT(rows, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, c []float32, ldc int, work []float32) {
	if !fast {
		gemmTGeneric(rows, n, k, alpha, a, lda, b, ldb, c, ldc, work)
		return
	}
	var panel [kc * nr]float32
	for l := 0; l < k; l += kc {
		depth := min(kc, k-l)
		for r := 0; r < rows; r += mr {
			packT(work[r*depth:][:mr*depth], a[l*lda+r:], lda, min(mr, rows-r))
		}
		for j := 0; j < n; j += nr {
			cols := min(nr, n-j)
			packColumns(panel[:depth*nr], b[l*ldb+j:], ldb, cols)
			for r := 0; r < rows; r += mr {
				left, out := work[r*depth:], c[r*ldc+j:]
				if size := min(mr, rows-r); size < mr || cols < nr {
					gemmEdge(size, cols, depth, alpha, left, 1, mr, &panel, out, ldc, out, ldc)
					continue
				}
				gemm6x16(depth, &left[0], 1, mr, &panel[0], nr, &out[0], ldc, &out[0], ldc, alpha)
			}
		}
	}
}

// coveredRows returns how many of the rows are computed in whole tiles of six and four. For an odd remainder one padded
// tile is cheaper.
func coveredRows(rows int) int {
	if rows%2 == 0 && rows >= 4 {
		return rows
	}
	return rows - rows%mr
}

// packColumns packs cols columns of b into panel, padded with zeros to sixteen columns.
func packColumns(panel, b []float32, ldb, cols int) {
	depth := len(panel) / nr
	if cols == nr {
		_ = b[(depth-1)*ldb+nr-1]
		pack16(&panel[0], &b[0], ldb, depth)
		return
	}
	for l := range depth {
		row := panel[l*nr : (l+1)*nr]
		copy(row, b[l*ldb:][:cols])
		clear(row[cols:])
	}
}

// packT packs cols columns of a into panel, padded with zeros to six columns.
func packT(panel, a []float32, lda, cols int) {
	depth := len(panel) / mr
	if cols == mr {
		_ = a[(depth-1)*lda+mr-1]
		pack6(&panel[0], &a[0], lda, depth)
		return
	}
	for l := range depth {
		row := panel[l*mr : (l+1)*mr]
		copy(row, a[l*lda:][:cols])
		clear(row[cols:])
	}
}

// gemmEdge computes an incomplete tile of rows x cols. a has whole tiles and b is padded with zeros; only rows x cols
// values of from and c are used. It rounds exactly like a whole tile, so results do not depend on the split of rows.
func gemmEdge(rows, cols, k int, alpha float32, a []float32, lda, step int, panel *[kc * nr]float32, from []float32, ldfrom int, c []float32, ldc int) {
	var out [mr * nr]float32
	for r := range rows {
		copy(out[r*nr:], from[r*ldfrom:][:cols])
	}
	gemm6x16(k, &a[0], lda, step, &panel[0], nr, &out[0], nr, &out[0], nr, alpha)
	for r := range rows {
		copy(c[r*ldc:][:cols], out[r*nr:])
	}
}
