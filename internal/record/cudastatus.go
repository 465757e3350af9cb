package record

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/gpuprof/gpuprof/internal/outside"
)

// CUDAProcess is the recorder's report of one process that started CUDA or used NVTX.
type CUDAProcess struct {
	PID int `json:"pid"`
	// File is the recording's name in the folder, "" if there is none. Bytes is the file's size.
	File  string `json:"file,omitempty"`
	Bytes int64  `json:"bytes,omitempty"`
	CUPTI int    `json:"cupti,omitempty"` // version of CUPTI's interface; 0 if none was used
	Armed bool   `json:"armed,omitempty"` // the recorder waits for a request to record
	// Ended is the reason why the recording ended: asked, limit, write or exit; "" if the process was killed.
	Ended   string `json:"ended,omitempty"`
	Records int64  `json:"records,omitempty"`
	OwnNS   int64  `json:"own_ns,omitempty"` // time spent in the recorder, ns
	// LeftOut counts the CUPTI and NVTX records that begin after the window and were cut from the file.
	LeftOut int64 `json:"left_out,omitempty"`
	// Lost has five counts: records that CUPTI dropped, buffers that were lost, records that were not written to the
	// file, lost names, and lost NVTX calls.
	Lost []int64 `json:"lost,omitempty"`
	// Aside is the reason why the recorder recorded nothing: torch, driver.
	Aside  string      `json:"aside,omitempty"`
	Errors []CUDAError `json:"errors,omitempty"`
}

// CUDAError is a failure of the recorder in one process.
type CUDAError struct {
	Where string `json:"where"` // write, open, subscribe, symbol, version, buffers, cupti, thread
	Code  int    `json:"code,omitempty"`
	Text  string `json:"text,omitempty"`
	Other string `json:"other,omitempty"` // the other tool that uses CUPTI in the process
	CUPTI string `json:"cupti,omitempty"` // path of libcupti
	// Version of that libcupti's interface.
	Version int `json:"version,omitempty"`
}

// cudaLine is a line of the recorder's status file; the event determines the fields that are set.
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

// readCUDA reads the recorder's status file and skips lines that are not JSON.
func readCUDA(dir string) []CUDAProcess { return readCUDAFrom(dir, 0) }

func readCUDAFrom(dir string, from int64) []CUDAProcess {
	out := []CUDAProcess{}
	f, err := outside.OpenRegular(filepath.Join(dir, cudaStatus), os.O_RDONLY, 0)
	if err != nil {
		return out
	}
	defer f.Close()
	for l := range jsonLines[cudaLine](io.NewSectionReader(f, from, math.MaxInt64-from)) {
		out = applyCUDALine(out, l)
	}
	return out
}

// applyCUDALine applies one status line. A process that execs another program gets a second entry with the new file.
func applyCUDALine(all []CUDAProcess, l *cudaLine) []CUDAProcess {
	at := -1
	for i := range slices.Backward(all) {
		if all[i].PID == l.PID {
			at = i
			break
		}
	}
	if at < 0 || l.Event == "file" && all[at].File != "" {
		next := CUDAProcess{PID: l.PID}
		if at >= 0 && all[at].Armed { // this file is the next window of the same recorder
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

// cudaSettled reports whether at least one process was recorded and every recording has ended.
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
