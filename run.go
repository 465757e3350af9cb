package gpuprof

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof/internal/loadtest"
)

// DocumentKind names the kind of a file; package internal/document lists the kinds.
type DocumentKind string

// Head has the first members of every file of gpuprof.
type Head struct {
	Kind DocumentKind `json:"kind"`
	// Version is the schema version of this kind: a reader refuses a newer major version and ignores unknown fields.
	Version string `json:"schema_version"`
	Tool    Tool   `json:"tool"` // the program that wrote the file
	// Answered is the document's answer, set by the writer and ignored by readers; nil for kinds and versions without
	// one.
	Answered *Answer `json:"answer,omitempty"`
}

// Envelope returns the head of a document that embeds it.
func (h *Head) Envelope() *Head { return h }

// MajorOf returns the major number of a version, -1 for a text that is no version.
func MajorOf(version string) int { return numberOf(version, 0) }

// MinorOf returns the minor number of a version, -1 if it has none.
func MinorOf(version string) int { return numberOf(version, 1) }

func numberOf(version string, part int) int {
	parts := strings.Split(version, ".")
	if len(parts) <= part {
		return -1
	}
	n, err := strconv.Atoi(parts[part])
	if errors.Is(err, strconv.ErrSyntax) {
		return -1
	}
	return max(n, -1) // a number out of range becomes the largest int
}

// Status grades whether a run is complete and valid.
type Status string

const (
	// Complete means that every phase ended by its own rule.
	Complete Status = "complete"
	// Partial means that the run was cut short; its measurements are kept.
	Partial Status = "partial"
	// Invalid means that a check failed; the run has no times.
	Invalid Status = "invalid"
)

// Run is the result of a workload with one setting: the content of run.json. It is not changed once measured.
type Run struct {
	Head
	Status      Status             `json:"status"`
	Reason      string             `json:"reason,omitempty"` // why the run is partial or invalid
	Started     time.Time          `json:"started"`
	Workload    string             `json:"workload"`
	Preset      string             `json:"preset"`
	Seed        uint64             `json:"seed"`
	Device      Env                `json:"device"`
	Knobs       Settings           `json:"knobs"`
	ModelKnobs  []string           `json:"model_knobs"` // knobs that change the computation
	Mode        Mode               `json:"mode"`
	Calibration map[string]float64 `json:"calibration"` // by calibrated quantity, s
	Checks      []Check            `json:"checks"`
	Step        *Series            `json:"step"`                  // step times
	BareStep    *Series            `json:"bare_step"`             // step times without stage events; nil if Step is without them
	ProbedStep  *Series            `json:"probed_step,omitempty"` // step periods, the sums of the exposed times; nil if Step has them
	Stages      []StageResult      `json:"stages"`
	Counters    map[string]float64 `json:"counters"` // per step
	Overhead    *Ratio             `json:"overhead"` // step with stage events over the step without
	ProbeCost   *ProbeCost         `json:"probe_cost,omitempty"`
	Another     *Another           `json:"another_process,omitempty"` // nil if unknown
	Ladder      []Rung             `json:"ladder,omitempty"`          // cost of each kind of probe
	Throughput  *Throughput        `json:"throughput"`
	PeakMemory  int64              `json:"peak_memory_bytes"`
	EnergyStep  *Series            `json:"energy_step_j"` // gross; nil if unknown or invalid
	Energy      *Energy            `json:"energy,omitempty"`
	Requests    *loadtest.Requests `json:"requests,omitempty"` // of a service under load, else nil
	Order       []Order            `json:"order"`
	Flags       [][]string         `json:"flags"` // reason codes of each entry of order
	Ceilings    Ceilings           `json:"ceilings"`
	Input       map[string]any     `json:"input"`
	ExampleStep []Span             `json:"example_step"`
	Telemetry   map[string]Track   `json:"telemetry"`
	Warnings    []Warning          `json:"warnings"`
	Findings    []Finding          `json:"findings"`

	// DeviceClockHz is the clock at the last sample: the SM clock of a GPU, or the core clock on the host; 0 if unknown.
	DeviceClockHz float64 `json:"device_clock_hz,omitempty"`

	// Renewed reports that the run has schema 1.0, and its exposed times were recomputed by the current rule when it was
	// read (see CopiesYield).
	Renewed bool `json:"-"`
}

// Tool identifies the program that wrote the file.
type Tool struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Commit  string `json:"commit"`
}

// Env identifies device and machine. Empty fields are unknown.
type Env struct {
	Kind       string            `json:"kind"` // "host" or "cuda"
	Name       string            `json:"name"`
	Arch       string            `json:"arch"`
	Cores      int               `json:"cores"` // CPU threads in use, or multiprocessors of a GPU
	CPU        string            `json:"cpu"`
	CPUCores   int               `json:"cpu_cores"` // logical CPUs of the machine
	Memory     int64             `json:"memory_bytes"`
	OS         string            `json:"os"`
	Kernel     string            `json:"kernel"`
	Go         string            `json:"go"`
	Governor   string            `json:"governor,omitempty"`
	CPUQuota   float64           `json:"cpu_quota,omitempty"` // cgroup limit in CPUs; 0 if none or unknown
	Load       float64           `json:"load1"`               // load average over 1 min at the start of the run
	DeviceInfo map[string]string `json:"facts,omitempty"`     // driver, cuda, uuid_hash, …
}

// Series is one quantity: samples and summary.
type Series struct {
	Unit   string      `json:"unit"`
	Runs   [][]float64 `json:"runs"` // one list of samples per process
	Median float64     `json:"median"`
	CI95   Interval    `json:"ci95"` // of the median; NaN if the samples give none
	P05    float64     `json:"p05"`
	P95    float64     `json:"p95"`
}

// N returns the number of samples of all processes.
func (s *Series) N() int {
	if s == nil {
		return 0
	}
	n := 0
	for _, r := range s.Runs {
		n += len(r)
	}
	return n
}

// StageResult holds one stage's measurements per step. Series that do not apply are nil: a wait has no device time.
type StageResult struct {
	Name   string `json:"name"`
	Parent string `json:"parent"` // "step", or a stage for kernels
	// Role is the StageRole of a stage that the workload declares, as text; "" for kernels, launch and gap. Readers
	// treat other texts as unknown.
	Role string `json:"role,omitempty"`
	// Device is the time between the stage's events on its stream, Host the caller's time in the stage, Exposed the
	// part of the step's period that the stage owns. Exposed times of all stages with parent "step" add up to the
	// period.
	Device   *Series            `json:"device"`
	Host     *Series            `json:"host"`
	Exposed  *Series            `json:"exposed"`
	Counters map[string]float64 `json:"counters"`
	// BoundS is the stage's roofline bound, s (Ceilings.Bound), for its minimum of work in this formulation; 0 without
	// one. BoundBy names the limiting resource, NoBound the reason why counted work has no bound.
	BoundS  float64 `json:"floor_s"`
	BoundBy string  `json:"bound_by,omitempty"`
	NoBound string  `json:"no_bound,omitempty"`
	// Method is MethodSlope for a kernel too short for events; "" if Device is the time between events.
	Method string `json:"method,omitempty"`
}

// MethodSlope times a kernel by replaying one step's launches k, 2k and 4k times back to back. Device is the slope of
// time over replays, one sample per round, with the inputs in the cache.
const MethodSlope = "replay-slope"

// Ratio is a ratio with its 95 % interval.
type Ratio struct {
	Ratio float64  `json:"ratio"`
	CI95  Interval `json:"ci95"`
}

// ProbeCost is an upper limit of the overhead on the host of recording a step's spans. It is twice the calibrated cost
// of the clock reads and event records for a sequence of spans.
type ProbeCost struct {
	Spans       float64 `json:"spans"`        // per step, device spans included
	DeviceSpans float64 `json:"device_spans"` // spans with events on a stream
	Seconds     float64 `json:"seconds"`      // per step
}

// Another bounds the difference between the median steps of two processes: 95 % of other processes are within a factor
// of 1 + Share of this one.
type Another struct {
	Share     float64 `json:"share"`
	Processes int     `json:"processes"` // number of processes behind the estimate
	// Same reports that those processes ran this program with these settings; else they ran other settings or builds on
	// this machine.
	Same bool `json:"same_settings"`
}

// ProbeLimit returns the largest accepted cost of probes, as a share of the step.
func (e Env) ProbeLimit() float64 {
	if e.Kind == "cuda" {
		return 0.01
	}
	return 0.005
}

// Rung is the cost of one probe: the ratio of a step with Probe to the same step with the probe Over only.
type Rung struct {
	Probe string `json:"probe"` // "step events", "stage events", "kernel events", "telemetry"
	Over  string `json:"over"`  // "nothing", or an earlier probe
	Ratio
	// Apart reports that the timing passes omit the probe, because it may cost more than the limit.
	Apart bool `json:"apart"`
}

// Energy is the result of the energy pass, which repeats steps for some seconds and reads the device's energy counter.
// Powers, in W, cover the whole device.
type Energy struct {
	GrossStepJ float64 `json:"gross_step_j"` // CounterW times the time per step
	NetStepJ   Number  `json:"net_step_j"`   // GrossStepJ less the idle energy; null if IdleW is unknown
	CounterW   float64 `json:"counter_w"`    // from the energy counter
	InstantW   Number  `json:"instant_w"`    // mean of instant power readings over the same time; null if unknown
	IdleW      Number  `json:"idle_w"`       // from the counter, before the pass; null if unknown
	Seconds    float64 `json:"seconds"`      // from the first to the last change of the counter
	Updates    int     `json:"updates"`      // number of changes of the counter
	Steps      int     `json:"steps"`
	Valid      bool    `json:"valid"`
	Reason     string  `json:"reason,omitempty"` // why the energy is not valid
}

// Throughput is the work per time in the workload's own unit.
type Throughput struct {
	Unit   string  `json:"unit"` // "probes/s"
	Series *Series `json:"series"`
}

// Span is one interval of the example step. Start is in seconds since the step's begin.
type Span struct {
	Stage  string  `json:"stage"`
	Kernel string  `json:"kernel,omitempty"` // set in the pass with kernel events
	Lane   string  `json:"lane"`             // "host" or the stream's name
	Step   int     `json:"step"`             // 0 is the example step; other steps may overlap it
	StartS float64 `json:"start_s"`
	DurS   float64 `json:"dur_s"`
}

// Track is a telemetry quantity over time.
type Track struct {
	Unit  string    `json:"unit"`
	TimeS []float64 `json:"t_s"` // from the start of the run
	Value []Number  `json:"value"`
}

// The values of Order.Side: samples with probes and bare ones. If stage events cost too much (Run.ProbedStep is set),
// Step was measured without them; its samples still have side 0, and samples of ProbedStep have no entries.
const (
	SideProbed = 0
	SideBare   = 1
)

// Order is the position of a sample in time; in JSON [block, side, start_s].
type Order struct {
	Block  int
	Side   int // SideProbed or SideBare
	StartS float64
}

// MarshalJSON writes the compact array form.
func (o Order) MarshalJSON() ([]byte, error) {
	b := append([]byte{'['}, strconv.Itoa(o.Block)...)
	b = append(append(b, ','), strconv.Itoa(o.Side)...)
	b = strconv.AppendFloat(append(b, ','), o.StartS, 'g', -1, 64)
	return append(b, ']'), nil
}

// UnmarshalJSON reads the compact array form.
func (o *Order) UnmarshalJSON(b []byte) error {
	var v [3]float64
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*o = Order{int(v[0]), int(v[1]), v[2]}
	return nil
}

// WithFindings returns a copy of the run with more findings; the run itself stays unchanged.
func (r *Run) WithFindings(more ...Finding) *Run {
	out := *r
	out.Findings = append(slices.Clip(r.Findings), more...)
	return &out
}

// Stage returns the stage of that name; nil if the run has none.
func (r *Run) Stage(name string) *StageResult {
	for i := range r.Stages {
		if r.Stages[i].Name == name && r.Stages[i].Parent == "step" {
			return &r.Stages[i]
		}
	}
	return nil
}

// CopiesYield reports whether the run has schema 1.1 or later. In these runs, time in which a kernel and a copy overlap
// belongs to the kernel's stage, and a stage has the roofline bound of its own precision and traffic. In schema 1.0 the
// time could belong to the copy, and a bound could use another precision.
func (r *Run) CopiesYield() bool {
	major, minor := MajorOf(r.Version), MinorOf(r.Version)
	return minor >= 0 && (major != 1 || minor >= 1)
}

// Simulated reports whether the GPU was simulated: its times are meaningless, and no baseline may contain them.
func (r *Run) Simulated() bool { return r.Device.DeviceInfo["simulated"] == "true" }

// Failed lists the failed checks.
func (r *Run) Failed() []Check {
	var out []Check
	for _, c := range r.Checks {
		if !c.Pass {
			out = append(out, c)
		}
	}
	return out
}
