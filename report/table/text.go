package table

import (
	"strings"

	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"github.com/gpuprof/gpuprof/report/page"
)

// The three colours have one meaning each; everything else is plain.
const (
	plain  = ""
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	red    = "\x1b[31m"
	reset  = "\x1b[0m"
)

func colorOf(t page.Tone) string {
	switch t {
	case page.Good:
		return green
	case page.Unsure:
		return yellow
	case page.Bad:
		return red
	}
	return plain
}

// printer gathers the lines; they are written once, so that a failure to lay
// out leaves nothing half-written.
type printer struct {
	o     Options
	out   []string
	parts []*part
	hint  string // what was left out of an item first, for the last line
	err   error
}

func (p *printer) line(s string) { p.out = append(p.out, strings.TrimRight(s, " ")) }

// capture is the lines that write prints, kept apart.
func (p *printer) capture(write func()) []string {
	before := p.out
	p.out = nil
	write()
	out := p.out
	p.out = before
	return out
}

func (p *printer) paint(color, s string) string {
	if !p.o.Color || color == plain {
		return s
	}
	return color + s + reset
}

// hang prints text behind a head, continued under the text, within the width.
func (p *printer) hang(head, text, headColor, textColor string) {
	indent := twwidth.Width(head)
	for i, l := range fold(text, max(p.o.width()-indent, 20)) {
		before := strings.Repeat(" ", indent)
		if i == 0 {
			before = p.paint(headColor, head)
		}
		p.line(before + p.paint(textColor, l))
	}
}

// padded fills text up to a width.
func padded(s string, width int) string {
	return s + strings.Repeat(" ", max(width-twwidth.Width(s), 0))
}

// fold breaks text at blanks into lines of at most room columns, not between
// a number and its unit; a longer word is cut, so that a hostile label cannot
// widen the report.
func fold(text string, room int) []string {
	var out []string
	cur := ""
	for _, word := range glued(text) {
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

// glued is the words of a text, a number together with its unit.
func glued(text string) []string {
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

// cutAt is the longest prefix of s that fits room columns, one rune at least.
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

// short cuts text at a width.
func short(s string, room int) string {
	if twwidth.Width(s) <= room {
		return s
	}
	return cutAt(s, room-1) + "…"
}
