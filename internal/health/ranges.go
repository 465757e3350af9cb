package health

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
)

// Ranges holds the figures of healthy devices, by device name.
type Ranges struct {
	gpuprof.Head
	Note    string                  `json:"note,omitempty"`
	Devices map[string]DeviceRanges `json:"devices"`
}

// DeviceRanges are the ranges of one kind of device.
type DeviceRanges struct {
	// Provenance describes the measurement: date, gpuprof version, numbers of devices and machines, command.
	Provenance string                `json:"provenance"`
	Metrics    map[string][2]float64 `json:"metrics"` // lowest and highest healthy value
}

// ParseRanges parses a file of ranges. name is the file, for errors, which are ErrInput.
func ParseRanges(text []byte, name string) (*Ranges, error) {
	if _, err := document.Accept(text, name, document.Ranges); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields() // a misspelled field would drop a range silently
	var r Ranges
	if err := dec.Decode(&r); err != nil {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading ranges %s: %w", name, err).WithFix("the file is damaged: restore it")
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading ranges %s: there is more after the object", name).WithFix("leave one")
	}
	for device, d := range r.Devices {
		if device == "" || strings.TrimSpace(d.Provenance) == "" {
			return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading ranges %s: device %q has no provenance", name, device).WithFix("add the place, time and method of its measurement")
		}
		for metric, v := range d.Metrics {
			if !slices.Contains(order, metric) || rules[metric].better == 0 {
				return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading ranges %s: device %s has a range of %q, which is not judged", name, device, metric).WithFix("the metrics are %s", strings.Join(judgedMetrics(), ", "))
			}
			if !(v[0] > 0 && v[1] >= v[0]) {
				return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading ranges %s: %s of %s is [%g, %g]", name, metric, device, v[0], v[1]).WithFix("give the lowest and the highest healthy value, both above 0")
			}
		}
	}
	return &r, nil
}

// judgedMetrics lists the metrics that are judged.
func judgedMetrics() []string {
	return slices.DeleteFunc(Names(), func(m string) bool { return rules[m].better == 0 })
}

// lookUp returns a device's ranges by its exact name, since GPUs with the same chip differ by form factor.
func (r *Ranges) lookUp(name string) (DeviceRanges, bool) {
	if r == nil {
		return DeviceRanges{}, false
	}
	d, ok := r.Devices[name]
	return d, ok && len(d.Metrics) > 0
}
