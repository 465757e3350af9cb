// Package formats has the table of output formats: for each kind of document, the formats on standard output and in
// files. Only this package imports the packages of the folder report. It imports package cli, but no package of a
// subcommand, workload or device.
package formats

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/bisect"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/explain"
	"github.com/gpuprof/gpuprof/internal/fleet"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/internal/history"
	"github.com/gpuprof/gpuprof/internal/lazyregexp"
	"github.com/gpuprof/gpuprof/internal/memsnap"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/report/benchfmt"
	"github.com/gpuprof/gpuprof/report/brief"
	"github.com/gpuprof/gpuprof/report/csv"
	"github.com/gpuprof/gpuprof/report/figure"
	"github.com/gpuprof/gpuprof/report/github"
	"github.com/gpuprof/gpuprof/report/html"
	"github.com/gpuprof/gpuprof/report/junit"
	"github.com/gpuprof/gpuprof/report/markdown"
	"github.com/gpuprof/gpuprof/report/metrics"
	"github.com/gpuprof/gpuprof/report/page"
	"github.com/gpuprof/gpuprof/report/perfetto"
	"github.com/gpuprof/gpuprof/report/pprof"
	"github.com/gpuprof/gpuprof/report/prometheus"
	"github.com/gpuprof/gpuprof/report/stacks"
	"github.com/gpuprof/gpuprof/report/table"
)

// Documents returns the writers of every kind of document.
func Documents(tool gpuprof.Tool) cli.Documents {
	return cli.Documents{
		Run: cli.Kind[[]*gpuprof.Run]{What: "a run", Prints: []string{"table", "json", "brief-json", "csv", "bench", "markdown"}, Writers: addBrief(brief.Runs, addPages(page.Runs, 0, addPictures(figure.OfRuns, map[string]cli.Writer[[]*gpuprof.Run]{
			"json":        func(w io.Writer, runs []*gpuprof.Run, _ cli.Screen) error { return document.EncodeRuns(w, runs...) },
			"pprof":       plain(pprof.Write),
			"perfetto":    plain(perfetto.Write),
			"csv":         plain(csv.Write),
			"bench":       plain(benchfmt.Write),
			"bmf":         plain(metrics.WriteBMF),
			"openmetrics": plain(metrics.WriteOpenMetrics),
		})))},
		Comparison: cli.Kind[*compare.Comparison]{What: "a comparison", Prints: []string{"table", "json", "brief-json", "markdown", "bench"}, Writers: addBrief(always(brief.Comparison), addPages(page.Comparison, markdown.CommentLimit, addPictures(figure.OfComparison, map[string]cli.Writer[*compare.Comparison]{
			"json": EncodeVerdict,
			"junit": func(w io.Writer, c *compare.Comparison, _ cli.Screen) error {
				return junit.Write(w, c, junit.Options{Started: startedAt(c)})
			},
			"bench":       plain(benchfmt.WriteComparison),
			"bmf":         plain(metrics.WriteComparisonBMF),
			"openmetrics": plain(metrics.WriteComparisonOpenMetrics),
		})))},
		Tuning: cli.Kind[*tune.Result]{What: "a tuning result", Prints: []string{"table", "json", "markdown"}, Writers: addPages(page.Tune, 0, addPictures(figure.OfTuning, nil))},
		Analysis: cli.Kind[*cli.Study]{What: "an analysis", Prints: []string{"table", "json", "brief-json", "markdown"}, Writers: addBrief(always(briefStudy), addPages(pageOfStudy, 0, addPictures(figureOfStudy, map[string]cli.Writer[*cli.Study]{
			"json": func(w io.Writer, s *cli.Study, _ cli.Screen) error { return document.Encode(w, s.Document()) },
			"pprof": func(w io.Writer, s *cli.Study, _ cli.Screen) error {
				return pprof.WriteTrace(w, s.Indexes, tool.Version)
			},
			"perfetto": func(w io.Writer, s *cli.Study, _ cli.Screen) error {
				return perfetto.WriteAnalysis(w, s.Analysis, s.Indexes)
			},
			"speedscope": func(w io.Writer, s *cli.Study, _ cli.Screen) error {
				return stacks.WriteSpeedscope(w, s.Indexes, tool.Version)
			},
			"folded": func(w io.Writer, s *cli.Study, _ cli.Screen) error { return stacks.WriteFolded(w, s.Indexes) },
		})))},
		Bisect: cli.Kind[*bisect.Search]{What: "a bisection", Prints: []string{"table", "json", "markdown"}, Writers: addPages(page.Bisect, 0, addPictures(figure.OfBisect, nil))},
		Memory: cli.Kind[*memsnap.Analysis]{What: "an analysis of memory", Prints: []string{"table", "json", "brief-json", "markdown"}, Writers: addBrief(brief.Memory, addPages(page.Memory, 0, addPictures(figure.OfMemory, map[string]cli.Writer[*memsnap.Analysis]{
			"pprof": func(w io.Writer, a *memsnap.Analysis, _ cli.Screen) error {
				return pprof.WriteMemory(w, a, tool.Version)
			},
			"speedscope": func(w io.Writer, a *memsnap.Analysis, _ cli.Screen) error {
				return stacks.WriteMemorySpeedscope(w, a, tool.Version)
			},
			"folded": plain(stacks.WriteMemoryFolded),
		})))},
		History: cli.Kind[*history.Report]{What: "a history", Prints: []string{"table", "json", "markdown", "csv"}, Writers: addPages(page.History, markdown.CommentLimit, addPictures(figure.OfHistory, map[string]cli.Writer[*history.Report]{
			"csv": plain(csv.History),
		}))},
		Fleet: cli.Kind[*fleet.Report]{What: "a fleet report", Prints: []string{"table", "json", "markdown"}, Writers: addPages(page.Fleet, 0, addPictures(figure.OfFleet, map[string]cli.Writer[*fleet.Report]{}))},
		// Health and Diagnosis both come from doctor, and print in the same formats.
		Health: cli.Kind[*health.Report]{What: "the health of GPUs", Prints: []string{"table", "json", "brief-json", "markdown"}, Writers: addBrief(always(brief.Health), printInFull(addPages(page.Health, 0, map[string]cli.Writer[*health.Report]{
			"prometheus": plain(prometheus.Write),
		})))},
		Diagnosis:   cli.Kind[*gpuprof.Diagnosis]{What: "a diagnosis", Prints: []string{"table", "json", "brief-json", "markdown"}, Writers: addBrief(always(brief.Diagnosis), wideInFull(addPages(page.Diagnosis, 0, nil)))},
		Check:       cli.Kind[*gpuprof.CheckReport]{What: "a check", Prints: []string{"table", "json", "markdown"}, Writers: addPages(page.Check, 0, nil)},
		Noise:       cli.Kind[*compare.NoisePlan]{What: "a measurement of noise", Prints: []string{"table", "json", "markdown"}, Writers: addPages(page.Noise, 0, nil)},
		Explanation: cli.Kind[[]explain.Entry]{What: "an explanation", Prints: []string{"table", "json", "brief-json"}, Writers: addBrief(briefExplanations(tool), addPages(page.Explanation, 0, nil))},
	}
}

// plain adapts a function that writes a document in the same way for every screen.
func plain[D any](write func(io.Writer, D) error) cli.Writer[D] {
	return func(w io.Writer, doc D, _ cli.Screen) error { return write(w, doc) }
}

// addBrief adds the shortened JSON for agents.
func addBrief[D any](build func(D) (*brief.Document, error), others map[string]cli.Writer[D]) map[string]cli.Writer[D] {
	others["brief-json"] = func(w io.Writer, doc D, o cli.Screen) error {
		d, err := build(doc)
		if err != nil {
			return err
		}
		return brief.Write(w, d, o.Tokens)
	}
	return others
}

// always adapts a function that builds a brief document and cannot fail.
func always[D any](build func(D) *brief.Document) func(D) (*brief.Document, error) {
	return func(doc D) (*brief.Document, error) { return build(doc), nil }
}

// briefExplanations builds brief documents of explanations, and adds the tool, which explanations do not have.
func briefExplanations(tool gpuprof.Tool) func([]explain.Entry) (*brief.Document, error) {
	return func(entries []explain.Entry) (*brief.Document, error) {
		d := brief.Explanations(entries)
		d.Tool = tool
		return d, nil
	}
}

func briefStudy(s *cli.Study) *brief.Document {
	if s.Comparison != nil {
		return brief.Traces(s.Comparison)
	}
	return brief.Analysis(s.Analysis)
}

// addPictures adds the formats that draw the document's figure.
func addPictures[D any](draw func(doc D, plot string) (*figure.Figure, error), others map[string]cli.Writer[D]) map[string]cli.Writer[D] {
	if others == nil {
		others = map[string]cli.Writer[D]{}
	}
	for _, format := range []string{"png", "svg"} {
		others[format] = func(w io.Writer, doc D, o cli.Screen) error {
			f, err := draw(doc, o.Plot)
			if err != nil {
				return err
			}
			return f.Write(w, format, 0, 0)
		}
	}
	return others
}

// addPages adds the formats of a page (table, markdown, html), and the document's JSON unless others has it. limit is
// the largest size of the Markdown, in bytes; 0 for no limit.
func addPages[D any](build func(D) (*page.Page, error), limit int, others map[string]cli.Writer[D]) map[string]cli.Writer[D] {
	if others == nil {
		others = map[string]cli.Writer[D]{}
	}
	if others["json"] == nil {
		others["json"] = func(w io.Writer, doc D, _ cli.Screen) error { return document.Encode(w, doc) }
	}
	for format, write := range map[string]func(io.Writer, *page.Page, cli.Screen) error{
		"table": func(w io.Writer, p *page.Page, o cli.Screen) error {
			return table.Write(w, p, tableOptions(o))
		},
		"markdown": func(w io.Writer, p *page.Page, _ cli.Screen) error { return markdown.Write(w, p, limit) },
		"html":     plain(html.Write),
	} {
		others[format] = func(w io.Writer, doc D, o cli.Screen) error {
			p, err := build(doc)
			if err != nil {
				return err
			}
			return write(w, p, o)
		}
	}
	return others
}

// printInFull makes tables show all rows and columns, for documents in which every GPU must be visible.
func printInFull[D any](formats map[string]cli.Writer[D]) map[string]cli.Writer[D] {
	write := formats["table"]
	formats["table"] = func(w io.Writer, doc D, o cli.Screen) error {
		o.Width, o.Lines = 1<<16, 0
		return write(w, doc, o)
	}
	return formats
}

// wideInFull gives tables unlimited width if all rows are printed, so that no cell is cut.
func wideInFull[D any](formats map[string]cli.Writer[D]) map[string]cli.Writer[D] {
	write := formats["table"]
	formats["table"] = func(w io.Writer, doc D, o cli.Screen) error {
		if o.Lines == 0 {
			o.Width = 1 << 16
		}
		return write(w, doc, o)
	}
	return formats
}

// Site returns the files of a history's static pages: an index, a page per benchmark, and the data.
func Site(r *history.Report) ([]cli.SiteFile, error) {
	pages, err := page.HistorySite(r)
	if err != nil {
		return nil, err
	}
	var out []cli.SiteFile
	for _, p := range pages {
		out = append(out, cli.SiteFile{Name: p.Name, Write: func(w io.Writer) error { return html.Write(w, p.Page) }})
	}
	return append(out, cli.SiteFile{Name: page.SiteData, Write: func(w io.Writer) error { return document.Encode(w, r) }}), nil
}

// Opening writes an answer without its document, while a program is recorded.
func Opening(w io.Writer, a gpuprof.Answer, o cli.Screen) error {
	return table.Write(w, &page.Page{Answer: a}, tableOptions(o))
}

func tableOptions(o cli.Screen) table.Options {
	return table.Options{Width: o.Width, Color: o.Color, ASCII: o.ASCII, Lines: o.Lines, Quiet: o.Quiet}
}

func pageOfStudy(s *cli.Study) (*page.Page, error) {
	if s.Comparison != nil {
		return page.TraceComparison(s.Comparison, s.Before, s.Indexes)
	}
	return page.Analysis(s.Analysis, s.Indexes)
}

func figureOfStudy(s *cli.Study, plot string) (*figure.Figure, error) {
	if s.Comparison != nil {
		return figure.OfTraces(s.Comparison, s.Before, s.Indexes, plot)
	}
	return figure.OfAnalysis(s.Analysis, s.Indexes, plot)
}

// TellGitHub adds annotations and a summary of the comparison to the current step of GitHub Actions. Elsewhere it does
// nothing.
func TellGitHub(w io.Writer, c *compare.Comparison, getenv func(string) string) error {
	if !github.Active(getenv) {
		return nil
	}
	if err := github.Annotate(w, c); err != nil {
		return err
	}
	path := github.SummaryPath(getenv)
	if path == "" {
		return nil
	}
	p, err := page.Comparison(c)
	if err != nil {
		return err
	}
	return github.AppendSummary(path, func(w io.Writer, limit int) error { return markdown.Write(w, p, limit) })
}

// EncodeVerdict writes a comparison as JSON, with the samples of each process on one line.
func EncodeVerdict(w io.Writer, c *compare.Comparison, _ cli.Screen) error {
	text, err := json.MarshalIndent(document.WithAnswer(c), "", " ")
	if err == nil {
		_, err = w.Write(append(numberLists.ReplaceAllFunc(text, oneLine), '\n'))
	}
	if err != nil {
		return fmt.Errorf("writing the comparison as JSON: %w", err)
	}
	return nil
}

// numberLists matches indented lists of numbers. It cannot match inside a JSON string, since that has no line break.
var numberLists = lazyregexp.New(`\[\n *(?:(?:null|[-+.0-9eE]+),?\n *)+\]`)

// oneLine joins a list onto one line.
func oneLine(list []byte) []byte { return bytes.Join(bytes.Fields(list), nil) }

// startedAt returns when a comparison's first process started; the zero time if that is unknown. It does not use the
// current time, so that equal inputs give equal outputs.
func startedAt(c *compare.Comparison) time.Time {
	first := math.Inf(1)
	for _, t := range c.Order {
		if t.StartS > 0 {
			first = min(first, t.StartS)
		}
	}
	if first > 1e11 {
		return time.Time{}
	}
	return time.Unix(int64(first), 0).UTC()
}

// PlotKinds lists the values of --plot.
func PlotKinds() []string { return figure.Kinds() }

// PlotsText lists the plots of a kind of document; "" means all kinds.
func PlotsText(of string) string { return figure.KindsText(of) }
