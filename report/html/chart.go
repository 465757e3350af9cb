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

const bigDot, smallDot = 5, 3.5

type text struct {
	X, Y   float64
	Class  string
	Anchor string // start, middle or end
	S      string
}

const (
	chartWidth = 960
	charWidth  = 6.9 // of the charts' 12.5 px text, on average
)

func round(v float64) float64 { return math.Round(v*10) / 10 }

func (c *chart) text(x, y float64, anchor, class, s string) {
	c.Texts = append(c.Texts, text{round(x), round(y), class, anchor, s})
}

// fits cuts a label to a width; nothing when too little of it would stay to
// tell what it was.
func fits(s string, width float64) string {
	room, n := int(width/charWidth), len([]rune(s))
	if n <= room {
		return s
	}
	if room < 5 || 3*room < 2*n {
		return ""
	}
	return view.Cut(s, room)
}

func toneClass(tone int) string {
	if tone < 0 || tone >= view.MaxTones {
		return "t-rest"
	}
	return "t" + strconv.Itoa(tone)
}

func processClass(i int) string { return "p" + strconv.Itoa(i%3) }

// stackChart is one bar of the stages' exposed shares.
func stackChart(id string, stages []view.Stage, tones map[string]int) *chart {
	c := &chart{ID: id + "stack", Title: "Exposed share of each stage", W: chartWidth, H: 46}
	var words []string
	x := 0.0
	for _, s := range stages {
		w := s.Share * chartWidth
		if w <= 0 {
			continue
		}
		name := view.Cut(s.Name, 40)
		class := toneClass(tones[s.Name])
		c.Rects = append(c.Rects, rect{round(x), 0, round(max(w-1, 0.5)), 46, class, name + ": " + view.Percent(s.Share) + ", exposed " + view.Median(s.Exposed)})
		label := name + " " + view.Percent(s.Share)
		if fits(label, w-10) != label {
			label = name
		}
		if fits(label, w-8) != label {
			label = "" // the legend names it
		}
		if label != "" {
			c.text(x+w/2, 28, "middle", "on-"+class, label)
		}
		words = append(words, name+" "+view.Percent(s.Share))
		x += w
	}
	if len(words) == 0 {
		return nil
	}
	c.Desc = strings.Join(words, ", ")
	return c
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

// timelineChart draws lanes of spans.
func timelineChart(id string, lanes []view.Lane, from, to float64, tones map[string]int) *chart {
	const left, right, lane = 150.0, 12.0, 40.0
	unit, name := view.Scale(to - from)
	c := &chart{ID: id + "timeline", Title: "Timeline of the example step", W: chartWidth, H: float64(len(lanes))*lane + 54,
		Desc: "One lane for the host and one for each stream; spans that lie above each other in time overlap."}
	at := func(v float64) float64 { return left + (v*unit-from)/(to-from)*(chartWidth-left-right) }
	for i, l := range lanes {
		y := float64(i)*lane + 8
		c.text(left-12, y+lane/2, "end", "label", view.Cut(l.Name, 17))
		for _, s := range l.Spans {
			tone, ok := tones[s.Stage]
			if !ok {
				tone = view.MaxTones
			}
			class := toneClass(tone)
			x0, x1 := at(s.From/unit), at(s.To/unit)
			r := rect{round(x0), y, round(max(x1-x0-0.6, 0.8)), lane - 10, class, s.Label() + ": " + view.Seconds(s.To-s.From) + " from " + view.Seconds(s.From)}
			on := "on-" + class
			if s.Neighbour {
				r.Class += " pale"
				r.Title += " (neighbouring step)"
				on = "label"
			}
			if label := fits(s.Label(), x1-x0-8); label != "" {
				c.text((x0+x1)/2, y+lane/2-1, "middle", on, label)
			}
			c.Rects = append(c.Rects, r)
		}
	}
	base := float64(len(lanes))*lane + 10
	c.axis(left, chartWidth-right, base, steps(from/unit, to/unit), at, 4)
	c.text((left+chartWidth-right)/2, c.H-6, "middle", "axis-label", "time from the step's begin, "+name)
	return c
}
