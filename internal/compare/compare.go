// Package compare decides whether something got slower. It takes results of gpuprof and of other benchmark programs
// in one neutral form, Result, and returns a Comparison: a verdict per metric, the differences between the sides,
// the causes of the change, and an exit code. The package reads and writes no files.
//
// The entry points differ in the data that they need:
//
//	Gate             A and B run in one job, in blocks, in up to three stages (recommended)
//	Compare          two result files, by their runs; the error allows for the spread between sessions
//	CompareStored    a stored baseline of several sessions against a result
//	CheckBudgets     limits on exact counters of one result, no statistics
//
// The replicate of every test is the process (a run), never the sample: the samples of one process share its memory
// layout, its clock and its neighbours. internal/stats has the formulas.
//
// A block is one process of each side, and a session the runs of one job or file. A stage of a result is a part of its
// step; the stages of a gate are its rounds of blocks. The threshold is the slowdown that must be found, the
// equivalence margin a smaller change that does not matter. The test for a speedup is the same test, mirrored. A metric
// is blocked if it can get no verdict, and Holm's procedure adjusts the p-values of all tested metrics.
package compare

import (
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// Metric names a quantity and states how to compare it.
type Metric struct {
	Name           string `json:"name"` // "step", "step/gemm", "BenchmarkX/n=3 ns/op"; unique in a Result
	Unit           string `json:"unit"` // "s", "B", "probes/s", "count"
	HigherIsBetter bool   `json:"higher_is_better,omitempty"`
	// Exact quantities (bytes, launches, copies, allocations, …) have no noise: any change counts.
	Exact bool `json:"exact,omitempty"`
	// Guessed reports that the metric counts as exact only because its values are whole and equal on each side.
	Guessed bool `json:"-"`
	// Digits is the number of significant digits that an exact value was stored with; 0: all digits.
	Digits int `json:"-"`
	// Undirected reports that the file does not state which direction is better. The metric is shown and not judged.
	Undirected bool `json:"undirected,omitempty"`
	// Beside reports that gpuprof measured the metric in addition to the program's own figures. It is judged only if
	// --metric names it.
	Beside bool `json:"-"`
}

// MetricData is a metric with its samples. A stored session has its JSON.
type MetricData struct {
	Metric
	// Runs holds one list of samples per run (a process), in Unit. A run that failed to measure this metric has an
	// empty list or is left out. A sample that is NaN or infinite makes the metric inconclusive.
	Runs [][]float64 `json:"runs"`
	// Sites lists the call sites that were counted, the most frequent first; nil when unknown.
	Sites []gpuprof.Site `json:"-"`
	// Rate is the request rate of the measurement, 1/s; 0 for none. Figures of different rates do not compare.
	Rate float64 `json:"rate_per_s,omitempty"`
	// UnderLoad marks a metric that the callers of a service measured, such as a latency. It is not a part of the step.
	UnderLoad bool `json:"under_load,omitempty"`
	// SenderLate reports that the load generator sent requests late (coordinated omission), so that the figures measure
	// the generator. Only sides measured in turns still compare, since the generator may be equally late on both.
	SenderLate bool `json:"sender_late,omitempty"`
}

// Median returns the median of the medians of the runs, NaN without runs.
func (m *MetricData) Median() float64 { return stats.MedianOfRuns(m.Runs) }

// Knob is a setting of the measured program.
type Knob struct {
	Value string `json:"value"`
	// Model knobs change the computation, so both sides must agree in them. The others are tuning knobs: compare
	// explains changes by them, and a gate requires them to agree.
	Model bool `json:"model,omitempty"`
}

// RunInfo holds the start and the flagged share of one run.
type RunInfo struct {
	StartS  float64  `json:"start_s"`         // Unix time in seconds of the first sample; 0 when unknown
	Flagged float64  `json:"flagged"`         // share of the samples that carry a flag, 0 to 1
	Codes   []string `json:"codes,omitempty"` // the reason codes of those flags, sorted, once each
}

// Result is one side of a comparison: a gpuprof run (FromRun), or another benchmark program's file (package results).
type Result struct {
	Source string // the file or command it came from, as messages should name it
	Tool   string // what measured: "gpuprof", "go-bench", "nvbench", …
	// Status is complete unless part of the measurement is missing. An invalid or partial result always gives the
	// verdict inconclusive; Reason states the cause.
	Status gpuprof.Status
	Reason string

	Workload, Preset string // "" for foreign formats

	Metrics []MetricData // in the order they should be shown; names unique

	// Env holds the fields that must agree: device, driver, cuda, mig, ecc, power_limit, clock_lock, cpu, workload,
	// preset, mode, … An unknown field is left out. A field known on one side only counts as a difference.
	Env map[string]string
	// Facts holds the environment fields that may differ and then are possible causes: kernel, governor, pcie, …
	Facts map[string]string
	// Code identifies the measured program, which may differ: version, commit, go, ptx_hash, …
	Code  map[string]string
	Knobs map[string]Knob

	// RunInfo has one entry per run in the order they were taken, or is nil.
	RunInfo []RunInfo

	// Stages names the metrics whose values add up to Total, sample by sample, so that a change of Total can be
	// attributed; empty for foreign formats. A stage below 5 % of Total is not judged: it is within the noise of
	// the clock.
	Stages []string
	Total  string // "step"

	// Failed lists benchmarks without a figure, as "name: why".
	Failed   []string
	Warnings []gpuprof.Warning

	// Ungated is the reason why a gate must not judge the result, "" if it may.
	Ungated string
}

// Metric finds a metric by name; nil when the result has none.
func (r *Result) Metric(name string) *MetricData {
	for i := range r.Metrics {
		if r.Metrics[i].Name == name {
			return &r.Metrics[i]
		}
	}
	return nil
}

// Verdict is a decision on one metric or on a whole comparison.
type Verdict string

const (
	// Pass means that the new side is shown not to be slower than the threshold. It is for a whole comparison; a single
	// metric then has the verdict Same.
	Pass Verdict = "pass"
	// Regressed means shown to be slower by more than the equivalence margin.
	Regressed Verdict = "regressed"
	// Improved means shown to be faster by more than the equivalence margin. A gate requires proof beyond doubt in
	// stage 1, or a confirmation by fresh blocks.
	Improved Verdict = "improved"
	// Inconclusive means that the data show neither a regression nor its absence.
	Inconclusive Verdict = "inconclusive"
	// NotComparable means that the sides are different measurements, with different environment, load or unit; more
	// data would not help.
	NotComparable Verdict = "not comparable"
	// Same is the verdict of a single metric that passes.
	Same Verdict = "same"
	// TooSmall is a metric below its floor on both sides, such as a stage of less than 5 % of the step; it is not judged.
	TooSmall Verdict = "too small"
	// Gone is a stage that the new side lacks because a knob differs. It is not tested; its time is part of the change
	// that Comparison.Causes splits by stage.
	Gone Verdict = "gone"
	// Added is a metric or stage that the old side lacks.
	Added Verdict = "added"
	// Explains is a metric of a gate that judges the total only: the metric has a ratio and an interval, but does not
	// count.
	Explains Verdict = "explains"
)

// Open reports whether a verdict is neither a pass nor a regression.
func (v Verdict) Open() bool { return v == Inconclusive || v == NotComparable }

// Comparison is the JSON that compare and gate write. It is immutable; the same input and seed give the same bytes.
type Comparison struct {
	gpuprof.Head
	// Sides names how the sides were measured: "gate" (A and B in one job), "files", "baseline" or "budget". The
	// head's kind is gate for "gate", else comparison.
	Sides     string  `json:"sides"`
	Old       string  `json:"old"` // Source of each side
	New       string  `json:"new"`
	Verdict   Verdict `json:"verdict"` // pass, regressed, not comparable, inconclusive or improved
	ExitCode  int     `json:"exit_code"`
	Threshold float64 `json:"threshold"` // 0.05 is 5 %
	// SessionSpread is the standard deviation between sessions, a logarithm (0.01 is about 1 %); 0 if one job had both
	// sides.
	SessionSpread float64 `json:"session_spread,omitempty"`
	SpreadAssumed bool    `json:"session_spread_assumed,omitempty"` // not estimated from sessions
	Seed          uint64  `json:"seed"`
	Stages        int     `json:"gate_stages,omitempty"` // of a gate: 1, 2 or 3
	Workload      string  `json:"workload,omitempty"`
	Preset        string  `json:"preset,omitempty"`

	Metrics     []MetricResult `json:"metrics"`
	Budgets     []BudgetResult `json:"budgets,omitempty"`
	Differences []Difference   `json:"differences"`
	Causes      []Cause        `json:"causes"`
	Attribution *Attribution   `json:"attribution,omitempty"` // where there are causes
	// Findings propose changes that would close the gap.
	Findings []gpuprof.Finding `json:"findings,omitempty"`
	Failed   []string          `json:"failed,omitempty"` // benchmarks without a figure: exit code 4
	Warnings []gpuprof.Warning `json:"warnings"`
	// Next lists the steps that can settle an inconclusive verdict, most useful first.
	Next []string `json:"next"`

	// Order lists every process in the order they ran.
	Order        []Turn       `json:"order,omitempty"`
	Fingerprints Fingerprints `json:"fingerprint"`
}

// With returns a copy of the comparison with findings and warnings appended.
func (c *Comparison) With(findings []gpuprof.Finding, warnings []gpuprof.Warning) *Comparison {
	out := *c
	out.Findings, out.Warnings = append(slices.Clip(c.Findings), findings...), append(slices.Clip(c.Warnings), warnings...)
	return &out
}

// WithBudget returns a copy of the comparison whose first next step is the text next, which names a sufficient budget.
// It replaces the steps that ask for more time without naming how much.
func (c *Comparison) WithBudget(next string) *Comparison {
	out := *c
	out.Next = []string{next}
	for _, step := range c.Next {
		if !strings.HasPrefix(step, moreTime) {
			out.Next = append(out.Next, step)
		}
	}
	return &out
}

// Decode reads a comparison that compare or gate wrote. name is the file's name, for errors, which are ErrInput.
func Decode(text []byte, name string) (*Comparison, error) {
	c := &Comparison{}
	if err := document.Decode(text, name, c, document.Comparison, document.Gate); err != nil {
		return nil, err
	}
	if c.Verdict == "" {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading comparison %s: it holds no verdict", name).WithFix("write it again with gpuprof compare or gate -o FILE.json")
	}
	if c.Sides == "" { // before 2.0.0 the document's kind named the sides
		c.Sides = string(c.Kind)
		c.Kind = headOf(c.Sides, c.Tool).Kind
	}
	return c, nil
}

// MetricResult is the verdict on one metric. Missing figures (a counter's interval, a ratio to zero) are null.
type MetricResult struct {
	Name      string            `json:"name"`
	Unit      string            `json:"unit"`
	Old       gpuprof.Number    `json:"old"`   // centre of the run medians; with an interval, scaled so that new/old equals Ratio
	New       gpuprof.Number    `json:"new"`   //
	Ratio     gpuprof.Number    `json:"ratio"` // new/old, whichever direction is better
	CI95      [2]gpuprof.Number `json:"ci95"`  // of Ratio
	P         gpuprof.Number    `json:"p"`     // one-sided, of "not worse than the equivalence margin"
	PAdjusted gpuprof.Number    `json:"p_adjusted"`
	// PBetter is the p-value of the test for a speedup, of "not better than the equivalence margin".
	PBetter         gpuprof.Number `json:"p_better"`
	PBetterAdjusted gpuprof.Number `json:"p_better_adjusted"`
	Verdict         Verdict        `json:"verdict"` // regressed, improved, same, too small, inconclusive, not comparable, gone, added, explains
	// MDE is the minimum detectable effect: the least slowdown, a share, that such data detect with a power of 0.9.
	MDE    gpuprof.Number `json:"mde"`
	Reason string         `json:"reason,omitempty"` // one sentence

	// Estimator names the estimator of the ratio if it is not the mean over runs: "ranks" or "signed ranks" under
	// outliers. " of means" or " of trimmed means" follows if those represent a process instead of its median.
	Estimator string `json:"estimator,omitempty"`

	HigherIsBetter bool           `json:"higher_is_better,omitempty"`
	Exact          bool           `json:"exact,omitempty"`
	Threshold      float64        `json:"threshold"`           // of this metric
	Runs           [2]int         `json:"runs"`                // old, new; of the last stage; stage 3 also counts the runs of stage 2
	Escalated      bool           `json:"escalated,omitempty"` // stage 1 did not settle it
	Stage1         *StageEvidence `json:"stage1,omitempty"`    // the evidence of stage 1, if a later stage decided
	Stage2         *StageEvidence `json:"stage2,omitempty"`    // the evidence of stage 2, if stage 3 decided
	Samples        *SideSamples   `json:"samples,omitempty"`   // of the stage that decided
}

// StageEvidence is an earlier stage's evidence on a metric.
type StageEvidence struct {
	Ratio gpuprof.Number    `json:"ratio"`
	CI95  [2]gpuprof.Number `json:"ci95"`
	P     gpuprof.Number    `json:"p"`
	Runs  [2]int            `json:"runs"`

	Samples *SideSamples `json:"samples,omitempty"`
}

// Worse returns the slowdown of New against Old as a share, whichever direction is better; NaN without a ratio.
func (m *MetricResult) Worse() float64 {
	if m.HigherIsBetter {
		return 1/float64(m.Ratio) - 1
	}
	return float64(m.Ratio) - 1
}

// Difference is one field that differs between the sides.
type Difference struct {
	Field string `json:"field"` // "driver", "commit", a knob's name
	Old   string `json:"old"`   // "" is unknown
	New   string `json:"new"`
	Hard  bool   `json:"hard"` // must agree: a difference without --allow-mismatch forbids a verdict
	// Kind is "knob", "environment" or "code".
	Kind string `json:"kind"`
	// Allowed reports that the user gave --allow-mismatch for the field.
	Allowed bool `json:"allowed,omitempty"`
}

// Attribution splits the change of the step into causes. Old and New are the metric's values in its unit; Old, the
// changes of all causes and Rest add up to New. A stage's share is the change of its mean over the change of the sum of
// all stages' means, since medians do not add up.
type Attribution struct {
	Old  gpuprof.Number `json:"old"`
	New  gpuprof.Number `json:"new"`
	Rest gpuprof.Number `json:"rest"` // the stages with less than 1 % of the change each, together
}

// Cause is a stage's part in the change of the whole step.
type Cause struct {
	Stage string `json:"stage"`
	// ShareOfChange is this stage's change over the step's. The shares of all stages add up to 1; a stage that
	// changed in the opposite direction has a negative share.
	ShareOfChange float64 `json:"share_of_change"`
	// ExplainedBy names the differences that may have caused the change: knobs, else the environment, else the
	// code. The data show which stage changed; among several differing fields they cannot separate the cause.
	ExplainedBy string `json:"explained_by"`
	// Change is new minus old in the unit of the step.
	Change gpuprof.Number `json:"change"`
}

// Budget is a limit on an exact counter: --max NAME=N.
type Budget struct {
	Name string
	Max  float64
}

// BudgetResult is the result of checking one budget.
type BudgetResult struct {
	Name  string         `json:"name"`
	Unit  string         `json:"unit"`
	Max   float64        `json:"max"`
	Value gpuprof.Number `json:"value"` // the largest of all runs; null when missing
	Over  bool           `json:"over"`
	// Where lists the call sites with the largest counts; empty when unknown.
	Where   []string `json:"where,omitempty"`
	Verdict Verdict  `json:"verdict"` // same, regressed, or inconclusive when missing
	Reason  string   `json:"reason,omitempty"`
}
