package health

import (
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
)

// Metric is one figure of a device.
type Metric struct {
	Name  string         `json:"name"`
	Unit  string         `json:"unit"`
	Value gpuprof.Number `json:"value"` // base units; null if not measured
	Why   string         `json:"why,omitempty"`
	// Second is the second best of several rounds; 0 with one round.
	Second gpuprof.Number `json:"second,omitempty"`
}

// isKnown reports whether the metric has a usable value.
func (m Metric) isKnown() bool {
	v := float64(m.Value)
	return v > 0 && !math.IsInf(v, 0)
}

// rule defines how a metric is compared with a sibling's.
type rule struct {
	unit   string
	better int     // +1: higher is better, -1: lower is better, 0: not judged
	slack  float64 // share by which it may be worse than the siblings' median
}

// Rates have a slack of 5 %. Copies of pageable memory and launches depend on the CPU that serves the device, and
// differ between healthy devices: their slack is wider. A faulty link or driver still shows, in pinned copies or by a
// large factor.
const (
	rateSlack     = 0.05
	pageableSlack = 0.20
	latencySlack  = 0.50
)

// order lists every metric in display order.
var order = []string{
	"copy", "h2d_pinned", "h2d_pageable", "d2h_pinned", "d2h_pageable", "gemm_fp32", "gemm_tf32", "gemm_bf16", "gemm_fp32_own",
	"launch", "launch_interval", "event_pair", "sustained", "sm_clock", "power", "temperature",
}

var rules = map[string]rule{
	"copy":            {"B/s", +1, rateSlack},
	"h2d_pinned":      {"B/s", +1, rateSlack},
	"h2d_pageable":    {"B/s", +1, pageableSlack},
	"d2h_pinned":      {"B/s", +1, rateSlack},
	"d2h_pageable":    {"B/s", +1, pageableSlack},
	"gemm_fp32":       {"flop/s", +1, rateSlack},
	"gemm_tf32":       {"flop/s", +1, rateSlack},
	"gemm_bf16":       {"flop/s", +1, rateSlack},
	"gemm_fp32_own":   {"flop/s", +1, rateSlack},
	"launch":          {"s", -1, latencySlack},
	"launch_interval": {"s", -1, latencySlack},
	"event_pair":      {"s", -1, latencySlack},
	"sustained":       {"flop/s", +1, rateSlack},
	"sm_clock":        {"Hz", +1, rateSlack},
	// Power and temperature are not judged, but explain other deviations: lower power at the same speed is chance, and
	// a high temperature alone is no fault.
	"power":       {"W", 0, 0},
	"temperature": {"C", 0, 0},
}

// Names lists every metric in display order.
func Names() []string { return slices.Clone(order) }

// Unit returns a metric's unit; empty for an unknown name.
func Unit(name string) string { return rules[name].unit }

// Condition describes a device apart from its speed. 0 and nil are unknown.
type Condition struct {
	LinkWidth    int     `json:"link_width,omitempty"` // lanes, under load
	LinkWidthMax int     `json:"link_width_max,omitempty"`
	LinkGen      int     `json:"link_gen,omitempty"` // under load
	LinkGenMax   int     `json:"link_gen_max,omitempty"`
	PowerLimitW  float64 `json:"power_limit_w,omitempty"`
	PowerBaseW   float64 `json:"power_default_w,omitempty"`
	AppClockHz   float64 `json:"application_clock_hz,omitempty"`
	AppBaseHz    float64 `json:"default_clock_hz,omitempty"`
	MIG          bool    `json:"mig,omitempty"`
	// Foreign is the number of processes of other programs on the device; nil if unknown.
	Foreign *int `json:"foreign_processes,omitempty"`
	// MemoryFault describes a memory fault from the driver: uncorrected errors, or rows that wait to be replaced.
	MemoryFault string `json:"memory_fault,omitempty"`
	// ThrottledS is the throttled time during the measurement, s, by reason; nil if unknown.
	ThrottledS map[string]float64 `json:"throttled_s,omitempty"`
}

// Card has the measurements and fault reports of one GPU.
type Card struct {
	Device    string            `json:"device"` // name for the command line
	Name      string            `json:"name"`
	UUID      string            `json:"uuid,omitempty"`
	PCI       string            `json:"pci,omitempty"` // "0000:ca:00.0"
	Arch      string            `json:"arch,omitempty"`
	Facts     map[string]string `json:"facts,omitempty"`
	Condition Condition         `json:"condition"`
	Sources   []Source          `json:"sources,omitempty"` // where faults were looked for, with the answers
	Metrics   []Metric          `json:"metrics"`
	// Error is the reason why the measurement ended early; empty if it completed.
	Error string `json:"error,omitempty"`
	// Err is the error with the text Error; its kind decides the exit code.
	Err error `json:"-"`
}

// AllGPUs is the device name if no GPU could be found or queried.
const AllGPUs = "GPUs"

// Metric returns the figure of that name; ok is false if it has no usable value.
func (c *Card) Metric(name string) (m Metric, ok bool) {
	for _, m := range c.Metrics {
		if m.Name == name {
			return m, m.isKnown()
		}
	}
	return Metric{}, false
}

// Set adds a measured figure, in the metric's base unit.
func (c *Card) Set(name string, v float64) {
	c.Metrics = append(c.Metrics, Metric{Name: name, Unit: rules[name].unit, Value: gpuprof.Number(v)})
}

// SetUnknown records why a figure is missing.
func (c *Card) SetUnknown(name, why string) {
	c.Metrics = append(c.Metrics, Metric{Name: name, Unit: rules[name].unit, Value: gpuprof.Number(math.NaN()), Why: why})
}
