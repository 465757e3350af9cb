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
	// PeakBytes is the most resident memory of the largest process; 0 unknown,
	// which it is for a program smaller than gpuprof itself.
	PeakBytes int64 `json:"peak_rss_bytes"`
	// TreePeakBytes is the most that all its processes had together when
	// sampled, shared pages counted in each; 0 unknown.
	TreePeakBytes int64                    `json:"tree_peak_rss_bytes"`
	CPUs          int                      `json:"cpus"`  // that the program may use
	CPUS          float64                  `json:"cpu_s"` // of all processes that were waited for
	Recorder      string                   `json:"recorder"`
	Traces        []string                 `json:"traces"` // files, in the folder of the recording
	Hook          *Hook                    `json:"hook,omitempty"`
	Overhead      *Overhead                `json:"overhead,omitempty"`
	Telemetry     map[string]gpuprof.Track `json:"telemetry"`
	Notes         []string                 `json:"notes"` // sentences on what is missing and why
}

// Recorders.
const (
	ByHook = "pytorch-hook"
	ByNsys = "nsys"
)

// Stored is the result as telemetry.json holds it: what lies in the folder dir is
// named as from there, since where the folder was tells nothing of the program.
func (r *Result) Stored(dir string) *Result {
	out := *r
	out.Traces, out.Notes = make([]string, len(r.Traces)), make([]string, len(r.Notes))
	for i, t := range r.Traces {
		out.Traces[i] = document.CleanText(filepath.Base(t))
	}
	for i, n := range r.Notes {
		if out.Notes[i] = n; filepath.IsAbs(dir) {
			out.Notes[i] = strings.ReplaceAll(n, filepath.Clean(dir), filepath.Base(dir))
		}
	}
	return &out
}

func (r *Result) note(text string) { r.Notes = append(r.Notes, text) }
