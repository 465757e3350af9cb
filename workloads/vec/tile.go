package vec

// TileRows is the number of rows of a Tile.
const TileRows = 6

// Tile is a small matrix product with gathered rows, the inner part of a convolution. Rows may repeat, which writes
// the same values again. Offsets are in values; Res may be empty. NaN stays NaN. With B packed in rows of Cols values,
// for every row r < TileRows and column j < Cols:
//
//	sum = sum over s < Segs, k < SegLen of A[Off[r] + s SegStride + k] B[(s SegLen + k) Cols + j]
//	Out[OutOff[r] + j] = max(Lo, sum Scale[j] + Shift[j] (+ Res[OutOff[r] + j]))
type Tile struct {
	A, B, Out, Res, Scale, Shift []float32
	Segs, SegLen, SegStride      int
	Off, OutOff                  [TileRows]int
	Lo                           float32
	Cols                         int // 8 or 16
}

// Run computes the tile.
func (t *Tile) Run() {
	if t.Segs > 0 && t.SegLen > 0 {
		computeTile(t)
	}
}

func tileGeneric(t *Tile) {
	var sums [16]float32
	for r := range TileRows {
		sum := sums[:t.Cols]
		clear(sum)
		b := t.B
		for s := range t.Segs {
			for _, v := range t.A[t.Off[r]+s*t.SegStride:][:t.SegLen] {
				for j := range sum {
					sum[j] += v * b[j]
				}
				b = b[t.Cols:]
			}
		}
		out := t.Out[t.OutOff[r]:][:t.Cols]
		for j, v := range sum {
			v = v*t.Scale[j] + t.Shift[j]
			if len(t.Res) > 0 {
				v += t.Res[t.OutOff[r]+j]
			}
			if v < t.Lo {
				v = t.Lo
			}
			out[j] = v
		}
	}
}
