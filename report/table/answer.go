package table

import (
	"math"
	"strings"

	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/page"
)

// barColumns is how many columns a bar takes where there is room.
const barColumns = 60

// fills paint the parts of a bar, and signs a ratio: its two ends, the line between them,
// the point and what is empty. The mark of 1 is the digit.
type signs struct {
	fills                         []rune
	left, right, line, point, gap rune
}

func (p *printer) signs() signs {
	if p.o.ASCII {
		return signs{[]rune("#=+-."), '[', ']', '-', 'o', '.'}
	}
	return signs{[]rune("█▓▒░·"), '├', '┤', '─', '●', '·'}
}

// answer prints what opens the document: verdict and sentence, the bar, and what to do.
// None of it is left out for want of lines. A command is one line, however long, so that
// it can be copied.
func (p *printer) answer(a gpuprof.Answer) {
	badge := "[" + a.Verdict + "] "
	for i, l := range fold(badge+a.Sentence, p.o.width()) {
		if rest, ok := strings.CutPrefix(l, strings.TrimSpace(badge)); i == 0 && ok {
			l = p.paint(colorOf(page.ToneOf(a.Tone)), strings.TrimSpace(badge)) + rest
		}
		p.line(l)
	}
	if a.Bar != nil {
		p.bar(a.Bar)
	}
	if a.Action == nil {
		return
	}
	p.hang("-> ", a.Action.Text, plain, plain)
	if a.Action.Command != "" {
		p.line("   " + a.Action.Command)
	}
}

// bar prints the bar with its whole behind it, and the legend below.
func (p *printer) bar(b *gpuprof.Bar) {
	text := page.WholeText(b)
	room := min(barColumns, p.o.width()-twwidth.Width(text)-2)
	if room < barColumns/3 {
		p.hang("", text, plain, plain)
		room, text = min(barColumns, p.o.width()), ""
	}
	if b.Ratio != nil {
		p.line(p.ratio(b.Ratio, room) + "  " + text)
		return
	}
	parts, fills := page.PartsOf(b), p.signs().fills
	var line strings.Builder
	at, end := 0, 0.0
	for i, part := range parts {
		end += part.Share
		to := min(int(math.Round(end*float64(room))), room)
		line.WriteString(strings.Repeat(string(fills[i]), max(to-at, 0)))
		at = max(at, to)
	}
	p.line(padded(line.String(), room) + "  " + text)
	var legend string
	for i, part := range parts {
		entry := string(fills[i]) + " " + part.Name + " " + part.Text
		switch {
		case legend == "":
			legend = entry
		case twwidth.Width(legend)+3+twwidth.Width(entry) <= p.o.width():
			legend += "   " + entry
		default:
			p.hang("", legend, plain, plain)
			legend = entry
		}
	}
	if legend != "" {
		p.line(short(legend, p.o.width()))
	}
}

// ratio is a line of room columns with a ratio, its interval and the place of 1, on a
// logarithmic scale, where twice and half are equally far from 1.
func (p *printer) ratio(r *gpuprof.BarRatio, room int) string {
	low, high := r.Value, r.Value
	if r.High > 0 {
		low, high = min(low, max(r.Low, r.Value/mostReach)), max(high, min(r.High, r.Value*mostReach))
	}
	from, to := math.Log(min(low, 1)), math.Log(max(high, 1))
	pad := max(0.05*(to-from), 0.01)
	from, to = from-pad, to+pad
	place := func(v float64) int {
		share := (math.Log(v) - from) / (to - from)
		return min(max(int(share*float64(room-1)+0.5), 0), room-1)
	}
	s := p.signs()
	line := []rune(strings.Repeat(string(s.gap), room))
	if r.High > 0 {
		for i := place(low); i <= place(high); i++ {
			line[i] = s.line
		}
		line[place(low)], line[place(high)] = s.left, s.right
	}
	line[place(1)] = '1'
	line[place(r.Value)] = s.point
	return string(line)
}

// mostReach is how many times the ratio an interval's end is drawn at most: an interval
// that is known badly must not squeeze the rest to a point.
const mostReach = 4
