package health

import (
	"math"

	"github.com/gpuprof/gpuprof"
)

// Metric is one figure of a device.
type Metric struct {
	Name  string         `json:"name"`
	Unit  string         `json:"unit"`
	Value gpuprof.Number `json:"value"` // base units; null when it was not measured
	Why   string         `json:"why,omitempty"`
	// Second is the second best of several rounds; 0 of one.
	Second gpuprof.Number `json:"second,omitempty"`
}

// known reports whether the metric has a usable value.
func (m Metric) known() bool {
	v := float64(m.Value)
	return v > 0 && !math.IsInf(v, 0)
}

// rule is how a metric is compared with a sibling's.
type rule struct {
	unit   string
	better int     // +1: more is better, -1: less is, 0: not judged
	slack  float64 // fraction by which it may be worse than the siblings' median
}

// The slack of rates is the contract's 5 %. Copies of pageable memory go through
// the CPU's own memory copy and launches through its scheduler: both differ from
// one device to the next with nothing wrong, by the distance of the CPU that
// happens to serve them. Their slack is therefore wider; a link or driver that
// is really broken shows in the pinned copies, or by a factor.
const (
	rateSlack     = 0.05
	pageableSlack = 0.20
	latencySlack  = 0.50
)

// order is every metric as it is shown.
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
	// Less power at the same speed is luck with the silicon, and warmth alone
	// no fault: both explain what else is off.
	"power":       {"W", 0, 0},
	"temperature": {"C", 0, 0},
}

// Names lists every metric in the order it is shown.
func Names() []string { return append([]string(nil), order...) }

// Unit is a metric's unit; empty for an unknown name.
func Unit(name string) string { return rules[name].unit }

// Condition is what is known of a device beside its speed. Zero is unknown,
// except where a pointer says so.
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
	// Foreign is other programs' processes on the device; nil when unknown.
	Foreign *int `json:"foreign_processes,omitempty"`
	// MemoryFault says what is wrong with the memory, by the driver's own
	// account: uncorrected errors, rows that wait to be replaced.
	MemoryFault string `json:"memory_fault,omitempty"`
	// ThrottledS is by how much the throttle counters advanced, by reason; nil
	// when unknown.
	ThrottledS map[string]float64 `json:"throttled_s,omitempty"`
}

// Card is what was measured of one device.
type Card struct {
	Device    string            `json:"device"` // as it can be named on the command line
	Name      string            `json:"name"`
	UUID      string            `json:"uuid,omitempty"`
	PCI       string            `json:"pci,omitempty"` // "0000:ca:00.0"
	Arch      string            `json:"arch,omitempty"`
	Facts     map[string]string `json:"facts,omitempty"`
	Condition Condition         `json:"condition"`
	Sources   []Source          `json:"sources,omitempty"` // of faults, and their answers
	Metrics   []Metric          `json:"metrics"`
	// Error is why the measurement ended early; empty when it did not.
	Error string `json:"error,omitempty"`
	// Err is Error as it came, for its kind.
	Err error `json:"-"`
}

// AllGPUs stands for the device where none could be found or asked.
const AllGPUs = "GPUs"

// Metric is the figure of that name; ok is false where there is none.
func (c *Card) Metric(name string) (m Metric, ok bool) {
	for _, m := range c.Metrics {
		if m.Name == name {
			return m, m.known()
		}
	}
	return Metric{}, false
}

// Set adds a measured figure, in the base unit of its name.
func (c *Card) Set(name string, v float64) {
	c.Metrics = append(c.Metrics, Metric{Name: name, Unit: rules[name].unit, Value: gpuprof.Number(v)})
}

// SetUnknown notes why a figure is missing.
func (c *Card) SetUnknown(name, why string) {
	c.Metrics = append(c.Metrics, Metric{Name: name, Unit: rules[name].unit, Value: gpuprof.Number(math.NaN()), Why: why})
}
