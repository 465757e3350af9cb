package vec

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// Against float64, for every shape of a segment, with a residual and without, columns and rows that repeat.
func TestTile(t *testing.T) {
	both(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 5))
		for _, cols := range []int{8, 16} {
			for _, size := range [][2]int{{1, 1}, {1, 2}, {3, 3}, {3, 24}, {7, 21}, {2, 57}, {1, 300}} {
				for _, residual := range []bool{false, true} {
					checkTile(t, rng, cols, size[0], size[1], residual)
				}
			}
		}
	})
}

func checkTile(t *testing.T, rng *rand.Rand, cols, segs, length int, residual bool) {
	t.Helper()
	stride := length + 5
	tl := Tile{
		A: random(rng, segs*stride+6*9), B: random(rng, segs*length*cols), Scale: random(rng, cols), Shift: random(rng, cols),
		Segs: segs, SegLen: length, SegStride: stride, Cols: cols, Lo: float32(math.Inf(-1)),
	}
	out, whole := guarded(rng, t, 6*20)
	tl.Out = out
	if residual {
		tl.Res, tl.Lo = random(rng, len(out)), 0
	}
	for r := range TileRows {
		tl.Off[r], tl.OutOff[r] = min(r, 4)*9, min(r, 4)*20 // the last row twice
	}
	tl.Run()
	for r := range TileRows {
		for j := range cols {
			sum, scale := 0.0, 0.0
			for s := range segs {
				for k := range length {
					p := float64(tl.A[tl.Off[r]+s*stride+k]) * float64(tl.B[(s*length+k)*cols+j])
					sum += p
					scale += math.Abs(p)
				}
			}
			want := sum*float64(tl.Scale[j]) + float64(tl.Shift[j])
			scale = scale*math.Abs(float64(tl.Scale[j])) + math.Abs(float64(tl.Shift[j]))
			if residual {
				want += float64(tl.Res[tl.OutOff[r]+j])
				want, scale = math.Max(want, 0), scale+1
			}
			if got := out[tl.OutOff[r]+j]; !close32(got, want, scale) {
				t.Fatalf("%d columns, %d segments of %d, residual %t: row %d column %d is %v, want %v", cols, segs, length, residual, r, j, got, want)
			}
		}
	}
	whole()
}

// A value that is not a number is not hidden by the maximum.
func TestTileKeepsNaN(t *testing.T) {
	both(t, func(t *testing.T) {
		for _, cols := range []int{8, 16} {
			tl := Tile{A: []float32{float32(math.NaN())}, B: make([]float32, 2*cols), Out: make([]float32, cols), Scale: make([]float32, cols), Shift: make([]float32, cols), Segs: 1, SegLen: 1, Cols: cols}
			tl.Run()
			for j, v := range tl.Out {
				if !math.IsNaN(float64(v)) {
					t.Errorf("column %d is %v", j, v)
				}
			}
		}
	})
}

// The assembly reads the fields by these places.
func TestTilePlaces(t *testing.T) {
	var tl Tile
	for name, at := range map[string][2]uintptr{
		"B": {unsafe.Offsetof(tl.B), 24}, "Out": {unsafe.Offsetof(tl.Out), 48}, "Res": {unsafe.Offsetof(tl.Res), 72}, "Scale": {unsafe.Offsetof(tl.Scale), 96},
		"Shift": {unsafe.Offsetof(tl.Shift), 120}, "Segs": {unsafe.Offsetof(tl.Segs), 144}, "SegLen": {unsafe.Offsetof(tl.SegLen), 152},
		"SegStride": {unsafe.Offsetof(tl.SegStride), 160}, "Off": {unsafe.Offsetof(tl.Off), 168}, "OutOff": {unsafe.Offsetof(tl.OutOff), 216}, "Lo": {unsafe.Offsetof(tl.Lo), 264},
	} {
		if at[0] != at[1] {
			t.Errorf("%s is at %d, the assembly reads it at %d", name, at[0], at[1])
		}
	}
}
