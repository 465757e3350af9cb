package html

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof/report/internal/view"
)

// chart is an inline SVG as geometry; chart.tmpl turns it into markup.
// Colours are classes, so that light, dark and print each have their own.
type chart struct {
	ID, Title, Desc string
	W, H            float64
	Back            []rect // drawn first
	Paths           []path
	Rects           []rect
	Dots            []dot
	Texts           []text
}

type path struct{ D, Class string }

type rect struct {
	X, Y, W, H   float64
	Class, Title string
}

type dot struct {
	X, Y         float64
	Class, Title string
	R            float64
}

const bigDot = 5

type text struct {
	X, Y   float64
	Class  string
	Anchor string // start, middle or end
	S      string
}

const (
	chartWidth = 960
)

func round(v float64) float64 { return math.Round(v*10) / 10 }

func (c *chart) text(x, y float64, anchor, class, s string) {
	c.Texts = append(c.Texts, text{round(x), round(y), class, anchor, s})
}

func toneClass(tone int) string {
	if tone < 0 || tone >= view.MaxTones {
		return "t-rest"
	}
	return "t" + strconv.Itoa(tone)
}

// axis draws a horizontal axis at y with rules up to top.
func (c *chart) axis(x0, x1, y float64, marks []float64, at func(float64) float64, top float64) {
	var b strings.Builder
	fmt.Fprintf(&b, "M%s %sH%s", number(round(x0)), number(round(y)), number(round(x1)))
	for _, m := range marks {
		x := round(at(m))
		fmt.Fprintf(&b, "M%s %sV%s", number(x), number(top), number(round(y+4)))
		c.text(x, y+17, "middle", "axis-text", mark(m, marks))
	}
	// First, so that everything else is drawn over it.
	c.Paths = append([]path{{b.String(), "rule"}}, c.Paths...)
}

// steps are about seven round values between lo and hi.
func steps(lo, hi float64) []float64 {
	span := hi - lo
	if !(span > 0) || math.IsInf(span, 0) {
		return nil
	}
	step := math.Pow(10, math.Floor(math.Log10(span/6)))
	for _, m := range []float64{1, 2, 5, 10} {
		if span/(step*m) <= 9 {
			step *= m
			break
		}
	}
	var out []float64
	for k := math.Ceil(lo/step - 1e-9); k*step <= hi+step*1e-9 && len(out) < 30; k++ {
		out = append(out, k*step+0) // +0: the ceiling of a little below nothing is minus nothing
	}
	return out
}

// mark prints an axis value with the decimals its step needs.
func mark(v float64, all []float64) string {
	dec := 0
	if len(all) > 1 {
		dec = max(0, int(math.Ceil(-math.Log10(all[1]-all[0])-1e-9)))
	}
	if math.Abs(v) < 1e-12 {
		return "0"
	}
	return strconv.FormatFloat(v, 'f', dec, 64)
}

// number prints a coordinate: a tenth of a pixel is enough.
func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 32) }

type legendItem struct {
	Class, Text, Value string
}

// labelled is a label and its text.
type labelled struct{ Label, Value string }
