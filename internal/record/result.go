package record

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
)

// Result is what is known of a program once it has ended; it is also
// telemetry.json.
type Result struct {
	gpuprof.Head
	Command []string  `json:"command"` // as it was given, with secrets masked
	Started time.Time `json:"started"`
	WallS   float64   `json:"wall_s"`
	// ExitCode is what gpuprof ends with: the program's own, or 128 plus the
	// number of the signal that ended it.
	ExitCode int    `json:"exit_code"`
	Signal   string `json:"signal,omitempty"` // that ended it
	// Stopped says that it was ended because its recording was there, as was asked for.
	Stopped bool `json:"stopped,omitempty"`
	// PeakBytes is the most resident memory of the largest process; 0 unknown,
	// which it is for a program smaller than gpuprof itself.
	PeakBytes int64 `json:"peak_rss_bytes"`
	// TreePeakBytes is the most that all its processes had together when
	// sampled, shared pages counted in each; 0 unknown.
	TreePeakBytes int64         `json:"tree_peak_rss_bytes"`
	CPUs          int           `json:"cpus"`  // that the program may use
	CPUS          float64       `json:"cpu_s"` // of all processes that were waited for
	Recorder      string        `json:"recorder"`
	Traces        []string      `json:"traces"` // files, in the folder of the recording
	Hook          *Hook         `json:"hook,omitempty"`
	CUDA          []CUDAProcess `json:"cuda,omitempty"` // what the CUDA recorder tells of each process
	// Idle says that the recorder was armed, and its traces are windows that were asked for.
	Idle bool `json:"idle,omitempty"`
	// Skip is how many steps at the beginning of the traces are to be left out: the CUDA
	// recorder keeps those that --skip names, too.
	Skip      int                      `json:"skip,omitempty"`
	Overhead  *Overhead                `json:"overhead,omitempty"`
	Telemetry map[string]gpuprof.Track `json:"telemetry"`
	Warnings  []gpuprof.Warning        `json:"warnings"` // of parts that are missing

	unhooked map[int]string // names of Python processes whose environment does not lead to the hook, by id
}

// Recorders.
const (
	ByHook = "pytorch-hook"
	ByNsys = "nsys"
	ByCUDA = "cuda"
)

// Stored is the result as telemetry.json holds it: what lies in the folder dir is
// named as from there, since where the folder was tells nothing of the program.
func (r *Result) Stored(dir string) *Result {
	out := *r
	out.Traces, out.Warnings = make([]string, len(r.Traces)), make([]gpuprof.Warning, len(r.Warnings))
	here := func(text string) string {
		if !filepath.IsAbs(dir) {
			return text
		}
		return strings.ReplaceAll(text, filepath.Clean(dir), filepath.Base(dir))
	}
	for i, t := range r.Traces {
		out.Traces[i] = document.CleanText(filepath.Base(t))
	}
	for i, w := range r.Warnings {
		out.Warnings[i] = gpuprof.Warning{Code: w.Code, Text: here(w.Text), Fix: here(w.Fix)}
	}
	return &out
}

// warn adds a warning; fix is empty where nothing helps.
func (r *Result) warn(code, text, fix string) {
	r.Warnings = append(r.Warnings, gpuprof.Warning{Code: code, Text: text, Fix: fix})
}
