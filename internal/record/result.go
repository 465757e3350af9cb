package record

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// Result is the measurement of an ended program, stored as telemetry.json.
type Result struct {
	gpuprof.Head
	Command []string  `json:"command"` // as given, with secrets masked
	Started time.Time `json:"started"`
	WallS   float64   `json:"wall_s"`
	// ExitCode is gpuprof's exit code: the program's own, or 128 plus the number of the signal that ended it.
	ExitCode int    `json:"exit_code"`
	Signal   string `json:"signal,omitempty"` // signal that ended the program
	// Stopped marks that gpuprof ended the program on request, after writing the recording.
	Stopped bool `json:"stopped,omitempty"`
	// PeakBytes is the peak resident memory of the largest process; 0 if unknown, as for a program smaller than gpuprof.
	PeakBytes int64 `json:"peak_rss_bytes"`
	// TreePeakBytes is the largest sampled sum over all processes, with shared pages counted in each; 0 if unknown.
	TreePeakBytes int64         `json:"tree_peak_rss_bytes"`
	CPUs          int           `json:"cpus"`  // processors that the program may use
	CPUS          float64       `json:"cpu_s"` // CPU time of all processes that were waited for
	Recorder      string        `json:"recorder"`
	Traces        []string      `json:"traces"` // files in the folder of the recording
	Hook          *Hook         `json:"hook,omitempty"`
	CUDA          []CUDAProcess `json:"cuda,omitempty"` // the CUDA recorder's reports by process
	// Idle marks that the recorder waited for requests, so that the traces are requested windows.
	Idle bool `json:"idle,omitempty"`
	// Skip is the number of steps to leave out at the beginning of the traces: the CUDA recorder records them too.
	Skip      int                      `json:"skip,omitempty"`
	Overhead  *Overhead                `json:"overhead,omitempty"`
	Telemetry map[string]gpuprof.Track `json:"telemetry"`
	Warnings  []gpuprof.Warning        `json:"warnings"` // about missing parts

	unhooked map[int]string // names of Python processes without the hook on PYTHONPATH, by process id
}

// Values of Recorder.
const (
	ByHook = "pytorch-hook"
	ByNsys = "nsys"
	ByCUDA = "cuda"
)

// ResultFile is the name of the file in the folder of a recording that holds its Result.
const ResultFile = "telemetry.json"

// ReadResult reads the result in the folder of an ended recording.
func ReadResult(dir string) (*Result, error) {
	path := filepath.Join(dir, ResultFile)
	text, err := outside.ReadFound(path)
	if err != nil {
		return nil, err
	}
	r := &Result{}
	if err := document.Decode(text, path, r, document.Recording); err != nil {
		return nil, err
	}
	return r, nil
}

// Stored returns the result for telemetry.json, with paths relative to dir, so that the folder can be moved.
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

// storedCommand returns a command with masked secrets. A placeholder replaces an argument of several lines, because the
// commands that gpuprof proposes are single lines.
func storedCommand(args []string) []string {
	out := document.MaskCommand(args)
	for i, word := range out {
		if strings.ContainsAny(word, "\r\n") {
			out[i] = "YOUR CODE"
		}
	}
	return out
}

// warn adds a warning; fix is empty if there is no remedy.
func (r *Result) warn(code, text, fix string) {
	r.Warnings = append(r.Warnings, gpuprof.Warning{Code: code, Text: text, Fix: fix})
}
