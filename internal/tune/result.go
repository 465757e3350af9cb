// Package tune has the document of a tuning: every effect that was measured, the
// setting that fresh processes confirmed, and the conclusion. In come the figures of
// a search (workloads/search) or the bytes of a file; out go the document and its
// texts, for the reports and for a search that continues. It measures nothing and
// imports no workload and no device.
package tune

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
)

// Goal is the quantity that tune improves.
type Goal string

// The goals. Time is seconds per unit of work; Throughput its inverse; Energy
// joules per unit of work; Memory the peak of device memory in bytes.
const (
	Time       Goal = "time"
	Throughput Goal = "throughput"
	Energy     Goal = "energy"
	Memory     Goal = "memory"
	// Latency is the time within which 99 of 100 scheduled requests are answered, at one rate.
	Latency Goal = "latency"
)

// Goals lists all goals.
func Goals() []Goal { return []Goal{Time, Throughput, Energy, Memory, Latency} }

// Verdict is the effect of changing a knob.
type Verdict string

// The verdicts of a measurement. Less and More stand for Faster and Slower
// where the goal is energy or memory.
const (
	Faster       Verdict = "faster"
	Slower       Verdict = "slower"
	Less         Verdict = "less"
	More         Verdict = "more"
	None         Verdict = "none"         // within 2 % of the default either way
	Inconclusive Verdict = "inconclusive" // the interval holds both
	Refused      Verdict = "refused"      // by the device, or by a limit on error or memory
	Failed       Verdict = "failed"       // out of memory, a failed check, a lost launch
)

// Result holds the outcome of tune with all measurements; a search can resume from its file.
type Result struct {
	gpuprof.Head
	Build    string         `json:"build,omitempty"` // SHA-256 of the program; empty where unknown
	Status   gpuprof.Status `json:"status"`
	Reason   string         `json:"reason,omitempty"`
	Started  time.Time      `json:"started"`
	Workload string         `json:"workload,omitempty"`
	Preset   string         `json:"preset,omitempty"`
	// Set holds the settings that the user fixed in addition to the preset; tune does not change them.
	Set       gpuprof.Settings `json:"set,omitempty"`
	Device    string           `json:"device"`           // as --device takes it
	DeviceDoc string           `json:"device_name"`      // the device's own name
	Driver    string           `json:"driver,omitempty"` // of a GPU
	Seed      uint64           `json:"seed"`
	Goal      Goal             `json:"goal"`
	Unit      string           `json:"unit"` // of medians: "s/probe", "probes/s", "J/probe", "B"
	Only      []string         `json:"only,omitempty"`
	MaxError  float64          `json:"max_error"`
	MaxMemory int64            `json:"max_memory_bytes,omitempty"`
	BudgetS   float64          `json:"budget_s"`
	SpentS    float64          `json:"spent_s"`
	// Rate is the number of requests per second if the goal is latency; the start measurement fixes it once.
	Rate float64 `json:"rate_per_s,omitempty"`

	Default *Point `json:"default"`
	// Recommended is nil unless fresh processes confirmed a setting. Conclusion summarises the search in words in
	// every case.
	Recommended *Recommended `json:"recommended"`
	Conclusion  Conclusion   `json:"conclusion"`
	// Findings are hints from the figures of the start about its knobs; tune tried those knobs first. Nil: the start
	// was not measured so.
	Findings []Hint `json:"findings,omitempty"`
	// Confirmations are the settings measured again in fresh processes, with their results.
	Confirmations []Confirmation `json:"confirmations"`
	Effects       []Effect       `json:"effects"`
	Curves        []Curve        `json:"curves"`
	Failed        []Failure      `json:"failed"`
	Claims        []ClaimRow     `json:"claims"`
	// Peers are recorded figures of other programs at this shape, on a device
	// of the same name.
	Peers   []Peer  `json:"peers,omitempty"`
	Journal []Entry `json:"journal"`
	// Program is set where the user's own program was tuned, and not a workload.
	Program *Program `json:"program,omitempty"`
}

// Peer is the recorded figure of another program for the same job.
type Peer struct {
	Name     string  `json:"name"`     // the other program: "e3nn", "torch.nn.GRU"
	Figure   string  `json:"figure"`   // what was timed: "tensor_product/deepaw/csr"
	Unit     string  `json:"unit"`     // "s"
	Value    float64 `json:"value"`    // the other program's
	Ours     float64 `json:"ours"`     // gpuprof's in the same recording
	Recorded string  `json:"recorded"` // when: UTC, ISO 8601
}

// Point is one setting with its cost.
type Point struct {
	Knobs  gpuprof.Settings `json:"knobs"`
	Median float64          `json:"median"`
	CI95   [2]float64       `json:"ci95"` // zero where there were too few figures for one
}

// Recommended is the setting to run instead of the default, confirmed in fresh processes. Knobs holds only the
// changed knobs.
type Recommended struct {
	Knobs   gpuprof.Settings `json:"knobs"`
	Command string           `json:"command"`
	Ratio   float64          `json:"ratio"` // of the goal, recommended over default
	CI95    [2]float64       `json:"ci95"`
	// TimeRatio compares seconds per unit of work, whatever the goal; 0 if it was not measured.
	TimeRatio float64 `json:"time_ratio,omitempty"`
	// Processes counts the fresh processes behind Ratio.
	Processes    int                `json:"processes"`
	Confirmed    bool               `json:"confirmed"` // always: for readers of the file
	Text         string             `json:"text"`
	Error        float64            `json:"error"` // the largest relative error against float64
	MemoryRatio  float64            `json:"memory_ratio"`
	PyTorch      []string           `json:"pytorch"`
	OneTime      map[string]float64 `json:"one_time_s"`    // seconds more than the default pays at set-up
	PaybackSteps float64            `json:"payback_steps"` // steps of the recommended setting until that is saved; 0 when nothing is paid
}

// What a search can conclude.
const (
	Recommends  = "recommended"
	DefaultBest = "default_best" // every change was decided, and none is better
	Undecided   = "undecided"    // none was shown to be better, and some are undecided
	Unconfirmed = "unconfirmed"  // what the search saw was not confirmed
	NothingFits = "nothing_fits" // neither the default nor anything else keeps to the limits
)

// Conclusion is the result of a search. It is empty while the search is not finished.
type Conclusion struct {
	Verdict string `json:"verdict"`
	Text    string `json:"text"`
	Command string `json:"command"` // that runs what is recommended, or else the default; empty where neither
}

// Confirmation is a setting taken to fresh processes.
type Confirmation struct {
	Knobs gpuprof.Settings `json:"knobs"`
	// Ratio divides the goal of the setting by the goal of the default, the mean over processes; 0 if there were too
	// few. Interval decides, two-sided at Level.
	Ratio     float64    `json:"ratio"`
	Interval  [2]float64 `json:"interval"`
	Level     float64    `json:"level"`
	CI95      [2]float64 `json:"ci95"`
	TimeRatio float64    `json:"time_ratio,omitempty"`
	Processes int        `json:"processes"`
	Confirmed bool       `json:"confirmed"`
	Reason    string     `json:"reason,omitempty"` // why not
}

// Effect is one knob turned by itself, against the default.
type Effect struct {
	Knob  string  `json:"knob"`
	From  string  `json:"from"`
	To    string  `json:"to"`
	Ratio float64 `json:"ratio"`
	// CI95 is the interval at which the verdicts of the whole table hold together
	// at 95 % (Holm), wider than one that is read alone. P is the adjusted p-value of
	// no effect.
	CI95        [2]float64 `json:"ci95"`
	P           float64    `json:"p_adjusted"`
	Own         [2]float64 `json:"-"`          // the interval of 95 % of this ratio alone, for curves
	TimeRatio   float64    `json:"time_ratio"` // of seconds per unit of work, whatever the goal
	Error       float64    `json:"error"`
	MemoryRatio float64    `json:"memory_ratio"`
	Verdict     Verdict    `json:"verdict"`
	Reason      string     `json:"reason,omitempty"`
	Pairs       int        `json:"pairs"` // of neighbouring blocks
	PyTorch     string     `json:"pytorch,omitempty"`
	// Losses and CPURatio (CPU time per step, setting over the unchanged program) belong to tunings of the user's
	// own program.
	Losses   *LossCheck `json:"losses,omitempty"`
	CPURatio float64    `json:"cpu_ratio,omitempty"`
}

// Curve is the cost over the values of a whole-number knob.
type Curve struct {
	Knob   string       `json:"knob"`
	Unit   string       `json:"unit"`
	Points []CurvePoint `json:"points"`
	// Knee is the smallest value within 5 % of the best; past it there is little to gain. It is empty if the
	// intervals are too wide to decide.
	Knee string `json:"knee"`
}

// KneeText names the knee in words.
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

// ClaimRow is one rule of a tuning guide, tested here.
type ClaimRow struct {
	ID       string     `json:"id"`
	Guide    string     `json:"guide"`
	Claim    string     `json:"claim"`
	Figure   string     `json:"figure"`
	AB       string     `json:"ab"` // what was compared
	Measured float64    `json:"measured"`
	CI95     [2]float64 `json:"ci95"`
	What     string     `json:"what,omitempty"` // what Measured is; speedup where empty
	Verdict  string     `json:"verdict"`
	Reason   string     `json:"reason,omitempty"`
	Details  []string   `json:"details,omitempty"`
}

// Entry is one finished measurement. A search that is resumed takes it from
// here instead of measuring again.
type Entry struct {
	Key     string   `json:"key"`
	Outcome *Outcome `json:"outcome"`
}

// Outcome is the result of comparing settings B with A.
type Outcome struct {
	// A and B hold the cost in the goal's unit: one list a block (or, in fresh
	// processes, a process); TimeA and TimeB the seconds per unit of work.
	A     [][]float64 `json:"a"`
	B     [][]float64 `json:"b"`
	TimeA [][]float64 `json:"time_a,omitempty"`
	TimeB [][]float64 `json:"time_b,omitempty"`
	Unit  string      `json:"unit"` // of work
	WorkA float64     `json:"work_a"`
	WorkB float64     `json:"work_b"`

	Error   float64            `json:"error"` // of B
	ErrorA  float64            `json:"error_a,omitempty"`
	MemoryA int64              `json:"memory_a"`
	MemoryB int64              `json:"memory_b"`
	OneTime map[string]float64 `json:"one_time_s,omitempty"` // B's less A's, at set-up
	CountA  map[string]float64 `json:"count_a,omitempty"`    // per step
	CountB  map[string]float64 `json:"count_b,omitempty"`

	// Sittings counts how often both sides were opened for these blocks; 0: once.
	Sittings int `json:"sittings,omitempty"`

	Verdict Verdict `json:"verdict,omitempty"` // Refused or Failed; else empty
	Reason  string  `json:"reason,omitempty"`
	Seconds float64 `json:"seconds"` // that the measurement took

	Rate float64 `json:"rate_per_s,omitempty"` // of requests, where the goal is latency
	// Latency and goodput that callers measured, if the goal is latency.
	SeenA *Seen `json:"seen_a,omitempty"`
	SeenB *Seen `json:"seen_b,omitempty"`
}

// Seen holds the figures that callers of a service measured in each block: the median latency in s, of all scheduled
// requests, and the answers in time per second.
type Seen struct {
	P50S    []float64 `json:"p50_s"`
	Goodput []float64 `json:"goodput_per_s"`
	// SenderLate counts the blocks whose tail came from a late sender.
	SenderLate int `json:"sender_late,omitempty"`
}

// SenderLate is in how many of all blocks of requests the sender was late.
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

// Decode reads what document.Encode wrote. name is the file's, for errors, which are
// ErrInput.
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

// before2 converts a result of schema 1: it called recommended a setting that no fresh process had confirmed, and
// had no conclusion.
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

// IntervalText names the coverage of the intervals of Effects. Before schema 2 each interval covered its row alone.
func (r *Result) IntervalText() string {
	if gpuprof.MajorOf(r.Version) == 1 {
		return "95 %"
	}
	return "95 %, all rows together"
}

// longest is a time that no search takes, in seconds: 30 years.
const longest = 1e9

// sound reports whether an outcome read from a file has the form of a measured one: a verdict that a measurement can
// end with, and the blocks of both sides in pairs, each with figures above zero. Nil is sound too; it is no
// measurement.
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
