package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/cuda"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/internal/host"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/probes/machine"
	"github.com/gpuprof/gpuprof/report/benchfmt"
	"github.com/gpuprof/gpuprof/report/figure"
	"github.com/gpuprof/gpuprof/report/github"
	"github.com/gpuprof/gpuprof/report/html"
	"github.com/gpuprof/gpuprof/report/junit"
	"github.com/gpuprof/gpuprof/report/markdown"
	"github.com/gpuprof/gpuprof/report/page"
	"github.com/gpuprof/gpuprof/report/perfetto"
	"github.com/gpuprof/gpuprof/report/pprof"
	"github.com/gpuprof/gpuprof/report/runfile"
	"github.com/gpuprof/gpuprof/report/table"
	"github.com/gpuprof/gpuprof/workloads/collate"
	"github.com/gpuprof/gpuprof/workloads/e3nn"
	"github.com/gpuprof/gpuprof/workloads/gruflow"
)

// The tables of this file are the only place that names concrete workloads,
// devices and formats.

// workloads lists every workload in the order they are shown.
func workloads() []gpuprof.Workload {
	return append([]gpuprof.Workload{e3nn.New(), gruflow.New(), collate.New()}, anotherWorkload...)
}

// anotherWorkload is one more entry of the table; only a test sets it.
var anotherWorkload []gpuprof.Workload

// worked says that this process is a worker of the collate workload and has
// done its work.
func worked() bool { return collate.WorkerMain() }

// deviceKind is a value of --device.
type deviceKind struct {
	Name string `json:"name"`
	Doc  string `json:"doc"`
	open func() (gpuprof.Device, error)
}

// onHost is the name and the kind of the device that every machine has.
const onHost = "host"

// kind is "host" or "cuda".
func (d deviceKind) kind() string {
	kind, _, _ := strings.Cut(d.Name, ":")
	return kind
}

// devices lists what can be measured on here: the host, then every GPU the
// driver shows.
func devices() []deviceKind {
	all := []deviceKind{{"host", "the CPU: streams are goroutines, kernels are Go", openHost}}
	gpus, err := cuda.Probe(cudaOptions())
	if err != nil {
		return all // noGPU says why
	}
	for _, g := range gpus {
		doc := fmt.Sprintf("%s, %s, %d multiprocessors, %s", g.Name, g.Arch, g.Cores, gpuprof.FormatBytes(float64(g.Memory)))
		all = append(all, deviceKind{fmt.Sprintf("cuda:%d", g.Index), doc, func() (gpuprof.Device, error) { return openCUDA(g.Index) }})
	}
	return all
}

// simulatedDriver is the library that stands in for the driver in gpuprof's
// own tests; only a test sets it.
var simulatedDriver string

// testClock tells tune how much of its budget is spent in gpuprof's own tests,
// where nil is the machine's clock; only a test sets it.
var testClock func() time.Time

func cudaOptions() cuda.Options {
	return cuda.Options{Library: simulatedDriver, AllowSimulated: simulatedDriver != ""}
}

func openCUDA(index int) (gpuprof.Device, error) {
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

func openHost() (gpuprof.Device, error) {
	d, err := host.Open(host.Options{})
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
	// Where a driver is installed, what it says is closer than what is missing beside it.
	if cuda.Absent(err) && simulatedDriver == "" {
		return errors.New(machine.This().FindGPU(findDriver()).Why())
	}
	return err
}

// writers maps the name of each file format to what renders it.
func writers() map[string]runfile.Writer {
	return map[string]runfile.Writer{
		"json":     encodeJSON,
		"html":     paged(html.Write),
		"png":      runPicture("png"),
		"svg":      runPicture("svg"),
		"pprof":    plain(pprof.Write),
		"perfetto": plain(perfetto.Write),
		"markdown": paged(func(w io.Writer, p *page.Page) error { return markdown.Write(w, p, 0) }),
		"table":    encodeText,
		"bench":    plain(benchfmt.Write),
	}
}

func plain(f func(io.Writer, []*gpuprof.Run) error) runfile.Writer {
	return func(w io.Writer, runs []*gpuprof.Run, _ runfile.Options) error { return f(w, runs) }
}

func encodeJSON(w io.Writer, runs []*gpuprof.Run, _ runfile.Options) error {
	return document.EncodeRuns(w, runs...)
}

func encodeText(w io.Writer, runs []*gpuprof.Run, o runfile.Options) error {
	return writeTable(w, runs, screen{width: o.Width})
}

// paged writes the page of runs.
func paged(write func(io.Writer, *page.Page) error) runfile.Writer {
	return func(w io.Writer, runs []*gpuprof.Run, _ runfile.Options) error {
		p, err := page.Runs(runs)
		if err != nil {
			return err
		}
		return write(w, p)
	}
}

func runPicture(format string) runfile.Writer {
	return func(w io.Writer, runs []*gpuprof.Run, o runfile.Options) error {
		f, err := figure.OfRuns(runs, o.Plot)
		return picture(w, format, f, err)
	}
}

// plotKinds lists the values of --plot. Without one a sweep draws its scaling
// curve, a run its stages, and any other document what it is made for.
func plotKinds() []string { return figure.Kinds() }

// plotsText says which document has which of them; what is one document, or "".
func plotsText(what string) string { return figure.KindsText(what) }

// picture writes what was drawn as "png" or "svg".
func picture(w io.Writer, format string, f *figure.Figure, err error) error {
	if err != nil {
		return err
	}
	return f.Write(w, format, 0, 0)
}

// The pictures of other documents than runs, of a kind of --plot ("" is the
// default of the document).

func verdictPicture(format, kind string) verdictWriter {
	return func(w io.Writer, c *compare.Comparison, _ screen) error {
		f, err := figure.OfComparison(c, kind)
		return picture(w, format, f, err)
	}
}

func tunePicture(format, kind string) tuneWriter {
	return func(w io.Writer, r *tune.Result, _ screen) error {
		f, err := figure.OfTuning(r, kind)
		return picture(w, format, f, err)
	}
}

func studyPicture(format, kind string) studyWriter {
	return func(w io.Writer, s *study, _ screen) error {
		if s.comparison != nil {
			f, err := figure.OfTraces(s.comparison, kind)
			return picture(w, format, f, err)
		}
		f, err := figure.OfAnalysis(s.analysis, s.indexes, kind)
		return picture(w, format, f, err)
	}
}

// writeTable prints runs on a screen.
func writeTable(w io.Writer, runs []*gpuprof.Run, o screen) error {
	p, err := page.Runs(runs)
	if err != nil {
		return err
	}
	return table.Write(w, p, table.Options{Width: o.width, Color: o.color, Quiet: o.quiet})
}

// show writes runs to standard output as --format says.
func (a *app) show(format string, runs []*gpuprof.Run) error {
	if format != "table" {
		return writers()[format](a.stdout, runs, runfile.Options{})
	}
	return writeTable(a.stdout, runs, screen{a.width(), a.color(), a.quiet})
}

// encodePprof is the profile that the pprof verb opens.
func encodePprof(w io.Writer, runs []*gpuprof.Run) error { return pprof.Write(w, runs) }

// pageWriters are the formats of a document that a page is built of; limit is how
// many bytes Markdown may take, 0 any.
func pageWriters[D any, W ~func(io.Writer, D, screen) error](build func(D) (*page.Page, error), limit int) map[string]W {
	write := func(as func(io.Writer, *page.Page, screen) error) W {
		return func(w io.Writer, doc D, o screen) error {
			p, err := build(doc)
			if err != nil {
				return err
			}
			return as(w, p, o)
		}
	}
	return map[string]W{
		"table": write(func(w io.Writer, p *page.Page, o screen) error {
			return table.Write(w, p, table.Options{Width: o.width, Color: o.color, Quiet: o.quiet})
		}),
		"markdown": write(func(w io.Writer, p *page.Page, _ screen) error { return markdown.Write(w, p, limit) }),
		"html":     write(func(w io.Writer, p *page.Page, _ screen) error { return html.Write(w, p) }),
	}
}

// verdictWriters maps the name of each format a comparison has to what renders it.
func verdictWriters() map[string]verdictWriter {
	out := pageWriters[*compare.Comparison, verdictWriter](page.Comparison, markdown.CommentLimit)
	out["json"], out["png"], out["svg"] = encodeVerdict, verdictPicture("png", ""), verdictPicture("svg", "")
	out["junit"] = func(w io.Writer, c *compare.Comparison, _ screen) error {
		return junit.Write(w, c, junit.Options{Started: startedAt(c)})
	}
	out["bench"] = func(w io.Writer, c *compare.Comparison, _ screen) error { return benchfmt.WriteComparison(w, c) }
	return out
}

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

// tuneWriters maps the name of each format a tuning result has to what renders it.
func tuneWriters() map[string]tuneWriter {
	out := pageWriters[*tune.Result, tuneWriter](page.Tune, 0)
	out["json"] = func(w io.Writer, r *tune.Result, _ screen) error { return tune.Encode(w, r) }
	out["png"], out["svg"] = tunePicture("png", ""), tunePicture("svg", "")
	return out
}

// studyWriters maps the name of each format an analysis has to what renders it.
func studyWriters() map[string]studyWriter {
	out := pageWriters[*study, studyWriter](func(s *study) (*page.Page, error) {
		if s.comparison != nil {
			return page.TraceComparison(s.comparison)
		}
		return page.Analysis(s.analysis, s.indexes)
	}, 0)
	out["json"], out["png"], out["svg"] = encodeStudy, studyPicture("png", ""), studyPicture("svg", "")
	out["perfetto"] = func(w io.Writer, s *study, _ screen) error { return perfetto.WriteAnalysis(w, s.analysis, s.indexes) }
	out["pprof"] = func(w io.Writer, s *study, _ screen) error { return pprof.WriteTrace(w, s.indexes, tool().Version) }
	return out
}

// printHealth prints how healthy the GPUs are, however wide their table is: every one
// of many GPUs has to be in it.
func printHealth(w io.Writer, r *health.Report, o screen) error {
	o.width = 1 << 16
	return pageWriters[*health.Report, func(io.Writer, *health.Report, screen) error](page.Health, 0)["table"](w, r, o)
}

// cpuModel is the name of this machine's processor.
func cpuModel() string { return machine.This().CPUModel() }
