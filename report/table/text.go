package table

import (
	"strings"

	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"github.com/gpuprof/gpuprof/report/page"
)

// Each of the three colours has one meaning; everything else is plain.
const (
	plain  = ""
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	red    = "\x1b[31m"
	reset  = "\x1b[0m"
)

func colorOf(t page.Tone) string {
	return map[page.Tone]string{page.Good: green, page.Unsure: yellow, page.Bad: red}[t]
}

// printer collects the lines. Write writes them at once, so that an error leaves no partial output.
type printer struct {
	o     Options
	out   []string
	parts []*part
	hint  string // first command among dropped spare lines, for the last line
	err   error
}

func (p *printer) appendLine(s string) { p.out = append(p.out, strings.TrimRight(s, " ")) }

// captureLines returns the lines that write prints, without adding them to the output.
func (p *printer) captureLines(write func()) []string {
	before := p.out
	p.out = nil
	write()
	out := p.out
	p.out = before
	return out
}

func (p *printer) colorText(color, s string) string {
	if !p.o.Color || color == plain {
		return s
	}
	return color + s + reset
}

// writeHanging prints a head and a text, wrapped with a hanging indent.
func (p *printer) writeHanging(head, text, headColor, textColor string) {
	indent := twwidth.Width(head)
	for i, l := range wrapText(text, max(p.o.lineWidth()-indent, 20)) {
		before := strings.Repeat(" ", indent)
		if i == 0 {
			before = p.colorText(headColor, head)
		}
		p.appendLine(before + p.colorText(textColor, l))
	}
}

func padRight(s string, width int) string {
	return s + strings.Repeat(" ", max(width-twwidth.Width(s), 0))
}

// wrapText breaks text at blanks, but not between a number and its unit, into lines of at most room columns. It cuts
// longer words, so that a hostile label cannot widen the report.
func wrapText(text string, room int) []string {
	var out []string
	cur := ""
	for _, word := range splitWords(text) {
		for twwidth.Width(word) > room {
			if cur != "" {
				out, cur = append(out, cur), ""
			}
			head := cutAt(word, room)
			out, word = append(out, head), word[len(head):]
		}
		switch {
		case word == "":
		case cur == "":
			cur = word
		case twwidth.Width(cur)+1+twwidth.Width(word) <= room:
			cur += " " + word
		default:
			out, cur = append(out, cur), word
		}
	}
	if cur != "" || len(out) == 0 {
		out = append(out, cur)
	}
	return out
}

// splitWords splits a text into words; a number and its unit are one word.
func splitWords(text string) []string {
	var out []string
	for _, w := range strings.Fields(text) {
		n := len(out)
		if n > 0 && endsInDigit(out[n-1]) && isUnit(strings.TrimRight(w, ";,.:)")) {
			out[n-1] += " " + w
			continue
		}
		out = append(out, w)
	}
	return out
}

func endsInDigit(s string) bool { return s[len(s)-1] >= '0' && s[len(s)-1] <= '9' }

func isUnit(s string) bool {
	switch s {
	case "%", "s", "ms", "us", "ns", "B", "KiB", "MiB", "GiB", "TiB":
		return true
	}
	return strings.HasSuffix(s, "/s")
}

// cutAt returns the longest start of s, of at least one rune, that is at most room columns wide.
func cutAt(s string, room int) string {
	end := 0
	for i, c := range s {
		next := i + len(string(c))
		if end > 0 && twwidth.Width(s[:next]) > room {
			break
		}
		end = next
	}
	return s[:end]
}

// cutToWidth cuts a text that is wider than room columns, and ends it with an ellipsis.
func cutToWidth(s string, room int) string {
	if twwidth.Width(s) <= room {
		return s
	}
	return cutAt(s, room-1) + "…"
}
