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

// Tables gives the subcommands access to the concrete workloads, devices, probes and formats, whose packages they do
// not import. Main fills it.
type Tables struct {
	Workloads   func() []workloads.Workload
	Devices     func() []Device                                           // the host, then the GPUs
	NoGPU       func() string                                             // why no GPU can be used; "" if one can
	Instruments func(device.Device) (in measure.Instruments, done func()) // telemetry of a device; nil for none
	Samplers    func() (all map[string]record.Sampler, done func())       // telemetry of GPUs by series prefix, "gpu0/"
	// Energy returns, by UUID, counters of the energy (J) that each GPU has used; unknown is the reason if there are
	// none.
	Energy         func() (counters map[string]func() (joules float64, ok bool), unknown string, done func())
	DriverCUDA     func() int                     // driver's CUDA release, 12080 for 12.8; 0 without a driver
	AskCUPTI       func(path string) (int, error) // interface version of a libcupti; nil if none can be loaded
	Documents      Documents
	Site           func(*history.Report) ([]SiteFile, error)           // static pages of a history
	Opening        func(w io.Writer, a gpuprof.Answer, o Screen) error // writes an answer while a program is recorded
	ReportToGitHub func(w io.Writer, c *compare.Comparison, getenv func(string) string) error
	Plots          []string               // values of --plot
	PlotsText      func(of string) string // lists the plots of a kind of document; "" means all kinds
	CPUModel       func() string
	Tool           gpuprof.Tool
	Clock          func() time.Time // clock for the budgets of tune; nil for the system's
	Recorder       string           // lines "name=number" of extra settings for the CUDA recorder
	Limit          time.Duration    // shortest time limit of a process that gpuprof gate measures; 0 for the default
}

// Device is a value of --device.
type Device struct {
	Name string                        `json:"name"`
	Doc  string                        `json:"doc"`
	Open func() (device.Device, error) `json:"-"`
}

// HostDevice is the name and kind of the device that every machine has.
const HostDevice = "host"

// Kind is "host" or "cuda".
func (d Device) Kind() string {
	kind, _, _ := strings.Cut(d.Name, ":")
	return kind
}

// Documents has the formats of each kind of document. The file extensions of -o and the values of --format are derived
// from it, with their completion, help and errors.
type Documents struct {
	Run         Kind[[]*gpuprof.Run]
	Comparison  Kind[*compare.Comparison]
	Tuning      Kind[*tune.Result]
	Analysis    Kind[*Study] // analysis of a trace, or comparison of two
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

// Formats returns the values of --format and the file extensions, by kind of document.
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

// SiteFile is one file of the static pages of a history.
type SiteFile struct {
	Name  string
	Write func(io.Writer) error
}
