package report_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"

	htmlreport "github.com/gpuprof/gpuprof/report/html"
	"github.com/gpuprof/gpuprof/report/markdown"
	"github.com/gpuprof/gpuprof/report/page"
	"github.com/gpuprof/gpuprof/report/table"
)

// numeral is a number as a text holds it; a sign may be a dash between two of them, and
// digits of a name (item_reads=16, v1) are no less a number.
var numeral = regexp.MustCompile(`\d+(?:\.\d+)?(?:e[-+]?\d+)?`)

// bag counts the numbers of texts.
func bag(texts ...string) map[string]int {
	out := map[string]int{}
	for _, t := range texts {
		for _, n := range numeral.FindAllString(grouped.ReplaceAllString(t, "$1$2"), -1) {
			out[n]++
		}
	}
	return out
}

// written is a page in the formats that a page is written in.
func written(t *testing.T, p *page.Page) map[string]string {
	t.Helper()
	return map[string]string{
		"table":    rendered(t, func(w io.Writer) error { return table.Write(w, p, table.Options{Width: 1 << 16}) }),
		"narrow":   rendered(t, func(w io.Writer) error { return table.Write(w, p, table.Options{Width: 80}) }),
		"markdown": rendered(t, func(w io.Writer) error { return markdown.Write(w, p, 0) }),
		"html":     rendered(t, func(w io.Writer) error { return htmlreport.Write(w, p) }),
	}
}

// said are the texts of a page: those that every format in in shows (must), and those
// that some format may show (may).
type said struct{ must, may []string }

func (s *said) add(shown bool, texts ...string) {
	s.may = append(s.may, texts...)
	if shown {
		s.must = append(s.must, texts...)
	}
}

// saidBy returns the texts of a page in a format.
func saidBy(p *page.Page, in page.Where) *said {
	s := &said{may: append([]string{p.Date, p.Footer, p.Tool, p.Data.Name, p.Data.Note, p.Title}, p.Meta...)}
	s.add(true, answerTexts(p, false)...)
	s.add(in != page.HTML, answerTexts(p, true)...) // there they are in a picture
	s.sections(p.Sections, in, true)
	return s
}

// answerTexts are the texts of what opens a page: of its bar, or the others.
func answerTexts(p *page.Page, bar bool) (out []string) {
	a := p.Opening()
	switch {
	case bar && a.Bar != nil:
		out = append(out, page.WholeText(a.Bar))
		for _, part := range page.PartsOf(a.Bar) {
			out = append(out, part.Name, part.Text)
		}
	case !bar:
		out = append(out, a.Verdict, a.Sentence)
		if a.Action != nil {
			out = append(out, a.Action.Text, a.Action.Command)
		}
	}
	return out
}

func (s *said) sections(all []page.Section, in page.Where, shown bool) {
	for _, sec := range all {
		here := shown && sec.In.In(in)
		s.add(false, append(sec.Brief, sec.Heading, sec.Badge.Text)...)
		s.blocks(sec.Blocks, in, here)
		s.sections(sec.Sections, in, here)
	}
}

func (s *said) blocks(all []page.Block, in page.Where, shown bool) {
	for _, b := range all {
		if b == nil {
			continue
		}
		here := shown && b.Shown().In(in)
		switch b := b.(type) {
		case page.Text:
			s.add(here, b.S)
		case page.Lines:
			s.lines(b.Lines, in, here)
		case page.Table:
			s.table(b, in, here)
		case page.List:
			for i, item := range b.Items {
				s.add(here && item.In.In(in) && (in == page.HTML || b.Max == 0 || i < b.Max), item.Badge.Text, item.Label, item.Text)
				s.add(false, append(item.Sub, fmt.Sprint(len(b.Items)-b.Max), fmt.Sprint(i+1))...)
				s.lines(item.Lines, in, false)
				s.blocks(item.More, in, false)
			}
		case page.Chart:
			s.add(false, b.Note)
		case page.Timeline:
			_, note := b.Draw()
			s.add(false, note)
		}
	}
}

func (s *said) lines(all []page.Line, in page.Where, shown bool) {
	for _, l := range all {
		s.add(shown && l.In.In(in), l.Label, l.Value, l.Note)
	}
}

func (s *said) table(b page.Table, in page.Where, shown bool) {
	s.add(false, b.Caption, b.Name, b.Folded, b.More, fmt.Sprint(len(b.Rows)))
	most := b.Max[map[page.Where]int{page.Terminal: 0, page.Markdown: 1, page.HTML: 2}[in]]
	for _, c := range b.Columns {
		s.add(false, c.Title, c.Narrow, c.Legend)
	}
	for n := range len(b.Rows) { // "4 more rows", however many find no room
		s.add(false, strconv.Itoa(n))
	}
	for i, r := range b.Rows {
		for k, c := range r.Cells {
			s.add(shown && r.In.In(in) && b.Columns[k].In.In(in) && (most == 0 || i < most), c.Text)
			s.add(false, c.Narrow, c.Note)
		}
	}
}

var unread = regexp.MustCompile(`(?s)<svg.*?</svg>|<script.*?</script>|<style.*?</style>|<head>.*?</head>`)

// noRoom matches a terminal's note about columns that it leaves out.
var noRoom = regexp.MustCompile(`no room for .* columns`)

// printedText is what a reader sees of a format, without pictures.
func printedText(format, text string) string {
	switch format {
	case "html":
		return html.UnescapeString(htmlTag.ReplaceAllString(unread.ReplaceAllString(text, ""), " "))
	case "markdown":
		return strings.NewReplacer(`\`, "").Replace(html.UnescapeString(text))
	}
	return noRoom.ReplaceAllString(text, "")
}

// wanted is what a page has in a format.
type wanted struct {
	format    string
	must, may map[string]int
}

func wantedOf(p *page.Page, format string) *wanted {
	s := saidBy(p, map[string]page.Where{"table": page.Terminal, "narrow": page.Terminal, "markdown": page.Markdown, "html": page.HTML}[format])
	return &wanted{format: format, must: bag(s.must...), may: bag(s.may...)}
}

// misprints are the numbers of a printed page that the page does not have, and those of
// the page that it lacks.
func (w *wanted) misprints(text string) (out []string) {
	got := bag(text)
	for n := range got {
		if w.may[n] == 0 {
			out = append(out, fmt.Sprintf("%s has %s, which the page does not", w.format, n))
		}
	}
	if w.format != "narrow" { // columns are left out
		for n, count := range w.must {
			if got[n] < count {
				out = append(out, fmt.Sprintf("%s has %s %d times of %d", w.format, n, got[n], count))
			}
		}
	}
	return out
}

// suiteTime is the sum of the cases' times.
var suiteTime = regexp.MustCompile(` time="[0-9.]+" timestamp="[^"]+"`)

// misfiled are the numbers of a file for other programs that the document does not have.
func misfiled(t *truth, format, text string) (out []string) {
	switch format {
	case "csv":
		rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		if err != nil {
			return []string{err.Error()}
		}
		for i, row := range rows[1:] {
			for k, cell := range row[1:] {
				if v, err := strconv.ParseFloat(cell, 64); err == nil && !t.has(v) && t.words[cell] == 0 {
					out = append(out, fmt.Sprintf("csv has %s in row %d, column %s", cell, i+1, rows[0][k+1]))
				}
			}
		}
	case "bench":
		for line := range strings.Lines(text) {
			if f := strings.Fields(line); strings.HasPrefix(line, "Benchmark") {
				for i := 1; i < len(f); i += 1 + min(i-1, 1) {
					if v, err := strconv.ParseFloat(f[i], 64); err != nil || !t.near(v) && t.words[f[i]] == 0 {
						out = append(out, fmt.Sprintf("bench has %s in %s", f[i], line))
					}
				}
			}
		}
	case "prometheus":
		for line := range strings.Lines(text) {
			_, value, sample := strings.Cut(strings.TrimSpace(line), "} ")
			if v, err := strconv.ParseFloat(value, 64); sample && !strings.Contains(line, "_healthy{") && (err != nil || !t.has(v)) {
				out = append(out, fmt.Sprintf("prometheus has %s in %s", value, line))
			}
		}
	case "bmf":
		out = append(out, misfiledBMF(t, text)...)
	case "openmetrics":
		for line := range strings.Lines(text) {
			_, value, sample := strings.Cut(strings.TrimSpace(line), "} ")
			if v, err := strconv.ParseFloat(value, 64); sample && (err != nil || !t.near(v)) {
				out = append(out, fmt.Sprintf("openmetrics has %s in %s", value, line))
			}
		}
	case "junit":
		for line := range strings.Lines(suiteTime.ReplaceAllString(text, "")) {
			for _, n := range t.unsaid(html.UnescapeString(line), nil) {
				out = append(out, fmt.Sprintf("junit has %s in %s", n, line))
			}
		}
	}
	return out
}

// misfiledBMF are the numbers of Bencher's format that the document does not have. Its latencies are in nanoseconds.
func misfiledBMF(t *truth, text string) (out []string) {
	var file map[string]map[string]map[string]float64
	if err := json.Unmarshal([]byte(text), &file); err != nil {
		return []string{err.Error()}
	}
	for name, measures := range file {
		for slug, values := range measures {
			for _, v := range values {
				if slug == "latency" {
					v /= 1e9
				}
				if !t.near(v) {
					out = append(out, fmt.Sprintf("bmf has %v of %s %s", v, name, slug))
				}
			}
		}
	}
	return out
}
