package cli

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

// Tables gives the verbs all that names concrete workloads, devices, probes and formats; main fills it.
type Tables struct {
	Workloads   func() []workloads.Workload
	Devices     func() []Device                                           // the host, then the GPUs
	NoGPU       func() string                                             // why no GPU is used; "" where one can be
	Instruments func(device.Device) (in measure.Instruments, done func()) // telemetry of a device; nil for none
	Samplers    func() (all map[string]record.Sampler, done func())       // telemetry of every GPU, by the prefix of its tracks
	DriverCUDA  func() int                                                // CUDA release of the driver, 12080 for 12.8; 0 without one
	AskCUPTI    func(path string) (int, error)                            // version of a libcupti; nil where none can be loaded
	Documents   Documents
	Site        func(*history.Report) ([]SiteFile, error) // static pages of a history
	TellGitHub  func(w io.Writer, c *compare.Comparison, getenv func(string) string) error
	Plots       []string               // values of --plot
	PlotsText   func(of string) string // which kind of document, or any, has which of them
	CPUModel    func() string
	Tool        gpuprof.Tool
	Clock       func() time.Time // of the budgets of tune; nil for the machine's
	Recorder    string           // settings put before those of the CUDA recorder
	Limit       time.Duration    // least time of a gate's process; 0 for the usual
}

// Device is a value of --device.
type Device struct {
	Name string                        `json:"name"`
	Doc  string                        `json:"doc"`
	Open func() (device.Device, error) `json:"-"`
}

// HostDevice is the name and the kind of the device that every machine has.
const HostDevice = "host"

// Kind is "host" or "cuda".
func (d Device) Kind() string {
	kind, _, _ := strings.Cut(d.Name, ":")
	return kind
}

// Documents is the one table of the formats of each kind of document. The extensions that -o takes, the values of
// --format, their completion and help, and the errors for a format that a document lacks all come from it.
type Documents struct {
	Run         Kind[[]*gpuprof.Run]
	Comparison  Kind[*compare.Comparison]
	Tuning      Kind[*tune.Result]
	Analysis    Kind[*Study] // of a trace, or a comparison of two
	Health      Kind[*health.Report]
	Explanation Kind[[]explain.Entry]
	Bisect      Kind[*bisect.Search]
	History     Kind[*history.Report]
	Memory      Kind[*memsnap.Analysis]
	Fleet       Kind[*fleet.Report]
	Check       Kind[*gpuprof.CheckReport]
	Diagnosis   Kind[*gpuprof.Diagnosis]
	Noise       Kind[*compare.NoisePlan]
}

// Formats are the values of --format by kind of document, and its extensions.
func (d Documents) Formats() (prints, files map[string][]string) {
	prints, files = map[string][]string{}, map[string][]string{}
	for name, k := range map[string]interface {
		formats() (prints, files []string)
	}{
		"run": d.Run, "comparison": d.Comparison, "tuning": d.Tuning, "analysis": d.Analysis, "health": d.Health, "explanation": d.Explanation, "bisect": d.Bisect,
		"history": d.History, "memory": d.Memory, "fleet": d.Fleet, "check": d.Check, "diagnosis": d.Diagnosis, "noise": d.Noise,
	} {
		prints[name], files[name] = k.formats()
	}
	return prints, files
}

// SiteFile is one file of a site.
type SiteFile struct {
	Name  string
	Write func(io.Writer) error
}
