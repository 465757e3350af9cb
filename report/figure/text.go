package figure

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	xfont "golang.org/x/image/font"
	"golang.org/x/image/font/opentype"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
)

// Sizes of text, in units of the layout.
const (
	textSize  = 12.0
	titleSize = 18.0
	lineRoom  = 16.0 // distance of baselines
)

// fontFace returns the font with which texts are measured and drawn in PNG.
func fontFace(size float64, bold bool) font.Face {
	f := font.Font{Typeface: "gpuprof", Variant: "Sans"}
	if bold {
		f.Weight = xfont.WeightBold
	}
	return faces().Lookup(f, vg.Length(size))
}

// The fonts are Liberation Sans without the data that figures do not need (scripts/build/fonts).
//
//go:generate go run ../../scripts/build/fonts
var (
	//go:embed fonts/regular.ttf
	regularTTF []byte
	//go:embed fonts/bold.ttf
	boldTTF []byte
)

var faces = sync.OnceValue(func() *font.Cache {
	return font.NewCache(font.Collection{
		embeddedFont(xfont.WeightNormal, regularTTF),
		embeddedFont(xfont.WeightBold, boldTTF),
	})
})

// embeddedFont parses an embedded font. It panics on a damaged font, which every test of a figure would show.
func embeddedFont(weight xfont.Weight, file []byte) font.Face {
	f, err := opentype.Parse(file)
	if err != nil {
		panic(fmt.Errorf("reading a font of the program's own: %w", err))
	}
	return font.Face{Font: font.Font{Typeface: "gpuprof", Variant: "Sans", Weight: weight}, Face: f}
}

// advances has the widths of ASCII characters at size 1.
var advances = sync.OnceValue(func() (out [128]float64) {
	f := fontFace(1000, false)
	for c := 32; c < 127; c++ {
		out[c] = float64(f.Width(string(rune(c)))) / 1000
	}
	return out
})

// ems multiplies text widths: 1 for the font that files name, more for a page, whose reader chooses the font.
type ems float64

const (
	namedFont ems = 1
	anyFont   ems = 1.16
)

// textWidth returns a text's width in units. A character outside the font counts as a full em, as in East Asian
// scripts.
func (e ems) textWidth(s string, size float64) float64 {
	w, narrow := 0.0, advances()
	for _, c := range s {
		switch {
		case e != namedFont && (c == '<' || c == '=' || c == '>' || c == '+'): // far wider in some fonts
			w += 0.73
		case c < 128:
			w += narrow[c]
		case c >= 0x2e80 || c == '…':
			w++
		default:
			w += 0.7
		}
	}
	if size > textSize {
		w *= 1.08 // titles are bold
	}
	return w * size * float64(e)
}

// clipText shortens a text to a width with an ellipsis; "" if no character fits.
func (e ems) clipText(s string, size, room float64) string {
	if e.textWidth(s, size) <= room {
		return s
	}
	room -= e.textWidth("…", size)
	w := 0.0
	for i, c := range s {
		if w += e.textWidth(string(c), size); w > room {
			if i == 0 {
				return ""
			}
			return strings.TrimSpace(s[:i]) + "…"
		}
	}
	return s
}

// fitLabel shortens a label to a width; "" if too little remains to identify it.
func (e ems) fitLabel(s string, room float64) string {
	out := e.clipText(s, textSize, room)
	if n := utf8.RuneCountInString(out); out != s && (n < 6 || 3*n < 2*utf8.RuneCountInString(s)) {
		return ""
	}
	return out
}

// wrapText breaks a text into lines that fit a width; most limits the number of lines.
func (e ems) wrapText(s string, room float64, most int) []string {
	var out []string
	cur := ""
	for _, w := range strings.Fields(s) {
		if cur != "" && e.textWidth(cur+" "+w, textSize) > room {
			out, cur = append(out, cur), ""
		}
		cur = strings.TrimSpace(cur + " " + w)
	}
	out = append(out, cur)
	if len(out) > most {
		out = out[:most]
		out[most-1] += " …"
	}
	for i := range out {
		out[i] = e.clipText(out[i], textSize, room)
	}
	return out
}

// box is the area of a text.
type box struct{ x0, y0, x1, y1 float64 }

func (b box) overlaps(o box) bool { return b.x0 < o.x1 && o.x0 < b.x1 && b.y0 < o.y1 && o.y0 < b.y1 }
