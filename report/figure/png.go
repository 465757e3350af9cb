package figure

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"io"
	"math"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Default size of a picture in pixels. Write reduces the height for few rows.
const (
	DefaultWidth  = 1200
	DefaultHeight = 800
)

const dpi = 96

// Write writes the figure as a standalone file, "svg" or "png", of width x height pixels (0: default). A PNG has
// gpuprof's name in its metadata; an SVG names its font without embedding it. A size out of range is ErrUsage.
func (f *Figure) Write(w io.Writer, format string, width, height int) error {
	if width == 0 {
		width = DefaultWidth
	}
	asNeeded := height == 0
	if asNeeded {
		height = DefaultHeight
	}
	if width < 200 || height < 150 || width > 8000 || height > 8000 {
		return gpuprof.Errorf(gpuprof.ErrUsage, "drawing a picture of %d x %d pixels: the size is out of range", width, height).WithFix("use 200 x 150 to 8000 x 8000")
	}
	x, y := float64(width)*vg.Inch.Points()/dpi, float64(height)*vg.Inch.Points()/dpi
	if asNeeded {
		y -= math.Floor(f.layOut(x, y, true).slack*dpi/vg.Inch.Points()) * vg.Inch.Points() / dpi
	}
	if format == "svg" {
		return f.svgFile(w, x, y)
	}
	var b bytes.Buffer
	if _, err := (vgimg.PngCanvas{Canvas: f.drawPixels(x, y)}).WriteTo(&b); err != nil {
		return fmt.Errorf("encoding the picture: %w", err)
	}
	_, err := w.Write(markPNG(b.Bytes(), "gpuprof "+keepASCII(f.Tool)))
	return err
}

// Pixels draws the image of a PNG of width x height pixels.
func (f *Figure) Pixels(width, height int) image.Image {
	return f.drawPixels(float64(width)*vg.Inch.Points()/dpi, float64(height)*vg.Inch.Points()/dpi).Image()
}

// drawPixels draws the shapes; vg counts y from the bottom.
func (f *Figure) drawPixels(w, h float64) *vgimg.Canvas {
	c := vgimg.NewWith(vgimg.UseWH(vg.Length(w), vg.Length(h)), vgimg.UseDPI(dpi), vgimg.UseBackgroundColor(color.White))
	p := &pen{c, h}
	for _, s := range f.layOut(w, h, true).listShapes() {
		p.drawShape(&s)
	}
	return c
}

type pen struct {
	*vgimg.Canvas
	h float64
}

func (p *pen) pagePoint(x, y float64) vg.Point {
	return vg.Point{X: vg.Length(x), Y: vg.Length(p.h - y)}
}

func (p *pen) drawShape(s *shape) {
	c, m := s.tone.lightColor(), s.form.findManner()
	c.A = uint8(math.Round(255 * m.opacity))
	p.SetColor(c)
	switch s.kind {
	case textShape:
		at := p.pagePoint(s.x, s.y)
		face := fontFace(s.size, s.size > textSize)
		at.X -= face.Width(s.text) * vg.Length(s.anchor+1) / 2
		p.FillString(face, at, s.text)
	case circleShape:
		p.Fill(p.circlePath(s.x, s.y, s.w))
		if s.ring {
			p.SetColor(color.White)
			p.Fill(p.circlePath(s.x, s.y, s.w-2))
		}
	case rectShape:
		p.Fill(p.cornerPath(s.x, s.y, s.x+s.w, s.y+s.h))
	case boxesShape:
		for _, l := range s.lines {
			p.Fill(p.cornerPath(l[0].x, l[0].y, l[1].x, l[1].y))
		}
	case pathShape:
		p.drawPath(s, m)
	}
}

func (p *pen) drawPath(s *shape, m formStyle) {
	p.SetLineWidth(vg.Length(m.stroke))
	p.SetLineDash(nil, 0)
	if m.dash > 0 {
		p.SetLineDash([]vg.Length{vg.Length(m.dash), vg.Length(m.dash)}, 0)
	}
	for _, l := range s.lines {
		if m.roundedDotted {
			p.Fill(p.circlePath(l[0].x, l[0].y, m.stroke/2))
			continue
		}
		var path vg.Path
		path.Move(p.pagePoint(l[0].x, l[0].y))
		for _, v := range l[1:] {
			path.Line(p.pagePoint(v.x, v.y))
		}
		if s.closed {
			path.Close()
		}
		if m.stroke > 0 {
			p.Stroke(path)
		} else {
			p.Fill(path)
		}
	}
}

func (p *pen) cornerPath(x0, y0, x1, y1 float64) (path vg.Path) {
	path.Move(p.pagePoint(x0, y0))
	path.Line(p.pagePoint(x1, y0))
	path.Line(p.pagePoint(x1, y1))
	path.Line(p.pagePoint(x0, y1))
	path.Close()
	return path
}

func (p *pen) circlePath(x, y, r float64) (path vg.Path) {
	path.Move(p.pagePoint(x+r, y))
	path.Arc(p.pagePoint(x, y), vg.Length(r), 0, 2*math.Pi)
	path.Close()
	return path
}

// markPNG inserts a tEXt chunk Software=… after the header chunk (PNG specification 11.3.3.2), which ends at byte 33.
func markPNG(png []byte, software string) []byte {
	const head = 8 + 12 + 13
	data := append([]byte("tEXtSoftware\x00"), software...)
	chunk := binary.BigEndian.AppendUint32(nil, uint32(len(data)-4))
	chunk = append(chunk, data...)
	chunk = binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE(data))
	return bytes.Join([][]byte{png[:head], chunk, png[head:]}, nil)
}

// keepASCII prepares a version for a tEXt chunk, which is one line of Latin-1: it keeps printable ASCII.
func keepASCII(s string) string {
	return strings.Map(func(c rune) rune {
		if c < 0x20 || c > 0x7e {
			return '?'
		}
		return c
	}, view.Cut(s, 40))
}
