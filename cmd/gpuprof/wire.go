package main

import (
	"io"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/host"
	machine "github.com/gpuprof/gpuprof/probes/host"
	"github.com/gpuprof/gpuprof/report/benchfmt"
	"github.com/gpuprof/gpuprof/report/html"
	"github.com/gpuprof/gpuprof/report/markdown"
	"github.com/gpuprof/gpuprof/report/plot"
	"github.com/gpuprof/gpuprof/report/pprof"
	"github.com/gpuprof/gpuprof/report/runfile"
	"github.com/gpuprof/gpuprof/report/table"
	"github.com/gpuprof/gpuprof/workloads/e3nn"
)

// The tables of this file are the only place that names concrete workloads,
// devices and formats.

// workloads lists every workload in the order they are shown.
func workloads() []gpuprof.Workload {
	return []gpuprof.Workload{e3nn.New()}
}

// hostPreset is what run and check use on the host device when no preset is named.
const hostPreset = "small"

// deviceKind is a value of --device.
type deviceKind struct {
	Name string `json:"name"`
	Doc  string `json:"doc"`
	open func() (gpuprof.Device, error)
}

// devices lists what this version can measure on.
func devices() []deviceKind {
	return []deviceKind{
		{"host", "the CPU: streams are goroutines, kernels are Go", openHost},
	}
}

func openHost() (gpuprof.Device, error) {
	d, err := host.Open(host.Options{})
	if err != nil { // not d itself: a nil *host.Device is not a nil Device
		return nil, err
	}
	return d, nil
}

// finding is one line of what doctor says.
type finding = machine.Line

const (
	stateOK      = machine.OK
	stateMissing = machine.Missing
)

// examineMachine looks at everything but the devices.
func examineMachine() []finding { return machine.This().Examine(noGPU()) }

// noGPU says in one clause why no GPU is used.
func noGPU() string {
	if why := machine.This().FindGPU().Why(); why != "" {
		return why
	}
	return "an NVIDIA driver is present, but this version of gpuprof has no CUDA device"
}

// writers maps the name of each file format to what renders it.
func writers() map[string]runfile.Writer {
	return map[string]runfile.Writer{
		"json":     encodeJSON,
		"html":     plain(html.Write),
		"png":      drawPNG,
		"svg":      drawSVG,
		"pprof":    plain(pprof.Write),
		"markdown": plain(markdown.Write),
		"table":    encodeText,
		"bench":    plain(benchfmt.Write),
	}
}

func plain(f func(io.Writer, []*gpuprof.Run) error) runfile.Writer {
	return func(w io.Writer, runs []*gpuprof.Run, _ runfile.Options) error { return f(w, runs) }
}

func encodeJSON(w io.Writer, runs []*gpuprof.Run, _ runfile.Options) error {
	return gpuprof.EncodeRuns(w, runs...)
}

func encodeText(w io.Writer, runs []*gpuprof.Run, o runfile.Options) error {
	return writeTable(w, runs, table.Options{Width: o.Width})
}

// Pictures are drawn for a page's column on a dense screen, in pixels.
const plotWidth, plotHeight = 1600, 900

func drawPNG(w io.Writer, runs []*gpuprof.Run, o runfile.Options) error {
	return plot.WritePNG(w, runs, o.Plot, plotWidth, plotHeight)
}

func drawSVG(w io.Writer, runs []*gpuprof.Run, o runfile.Options) error {
	return plot.WriteSVG(w, runs, o.Plot, plotWidth, plotHeight)
}

// plotKinds lists the values of --plot. Without one a sweep draws its scaling
// curve and a run its stages.
func plotKinds() []string { return plot.Kinds() }

// writeTable prints one run whole, several as a sweep.
func writeTable(w io.Writer, runs []*gpuprof.Run, o table.Options) error {
	if len(runs) == 1 {
		return table.Run(w, runs[0], o)
	}
	return table.Sweep(w, runs, o)
}

// show writes runs to standard output as --format says.
func (a *app) show(format string, runs []*gpuprof.Run) error {
	if format != "table" {
		return writers()[format](a.stdout, runs, runfile.Options{})
	}
	return writeTable(a.stdout, runs, table.Options{Width: a.width(), Color: a.color(), Quiet: a.quiet})
}

// encodePprof is the profile that the pprof verb opens.
func encodePprof(w io.Writer, runs []*gpuprof.Run) error { return pprof.Write(w, runs) }
