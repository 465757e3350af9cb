package memsnap

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
)

// Analysis is the document about the snapshots of one job, one per rank.
type Analysis struct {
	gpuprof.Head
	Inputs   []Input           `json:"inputs"`
	Devices  []Device          `json:"devices"` // the largest peak first
	Findings []Finding         `json:"findings"`
	Warnings []gpuprof.Warning `json:"warnings"`
	Before   *Before           `json:"before,omitempty"` // set in a comparison
}

// Before describes the earlier snapshot of a comparison and the changes at the peak.
type Before struct {
	Inputs       []Input  `json:"inputs"`
	Peak         int64    `json:"peak_bytes"` // requested
	PeakReserved int64    `json:"peak_reserved_bytes"`
	Changes      []Change `json:"changes"` // largest first
}

// Change is the memory of one program line at the peak, before and after.
type Change struct {
	Where    string `json:"where"` // line in the new snapshot if it has one
	Category string `json:"category"`
	Before   int64  `json:"before_bytes"`
	After    int64  `json:"after_bytes"`
}

// Input is one file.
type Input struct {
	Path     string `json:"path"`
	Opens    string `json:"opens,omitempty"` // absolute path on this machine
	Kind     string `json:"kind"`            // "torch-memory"
	Protocol int    `json:"protocol"`        // of the pickle
	Bytes    int64  `json:"bytes"`           // length of the pickle
	Events   int    `json:"events"`
	Host     int    `json:"host_events"` // events of pinned memory, not replayed
	// Settings is the PYTORCH_CUDA_ALLOC_CONF in the file. Known is false if the file does not contain the settings.
	Settings string `json:"settings"`
	Known    bool   `json:"settings_known"`
}

// Device describes the memory of one device in one file.
type Device struct {
	Input  int `json:"input"` // index into the inputs
	ID     int `json:"id"`
	Events int `json:"events"`
	// Complete reports that the recording began before the first allocation. Inferred reports that the file has no
	// optimizer steps: then some categories of memory are unknown.
	Complete bool   `json:"complete"`
	Inferred bool   `json:"kinds_unknown"`
	Moved    int    `json:"contradictions"` // events that contradict the segments
	Peak     Moment `json:"peak"`           // with the most requested bytes
	// PeakReserved is the maximum of reserved memory, PeakRounded the maximum of live allocations in the allocator's
	// rounded sizes; bytes. They may occur at different times.
	PeakReserved int64  `json:"peak_reserved_bytes"`
	PeakRounded  int64  `json:"peak_rounded_bytes"`
	End          Moment `json:"end"`
	// Rise is the growth of tensors from the first event to the last, bytes; negative if they shrink. Still reports
	// that the events change almost no memory, so that the peak before the end is unknown.
	Rise  int64 `json:"rise_bytes,omitempty"`
	Still bool  `json:"still,omitempty"`
	// SegmentsRequested counts driver calls that map memory, SegmentsReturned those that unmap memory.
	SegmentsRequested int      `json:"segments_requested,omitempty"`
	SegmentsReturned  int      `json:"segments_returned,omitempty"`
	At                *At      `json:"at,omitempty"` // requested by the user
	OOMs              []Outage `json:"ooms"`
	MoreOOMs          int      `json:"more_ooms"` // number of errors not listed
	Steps             []Step   `json:"steps"`
	Growth            []Growth `json:"growth"` // lines that hold more after each step
	Series            Series   `json:"series"`
	Check             Check    `json:"check"`
	WhatIf            []WhatIf `json:"what_if"` // recorded settings first; empty unless Check.Passed
	Replay            *Replay  `json:"-"`

	account *momentBuilder
	mapped  int64      // memory that the driver mapped in the recording, bytes
	trims   int        // empty_cache calls found by the model
	allowed int64      // Options.Allowed
	kinds   []Category // by row of the trace
}

// Outage is an out-of-memory error.
type Outage struct {
	Moment
	Request    int64  `json:"request_bytes"`     // rounded size of the failed request
	DeviceFree int64  `json:"device_free_bytes"` // in the driver
	Cause      string `json:"cause"`             // "live", "fragmented", "limit"
}

// Step is one step of the program.
type Step struct {
	Name string `json:"name"`
	Peak int64  `json:"peak_bytes"` // requested
	End  int64  `json:"end_bytes"`
	// Last is the event after the step; 0 in files before schema 1.2.
	Last int `json:"last_event"`
}

// Growth is a program line that holds more memory after each step.
type Growth struct {
	Where   string  `json:"where"`
	PerStep float64 `json:"bytes_per_step"` // median slope
	First   int64   `json:"first_bytes"`    // after the second step
	Last    int64   `json:"last_bytes"`
	Steps   int     `json:"steps"` // observed
}

// Series is the memory over the recording, in columns with about equally many events.
type Series struct {
	Event     []int      `json:"event"` // event with most requested bytes in the column
	TimeUS    []int64    `json:"time_us"`
	Requested []int64    `json:"requested_bytes"` // maximum
	Least     []int64    `json:"least_bytes"`     // minimum of the requested bytes
	Reserved  []int64    `json:"reserved_bytes"`  // maximum
	Kinds     []KindLine `json:"categories"`      // at that event
}

// KindLine is the memory of one category in each column.
type KindLine struct {
	Category string  `json:"category"`
	Bytes    []int64 `json:"bytes"`
}

// mostOOMs limits the analysed out-of-memory errors: a program that continues after one may have thousands.
const mostOOMs = 8

// Analyze replays the snapshots of one job, one per rank.
func Analyze(ctx context.Context, all []*Snapshot, tool gpuprof.Tool, o Options) (*Analysis, error) {
	for _, text := range o.Settings {
		if _, err := parseSettings(text); err != nil {
			return nil, err
		}
	}
	a := &Analysis{Head: document.NewHead(document.Memory, tool), Devices: []Device{}, Findings: []Finding{}, Warnings: []gpuprof.Warning{}}
	for i, s := range all {
		a.Inputs = append(a.Inputs, Input{Path: s.Path, Opens: s.Opens, Kind: "torch-memory", Protocol: s.Protocol, Bytes: s.Bytes, Events: s.Events() - s.hosts, Host: s.hosts, Settings: s.Settings.Text, Known: s.Settings.Known})
		for id := range s.Devices() {
			if err := ctx.Err(); err != nil {
				return nil, fmt.Errorf("replaying %s: %w", s.Path, err)
			}
			r := NewReplay(s, id)
			if r.Events() == 0 && len(r.spans) == 0 {
				continue
			}
			d, err := newDevice(ctx, r, o)
			if err != nil {
				return nil, fmt.Errorf("replaying %s: %w", s.Path, err)
			}
			d.Input = i
			a.Devices = append(a.Devices, *d)
		}
	}
	if len(a.Devices) == 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "analysing %s: it has no event and no segment, so nothing was held", all[0].Path).WithFix("call torch.cuda.memory._record_memory_history() before the model is built, and dump after the steps (docs/memory.md)")
	}
	slices.SortStableFunc(a.Devices, func(x, y Device) int { return cmp.Compare(y.Peak.Requested, x.Peak.Requested) })
	a.addWarnings(all)
	a.findAll()
	return a, nil
}
