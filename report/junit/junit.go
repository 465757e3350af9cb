// Package junit writes a comparison as JUnit XML, which CI systems read as test results, with a test case per metric
// and per budget. Regressions and exceeded budgets are failures, inconclusive metrics are skipped, benchmarks without a
// figure are errors.
//
// JUnit XML has no official schema. The output is valid under two schemas: the one of the Ant task, which requires all
// attributes in a fixed order, and the one of Jenkins and Surefire.
package junit

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/report/internal/verdict"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Limit is GitLab's size limit of a report, bytes.
const Limit = 30_000_000

// Options has facts that a comparison does not have.
type Options struct {
	Started time.Time // time of the measurement; the zero time gives 1970
	Host    string    // "" is localhost
	Limit   int       // bytes; 0 means the constant Limit
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

// testcase has at most one outcome; without one it passed.
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
	Type    string `xml:"type,attr,omitempty"` // only of failures and errors: one schema forbids it for skipped cases
	Text    string `xml:",chardata"`
}

// Write writes the comparison. If the output would exceed the limit, it omits cases, passed ones first, and writes
// their number as a property.
func Write(w io.Writer, c *compare.Comparison, o Options) error {
	if c == nil {
		return view.ErrNoRun("JUnit XML")
	}
	if o.Limit <= 0 {
		o.Limit = Limit
	}
	s := newSuite(c, o)
	names := names{}
	s.addMetrics(c, names)
	s.addBudgets(c, names)
	s.addFailed(c, names)
	s.shrinkTo(o.Limit)
	s.countCases()
	b, err := xml.MarshalIndent(suites{Suite: *s}, "", " ")
	if err != nil {
		return fmt.Errorf("writing JUnit XML: %w", err)
	}
	_, err = io.WriteString(w, xml.Header+"<!-- written by gpuprof -->\n"+string(b)+"\n")
	return err
}

func newSuite(c *compare.Comparison, o Options) *suite {
	if o.Started.IsZero() {
		o.Started = time.Unix(0, 0)
	}
	s := &suite{
		Name: cleanLine("gpuprof "+c.Sides, 80), Package: "gpuprof", Host: cleanLine(cmp.Or(o.Host, "localhost"), 80),
		Timestamp: o.Started.UTC().Format("2006-01-02T15:04:05"), // a time zone is not allowed
	}
	for _, kv := range [][2]string{
		{"verdict", string(c.Verdict)}, {"exit_code", strconv.Itoa(c.ExitCode)}, {"threshold", strconv.FormatFloat(c.Threshold, 'g', -1, 64)},
		{"workload", c.Workload}, {"preset", c.Preset}, {"old", c.Old}, {"new", c.New}, {"seed", strconv.FormatUint(c.Seed, 10)}, {"gpuprof", c.Tool.Version},
	} {
		if kv[1] != "" {
			s.Properties = append(s.Properties, property{kv[0], cleanLine(kv[1], 300)})
		}
	}
	s.Out = suiteText(c)
	return s
}

const suiteLines = 50

// suiteText returns the texts that belong to no single metric.
func suiteText(c *compare.Comparison) string {
	var b strings.Builder
	line := func(s string) { b.WriteString(cleanLine(s, 1000) + "\n") }
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

// names makes names unique, because CI systems merge cases of one name.
type names map[string]bool

func (n names) makeUnique(name string) string {
	name = cmp.Or(cleanLine(name, 400), "unnamed")
	out := name
	for i := 2; n[out]; i++ {
		out = fmt.Sprintf("%s (%d)", name, i)
	}
	n[out] = true
	return out
}

func (s *suite) addMetrics(c *compare.Comparison, n names) {
	for i := range c.Metrics {
		m := &c.Metrics[i]
		t := testcase{Name: n.makeUnique(m.Name), Class: "gpuprof.metric", Time: secondsText(m)}
		r := verdict.RowOf(m)
		switch m.Verdict {
		case compare.Regressed:
			t.Failure = &outcome{cleanLine(failureLine(r), 500), "regressed", cleanLine(r.Sentence(), 2000)}
		case compare.Inconclusive, compare.NotComparable:
			why := cmp.Or(r.Reason, "the data at hand show neither a regression nor its absence")
			t.Skipped = &outcome{cleanLine(string(m.Verdict)+": "+why, 500), "", cleanLine(r.Sentence(), 2000)}
		}
		s.Cases = append(s.Cases, t)
	}
}

// failureLine returns the line about a failure that CI systems show.
func failureLine(r verdict.Row) string {
	if r.Ratio == view.None {
		return fmt.Sprintf("regressed from %s to %s", r.Old, r.New)
	}
	if r.Interval == view.None {
		return fmt.Sprintf("regressed %s, from %s to %s", r.Ratio, r.Old, r.New)
	}
	return fmt.Sprintf("regressed %s (95 %% %s), from %s to %s", r.Ratio, r.Interval, r.Old, r.New)
}

// secondsText returns the new value of a metric of time, s, whose history CI systems draw; "0" for others.
func secondsText(m *compare.MetricResult) string {
	if v := float64(m.New); m.Unit == "s" && gpuprof.IsFinite(v) && v >= 0 {
		return strconv.FormatFloat(v, 'f', 9, 64)
	}
	return "0"
}

func (s *suite) addBudgets(c *compare.Comparison, n names) {
	for i := range c.Budgets {
		b := &c.Budgets[i]
		text := verdict.BudgetText(b)
		t := testcase{Name: n.makeUnique("budget " + b.Name), Class: "gpuprof.budget", Time: "0"}
		switch {
		case b.Verdict == compare.Inconclusive:
			t.Skipped = &outcome{cleanLine(text, 500), "", ""}
		case b.Over:
			body := text
			for _, where := range b.Where[:min(len(b.Where), suiteLines)] {
				body += "\nat " + cleanLine(where, 300)
			}
			t.Failure = &outcome{cleanLine(text, 500), "budget", cleanLines(body)}
		}
		s.Cases = append(s.Cases, t)
	}
}

func (s *suite) addFailed(c *compare.Comparison, n names) {
	for _, f := range c.Failed {
		// A failure is "side: name: why". The case has the name of the benchmark.
		name, why, _ := strings.Cut(f, ": ")
		if of, rest, ok := strings.Cut(why, ": "); ok && (name == c.Old || name == c.New) {
			name, why = of, rest
		}
		s.Cases = append(s.Cases, testcase{Name: n.makeUnique(name), Class: "gpuprof.run", Time: "0", Error: &outcome{cleanLine(why, 500), "failed", cleanLine(f, 2000)}})
	}
}

// shrinkTo drops cases until the document fits. It drops passed cases first, the last ones first.
func (s *suite) shrinkTo(limit int) {
	const frame = 4096 // size of header, suite and properties
	size := frame + 8*len(s.Out)
	for _, p := range s.Properties {
		size += 64 + 6*len(p.Value)
	}
	total := size
	for i := range s.Cases {
		total += s.Cases[i].sizeBound()
	}
	if total <= limit {
		return
	}
	var kept []testcase
	left := 0
	for _, passed := range []bool{false, true} {
		for i := range s.Cases {
			if s.Cases[i].hasPassed() != passed {
				continue
			}
			if size+s.Cases[i].sizeBound() > limit {
				left++
				continue
			}
			size += s.Cases[i].sizeBound()
			kept = append(kept, s.Cases[i])
		}
	}
	s.Cases = kept
	s.Properties = append(s.Properties, property{"cases_left_out", strconv.Itoa(left)})
}

func (t *testcase) hasPassed() bool { return t.Failure == nil && t.Error == nil && t.Skipped == nil }

// sizeBound returns an upper bound of a case's size, bytes: escaping makes at most six bytes of one.
func (t *testcase) sizeBound() int {
	n := 160 + 6*(len(t.Name)+len(t.Class))
	for _, o := range []*outcome{t.Failure, t.Error, t.Skipped} {
		if o != nil {
			n += 120 + 6*(len(o.Message)+len(o.Text))
		}
	}
	return n
}

func (s *suite) countCases() {
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
	s.Time = strconv.FormatFloat(total, 'f', 3, 64) // more digits are not allowed
}

// cleanLine returns a text for an attribute: one line with single blanks.
func cleanLine(s string, limit int) string {
	return strings.Join(strings.Fields(view.Cut(s, limit)), " ")
}

func cleanLines(s string) string {
	var out []string
	for l := range strings.Lines(s) {
		out = append(out, cleanLine(l, 2000))
	}
	return strings.Join(out, "\n")
}
