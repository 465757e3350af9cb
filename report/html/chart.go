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
}

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
	return view.Clean(s, room)
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
		name := view.Clean(s.Name, 40)
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

// spreadChart is a row a quantity: a tick a sample, a sub-row a process, the
// 5th to 95th percentile as a bar with the median on it.
func spreadChart(id string, spreads []view.Spread, lo, hi float64) *chart {
	const left, right = 190.0, 110.0
	c := &chart{ID: id + "spread", Title: "Distribution of samples about each median", W: chartWidth,
		Desc: "For the step and each stage: every sample as a tick, one line of ticks a process, with the 5th to 95th percentile below."}
	at := func(v float64) float64 { return left + (v-lo)/(hi-lo)*(chartWidth-left-right) }
	y := 8.0
	for _, s := range spreads {
		lanes := min(len(s.Process), 12)
		h := 8.0
		switch {
		case lanes == 1:
			h = 12
		case lanes > 4:
			h = 5
		}
		below, above := 0, 0
		for i, run := range s.Process {
			d, under, over := ticks(run, lo, hi, at, y+float64(i%lanes)*h, h-1.5)
			below, above = below+under, above+over
			c.Paths = append(c.Paths, path{d, "tick " + processClass(i)})
		}
		bar := y + float64(lanes)*h + 3
		c.box(s, lo, hi, at, bar)
		mid := y + float64(lanes)*h/2 + 5
		label := view.Clean(s.Name, 16)
		if s.Source != "period" {
			label += " · " + s.Source
		}
		c.text(left-12, mid, "end", "label", label)
		note := view.Median(s.Series)
		if below > 0 {
			note += fmt.Sprintf(" ◂%d", below)
		}
		if above > 0 {
			note += fmt.Sprintf(" %d▸", above)
		}
		c.text(chartWidth-right+10, mid, "start", "label", note)
		y = bar + 12
	}
	c.H = y + 40
	c.axis(left, chartWidth-right, y, steps(lo*100, hi*100), func(v float64) float64 { return at(v / 100) }, 8)
	c.text((left+chartWidth-right)/2, c.H-4, "middle", "axis-label", "difference from the row's own median, %")
	return c
}

// ticks draws samples as short lines in one path, one a pixel's tenth, and
// counts those below and above the range.
func ticks(run []float64, lo, hi float64, at func(float64) float64, y, h float64) (d string, below, above int) {
	var b strings.Builder
	seen := map[float64]bool{}
	for _, v := range run {
		if v < lo {
			below++
			continue
		}
		if v > hi {
			above++
			continue
		}
		x := round(at(v))
		if seen[x] {
			continue
		}
		seen[x] = true
		fmt.Fprintf(&b, "M%s %sv%s", number(x), number(round(y)), number(h))
	}
	return b.String(), below, above
}

func (c *chart) box(s view.Spread, lo, hi float64, at func(float64) float64, y float64) {
	if !view.Finite(s.P05) || !view.Finite(s.P95) {
		return
	}
	x0, x1 := at(min(max(s.P05, lo), hi)), at(max(min(s.P95, hi), lo))
	c.Rects = append(c.Rects, rect{round(x0), round(y), round(max(x1-x0, 1)), 3, "box",
		fmt.Sprintf("%s: 5th to 95th percentile %s to %s", view.Clean(s.Name, 40), view.Seconds(s.Series.P05), view.Seconds(s.Series.P95))})
	c.Rects = append(c.Rects, rect{round(at(0)) - 1, round(y) - 2, 2, 7, "box", "median " + view.Median(s.Series)})
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
		out = append(out, k*step)
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
		c.text(left-12, y+lane/2, "end", "label", view.Clean(l.Name, 20))
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
