//go:build !race

// Under the race detector thousands of pages read in one goroutine take ten times as long.

package report_test

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/report/figure"
	"github.com/gpuprof/gpuprof/report/page"
)

// most is how many numbers of a format are changed, one after the other, evenly spaced.
const most = 24

// changed is a number as a renderer prints it by mistake: 37 % more, in as many digits.
func changed(n string) string {
	v, _ := strconv.ParseFloat(n, 64)
	mantissa, exponent, has := strings.Cut(n, "e")
	_, frac, _ := strings.Cut(mantissa, ".")
	if has {
		m, _ := strconv.ParseFloat(mantissa, 64)
		return strconv.FormatFloat(1.37*m, 'f', max(len(frac), 2), 64) + "e" + exponent
	}
	return strconv.FormatFloat(1.37*v, 'f', len(frac), 64)
}

// mutants are the texts in which one number of two digits or more is another. It is found by
// which, whose last group is the number.
func mutants(text string, which *regexp.Regexp) (out []string) {
	all := slices.DeleteFunc(which.FindAllStringSubmatchIndex(text, -1), func(at []int) bool {
		return len(strings.Trim(text[at[len(at)-2]:at[len(at)-1]], ".0")) < 2
	})
	stride := max(1, len(all)/most)
	for i := 0; i < len(all); i += stride {
		a, b := all[i][len(all[i])-2], all[i][len(all[i])-1]
		out = append(out, text[:a]+changed(text[a:b])+text[b:])
	}
	return out
}

// score counts the changes of a format that the guard reported.
type score struct{ found, made int }

func (s *score) count(reported bool) {
	s.made++
	if reported {
		s.found++
	}
}

// cells of the files for other programs: a field of csv, one of a benchmark's line, a time or
// a figure of JUnit's.
var numbersIn = map[string]*regexp.Regexp{
	"csv":   regexp.MustCompile(`,(\d+\.\d+(?:e[-+]\d+)?)(?:,|\n)`),
	"bench": regexp.MustCompile(`(?m)[ \t](\d+(?:\.\d+)?(?:e[-+]\d+)?) [A-Za-z]`),
	"junit": regexp.MustCompile(`(?: |")(\d+\.\d+)`),

	"bmf":         regexp.MustCompile(`": (\d+(?:\.\d+)?(?:e[-+]\d+)?),?\n`),
	"openmetrics": regexp.MustCompile(`\} (\d+(?:\.\d+)?(?:e[-+]\d+)?)`),

	"prometheus": regexp.MustCompile(`\} (\d+(?:\.\d+)?(?:e[-+]\d+)?)`),
}

// TestTheGuardFindsAChangedNumber: of every kind of document and every format, a number that
// a renderer changes is reported. Some changes make a number that the document has elsewhere,
// which the guard cannot tell from a right one: of the texts of figures at most a quarter
// (they say little of which the page does not have thousands), of places 15 in a hundred, of all else one in five (of a
// search for a commit, whose numbers are small whole ones, and of narrow tables, where columns are
// left out; most find all).
func TestTheGuardFindsAChangedNumber(t *testing.T) {
	scores := map[[2]string]*score{}
	of := func(kind, format string) *score {
		key := [2]string{kind, format}
		if scores[key] == nil {
			scores[key] = &score{}
		}
		return scores[key]
	}
	for _, g := range everyDocument(t) {
		truth := truthOf(g)
		with := truth.with(g.page)
		for format, text := range written(t, g.page) {
			w := wantedOf(g.page, format)
			for _, m := range mutants(printedText(format, text), numeral) {
				of(g.kind, format).count(len(w.misprints(m)) > 0)
			}
		}
		for format, text := range g.files {
			text = suiteTime.ReplaceAllString(text, "")
			for _, m := range mutants(text, numbersIn[format]) {
				of(g.kind, format).count(len(misfiled(with, format, m)) > 0)
			}
		}
		for _, m := range mutantDocuments(g, truth) {
			other := truthOf(m)
			of(g.kind, "json").count(len(unfounded(g.page, other)) > 0 || lost(g.page, truth, other) > 0)
		}
		for name, f := range g.figures {
			mutantMarks(g, with, name, f, of)
		}
	}
	table := outputs(t)
	for kind, formats := range table {
		for _, format := range formats {
			s := of(kind, format)
			if format == "png" || format == "svg" {
				continue // every figure below
			}
			if elsewhere[format] == "" && (s.made == 0 || float64(s.found) < 0.8*float64(s.made)) {
				t.Errorf("%s as %s: %d of %d changed numbers are reported", kind, format, s.found, s.made)
			}
		}
		if s := of(kind, "narrow"); float64(s.found) < 0.8*float64(s.made) {
			t.Errorf("%s as a narrow table: %d of %d changed numbers are reported", kind, s.found, s.made)
		}
	}
	for what, names := range plots(t) {
		for _, name := range names {
			for part, least := range map[string]float64{"text": 0.75, "place": 0.85} {
				s := of(what+" "+name, part)
				if (s.made == 0 && !slices.Contains(without[what+" "+name], part)) || float64(s.found) < least*float64(s.made) {
					t.Errorf("the figure %s of %s: %d of %d changes of a %s are reported", name, what, s.found, s.made, part)
				}
			}
		}
	}
}

// without are the figures whose marks say no number in a text. An overview is of the trace
// itself, whose events no document holds: the golden figures alone have it.
var without = map[string][]string{"a run telemetry": {"text"}, "an analysis overview": {"text", "place"}, "a comparison of traces overview": {"text", "place"}}

// wrote reports whether a value is a number of the document, in seconds or in nanoseconds.
func (t *truth) wrote(v float64) bool {
	_, ok := slices.BinarySearch(t.written, v)
	_, ns := slices.BinarySearch(t.written, math.Round(v*1e9))
	return ok || ns
}

// lost is how many figures of a page are numbers of one document and not of the other.
func lost(p *page.Page, was, is *truth) (n int) {
	cellsOf(p.Sections, func(_ string, _ page.Row, _ page.Column, c page.Cell) {
		if c.Unit != "" && was.wrote(c.Value) && !is.wrote(c.Value) {
			n++
		}
	})
	return n
}

// mutantDocuments are documents one of whose numbers, which the page prints, is another.
func mutantDocuments(g *guarded, t *truth) (out []*guarded) {
	shown := map[float64]bool{}
	cellsOf(g.page.Sections, func(_ string, _ page.Row, _ page.Column, c page.Cell) {
		if c.Unit != "" && t.wrote(c.Value) {
			shown[c.Value], shown[math.Round(c.Value*1e9)] = true, true
		}
	})
	said := bag(saidBy(g.page, page.HTML).must...)
	times := map[string]int{} // commas of JSON group no digits
	for _, n := range numeral.FindAllString(g.json, -1) {
		times[n]++
	}
	at := 0
	for _, loc := range numeral.FindAllStringIndex(g.json, -1) {
		n := g.json[loc[0]:loc[1]]
		if word(g.json[loc[0]-1]) || word(g.json[loc[1]]) { // digits of a commit's name are no number
			continue
		}
		v, _ := strconv.ParseFloat(n, 64)
		if times[n] != 1 || len(strings.Trim(n, ".0")) < 2 || !shown[v] && (len(shown) > 0 || said[n] == 0) {
			continue
		}
		if at++; at > 12 {
			break
		}
		m := *g
		m.json = g.json[:loc[0]] + changed(n) + g.json[loc[1]:]
		out = append(out, &m)
	}
	return out
}

func word(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// long is a number of three digits or more, as figures are printed; a count of samples is not.
var long = regexp.MustCompile(`(\d+\.\d\d+|\d\d+\.\d+|\d{3,})`)

// mutantMarks changes the numbers of a figure's texts and the places of its marks.
func mutantMarks(g *guarded, t *truth, name string, f *figure.Figure, of func(kind, format string) *score) {
	what := g.document + " " + name
	for i := range f.Panels {
		for p := &f.Panels[i]; p != nil; p = p.Side {
			for _, text := range slices.Concat(p.Right, p.RowNotes) {
				for _, m := range mutants(stamp.ReplaceAllString(text, ""), long) {
					of(what, "text").count(len(t.unsaid(m, nil)) > 0)
				}
			}
			stride := max(1, len(p.Marks)/most)
			for k := 0; k < len(p.Marks); k += stride {
				m := p.Marks[k]
				for _, tip := range mutants(stamp.ReplaceAllString(m.Tip, ""), long) {
					was := m.Tip
					m.Tip = tip
					of(what, "text").count(len(g.misplaced(t, name, p, &m)) > 0)
					m.Tip = was
				}
				if !slices.ContainsFunc(g.coordinates(name, p, &m), func(v float64) bool { return v != 0 && math.Abs(v) <= math.MaxFloat64 }) {
					continue
				}
				of(what, "place").count(len(g.misplaced(t, name, p, moved(m))) > 0)
			}
		}
	}
}

// moved is a mark of which one end, or one point in the middle, is elsewhere.
func moved(m figure.Mark) *figure.Mark {
	m.Points = slices.Clone(m.Points)
	if n := len(m.Points); n > 0 {
		at := &m.Points[n/2]
		at[0], at[1] = 1.371*at[0]+1e-7, 1.371*at[1]+1e-7
		return &m
	}
	switch m.Kind {
	case figure.Bar:
		m.X1, m.Y1 = m.X1+0.371*(m.X1-m.X0), m.Y1+0.371*(m.Y1-m.Y0)
	default:
		m.X0, m.Y0 = 1.371*m.X0, 1.371*m.Y0
	}
	return &m
}
