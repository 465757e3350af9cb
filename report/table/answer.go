package table

import (
	"math"
	"strings"

	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/page"
)

// barColumns limits the width of a bar, in columns.
const barColumns = 60

// signs has the characters of a bar. A stacked bar uses fills, one per part. In the bar of a ratio, left and right are
// the ends of the interval, line joins them, point is the ratio, and gap is the background.
type signs struct {
	fills                         []rune
	left, right, line, point, gap rune
}

func (p *printer) barSigns() signs {
	if p.o.ASCII {
		return signs{[]rune("#=+-."), '[', ']', '-', 'o', '.'}
	}
	return signs{[]rune("█▓▒░·"), '├', '┤', '─', '●', '·'}
}

// writeAnswer prints verdict, sentence, bar and action, also if lines are limited. A command stays on one line, so that
// a copy of it works.
func (p *printer) writeAnswer(a gpuprof.Answer) {
	badge := "[" + a.Verdict + "] "
	for i, l := range wrapText(badge+a.Sentence, p.o.lineWidth()) {
		if rest, ok := strings.CutPrefix(l, strings.TrimSpace(badge)); i == 0 && ok {
			l = p.colorText(colorOf(page.ToneOf(a.Tone)), strings.TrimSpace(badge)) + rest
		}
		p.appendLine(l)
	}
	if a.Bar != nil {
		p.writeBar(a.Bar)
	}
	if a.Action == nil {
		return
	}
	p.writeHanging("-> ", a.Action.Text, plain, plain)
	if a.Action.Command != "" {
		p.appendLine("   " + a.Action.Command)
	}
}

// writeBar prints the bar, its total on the right, and the legend below.
func (p *printer) writeBar(b *gpuprof.Bar) {
	text := page.WholeText(b)
	room := min(barColumns, p.o.lineWidth()-twwidth.Width(text)-2)
	if room < barColumns/3 {
		p.writeHanging("", text, plain, plain)
		room, text = min(barColumns, p.o.lineWidth()), ""
	}
	if b.Ratio != nil {
		p.appendLine(p.drawRatio(b.Ratio, room) + "  " + text)
		return
	}
	parts, fills := page.PartsOf(b), p.barSigns().fills
	var line strings.Builder
	at, end := 0, 0.0
	for i, part := range parts {
		end += part.Share
		to := min(int(math.Round(end*float64(room))), room)
		line.WriteString(strings.Repeat(string(fills[i]), max(to-at, 0)))
		at = max(at, to)
	}
	p.appendLine(padRight(line.String(), room) + "  " + text)
	var legend string
	for i, part := range parts {
		entry := string(fills[i]) + " " + part.Name + " " + part.Text
		switch {
		case legend == "":
			legend = entry
		case twwidth.Width(legend)+3+twwidth.Width(entry) <= p.o.lineWidth():
			legend += "   " + entry
		default:
			p.writeHanging("", legend, plain, plain)
			legend = entry
		}
	}
	if legend != "" {
		p.appendLine(cutToWidth(legend, p.o.lineWidth()))
	}
}

// drawRatio draws a ratio, its interval and the ratio 1 on a logarithmic scale, on a line of room columns.
func (p *printer) drawRatio(r *gpuprof.BarRatio, room int) string {
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
	s := p.barSigns()
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

// mostReach limits the drawn ends of an interval, as a multiple of the ratio: a wide interval must not squeeze the
// other marks.
const mostReach = 4
