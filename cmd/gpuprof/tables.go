package main

import (
	"io"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/bisect"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/explain"
	"github.com/gpuprof/gpuprof/internal/fleet"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/internal/history"
	"github.com/gpuprof/gpuprof/internal/memsnap"
	"github.com/gpuprof/gpuprof/internal/record"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/measure"
)

// tables is what main hands to the verbs: all that names concrete workloads, devices, probes and
// formats.
type tables struct {
	workloads   func() []workloads.Workload
	devices     func() []deviceKind                                       // the host, then the GPUs
	noGPU       func() string                                             // why no GPU is used; "" where one can be
	instruments func(device.Device) (in measure.Instruments, done func()) // telemetry of a device; nil for none
	samplers    func() (all map[string]record.Sampler, done func())       // telemetry of every GPU, by the prefix of its tracks
	driverCUDA  func() int                                                // CUDA release of the driver, 12080 for 12.8; 0 without one
	askCUPTI    func(path string) (int, error)                            // version of a libcupti; nil where none can be loaded
	documents   documents
	site        func(*history.Report) ([]siteFile, error) // static pages of a history
	tellGitHub  func(w io.Writer, c *compare.Comparison, getenv func(string) string) error
	plots       []string               // values of --plot
	plotsText   func(of string) string // which kind of document, or any, has which of them
	cpuModel    func() string
	tool        gpuprof.Tool
	clock       func() time.Time // of the budgets of tune; nil for the machine's
	recorder    string           // settings put before those of the CUDA recorder
	limit       time.Duration    // least time of a gate's process; 0 for the usual
}

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

// siteFile is one file of a site.
type siteFile struct {
	name  string
	write func(io.Writer) error
}
