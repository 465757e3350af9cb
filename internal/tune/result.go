// Package tune defines the document of a tuning: every measured effect, the setting that fresh processes confirmed,
// and the conclusion. The inputs are the figures of a search (workloads/search) or a file; the outputs are the
// document and its texts, for reports and for resuming a search. The package measures nothing and imports no
// workload and no device.
package tune

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
)

// Goal is the quantity that tune optimizes.
type Goal string

// Time is s per unit of work, Throughput its inverse, Energy J per unit of work, Memory the device's peak bytes.
const (
	Time       Goal = "time"
	Throughput Goal = "throughput"
	Energy     Goal = "energy"
	Memory     Goal = "memory"
	// Latency is the 99th percentile of the latency of requests that are sent at a fixed rate.
	Latency Goal = "latency"
)

// Goals lists all goals.
func Goals() []Goal { return []Goal{Time, Throughput, Energy, Memory, Latency} }

// Verdict is the effect of changing a knob.
type Verdict string

// For the goals energy and memory, Less and More replace Faster and Slower.
const (
	Faster       Verdict = "faster"
	Slower       Verdict = "slower"
	Less         Verdict = "less"
	More         Verdict = "more"
	None         Verdict = "none"         // within 2 % of the default in either direction
	Inconclusive Verdict = "inconclusive" // the interval contains effects of both kinds
	Refused      Verdict = "refused"      // by the device, or by a limit on error or memory
	Failed       Verdict = "failed"       // out of memory, failed check or lost launch
	Stopped      Verdict = "stopped"      // a limit ended its run before the measurement was complete
)

// Result is the outcome of tune with all measurements; a search can resume from its file.
type Result struct {
	gpuprof.Head
	Build    string         `json:"build,omitempty"` // SHA-256 of the program; empty if unknown
	Status   gpuprof.Status `json:"status"`
	Reason   string         `json:"reason,omitempty"`
	Started  time.Time      `json:"started"`
	Workload string         `json:"workload,omitempty"`
	Preset   string         `json:"preset,omitempty"`
	// Set holds the settings that the user fixed; tune does not change them.
	Set       gpuprof.Settings `json:"set,omitempty"`
	Device    string           `json:"device"`           // in the form of --device
	DeviceDoc string           `json:"device_name"`      // name of the device model
	Driver    string           `json:"driver,omitempty"` // version, for a GPU
	Seed      uint64           `json:"seed"`
	Goal      Goal             `json:"goal"`
	Unit      string           `json:"unit"` // of medians: "s/probe", "probes/s", "J/probe", "B"
	Only      []string         `json:"only,omitempty"`
	MaxError  float64          `json:"max_error"`
	MaxMemory int64            `json:"max_memory_bytes,omitempty"`
	BudgetS   float64          `json:"budget_s"`
	SpentS    float64          `json:"spent_s"`
	// Rate is the request rate, 1/s, if the goal is latency. The first measurement determines it.
	Rate float64 `json:"rate_per_s,omitempty"`

	Default *Point `json:"default"`
	// Recommended is nil unless fresh processes confirmed a setting. Conclusion summarises the search in every case.
	Recommended *Recommended `json:"recommended"`
	Conclusion  Conclusion   `json:"conclusion"`
	// Findings are hints of the first measurement about knobs, which tune tried first; nil if it did not look for any.
	Findings []Hint `json:"findings,omitempty"`
	// Confirmations lists the settings that fresh processes measured again.
	Confirmations []Confirmation `json:"confirmations"`
	Effects       []Effect       `json:"effects"`
	Curves        []Curve        `json:"curves"`
	Failed        []Failure      `json:"failed"`
	Claims        []ClaimRow     `json:"claims"`
	// Peers are recorded figures of other programs for this shape, on a device of the same name.
	Peers   []Peer  `json:"peers,omitempty"`
	Journal []Entry `json:"journal"`
	// Program is set if tune measured the user's own program, nil for a workload.
	Program *Program `json:"program,omitempty"`
}

// Peer is another program's recorded figure for the same work.
type Peer struct {
	Name     string  `json:"name"`     // of the other program: "e3nn", "torch.nn.GRU"
	Figure   string  `json:"figure"`   // what was timed: "tensor_product/deepaw/csr"
	Unit     string  `json:"unit"`     // "s"
	Value    float64 `json:"value"`    // of the other program
	Ours     float64 `json:"ours"`     // gpuprof's value in the same recording
	Recorded string  `json:"recorded"` // UTC, ISO 8601
}

// Point is one setting with its cost.
type Point struct {
	Knobs  gpuprof.Settings `json:"knobs"`
	Median float64          `json:"median"`
	CI95   [2]float64       `json:"ci95"` // zero with too few samples for an interval
}

// Recommended is the setting to use instead of the default, confirmed in fresh processes; Knobs has the changes.
type Recommended struct {
	Knobs   gpuprof.Settings `json:"knobs"`
	Command string           `json:"command"`
	Ratio   float64          `json:"ratio"` // goal with the recommended setting over goal with the default
	CI95    [2]float64       `json:"ci95"`
	// TimeRatio is the ratio of seconds per unit of work, for any goal; 0 if it was not measured.
	TimeRatio float64 `json:"time_ratio,omitempty"`
	// Processes is the number of fresh processes behind Ratio.
	Processes    int                `json:"processes"`
	Confirmed    bool               `json:"confirmed"` // always true, for readers of the file
	Text         string             `json:"text"`
	Error        float64            `json:"error"` // largest relative error against float64
	MemoryRatio  float64            `json:"memory_ratio"`
	Joules       float64            `json:"joules,omitempty"`       // energy per step of the user's own program, J; 0 if unknown
	EnergyRatio  float64            `json:"energy_ratio,omitempty"` // of Joules to the unchanged program's
	PyTorch      []string           `json:"pytorch"`
	OneTime      map[string]float64 `json:"one_time_s"`    // additional set-up time over the default, s
	PaybackSteps float64            `json:"payback_steps"` // number of steps that save the set-up time; 0 without additional set-up time
}

// The verdicts of a Conclusion.
const (
	Recommends  = "recommended"
	DefaultBest = "default_best" // every change was decided, and no change is better
	Undecided   = "undecided"    // no change was shown to be better, and some are undecided
	Unconfirmed = "unconfirmed"  // fresh processes did not confirm what the search found
	NothingFits = "nothing_fits" // neither the default nor any other setting meets the limits
)

// Conclusion is the result of a search; empty until the search is finished.
type Conclusion struct {
	Verdict string `json:"verdict"`
	Text    string `json:"text"`
	Command string `json:"command"` // runs the recommended setting, or else the default; may be empty
}

// Confirmation is a setting measured again in fresh processes.
type Confirmation struct {
	Knobs gpuprof.Settings `json:"knobs"`
	// Ratio is the setting's goal over the default's, averaged over processes; 0: too few. Interval, at Level, decides.
	Ratio     float64    `json:"ratio"`
	Interval  [2]float64 `json:"interval"`
	Level     float64    `json:"level"`
	CI95      [2]float64 `json:"ci95"`
	TimeRatio float64    `json:"time_ratio,omitempty"`
	Processes int        `json:"processes"`
	Confirmed bool       `json:"confirmed"`
	Reason    string     `json:"reason,omitempty"` // why not confirmed
}

// Effect is the effect of changing one knob of the default.
type Effect struct {
	Knob  string  `json:"knob"`
	From  string  `json:"from"`
	To    string  `json:"to"`
	Ratio float64 `json:"ratio"`
	// CI95 is the simultaneous interval: all verdicts of the table hold together at 95 % (Holm). It is wider than a
	// single interval. For the user's own program, and in schema 1, it is the interval of this row alone. P is the
	// adjusted p-value of "no effect".
	CI95        [2]float64 `json:"ci95"`
	P           float64    `json:"p_adjusted"`
	Own         [2]float64 `json:"-"`          // 95 % interval of this ratio alone, for curves
	TimeRatio   float64    `json:"time_ratio"` // of seconds per unit of work, for any goal
	Error       float64    `json:"error"`
	MemoryRatio float64    `json:"memory_ratio"`
	Verdict     Verdict    `json:"verdict"`
	Reason      string     `json:"reason,omitempty"`
	Pairs       int        `json:"pairs"` // number of pairs of neighbouring blocks
	PyTorch     string     `json:"pytorch,omitempty"`
	// Losses and CPURatio (CPU time per step, with the setting over unchanged) exist for the user's own program only.
	Losses   *LossCheck `json:"losses,omitempty"`
	CPURatio float64    `json:"cpu_ratio,omitempty"`
	// Joules is the energy per step with the setting, in J, and EnergyRatio its ratio to the energy of the neighbouring
	// runs of the unchanged program. Both are 0 if the energy is unknown.
	Joules      float64 `json:"joules,omitempty"`
	EnergyRatio float64 `json:"energy_ratio,omitempty"`
}

// Curve is the cost as a function of a whole-number knob.
type Curve struct {
	Knob   string       `json:"knob"`
	Unit   string       `json:"unit"`
	Points []CurvePoint `json:"points"`
	// Knee is the smallest value within 5 % of the best. It is empty if the intervals are too wide to decide.
	Knee string `json:"knee"`
}

// KneeText describes the knee.
func (c Curve) KneeText() string {
	if c.Knee == "" {
		return "no knee can be named, the intervals are too wide; give more time with --budget"
	}
	return "the knee is at " + c.Knee + ", the smallest value within 5 % of the best"
}

// CurvePoint is one value of a curve.
type CurvePoint struct {
	Value  string     `json:"value"`
	Median float64    `json:"median"`
	CI95   [2]float64 `json:"ci95"`
}

// Failure is a setting that could not be measured.
type Failure struct {
	Knobs gpuprof.Settings `json:"knobs"`
	Error string           `json:"error"`
}

// ClaimRow is a claim of a tuning guide with its measured effect.
type ClaimRow struct {
	ID       string     `json:"id"`
	Guide    string     `json:"guide"`
	Claim    string     `json:"claim"`
	Figure   string     `json:"figure"`
	AB       string     `json:"ab"` // the compared settings
	Measured float64    `json:"measured"`
	CI95     [2]float64 `json:"ci95"`
	What     string     `json:"what,omitempty"` // quantity of Measured; empty for speedup
	Verdict  string     `json:"verdict"`
	Reason   string     `json:"reason,omitempty"`
	Details  []string   `json:"details,omitempty"`
}

// Entry is one finished measurement. A resumed search reuses it.
type Entry struct {
	Key     string   `json:"key"`
	Outcome *Outcome `json:"outcome"`
}

// Outcome is the result of measuring setting B against setting A.
type Outcome struct {
	// A and B hold the cost in the goal's unit, TimeA and TimeB the seconds per unit of work: one list per block,
	// or per process if fresh processes measured.
	A     [][]float64 `json:"a"`
	B     [][]float64 `json:"b"`
	TimeA [][]float64 `json:"time_a,omitempty"`
	TimeB [][]float64 `json:"time_b,omitempty"`
	Unit  string      `json:"unit"` // unit of work
	WorkA float64     `json:"work_a"`
	WorkB float64     `json:"work_b"`

	Error   float64            `json:"error"` // largest relative error of B; ErrorA of A
	ErrorA  float64            `json:"error_a,omitempty"`
	MemoryA int64              `json:"memory_a"`
	MemoryB int64              `json:"memory_b"`
	OneTime map[string]float64 `json:"one_time_s,omitempty"` // set-up time of B minus set-up time of A, s
	CountA  map[string]float64 `json:"count_a,omitempty"`    // per step
	CountB  map[string]float64 `json:"count_b,omitempty"`

	// Sittings counts how often both sides were set up for these blocks; 0 means once.
	Sittings int `json:"sittings,omitempty"`

	Verdict Verdict `json:"verdict,omitempty"` // Refused or Failed, else empty
	Reason  string  `json:"reason,omitempty"`
	Seconds float64 `json:"seconds"` // duration of the measurement

	Rate float64 `json:"rate_per_s,omitempty"` // request rate if the goal is latency, 1/s
	// Latency and goodput measured by callers, if the goal is latency.
	SeenA *Seen `json:"seen_a,omitempty"`
	SeenB *Seen `json:"seen_b,omitempty"`
}

// Seen holds the figures that callers of a service measured in each block: the median latency of all scheduled
// requests in s, and the answers in time per second.
type Seen struct {
	P50S    []float64 `json:"p50_s"`
	Goodput []float64 `json:"goodput_per_s"`
	// SenderLate counts the blocks whose tail a late sender determined.
	SenderLate int `json:"sender_late,omitempty"`
}

// SenderLate returns the number of request blocks with a late sender, and of all request blocks.
func (r *Result) SenderLate() (late, blocks int) {
	for _, e := range r.Journal {
		if e.Outcome == nil {
			continue
		}
		for _, s := range []*Seen{e.Outcome.SeenA, e.Outcome.SeenB} {
			if s != nil {
				late, blocks = late+s.SenderLate, blocks+len(s.P50S)
			}
		}
	}
	return late, blocks
}

// Decode reads a result file. name is the file's name, for errors, which are ErrInput.
func Decode(b []byte, name string) (*Result, error) {
	r := &Result{}
	if err := document.Decode(b, name, r, document.Tune, document.Claims); err != nil {
		return nil, err
	}
	if gpuprof.MajorOf(r.Version) < 2 {
		r.before2()
	}
	damaged := func(err error) error {
		return gpuprof.Unreadable("reading tuning result "+name, err, "the file is damaged: start again with another -o FILE")
	}
	if r.SpentS < 0 || r.SpentS > longest || r.BudgetS < 0 || r.BudgetS > longest {
		return nil, damaged(fmt.Errorf("its budget is %g s, of which %g s are spent", r.BudgetS, r.SpentS))
	}
	if !r.Program.soundRuns() {
		return nil, damaged(fmt.Errorf("one of its runs has figures that no run has"))
	}
	for i, entry := range r.Journal {
		if !entry.Outcome.sound() {
			return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading tuning result %s: its measurement %d has sides that no measurement has", name, i+1).WithFix("the file is damaged: start again with another -o FILE")
		}
	}
	return r, nil
}

// before2 converts a result of schema 1 to the present schema: it has no conclusion, and its recommendation may be
// unconfirmed.
func (r *Result) before2() {
	rec := r.Recommended
	if rec == nil {
		return
	}
	r.Conclusion = Conclusion{Verdict: Recommends, Text: rec.Text, Command: rec.Command}
	if !rec.Confirmed || len(rec.Knobs) == 0 {
		r.Recommended, r.Conclusion.Verdict = nil, Undecided
	}
}

// IntervalText describes the coverage of the Effects' intervals.
func (r *Result) IntervalText() string {
	if r.Program != nil || gpuprof.MajorOf(r.Version) == 1 {
		return "95 % interval of each row alone"
	}
	return "95 % interval of all rows together"
}

// longest is longer than any search, in seconds: 30 years.
const longest = 1e9

// sound reports whether an outcome read from a file is a plausible measurement: the verdict is empty, Refused or
// Failed, and both sides have as many blocks, with positive figures. Nil, for no measurement, is sound.
func (o *Outcome) sound() bool {
	if o == nil {
		return true
	}
	if o.Verdict != "" && o.Verdict != Failed && o.Verdict != Refused || o.Error < 0 || o.MemoryA < 0 || o.MemoryB < 0 || o.Seconds < 0 {
		return false
	}
	for _, side := range [][2][][]float64{{o.A, o.B}, {o.TimeA, o.TimeB}} {
		if len(side[0]) > 0 && len(side[0]) != len(side[1]) {
			return false
		}
		for _, block := range slices.Concat(side[0], side[1]) {
			if len(block) == 0 || slices.Min(block) <= 0 {
				return false
			}
		}
	}
	return true
}
