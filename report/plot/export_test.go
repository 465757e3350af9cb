package plot

import (
	"image"

	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// Pixels is what PNG encodes: a test that compares pictures need not do that
// and decode them again.
func (f *Figure) Pixels(width, height int) (image.Image, error) {
	size, err := pixels(width, height)
	if err != nil {
		return nil, err
	}
	c := vgimg.NewWith(vgimg.UseWH(size.X, size.Y), vgimg.UseDPI(dpi))
	f.Draw(draw.New(c))
	return c.Image(), nil
}
