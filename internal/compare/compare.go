// Package compare decides whether something got slower. It takes results of
// gpuprof and of other benchmark programs in one neutral form, Result, and
// gives a Comparison: a verdict a metric, what differs between the sides,
// where the change comes from, and an exit code. It reads and writes nothing.
//
// There are four ways in, by what the data can carry:
//
//	Gate             A and B run in one job, in blocks, in up to three stages (recommended)
//	Compare          two result files: by their runs, with a session term
//	CompareStored    a stored baseline of several sessions against a result
//	CheckBudgets     limits on exact counters of one result, no statistics
//
// The rule and its reasons: the replicate is the process (a run), never the
// sample, because the samples of one process share its memory layout, its
// clock and its neighbours. internal/stats has the formulas.
package compare

import (
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// Metric names a quantity and states how to compare it.
type Metric struct {
	Name           string // "step", "step/gemm", "BenchmarkX/n=3 ns/op"; unique in a Result
	Unit           string // "s", "B", "probes/s", "count"
	HigherIsBetter bool
	// Exact quantities (bytes, launches, copies, sync points, allocations) have
	// no noise: any change is a change. Each run then holds the counts it saw.
	Exact bool
	// Guessed: exactness was inferred from the values, which were whole and equal, not declared. It holds while the
	// values of both sides are so.
	Guessed bool
	// Digits is the number of significant digits that an exact value was stored with; further digits carry no
	// information. 0: all digits were stored.
	Digits int
	// Undirected: the file does not state which direction is better. The metric is stored and shown, and has no part
	// in a verdict.
	Undirected bool
	// Beside: gpuprof measures it in addition to the figures that the program reports; it is judged only if --metric
	// names it.
	Beside bool
}

// MetricData is a metric with what was measured of it.
type MetricData struct {
	Metric
	// Runs holds one list of samples a run (a process), in Unit. A run that
	// failed to measure this metric has an empty list or is left out. Values
	// that are NaN or infinite make the metric inconclusive.
	Runs [][]float64
	// Sites are the places that were counted, the most frequent first; nil when unknown.
	Sites []gpuprof.Site
	// Rate is the requests per second under which it was measured; 0 for none. Figures of
	// different rates do not compare.
	Rate float64
	// UnderLoad: callers of a service saw it. It is no part of the step.
	UnderLoad bool
	// SenderLate: the load generator sent requests so late that the figures measure the generator. Only sides
	// measured in turns compare by them, since the generator may be equally late on both.
	SenderLate bool
}

// Median returns the median of the medians of the runs, NaN without runs.
func (m *MetricData) Median() float64 { return stats.MedianOfRuns(m.Runs) }

// Knob is a setting of what was measured.
type Knob struct {
	Value string `json:"value"`
	// Model knobs change the computation, so both sides must agree in them. The others are tuning knobs: compare
	// explains changes by them, a gate names them.
	Model bool `json:"model,omitempty"`
}

// RunInfo holds the time and the quality of one run.
type RunInfo struct {
	StartS  float64  `json:"start_s"`         // Unix time in seconds of the first sample; 0 when unknown
	Flagged float64  `json:"flagged"`         // share of the samples that carry a flag, 0 to 1
	Codes   []string `json:"codes,omitempty"` // the reason codes of those flags, sorted, once each
}

// Result is one side of a comparison: a gpuprof run (FromRun), or a file of another benchmark program (package
// results).
type Result struct {
	Source string // the file or command it came from, as messages should name it
	Tool   string // what measured: "gpuprof", "go-bench", "nvbench", …
	// Status is complete unless part of the measurement is missing. An invalid or partial result always gives the
	// verdict inconclusive; Reason gives the cause.
	Status gpuprof.Status
	Reason string

	Workload, Preset string // "" for foreign formats

	Metrics []MetricData // in the order they should be shown; names unique

	// Env are the hard keys: fields that must agree, by name: device, driver,
	// cuda, mig, ecc, power_limit, clock_lock, cpu, workload, preset, mode, …
	// An unknown field is left out. A field known on one side only differs.
	Env map[string]string
	// Facts are the environment fields that may differ and are then shown as a
	// possible cause: kernel, governor, pcie, …
	Facts map[string]string
	// Code identifies the measured program: version, commit, go, ptx_hash, … It is expected to differ.
	Code  map[string]string
	Knobs map[string]Knob

	// RunInfo has one entry a run in the order they were taken, or is nil.
	RunInfo []RunInfo

	// Stages are the metrics whose values add up to Total, sample by sample, so
	// that a change of Total can be attributed; empty for foreign formats. Both
	// are names of Metrics. A stage is judged from 5 % of Total up: what takes
	// less is noise of the clock, however large its ratio.
	Stages []string
	Total  string // "step"

	// Failed lists benchmarks that gave no figure, "name: why".
	Failed   []string
	Warnings []gpuprof.Warning

	// Ungated is the reason why a gate must not judge it, "" if it may.
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

// Verdict is a decision on one metric or on all of them.
type Verdict string

const (
	// Pass means shown not to be slower than the threshold. For one metric this verdict is Same.
	Pass Verdict = "pass"
	// Regressed is shown to be slower than the equivalence margin.
	Regressed Verdict = "regressed"
	// Improved is shown to be faster than the mirrored margin; in a gate beyond
	// doubt, or by a stage of fresh blocks.
	Improved Verdict = "improved"
	// Inconclusive means that the data shows neither a regression nor its absence.
	Inconclusive Verdict = "inconclusive"
	// NotComparable means that the sides are different measurements (hard facts, load or unit differ), so that more data would
	// not help.
	NotComparable Verdict = "not comparable"
	// Same is Pass of one metric.
	Same Verdict = "same"
	// TooSmall is a metric below its floor on both sides, such as a stage of less than 5 % of the step: it is
	// not judged, whatever its ratio.
	TooSmall Verdict = "too small"
	// Gone is a stage that the new side does not have, where a knob that differs
	// explains it: there is nothing to test, and nothing is wrong. Its part of
	// the step's change is among the causes.
	Gone Verdict = "gone"
	// Added is a stage that the old side does not have.
	Added Verdict = "added"
	// Explains is a measured metric of a gate that is judged by its total: it has
	// a ratio and an interval, and no part in the verdict.
	Explains Verdict = "explains"
)

// Open reports whether a verdict is neither a pass nor a regression.
func (v Verdict) Open() bool { return v == Inconclusive || v == NotComparable }

// Comparison is the outcome, and the JSON that compare and gate write. It is
// made once and never changed; the same input and seed give the same bytes.
type Comparison struct {
	gpuprof.Head
	// Sides names the way of measuring: "gate" (A and B in one job), "files", "baseline" or "budget". The head's kind
	// is gate or comparison accordingly.
	Sides     string  `json:"sides"`
	Old       string  `json:"old"` // Source of each side
	New       string  `json:"new"`
	Verdict   Verdict `json:"verdict"` // pass, regressed, not comparable, inconclusive or improved
	ExitCode  int     `json:"exit_code"`
	Threshold float64 `json:"threshold"` // 0.05 is 5 %
	// SessionSpread is the standard deviation between sessions, as a logarithm (0.01 is about 1 %); 0 if both sides
	// come from one job.
	SessionSpread float64 `json:"session_spread,omitempty"`
	SpreadAssumed bool    `json:"session_spread_assumed,omitempty"` // not estimated from sessions
	Seed          uint64  `json:"seed"`
	Stages        int     `json:"gate_stages,omitempty"` // 1, 2 or 3 of a gate
	Workload      string  `json:"workload,omitempty"`
	Preset        string  `json:"preset,omitempty"`

	Metrics     []MetricResult `json:"metrics"`
	Budgets     []BudgetResult `json:"budgets,omitempty"`
	Differences []Difference   `json:"differences"`
	Causes      []Cause        `json:"causes"`
	Attribution *Attribution   `json:"attribution,omitempty"` // where there are causes
	// Findings propose changes that would close the gap.
	Findings []gpuprof.Finding `json:"findings,omitempty"`
	Failed   []string          `json:"failed,omitempty"` // what gave no figure: exit code 4
	Warnings []gpuprof.Warning `json:"warnings"`
	// Next lists the steps that can settle an inconclusive verdict, most useful first.
	Next []string `json:"next"`

	// Order is every process in the order they ran.
	Order        []Turn       `json:"order,omitempty"`
	Fingerprints Fingerprints `json:"fingerprint"`
}

// With returns a copy of the comparison with more findings and warnings.
func (c *Comparison) With(findings []gpuprof.Finding, warnings []gpuprof.Warning) *Comparison {
	out := *c
	out.Findings, out.Warnings = append(slices.Clip(c.Findings), findings...), append(slices.Clip(c.Warnings), warnings...)
	return &out
}

// WithFirst returns a copy of the comparison with a new first next step.
func (c *Comparison) WithFirst(next string) *Comparison {
	out := *c
	out.Next = append([]string{next}, c.Next...)
	return &out
}

// Decode reads a comparison as compare and gate write it. name is the file's, for
// errors, which are ErrInput.
func Decode(text []byte, name string) (*Comparison, error) {
	c := &Comparison{}
	if err := document.Decode(text, name, c, document.Comparison, document.Gate); err != nil {
		return nil, err
	}
	if c.Verdict == "" {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading comparison %s: it holds no verdict", name).WithFix("write it again with gpuprof compare or gate -o FILE.json")
	}
	if c.Sides == "" { // before 2.0.0 the kind said it
		c.Sides = string(c.Kind)
		c.Kind = headOf(c.Sides, c.Tool).Kind
	}
	return c, nil
}

// MetricResult is the verdict on one metric. Figures that do not exist (the
// interval of a counter, the ratio to zero) are null.
type MetricResult struct {
	Name      string            `json:"name"`
	Unit      string            `json:"unit"`
	Old       gpuprof.Number    `json:"old"`   // centre of the run medians; where there is an interval, such that new/old is Ratio
	New       gpuprof.Number    `json:"new"`   //
	Ratio     gpuprof.Number    `json:"ratio"` // new/old as measured, whichever is better
	CI95      [2]gpuprof.Number `json:"ci95"`  // of Ratio
	P         gpuprof.Number    `json:"p"`     // one-sided, of "not worse than the equivalence margin"
	PAdjusted gpuprof.Number    `json:"p_adjusted"`
	// PBetter is the mirrored one, of "not better than the equivalence margin".
	PBetter         gpuprof.Number `json:"p_better"`
	PBetterAdjusted gpuprof.Number `json:"p_better_adjusted"`
	Verdict         Verdict        `json:"verdict"` // regressed, improved, same, too small, inconclusive, not comparable, gone, added, explains
	// MDE is the least slowdown that data like these would find (90 % of the
	// time), as a share: 0.05 is 5 %.
	MDE    gpuprof.Number `json:"mde"`
	Reason string         `json:"reason,omitempty"` // one sentence, where the verdict needs one

	// Estimator names the estimator of the ratio unless that was the mean over runs: "ranks" or "signed ranks" if
	// there are outliers; " of means" or " of trimmed means" if these, and not the median, represent a process.
	Estimator string `json:"estimator,omitempty"`

	HigherIsBetter bool           `json:"higher_is_better,omitempty"`
	Exact          bool           `json:"exact,omitempty"`
	Threshold      float64        `json:"threshold"`           // of this metric
	Runs           [2]int         `json:"runs"`                // old, new; of the stage that decided
	Escalated      bool           `json:"escalated,omitempty"` // stage 2 looked at it
	Stage1         *StageEvidence `json:"stage1,omitempty"`    // what made it escalate
	Stage2         *StageEvidence `json:"stage2,omitempty"`    // what stage 3 had to find again
	Samples        *SideSamples   `json:"samples,omitempty"`   // of the stage that decided
}

// StageEvidence is the evidence of an earlier stage of a gate for a metric.
type StageEvidence struct {
	Ratio gpuprof.Number    `json:"ratio"`
	CI95  [2]gpuprof.Number `json:"ci95"`
	P     gpuprof.Number    `json:"p"`
	Runs  [2]int            `json:"runs"`

	Samples *SideSamples `json:"samples,omitempty"`
}

// Worse returns the slowdown of New against Old as a share (0.05: 5 % worse), for either direction of the metric; NaN
// without a ratio.
func (m *MetricResult) Worse() float64 {
	if m.HigherIsBetter {
		return 1/float64(m.Ratio) - 1
	}
	return float64(m.Ratio) - 1
}

// Difference is one field that is not the same on both sides.
type Difference struct {
	Field string `json:"field"` // "driver", "commit", a knob's name
	Old   string `json:"old"`   // "" is unknown
	New   string `json:"new"`
	Hard  bool   `json:"hard"` // must agree: without --allow-mismatch there is no verdict
	// Kind is "knob", "environment" or "code".
	Kind string `json:"kind"`
	// Allowed was asked for with --allow-mismatch.
	Allowed bool `json:"allowed,omitempty"`
}

// Attribution splits the change of the step into its causes. Old and New are the metric's values in its unit; Old,
// the changes of all causes and Rest add up to New. A part's share of the change is its share of the change of the
// sum of the stages' means, since medians do not add up.
type Attribution struct {
	Old  gpuprof.Number `json:"old"`
	New  gpuprof.Number `json:"new"`
	Rest gpuprof.Number `json:"rest"` // the stages that made less than 1 % of the change each
}

// Cause is a stage's part in the change of the whole step.
type Cause struct {
	Stage string `json:"stage"`
	// ShareOfChange is this stage's change over the step's: the shares add up
	// to 1, and a stage that changed the other way has a negative share.
	ShareOfChange float64 `json:"share_of_change"`
	// ExplainedBy names what differs and may have done it: knobs first, the
	// environment second, code last. Data can show which stage changed; which
	// of several differing fields did it is only known when there is one.
	ExplainedBy string `json:"explained_by"`
	// Change is new minus old in the unit of the step.
	Change gpuprof.Number `json:"change"`
}

// Budget is a limit on an exact counter: --max NAME=N.
type Budget struct {
	Name string
	Max  float64
}

// BudgetResult is the result of one budget.
type BudgetResult struct {
	Name  string         `json:"name"`
	Unit  string         `json:"unit"`
	Max   float64        `json:"max"`
	Value gpuprof.Number `json:"value"` // the largest seen; null when missing
	Over  bool           `json:"over"`
	// Where names the call sites that counted most, where known.
	Where   []string `json:"where,omitempty"`
	Verdict Verdict  `json:"verdict"` // same, regressed, or inconclusive when missing
	Reason  string   `json:"reason,omitempty"`
}
