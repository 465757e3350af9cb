package model

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// Cut is a stretch of a recording, and which steps of it are whole. The steps are
// those of the whole recording, so that a cut trace has the figures that they have there.
type Cut struct {
	// Host and Device are when the host and the devices did what is kept, ns.
	Host   Span      `json:"host"`
	Device Span      `json:"device"`
	Source string    `json:"step_source"`
	After  int64     `json:"after"` // when the devices had done the steps before the first, ns
	Steps  []CutStep `json:"steps"`

	// Shift was added to the times of the file, ns.
	Shift int64 `json:"-"`
	// HostStarts and DeviceStarts are the starts of events that are kept although they lie
	// outside, because an event inside needs them.
	HostStarts   map[int64]struct{} `json:"-"`
	DeviceStarts map[int64]struct{} `json:"-"`
}

// CutStep is one whole step of a Cut.
type CutStep struct {
	Name    string `json:"name"`
	Host    Span   `json:"host"` // as recorded, ns
	Process int32  `json:"process"`
	Thread  int64  `json:"thread"`
	Dropped bool   `json:"dropped"`
	Empty   bool   `json:"empty"`
}

// KeepsHost says whether something a host thread did is kept.
func (p *Cut) KeepsHost(start, end int64) bool {
	_, needed := p.HostStarts[start]
	return needed || p.Host.Overlaps(start, end)
}

// KeepsDevice says whether something a device did is kept.
func (p *Cut) KeepsDevice(start, end int64) bool {
	_, needed := p.DeviceStarts[start]
	return needed || p.Device.Overlaps(start, end)
}

// JSON is the part as document.PartMember holds it.
func (p *Cut) JSON() ([]byte, error) {
	text, err := json.Marshal(p.shifted(-p.Shift))
	if err != nil {
		return nil, fmt.Errorf("writing which part of the trace it is: %w", err)
	}
	return text, nil
}

// ReadCut reads document.PartMember; nil for what is none. shift is added to its times.
func ReadCut(text []byte, shift int64) *Cut {
	p := &Cut{}
	if json.Unmarshal(text, p) != nil {
		return nil
	}
	q := p.shifted(shift)
	ok := q.Host.sound() && q.Device.sound() && (len(q.Steps) > 0 || q.Source == WholeTrace)
	for i := range q.Steps {
		s := q.Steps[i].Host
		ok = ok && s.sound() && (i == 0 || s.Start >= q.Steps[i-1].Host.Start)
	}
	if !ok {
		return nil
	}
	return q
}

func (p *Cut) shifted(by int64) *Cut {
	q := &Cut{Host: p.Host.shifted(by), Device: p.Device.shifted(by), Source: p.Source, After: p.After, Steps: slices.Clone(p.Steps)}
	if q.After > math.MinInt64 {
		q.After += by
	}
	for i := range q.Steps {
		q.Steps[i].Host = q.Steps[i].Host.shifted(by)
	}
	return q
}
