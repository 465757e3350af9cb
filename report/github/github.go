// Package github reports a comparison to GitHub Actions: as annotations, which are workflow commands on standard
// output, and in the step summary, a Markdown file whose path the runner sets.
package github

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/lazyregexp"
	"github.com/gpuprof/gpuprof/report/internal/verdict"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

const (
	// MaxAnnotations is GitHub's limit per level and step. GitHub drops further ones; therefore the first is a summary.
	MaxAnnotations = 10
	// MaxSummary is GitHub's limit of a step summary, bytes. GitHub refuses a larger one.
	MaxSummary = 1 << 20
	// maxMessage limits an annotation, in runes, so that it is readable. GitHub cuts at 4 KiB.
	maxMessage = 1000
)

// Active reports whether the process runs in a step of GitHub Actions. getenv is os.Getenv.
func Active(getenv func(string) string) bool {
	return getenv("GITHUB_ACTIONS") == "true" || getenv("GITHUB_STEP_SUMMARY") != ""
}

// SummaryPath returns the file of the step summary, or "".
func SummaryPath(getenv func(string) string) string { return getenv("GITHUB_STEP_SUMMARY") }

// annotation is one workflow command.
type annotation struct {
	level, title, text, file, line string
}

// Annotate writes a comparison's annotations: none if all is well, otherwise a summary and at most nine problems, the
// worst first. Regressions, exceeded budgets and failures are errors; an inconclusive result is a warning.
func Annotate(w io.Writer, c *compare.Comparison) error {
	if c == nil {
		return view.ErrNoRun("annotations")
	}
	list := listWorst(c)
	if len(list) == 0 && (c.ExitCode == 0 || c.Verdict == compare.Pass || c.Verdict == compare.Improved) {
		return nil
	}
	head := annotation{level: "error", title: "gpuprof: " + verdict.Word(c.Verdict), text: verdict.Headline(c)}
	if c.Verdict.Open() && len(c.Failed) == 0 {
		head.level = "warning"
	}
	for i, n := range c.Next {
		if i == 2 {
			break
		}
		head.text += "\nnext: " + n
	}
	if n := len(list) - (MaxAnnotations - 1); n > 0 {
		head.text += fmt.Sprintf("\nand %d more than are annotated", n)
		list = list[:MaxAnnotations-1]
	}
	for _, a := range append([]annotation{head}, list...) {
		if _, err := io.WriteString(w, a.String()); err != nil {
			return fmt.Errorf("writing annotations: %w", err)
		}
	}
	return nil
}

// listWorst returns an annotation per problem, the worst first: benchmarks without a figure, exceeded budgets with call
// sites, regressions by size. If there is none, it returns one per undecided result.
func listWorst(c *compare.Comparison) []annotation {
	var out, unsure []annotation
	also, reasons := map[string]int{}, map[int]string{} // number of metrics by reason; reason of each element of unsure
	for _, f := range c.Failed {
		out = append(out, annotation{level: "error", title: "failed", text: f})
	}
	for i := range c.Budgets {
		b := &c.Budgets[i]
		a := annotation{level: "error", title: "budget " + b.Name, text: verdict.BudgetText(b)}
		switch {
		case b.Verdict == compare.Inconclusive:
			a.level = "warning"
			unsure = append(unsure, a)
		case b.Over:
			for j, where := range b.Where {
				if j == 0 {
					a.file, a.line = parseSite(where)
				}
				if j < 3 {
					a.text += "\nat " + where
				}
			}
			out = append(out, a)
		}
	}
	for _, r := range verdict.Rows(c) {
		switch r.Verdict {
		case compare.Regressed:
			out = append(out, annotation{level: "error", title: r.Name + " " + r.Ratio, text: r.Sentence()})
		case compare.Inconclusive, compare.NotComparable:
			if r.Reason != "" {
				if also[r.Reason]++; also[r.Reason] > 1 {
					continue // one annotation per reason: a different driver affects every metric
				}
			}
			reasons[len(unsure)] = r.Reason
			unsure = append(unsure, annotation{level: "warning", title: r.Name, text: r.Sentence()})
		}
	}
	for i, reason := range reasons {
		if n := also[reason] - 1; n > 0 {
			unsure[i].text += "; so are " + gpuprof.Plural(n, "metric") + " more"
		}
	}
	if len(out) == 0 {
		return unsure
	}
	return out
}

// sitePattern matches a Python frame, "train.py(41): step", or "train.py:41".
var sitePattern = lazyregexp.New(`^([^\s:()]+\.\w+)(?:\((\d+)\)|:(\d+))`)

// parseSite returns the file and line of a call site; "" if it has none.
func parseSite(site string) (file, line string) {
	m := sitePattern.FindStringSubmatch(site)
	if m == nil {
		return "", ""
	}
	return m[1], cmp.Or(m[2], m[3])
}

// Escapes of GitHub's actions/toolkit; % must come first.
var (
	data     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// String formats the annotation as a workflow command on one line.
func (a annotation) String() string {
	var props []string
	for _, kv := range [][2]string{{"file", a.file}, {"line", a.line}, {"title", a.title}} {
		if kv[1] != "" {
			props = append(props, kv[0]+"="+property.Replace(view.Cut(kv[1], 200)))
		}
	}
	var text []string
	for l := range strings.Lines(a.text) {
		text = append(text, view.Cut(strings.TrimRight(l, "\r\n"), maxMessage/2))
	}
	body := strings.Join(text, "\n")
	if len(body) > 4*maxMessage {
		body = strings.ToValidUTF8(body[:4*maxMessage], "") + "…"
	}
	return "::" + a.level + " " + strings.Join(props, ",") + "::" + data.Replace(body) + "\n"
}

// AppendSummary appends Markdown to the summary file, after the text of other programs in the step. render should write
// at most limit bytes; a longer text is cut at a line, with a note.
func AppendSummary(path string, render func(w io.Writer, limit int) error) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return summaryError(path, err)
	}
	room := MaxSummary - 1
	if info, err := f.Stat(); err == nil {
		room -= int(min(info.Size(), MaxSummary))
	}
	text, err := renderLimited(room, render)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if _, err := io.WriteString(f, text); err != nil {
		return errors.Join(summaryError(path, err), f.Close())
	}
	if err := f.Close(); err != nil {
		return summaryError(path, err)
	}
	return nil
}

func summaryError(path string, err error) error {
	const set = "set GITHUB_STEP_SUMMARY to a file that can be written"
	return gpuprof.Unwritable("writing the step summary "+path, err, set, set)
}

const cutNote = "\n\n(cut: a step's summary takes no more; the JSON output has all of it)\n"

func renderLimited(room int, render func(io.Writer, int) error) (string, error) {
	const least = 1000
	if room < least {
		return "", nil // other programs used up the limit, and a single byte too many loses the file
	}
	var b strings.Builder
	if err := render(&b, room-least/2); err != nil {
		return "", err
	}
	text := "\n" + b.String()
	if len(text) <= room {
		return text, nil
	}
	const closing = "\n</details>\n"
	text = text[:room-len(cutNote)-len(closing)]
	text = text[:strings.LastIndexByte(text, '\n')+1]
	if strings.Count(text, "<details>") > strings.Count(text, "</details>") {
		text += closing
	}
	return text + cutNote, nil
}
