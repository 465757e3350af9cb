package record

import (
	"bufio"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/gpuprof/gpuprof/internal/outside"
)

// CUDAProcess is what the recorder tells of one process that started CUDA or used NVTX.
type CUDAProcess struct {
	PID int `json:"pid"`
	// File is its recording's name in the folder, "" none; Bytes its size.
	File  string `json:"file,omitempty"`
	Bytes int64  `json:"bytes,omitempty"`
	CUPTI int    `json:"cupti,omitempty"` // version of CUPTI's interface, 0 none was used
	Armed bool   `json:"armed,omitempty"` // its recorder waits for windows to be asked for
	// Ended is why the recording ended: asked, limit, write or exit; "" the process was killed.
	Ended   string `json:"ended,omitempty"`
	Records int64  `json:"records,omitempty"`
	OwnNS   int64  `json:"own_ns,omitempty"` // that the recorder took to keep them
	// LeftOut is how many of them, and of NVTX's, begin after the end of the window, and are not in the file.
	LeftOut int64 `json:"left_out,omitempty"`
	// Lost counts what is missing: by CUPTI, for want of a buffer, unwritten, names, NVTX.
	Lost []int64 `json:"lost,omitempty"`
	// Aside is why nothing was recorded: torch, driver.
	Aside  string      `json:"aside,omitempty"`
	Errors []CUDAError `json:"errors,omitempty"`
}

// CUDAError is what went wrong in the recorder of one process.
type CUDAError struct {
	Where string `json:"where"` // write, open, subscribe, symbol, version, buffers, cupti, thread
	Code  int    `json:"code,omitempty"`
	Text  string `json:"text,omitempty"`
	Other string `json:"other,omitempty"` // the tool that holds the process
	CUPTI string `json:"cupti,omitempty"` // path of the library
	// Version of that library's interface.
	Version int `json:"version,omitempty"`
}

// cudaLine is one line of the recorder's file; which fields are set depends on the event.
type cudaLine struct {
	Event   string  `json:"event"`
	PID     int     `json:"pid"`
	File    string  `json:"file"`
	CUPTI   any     `json:"cupti"` // a version, or a path in an error
	Why     string  `json:"why"`
	Reason  string  `json:"reason"`
	Records int64   `json:"records"`
	OwnNS   int64   `json:"own_ns"`
	Lost    []int64 `json:"lost"`
	Where   string  `json:"where"`
	Code    int     `json:"code"`
	Text    string  `json:"text"`
	Other   string  `json:"other"`
	Version int     `json:"version"`
}

// readCUDA reads what the recorder told. A line that is no JSON is left out.
func readCUDA(dir string) []CUDAProcess { return readCUDAFrom(dir, 0) }

// readCUDAFrom is readCUDA of what follows so many bytes.
func readCUDAFrom(dir string, from int64) []CUDAProcess {
	out := []CUDAProcess{}
	f, err := outside.OpenRegular(filepath.Join(dir, cudaStatus), os.O_RDONLY, 0)
	if err != nil {
		return out
	}
	defer f.Close()
	lines := bufio.NewScanner(io.NewSectionReader(f, from, math.MaxInt64-from))
	lines.Buffer(nil, maxStatusLine)
	for lines.Scan() {
		var l cudaLine
		if json.Unmarshal(lines.Bytes(), &l) == nil {
			out = takeCUDA(out, &l)
		}
	}
	return out
}

// takeCUDA adds a line. A process that becomes another program begins anew with its file.
func takeCUDA(all []CUDAProcess, l *cudaLine) []CUDAProcess {
	at := -1
	for i := range slices.Backward(all) {
		if all[i].PID == l.PID {
			at = i
			break
		}
	}
	if at < 0 || l.Event == "file" && all[at].File != "" {
		next := CUDAProcess{PID: l.PID}
		if at >= 0 && all[at].Armed { // the next window of the same recorder
			next.Armed, next.CUPTI = true, all[at].CUPTI
		}
		all = append(all, next)
		at = len(all) - 1
	}
	p := &all[at]
	switch l.Event {
	case "file":
		p.File = filepath.Base(l.File)
	case "recording", "armed":
		p.Armed = l.Event == "armed"
		if v, ok := l.CUPTI.(float64); ok {
			p.CUPTI = int(v)
		}
	case "end":
		p.Ended, p.Records, p.OwnNS, p.Lost = l.Why, l.Records, l.OwnNS, l.Lost
	case "aside":
		p.Aside = l.Reason
	case "error":
		path, _ := l.CUPTI.(string)
		p.Errors = append(p.Errors, CUDAError{l.Where, l.Code, l.Text, l.Other, path, l.Version})
	}
	return all
}

// cudaSettled says that some process was recorded and that no recording goes on.
func cudaSettled(all []CUDAProcess) bool {
	some := false
	for i := range all {
		if p := &all[i]; p.CUPTI != 0 {
			if p.Ended == "" {
				return false
			}
			some = true
		}
	}
	return some
}
