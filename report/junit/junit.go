// Package junit writes a comparison as JUnit XML, the form in which CI systems
// take test results: a test case a metric and a budget. A regression and a
// broken budget are failures, what is inconclusive is skipped, a benchmark
// that gave no figure is an error.
//
// No schema of JUnit XML is official. The document keeps to what the two in
// common use agree on, that of the Ant task (which wants every attribute and
// a fixed order) and that of Jenkins and Surefire.
package junit

import (
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/report/internal/verdict"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Limit is the size GitLab takes for a report: 30 MB.
const Limit = 30_000_000

// Options say what a comparison does not know of itself.
type Options struct {
	Started time.Time // when it was measured; the zero time is 1970
	Host    string    // "" is localhost
	Limit   int       // bytes; 0 is Limit
}

type suites struct {
	XMLName xml.Name `xml:"testsuites"`
	Suite   suite    `xml:"testsuite"`
}

type suite struct {
	Name       string     `xml:"name,attr"`
	Package    string     `xml:"package,attr"`
	ID         int        `xml:"id,attr"`
	Tests      int        `xml:"tests,attr"`
	Failures   int        `xml:"failures,attr"`
	Errors     int        `xml:"errors,attr"`
	Skipped    int        `xml:"skipped,attr"`
	Time       string     `xml:"time,attr"`
	Timestamp  string     `xml:"timestamp,attr"`
	Host       string     `xml:"hostname,attr"`
	Properties []property `xml:"properties>property"`
	Cases      []testcase `xml:"testcase"`
	Out        string     `xml:"system-out"`
	Err        string     `xml:"system-err"`
}

type property struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

// testcase has one outcome at most; none is a pass.
type testcase struct {
	Name    string   `xml:"name,attr"`
	Class   string   `xml:"classname,attr"`
	Time    string   `xml:"time,attr"`
	Skipped *outcome `xml:"skipped,omitempty"`
	Error   *outcome `xml:"error,omitempty"`
	Failure *outcome `xml:"failure,omitempty"`
}

type outcome struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"` // of failures and errors; one schema forbids it of skipped
	Text    string `xml:",chardata"`
}

// Write writes the comparison. Cases that find no room within the limit are
// left out, those that passed first, and a property counts them.
func Write(w io.Writer, c *compare.Comparison, o Options) error {
	if c == nil {
		return view.ErrNoRun("JUnit XML")
	}
	if o.Limit <= 0 {
		o.Limit = Limit
	}
	s := newSuite(c, o)
	names := names{}
	s.metrics(c, names)
	s.budgets(c, names)
	s.failed(c, names)
	s.shrink(o.Limit)
	s.tally()
	b, err := xml.MarshalIndent(suites{Suite: *s}, "", " ")
	if err != nil {
		return fmt.Errorf("writing JUnit XML: %w", err)
	}
	_, err = io.WriteString(w, xml.Header+"<!-- written by gpuprof -->\n"+string(b)+"\n")
	return err
}

func newSuite(c *compare.Comparison, o Options) *suite {
	if o.Host == "" {
		o.Host = "localhost"
	}
	if o.Started.IsZero() {
		o.Started = time.Unix(0, 0)
	}
	s := &suite{
		Name: clean("gpuprof "+c.Sides, 80), Package: "gpuprof", Host: clean(o.Host, 80),
		Timestamp: o.Started.UTC().Format("2006-01-02T15:04:05"), // a zone is not allowed
	}
	for _, kv := range [][2]string{
		{"verdict", string(c.Verdict)}, {"exit_code", strconv.Itoa(c.ExitCode)}, {"threshold", strconv.FormatFloat(c.Threshold, 'g', -1, 64)},
		{"workload", c.Workload}, {"preset", c.Preset}, {"old", c.Old}, {"new", c.New}, {"seed", strconv.FormatUint(c.Seed, 10)}, {"gpuprof", c.Tool.Version},
	} {
		if kv[1] != "" {
			s.Properties = append(s.Properties, property{kv[0], clean(kv[1], 300)})
		}
	}
	s.Out = suiteText(c)
	return s
}

const suiteLines = 50

// suiteText is what belongs to no single metric.
func suiteText(c *compare.Comparison) string {
	var b strings.Builder
	line := func(s string) { b.WriteString(clean(s, 1000) + "\n") }
	line(verdict.Headline(c))
	line(verdict.Subject(c) + "; " + verdict.How(c))
	for _, cause := range c.Causes[:min(len(c.Causes), suiteLines)] {
		line("change: " + verdict.CauseText(cause))
	}
	for _, d := range c.Differences[:min(len(c.Differences), suiteLines)] {
		line("differs: " + verdict.DifferenceText(d))
	}
	for _, w := range c.Warnings[:min(len(c.Warnings), suiteLines)] {
		line("warning: " + w.Text + "; " + w.Fix)
	}
	for _, n := range c.Next[:min(len(c.Next), suiteLines)] {
		line("next: " + n)
	}
	return b.String()
}

// names makes every name its own: CI systems merge cases that share one.
type names map[string]bool

func (n names) unique(name string) string {
	name = clean(name, 400)
	if name == "" {
		name = "unnamed"
	}
	out := name
	for i := 2; n[out]; i++ {
		out = fmt.Sprintf("%s (%d)", name, i)
	}
	n[out] = true
	return out
}

func (s *suite) metrics(c *compare.Comparison, n names) {
	for i := range c.Metrics {
		m := &c.Metrics[i]
		t := testcase{Name: n.unique(m.Name), Class: "gpuprof.metric", Time: seconds(m)}
		r := verdict.RowOf(m)
		switch m.Verdict {
		case compare.Regressed:
			t.Failure = &outcome{clean(short(r), 500), "regressed", clean(r.Sentence(), 2000)}
		case compare.Inconclusive, compare.NotComparable:
			why := r.Reason
			if why == "" {
				why = "the data at hand show neither a regression nor its absence"
			}
			t.Skipped = &outcome{clean(string(m.Verdict)+": "+why, 500), "", clean(r.Sentence(), 2000)}
		}
		s.Cases = append(s.Cases, t)
	}
}

// short is the failure in the one line that CI systems show.
func short(r verdict.Row) string {
	if r.Ratio == view.None {
		return fmt.Sprintf("regressed from %s to %s", r.Old, r.New)
	}
	if r.Interval == view.None {
		return fmt.Sprintf("regressed %s, from %s to %s", r.Ratio, r.Old, r.New)
	}
	return fmt.Sprintf("regressed %s (95 %% %s), from %s to %s", r.Ratio, r.Interval, r.Old, r.New)
}

// seconds is the new time where the metric is one: CI systems then draw its
// history.
func seconds(m *compare.MetricResult) string {
	if v := float64(m.New); m.Unit == "s" && view.Finite(v) && v >= 0 {
		return strconv.FormatFloat(v, 'f', 9, 64)
	}
	return "0"
}

func (s *suite) budgets(c *compare.Comparison, n names) {
	for i := range c.Budgets {
		b := &c.Budgets[i]
		text := verdict.BudgetText(b)
		t := testcase{Name: n.unique("budget " + b.Name), Class: "gpuprof.budget", Time: "0"}
		switch {
		case b.Verdict == compare.Inconclusive:
			t.Skipped = &outcome{clean(text, 500), "", ""}
		case b.Over:
			body := text
			for _, where := range b.Where[:min(len(b.Where), suiteLines)] {
				body += "\nat " + clean(where, 300)
			}
			t.Failure = &outcome{clean(text, 500), "budget", lines(body)}
		}
		s.Cases = append(s.Cases, t)
	}
}

func (s *suite) failed(c *compare.Comparison, n names) {
	for _, f := range c.Failed {
		// "side: name: why", and the case is the benchmark of that name.
		name, why, _ := strings.Cut(f, ": ")
		if of, rest, ok := strings.Cut(why, ": "); ok && (name == c.Old || name == c.New) {
			name, why = of, rest
		}
		s.Cases = append(s.Cases, testcase{Name: n.unique(name), Class: "gpuprof.run", Time: "0", Error: &outcome{clean(why, 500), "failed", clean(f, 2000)}})
	}
}

// shrink drops cases until the document fits: first those that passed, then
// from the end.
func (s *suite) shrink(limit int) {
	const frame = 4096 // header, suite and its properties
	size := frame + 8*len(s.Out)
	for _, p := range s.Properties {
		size += 64 + 6*len(p.Value)
	}
	total := size
	for i := range s.Cases {
		total += s.Cases[i].size()
	}
	if total <= limit {
		return
	}
	var kept []testcase
	left := 0
	for _, passed := range []bool{false, true} {
		for i := range s.Cases {
			if s.Cases[i].passed() != passed {
				continue
			}
			if size+s.Cases[i].size() > limit {
				left++
				continue
			}
			size += s.Cases[i].size()
			kept = append(kept, s.Cases[i])
		}
	}
	s.Cases = kept
	s.Properties = append(s.Properties, property{"cases_left_out", strconv.Itoa(left)})
}

func (t *testcase) passed() bool { return t.Failure == nil && t.Error == nil && t.Skipped == nil }

// size is an upper bound of the bytes a case takes: escaping makes at most six
// of one.
func (t *testcase) size() int {
	n := 160 + 6*(len(t.Name)+len(t.Class))
	for _, o := range []*outcome{t.Failure, t.Error, t.Skipped} {
		if o != nil {
			n += 120 + 6*(len(o.Message)+len(o.Text))
		}
	}
	return n
}

func (s *suite) tally() {
	s.Tests = len(s.Cases)
	total := 0.0
	for i := range s.Cases {
		t := &s.Cases[i]
		switch {
		case t.Failure != nil:
			s.Failures++
		case t.Error != nil:
			s.Errors++
		case t.Skipped != nil:
			s.Skipped++
		}
		if v, err := strconv.ParseFloat(t.Time, 64); err == nil {
			total += v
		}
	}
	s.Time = strconv.FormatFloat(total, 'f', 3, 64) // more digits are not allowed here
}

// clean makes text fit for an attribute: one line with single blanks.
func clean(s string, limit int) string {
	return strings.Join(strings.Fields(view.Cut(s, limit)), " ")
}

// lines is clean for text of several lines.
func lines(s string) string {
	var out []string
	for l := range strings.Lines(s) {
		out = append(out, clean(l, 2000))
	}
	return strings.Join(out, "\n")
}
