package gridsim

import (
	flags "flag"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/loop"
)

var update = flags.Bool("update", false, "draw the picture of a frame again")

// The picture in the gallery is a frame of this workload: its four maps side by side, each
// from its least value to its largest.
func TestPicture(t *testing.T) {
	const (
		path  = "../../docs/pictures/gridsim-frame.png"
		steps = 60
		side  = 128
		gap   = 4
		zoom  = 2
		apart = 3 // levels of 255 that the last digits of a machine may move a pixel by
	)
	s := openSession(t, "scale=1", "live=every:1")
	for i := range steps {
		if err := s.Step(i, loop.Silent{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Compute.Sync(); err != nil {
		t.Fatal(err)
	}
	frame := s.slots[(steps-2)%len(s.slots)].picture // the last that was shown
	img := image.NewGray(image.Rect(0, 0, maxMaps*(zoom*side+gap)-gap, zoom*side))
	for i := range img.Pix {
		img.Pix[i] = 255
	}
	for m := range maxMaps {
		plane := frame[m*side*side : (m+1)*side*side]
		lo, hi := math.Inf(1), math.Inf(-1)
		for _, v := range plane {
			lo, hi = min(lo, float64(v)), max(hi, float64(v))
		}
		span := max(hi-lo, 1e-3) // a state of length 1 has the same density everywhere
		for y := range zoom * side {
			for x := range zoom * side {
				v := (float64(plane[y/zoom*side+x/zoom]) - lo) / span
				img.SetGray(m*(zoom*side+gap)+x, y, color.Gray{Y: uint8(math.Round(235 * v))})
			}
		}
	}
	if *update {
		f, err := os.Create(path)
		if err == nil {
			err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(f, img)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	there, err := png.Decode(f)
	if err != nil || there.Bounds() != img.Bounds() {
		t.Fatalf("%s: %v, draw it again with -update", path, err)
	}
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			old := color.GrayModel.Convert(there.At(x, y)).(color.Gray).Y
			if now := img.GrayAt(x, y).Y; max(old, now)-min(old, now) > apart {
				t.Fatalf("pixel %d, %d: %d, and %d in the picture; draw it again with -update", x, y, now, old)
			}
		}
	}
}
