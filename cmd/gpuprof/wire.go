package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/bisect"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/explain"
	"github.com/gpuprof/gpuprof/internal/fleet"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/internal/history"
	"github.com/gpuprof/gpuprof/internal/memsnap"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/probes/machine"
	"github.com/gpuprof/gpuprof/report/benchfmt"
	"github.com/gpuprof/gpuprof/report/csv"
	"github.com/gpuprof/gpuprof/report/figure"
	"github.com/gpuprof/gpuprof/report/github"
	"github.com/gpuprof/gpuprof/report/html"
	"github.com/gpuprof/gpuprof/report/junit"
	"github.com/gpuprof/gpuprof/report/markdown"
	"github.com/gpuprof/gpuprof/report/page"
	"github.com/gpuprof/gpuprof/report/perfetto"
	"github.com/gpuprof/gpuprof/report/pprof"
	"github.com/gpuprof/gpuprof/report/prometheus"
	"github.com/gpuprof/gpuprof/report/table"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/collate"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/cuda"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/e3nn"
	"github.com/gpuprof/gpuprof/workloads/gridsim"
	"github.com/gpuprof/gpuprof/workloads/gruflow"
	"github.com/gpuprof/gpuprof/workloads/serving"
)

// The tables of this file are the only place that names concrete workloads,
// devices and formats.

// workloads lists every workload in the order they are shown.
func allWorkloads() []workloads.Workload {
	return append([]workloads.Workload{e3nn.New(), gruflow.New(), collate.New(), gridsim.New(), serving.New()}, anotherWorkload...)
}

// anotherWorkload is one more entry of the table; only a test sets it.
var anotherWorkload []workloads.Workload

// worked says that this process is a worker of the collate workload and has
// done its work.
func worked() bool { return collate.WorkerMain() }

// deviceKind is a value of --device.
type deviceKind struct {
	Name string `json:"name"`
	Doc  string `json:"doc"`
	open func() (device.Device, error)
}

// onHost is the name and the kind of the device that every machine has.
const onHost = "host"

// kind is "host" or "cuda".
func (d deviceKind) kind() string {
	kind, _, _ := strings.Cut(d.Name, ":")
	return kind
}

// devices lists what can be measured on here: the host, then every GPU the
// driver shows, those that do not answer last.
func devices() []deviceKind {
	all := []deviceKind{{"host", "the CPU: streams are goroutines, kernels are Go", openHost}}
	gpus, err := cuda.Probe(cudaOptions())
	if err != nil {
		return all // noGPU says why
	}
	var silent []deviceKind
	for _, g := range gpus {
		d := deviceKind{fmt.Sprintf("cuda:%d", g.Index), "", func() (device.Device, error) { return openCUDA(g.Index) }}
		if g.Fault != nil {
			d.Doc = "a GPU that does not answer; gpuprof doctor says why"
			silent = append(silent, d)
			continue
		}
		d.Doc = fmt.Sprintf("%s, %s, %d multiprocessors, %s", g.Name, g.Arch, g.Cores, gpuprof.FormatBytes(float64(g.Memory)))
		all = append(all, d)
	}
	return append(all, silent...)
}

// simulatedDriver is the library that stands in for the driver in gpuprof's
// own tests; only a test sets it.
var simulatedDriver string

// testClock tells tune how much of its budget is spent in gpuprof's own tests,
// where nil is the machine's clock; only a test sets it.
var testClock func() time.Time

// testHost limits how long gpuprof's own tests measure the host's peak rates:
// each of the hundreds of runs that they start would write half a GiB. Zero elsewhere.
var testHost host.Options

// testRecorder is put before the settings of the CUDA recorder in gpuprof's own tests, whose
// machines may be too busy for its limits; only a test sets it.
var testRecorder string

// testLimit stands for leastLimit in gpuprof's own tests, which no machine may be too
// slow for; 0 elsewhere.
var testLimit time.Duration

func cudaOptions() cuda.Options {
	return cuda.Options{Library: simulatedDriver, AllowSimulated: simulatedDriver != ""}
}

func openCUDA(index int) (device.Device, error) {
	o := cudaOptions()
	o.Index = index
	d, err := cuda.Open(o)
	if err != nil { // not d itself: a nil *cuda.Device is not a nil Device
		return nil, err
	}
	// Looked for now, so that what was found is among the device's facts and
	// workloads can choose by it.
	d.Libraries()
	return d, nil
}

func openHost() (device.Device, error) {
	d, err := host.Open(testHost)
	if err != nil { // not d itself: a nil *host.Device is not a nil Device
		return nil, err
	}
	return d, nil
}

// examineMachine looks at everything but the devices.
func examineMachine() []gpuprof.CheckLine {
	return machine.This().Examine(findDriver(), whyNoGPU())
}

// findDriver loads the driver's library: only that shows that it can be used.
func findDriver() machine.Driver {
	d, err := cuda.FindDriver(cudaOptions())
	return machine.Driver{Path: d.Path, CUDA: d.CUDA, Err: err, Absent: cuda.Absent(err)}
}

// noGPU says in one clause why no GPU is used; empty when one can be.
func noGPU() string {
	if err := whyNoGPU(); err != nil {
		return sentence(err)
	}
	return ""
}

// whyNoGPU is nil when a GPU can be used.
func whyNoGPU() error {
	_, err := cuda.Probe(cudaOptions())
	// The error of an installed driver is closer to the cause than a missing device node.
	if cuda.Absent(err) && simulatedDriver == "" {
		return errors.New(machine.This().FindGPU(findDriver()).Why())
	}
	return err
}

// documents is the one table of what is written as what. The extensions that -o takes,
// the values of --format, their completion and help, and the errors for a format
// that a document does not have all come from it.
type documents struct {
	run         kind[[]*gpuprof.Run]
	comparison  kind[*compare.Comparison]
	tuning      kind[*tune.Result]
	analysis    kind[*study] // of a trace, or a comparison of two
	health      kind[*health.Report]
	explanation kind[[]explain.Entry]
	bisect      kind[*bisect.Search]
	history     kind[*history.Report]
	memory      kind[*memsnap.Analysis]
	fleet       kind[*fleet.Report]
	check       kind[*gpuprof.CheckReport]
	diagnosis   kind[*gpuprof.Diagnosis]
	noise       kind[*compare.NoisePlan]
}

func outputTable() documents {
	return documents{
		run: kind[[]*gpuprof.Run]{"a run", []string{"table", "json", "csv", "bench", "markdown"}, withPages(page.Runs, 0, withPictures(figure.OfRuns, map[string]writer[[]*gpuprof.Run]{
			"json":     func(w io.Writer, runs []*gpuprof.Run, _ screen) error { return document.EncodeRuns(w, runs...) },
			"pprof":    func(w io.Writer, runs []*gpuprof.Run, _ screen) error { return pprof.Write(w, runs) },
			"perfetto": func(w io.Writer, runs []*gpuprof.Run, _ screen) error { return perfetto.Write(w, runs) },
			"csv":      func(w io.Writer, runs []*gpuprof.Run, _ screen) error { return csv.Write(w, runs) },
			"bench":    func(w io.Writer, runs []*gpuprof.Run, _ screen) error { return benchfmt.Write(w, runs) },
		}))},
		comparison: kind[*compare.Comparison]{"a comparison", []string{"table", "json", "markdown", "bench"}, withPages(page.Comparison, markdown.CommentLimit, withPictures(figure.OfComparison, map[string]writer[*compare.Comparison]{
			"json": encodeVerdict,
			"junit": func(w io.Writer, c *compare.Comparison, _ screen) error {
				return junit.Write(w, c, junit.Options{Started: startedAt(c)})
			},
			"bench": func(w io.Writer, c *compare.Comparison, _ screen) error { return benchfmt.WriteComparison(w, c) },
		}))},
		tuning: kind[*tune.Result]{"a tuning result", []string{"table", "json", "markdown"}, withPages(page.Tune, 0, withPictures(figure.OfTuning, nil))},
		analysis: kind[*study]{"an analysis", []string{"table", "json", "markdown"}, withPages(pageOfStudy, 0, withPictures(figureOfStudy, map[string]writer[*study]{
			"json":     func(w io.Writer, s *study, _ screen) error { return document.Encode(w, s.document()) },
			"pprof":    func(w io.Writer, s *study, _ screen) error { return pprof.WriteTrace(w, s.indexes, tool().Version) },
			"perfetto": func(w io.Writer, s *study, _ screen) error { return perfetto.WriteAnalysis(w, s.analysis, s.indexes) },
		}))},
		bisect: kind[*bisect.Search]{"a bisection", []string{"table", "json", "markdown"}, withPages(page.Bisect, 0, withPictures(figure.OfBisect, nil))},
		memory: kind[*memsnap.Analysis]{"an analysis of memory", []string{"table", "json", "markdown"}, withPages(page.Memory, 0, withPictures(figure.OfMemory, map[string]writer[*memsnap.Analysis]{
			"pprof": func(w io.Writer, a *memsnap.Analysis, _ screen) error { return pprof.WriteMemory(w, a, tool().Version) },
		}))},
		history: kind[*history.Report]{"a history", []string{"table", "json", "markdown", "csv"}, withPages(page.History, markdown.CommentLimit, withPictures(figure.OfHistory, map[string]writer[*history.Report]{
			"csv": func(w io.Writer, r *history.Report, _ screen) error { return csv.History(w, r) },
		}))},
		fleet: kind[*fleet.Report]{"a fleet report", []string{"table", "json", "markdown"}, withPages(page.Fleet, 0, withPictures(figure.OfFleet, map[string]writer[*fleet.Report]{}))},
		// Both are of doctor, so they have the same formats.
		health: kind[*health.Report]{"the health of GPUs", []string{"table", "json", "markdown"}, whole(withPages(page.Health, 0, map[string]writer[*health.Report]{
			"prometheus": func(w io.Writer, r *health.Report, _ screen) error { return prometheus.Write(w, r) },
		}))},
		diagnosis:   kind[*gpuprof.Diagnosis]{"a diagnosis", []string{"table", "json", "markdown"}, whole(withPages(page.Diagnosis, 0, nil))},
		check:       kind[*gpuprof.CheckReport]{"a check", []string{"table", "json", "markdown"}, withPages(page.Check, 0, nil)},
		noise:       kind[*compare.NoisePlan]{"a measurement of noise", []string{"table", "json", "markdown"}, withPages(page.Noise, 0, nil)},
		explanation: kind[[]explain.Entry]{"an explanation", []string{"table", "json"}, withPages(page.Explanation, 0, nil)},
	}
}

// formats are the values of --format by kind of document, and its extensions.
func (d documents) formats() (prints, files map[string][]string) {
	prints, files = map[string][]string{}, map[string][]string{}
	for name, k := range map[string]interface {
		formats() (prints, files []string)
	}{
		"run": d.run, "comparison": d.comparison, "tuning": d.tuning, "analysis": d.analysis, "health": d.health, "explanation": d.explanation, "bisect": d.bisect,
		"history": d.history, "memory": d.memory, "fleet": d.fleet, "check": d.check, "diagnosis": d.diagnosis, "noise": d.noise,
	} {
		prints[name], files[name] = k.formats()
	}
	return prints, files
}

// withPictures adds the formats that draw a document's figure.
func withPictures[D any](draw func(doc D, plot string) (*figure.Figure, error), others map[string]writer[D]) map[string]writer[D] {
	if others == nil {
		others = map[string]writer[D]{}
	}
	for _, format := range []string{"png", "svg"} {
		others[format] = func(w io.Writer, doc D, o screen) error {
			f, err := draw(doc, o.plot)
			if err != nil {
				return err
			}
			return f.Write(w, format, 0, 0)
		}
	}
	return others
}

// withPages adds the formats of what a page is built of, and the document's own JSON where
// others has none; limit is how many bytes Markdown may take, 0 any.
func withPages[D any](build func(D) (*page.Page, error), limit int, others map[string]writer[D]) map[string]writer[D] {
	if others == nil {
		others = map[string]writer[D]{}
	}
	if others["json"] == nil {
		others["json"] = func(w io.Writer, doc D, _ screen) error { return document.Encode(w, doc) }
	}
	for format, write := range map[string]func(io.Writer, *page.Page, screen) error{
		"table": func(w io.Writer, p *page.Page, o screen) error {
			return table.Write(w, p, table.Options{Width: o.width, Color: o.color, Lines: o.lines, Quiet: o.quiet})
		},
		"markdown": func(w io.Writer, p *page.Page, _ screen) error { return markdown.Write(w, p, limit) },
		"html":     func(w io.Writer, p *page.Page, _ screen) error { return html.Write(w, p) },
	} {
		others[format] = func(w io.Writer, doc D, o screen) error {
			p, err := build(doc)
			if err != nil {
				return err
			}
			return write(w, p, o)
		}
	}
	return others
}

// whole prints tables in full, however wide and long they are: each of many GPUs and each
// thing that is missing has to be seen.
func whole[D any](formats map[string]writer[D]) map[string]writer[D] {
	write := formats["table"]
	formats["table"] = func(w io.Writer, doc D, o screen) error {
		o.width, o.lines = 1<<16, 0
		return write(w, doc, o)
	}
	return formats
}

// siteOf is a history as static pages: an index, a page for each benchmark, and the data.
func siteOf(r *history.Report) ([]siteFile, error) {
	pages, err := page.HistorySite(r)
	if err != nil {
		return nil, err
	}
	var out []siteFile
	for _, p := range pages {
		out = append(out, siteFile{p.Name, func(w io.Writer) error { return html.Write(w, p.Page) }})
	}
	return append(out, siteFile{page.SiteData, func(w io.Writer) error { return writeJSON(w, r) }}), nil
}

// document is the versioned document of either.
func (s *study) document() any {
	if s.comparison != nil {
		return s.comparison
	}
	return s.analysis
}

func pageOfStudy(s *study) (*page.Page, error) {
	if s.comparison != nil {
		return page.TraceComparison(s.comparison, s.before, s.indexes)
	}
	return page.Analysis(s.analysis, s.indexes)
}

func figureOfStudy(s *study, plot string) (*figure.Figure, error) {
	if s.comparison != nil {
		return figure.OfTraces(s.comparison, s.before, s.indexes, plot)
	}
	return figure.OfAnalysis(s.analysis, s.indexes, plot)
}

// plotKinds lists the values of --plot. Without one a sweep draws its scaling
// curve, a run its stages, and any other document what it is made for.
func plotKinds() []string { return figure.Kinds() }

// plotsText says which document has which of them; what is one document, or "".
func plotsText(what string) string { return figure.KindsText(what) }

// tellGitHub annotates the step and adds to its summary, inside GitHub Actions.
func tellGitHub(w io.Writer, c *compare.Comparison, getenv func(string) string) error {
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

// cpuModel is the name of this machine's processor.
func cpuModel() string { return machine.This().CPUModel() }
