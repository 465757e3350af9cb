package plot

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"regexp"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
	"github.com/gpuprof/gpuprof/report/runfile"
)

// The default size in pixels.
const (
	DefaultWidth  = 1200
	DefaultHeight = 800
)

const dpi = 96

// PNG writes the figure, width x height pixels (0: the default), as a PNG that
// says which program wrote it. A size out of range is ErrUsage.
func (f *Figure) PNG(w io.Writer, width, height int) error {
	size, err := pixels(width, height)
	if err != nil {
		return err
	}
	c := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(size.X, size.Y), vgimg.UseDPI(dpi))}
	f.Draw(draw.New(c))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return fmt.Errorf("encoding the picture: %w", err)
	}
	_, err = w.Write(markPNG(b.Bytes(), "gpuprof "+ascii(f.tool)))
	return err
}

// SVG is PNG for SVG. Fonts are named, not embedded. It looks the same under a
// Content-Security-Policy that allows nothing: no script, no style and no reference
// to anything outside, colours and fonts being attributes of their own.
func (f *Figure) SVG(w io.Writer, width, height int) error {
	size, err := pixels(width, height)
	if err != nil {
		return err
	}
	c := vgsvg.New(size.X, size.Y)
	f.Draw(draw.New(c))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return fmt.Errorf("encoding the picture: %w", err)
	}
	_, err = w.Write(markSVG(unstyled(b.Bytes())))
	return err
}

func pixels(width, height int) (vg.Point, error) {
	if width == 0 {
		width = DefaultWidth
	}
	if height == 0 {
		height = DefaultHeight
	}
	if width < 200 || height < 150 || width > 8000 || height > 8000 {
		return vg.Point{}, gpuprof.Errorf(gpuprof.ErrUsage, "drawing a picture of %d x %d pixels: the size is out of range; use 200 x 150 to 8000 x 8000", width, height)
	}
	return vg.Point{X: vg.Length(width) * vg.Inch / dpi, Y: vg.Length(height) * vg.Inch / dpi}, nil
}

// markPNG puts a tEXt chunk Software=… behind the header chunk (PNG
// specification 11.3.3.2), which is the first 33 bytes with the signature.
func markPNG(png []byte, software string) []byte {
	const head = 8 + 12 + 13
	data := append([]byte("tEXtSoftware\x00"), software...)
	chunk := binary.BigEndian.AppendUint32(nil, uint32(len(data)-4))
	chunk = append(chunk, data...)
	chunk = binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE(data))
	return bytes.Join([][]byte{png[:head], chunk, png[head:]}, nil)
}

// styles are the style attributes of vgsvg, which it writes without quotes inside;
// linked is its name for links, of which there are none.
var (
	styles = regexp.MustCompile(`\sstyle="([^"]*)"`)
	linked = regexp.MustCompile(`\sxmlns:xlink="[^"]*"`)
)

// unstyled turns style="fill:none;stroke:#D9DDE2" into fill="none" stroke="#D9DDE2":
// a policy without unsafe-inline ignores style attributes, and every property that
// vgsvg writes is an attribute too (SVG 1.1, 6.1). Text cannot be taken for one: its
// quotes are escaped.
func unstyled(svg []byte) []byte {
	svg = linked.ReplaceAll(svg, nil)
	return styles.ReplaceAllFunc(svg, func(attribute []byte) []byte {
		var out []byte
		for property := range bytes.SplitSeq(styles.FindSubmatch(attribute)[1], []byte{';'}) {
			name, value, ok := bytes.Cut(property, []byte{':'})
			if ok {
				out = fmt.Appendf(out, " %s=\"%s\"", bytes.TrimSpace(name), bytes.TrimSpace(value))
			}
		}
		return out
	})
}

// markSVG puts the comment behind the XML declaration, where no text of the
// picture can come before it.
func markSVG(svg []byte) []byte {
	mark := []byte("<!-- " + runfile.Marker + " -->\n")
	if bytes.HasPrefix(svg, []byte("<?xml")) {
		if end := bytes.Index(svg, []byte("?>\n")); end >= 0 {
			return bytes.Join([][]byte{svg[:end+3], mark, svg[end+3:]}, nil)
		}
	}
	return append(mark, svg...)
}

// ascii keeps a version fit for a tEXt chunk, which is Latin-1 on one line.
func ascii(s string) string {
	return strings.Map(func(c rune) rune {
		if c < 0x20 || c > 0x7e {
			return '?'
		}
		return c
	}, view.Cut(s, 40))
}
