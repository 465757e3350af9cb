package model

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// Cut describes the part of a recording that a cut trace holds: whole steps, with the names and times that they have
// in the whole recording.
type Cut struct {
	// Host and Device are the kept time spans, ns.
	Host   Span      `json:"host"`
	Device Span      `json:"device"`
	Source string    `json:"step_source"`
	After  int64     `json:"after"` // end of the device work of all steps before the first kept step, ns
	Steps  []CutStep `json:"steps"`

	// Shift was added to the times of the file, ns.
	Shift int64 `json:"-"`
	// HostStarts and DeviceStarts hold the start times, ns, of events outside Host and Device that the analysis of the
	// kept events needs.
	HostStarts   map[int64]struct{} `json:"-"`
	DeviceStarts map[int64]struct{} `json:"-"`
}

// CutStep is one whole step of a Cut.
type CutStep struct {
	Name    string `json:"name"`
	Host    Span   `json:"host"` // as recorded, ns
	Process int32  `json:"process"`
	Thread  int64  `json:"thread"`
	Dropped bool   `json:"dropped"` // findings do not cover the step, such as the first one
	Empty   bool   `json:"empty"`   // the profiler left this range after the last step; it has almost no work
}

// KeepsHost reports whether the cut trace contains a host event with these times, ns.
func (p *Cut) KeepsHost(start, end int64) bool {
	_, needed := p.HostStarts[start]
	return needed || p.Host.Overlaps(start, end)
}

// KeepsDevice reports whether the cut trace contains a device operation with these times, ns.
func (p *Cut) KeepsDevice(start, end int64) bool {
	_, needed := p.DeviceStarts[start]
	return needed || p.Device.Overlaps(start, end)
}

// JSON encodes the cut as the member document.PartMember of a trace.
func (p *Cut) JSON() ([]byte, error) {
	text, err := json.Marshal(p.shiftTimes(-p.Shift))
	if err != nil {
		return nil, fmt.Errorf("writing which part of the trace it is: %w", err)
	}
	return text, nil
}

// ReadCut decodes the member document.PartMember and adds shift, ns, to its times. It returns nil if the member is
// invalid.
func ReadCut(text []byte, shift int64) *Cut {
	p := &Cut{}
	if json.Unmarshal(text, p) != nil {
		return nil
	}
	q := p.shiftTimes(shift)
	ok := q.Host.isValid() && q.Device.isValid() && (len(q.Steps) > 0 || q.Source == WholeTrace)
	for i := range q.Steps {
		s := q.Steps[i].Host
		ok = ok && s.isValid() && (i == 0 || s.Start >= q.Steps[i-1].Host.Start)
	}
	if !ok {
		return nil
	}
	return q
}

func (p *Cut) shiftTimes(by int64) *Cut {
	q := &Cut{Host: p.Host.shiftBy(by), Device: p.Device.shiftBy(by), Source: p.Source, After: p.After, Steps: slices.Clone(p.Steps)}
	if q.After > math.MinInt64 {
		q.After += by
	}
	for i := range q.Steps {
		q.Steps[i].Host = q.Steps[i].Host.shiftBy(by)
	}
	return q
}
