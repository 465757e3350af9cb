package record

import (
	"bufio"
	"encoding/json"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/outside"
)

// Process is the hook's report of a Python process that imported torch, or was sampled without torch.
type Process struct {
	PID   int    `json:"pid"`
	Torch string `json:"torch"` // version
	Rank  int    `json:"rank"`  // -1 if unknown
	// Kind is the event that counts steps: optimizer, zero_grad, backward, module, loader or window; "" if none was
	// seen, plain for a process without torch.
	Kind     string `json:"kind"`
	Steps    int    `json:"steps"`    // completed while the hook counted
	After    int    `json:"after"`    // completed before the recording began
	Recorded int    `json:"recorded"` // steps in the trace so far
	Began    bool   `json:"began"`    // the profiler was started
	Complete bool   `json:"complete"` // all requested steps are in the trace
	// Bounded reports that a limit ended the recording: the memory limit if Grown is set, otherwise the time limit.
	// Grown is the growth of the process's memory, bytes.
	Bounded bool  `json:"bounded,omitempty"`
	Grown   int64 `json:"grown,omitempty"`
	// Optimizer is the class of the optimizer that ends a recorded step. Optimizers is the number of the thread's
	// optimizers, and Place the position of this one in the order of their steps.
	Optimizer  string `json:"optimizer,omitempty"`
	Place      int    `json:"optimizer_place,omitempty"`
	Optimizers int    `json:"optimizers,omitempty"`
	// OtherThreads is the number of threads with optimizer steps besides the counted one.
	OtherThreads int `json:"other_threads,omitempty"`
	// File is the trace's name in the folder, "" without a trace, Bytes its size. Whole is false for a truncated trace.
	// OOMFile is the snapshot of the first out-of-memory error.
	File    string  `json:"file,omitempty"`
	OOMFile string  `json:"oom_file,omitempty"`
	Bytes   int64   `json:"bytes,omitempty"`
	Whole   bool    `json:"whole,omitempty"`
	ExportS float64 `json:"export_s,omitempty"` // time to write the trace, s
	// Samples is the file with clocks and stack samples of the thread that makes the steps, "" without one. Sampling
	// reports that this file is not complete yet.
	Samples  string `json:"samples,omitempty"`
	Sampling bool   `json:"-"`
	// Aside is the reason why nothing was recorded: own-profiler, forked, nsys, many-processes, no-device, own-history.
	Aside  string    `json:"aside,omitempty"`
	Errors []string  `json:"errors,omitempty"`
	Before []float64 `json:"before_s,omitempty"` // step times before, during and after the recording, s
	During []float64 `json:"during_s,omitempty"`
	Later  []float64 `json:"after_s,omitempty"`
}

// Hook is the hook's report of the whole program.
type Hook struct {
	Loaded    int       `json:"python_processes"` // Python processes that loaded the hook
	Python    string    `json:"python,omitempty"` // Python version of the first process
	Nested    bool      `json:"nested,omitempty"` // another gpuprof run recorded inside this one
	Errors    []string  `json:"errors,omitempty"` // errors before torch was imported
	Processes []Process `json:"processes"`

	plain []Process // sampled processes without torch
}

// kindPlain marks a process that was sampled without torch.
const kindPlain = "plain"

// IsPlain reports whether the process was sampled without torch.
func (p *Process) IsPlain() bool { return p.Kind == kindPlain }

// usePlain adds the sampled processes without torch to Processes if no process imported torch. If the program has
// ended, it leaves out processes without a file.
func (h *Hook) usePlain(ended bool) {
	if len(h.Processes) == 0 {
		unwritten := func(p Process) bool { return ended && p.File == "" }
		h.Processes = append(h.Processes, slices.DeleteFunc(h.plain, unwritten)...)
	}
}

// plainProcess returns the process without torch that sent an event; nil if a process with torch did.
func (h *Hook) plainProcess(l *statusLine) *Process {
	same := func(p Process) bool { return p.PID == l.PID }
	at := slices.IndexFunc(h.plain, same)
	switch {
	case at < 0 && l.Kind == kindPlain:
		h.plain = append(h.plain, Process{PID: l.PID, Rank: -1})
		return &h.plain[len(h.plain)-1]
	case at < 0, l.Event == "torch", l.Kind != kindPlain && slices.ContainsFunc(h.Processes, same):
		return nil
	}
	return &h.plain[at]
}

// statusLine is a line of the hook's event file; the event determines the fields that are set.
type statusLine struct {
	Event    string    `json:"event"`
	PID      int       `json:"pid"`
	Python   string    `json:"python"`
	Version  string    `json:"version"`
	Rank     *int      `json:"rank"`
	Kind     string    `json:"kind"`
	After    any       `json:"after"` // a number in begin, a list in times
	Before   []float64 `json:"before"`
	During   []float64 `json:"during"`
	Steps    int       `json:"steps"`
	Recorded int       `json:"recorded"`
	File     string    `json:"file"`
	Bytes    int64     `json:"bytes"`
	Whole    bool      `json:"whole"`
	Complete bool      `json:"complete"`
	ExportS  float64   `json:"export_s"`
	Error    string    `json:"error"`
	Reason   string    `json:"reason"`
	Where    string    `json:"where"`
	Text     string    `json:"text"`

	OtherThreads int    `json:"other_threads"`
	Bounded      bool   `json:"bounded"`
	Grown        int64  `json:"grown"`
	Optimizer    string `json:"optimizer"`
	Place        int    `json:"place"`
	Of           int    `json:"of"`
}

// maxStatusLine limits one line, bytes; the hook writes a few kilobytes.
const maxStatusLine = 1 << 20

// ReadHook reads the hook's events so far from the folder of a recording.
func ReadHook(dir string) Hook { return readStatus(filepath.Join(dir, statusName)) }

// ReadWatched reads the hook's events so far for a view of the running program. If no process imported torch, it
// includes the processes that are sampled without torch.
func ReadWatched(dir string) Hook {
	h := ReadHook(dir)
	h.usePlain(false)
	return h
}

// readStatus reads the hook's event file; the result is empty without a file. It skips broken lines, which a full disk
// leaves.
func readStatus(path string) Hook {
	h := Hook{Processes: []Process{}}
	f, err := outside.OpenRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return h
	}
	defer f.Close()
	for l := range jsonLines[statusLine](f) {
		h.applyEvent(l)
	}
	return h
}

// jsonLines decodes each line of a status file. It skips lines that are no JSON.
func jsonLines[T any](r io.Reader) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, maxStatusLine)
		for lines.Scan() {
			if l := new(T); json.Unmarshal(lines.Bytes(), l) == nil && !yield(l) {
				return
			}
		}
	}
}

func (h *Hook) applyEvent(l *statusLine) {
	switch l.Event {
	case "loaded":
		h.Loaded++
		if h.Python == "" {
			h.Python = l.Python
		}
		return
	case "nested":
		h.Nested = true
		return
	}
	if p := h.plainProcess(l); p != nil {
		p.applyEvent(l)
		return
	}
	at := slices.IndexFunc(h.Processes, func(p Process) bool { return p.PID == l.PID })
	if at < 0 {
		if l.Event == "error" {
			h.Errors = append(h.Errors, l.Where+": "+l.Text)
			return
		}
		// A process that was forked after the import of torch sends no "torch" event.
		h.Processes = append(h.Processes, Process{PID: l.PID, Rank: -1})
		at = len(h.Processes) - 1
		if at > 0 {
			h.Processes[at].Torch = h.Processes[0].Torch
		}
	}
	h.Processes[at].applyEvent(l)
}

// listNumbers returns the numbers in a JSON list; nil for any other value.
func listNumbers(v any) (out []float64) {
	list, _ := v.([]any)
	for _, one := range list {
		if f, ok := one.(float64); ok {
			out = append(out, f)
		}
	}
	return out
}

func (p *Process) applyEvent(l *statusLine) {
	if l.Rank != nil {
		p.Rank = *l.Rank
	}
	switch l.Event {
	case "torch":
		p.Torch = l.Version
	case "begin":
		p.Kind, p.Began, p.Optimizer = l.Kind, true, l.Optimizer
		if n, ok := l.After.(float64); ok {
			p.After = int(n)
		}
	case "step":
		p.Recorded = l.Recorded
	case "empty":
		p.Began, p.Kind, p.Recorded = false, "", 0
	case "trace":
		p.Kind, p.Recorded, p.File, p.Bytes, p.Whole, p.Complete, p.ExportS = l.Kind, l.Steps, l.File, l.Bytes, l.Whole, l.Complete, l.ExportS
		p.Bounded, p.Grown = l.Bounded, l.Grown
		p.Sampling = l.Kind != "window" && l.Kind != kindPlain && strings.HasSuffix(l.File, ".json")
		if l.Error != "" {
			p.Errors = append(p.Errors, "export: "+l.Error)
		}
	case "oom":
		p.OOMFile = l.File
		if l.Error != "" {
			p.Errors = append(p.Errors, "export: "+l.Error)
		}
	case "sampling", "host", "host-failed":
		p.Samples, p.Sampling = l.File, l.Event == "sampling"
	case "times":
		p.Before, p.During, p.Later = l.Before, l.During, listNumbers(l.After)
	case "aside":
		p.Aside = l.Reason
	case "error":
		p.Errors = append(p.Errors, l.Where+": "+l.Text)
	case "exit", "left":
		p.Sampling = false
		if p.Kind == "" {
			p.Kind = l.Kind
		}
		p.Steps = max(p.Steps, l.Steps)
		p.OtherThreads = max(p.OtherThreads, l.OtherThreads)
		p.Place, p.Optimizers = max(p.Place, l.Place), max(p.Optimizers, l.Of)
	}
}
