package tune

import (
	"fmt"

	"github.com/gpuprof/gpuprof"
)

// Program holds the part of a Result that only a tuning of the user's own program has: tune -- COMMAND. Ratios are
// of steps (or whole runs) per second, setting over the unchanged program.
type Program struct {
	Command []string `json:"command"` // with its secrets masked
	Metric  Metric   `json:"metric"`
	// Warm steps are left out and Steps are measured in each process; 0 where whole runs are timed.
	Warm  int `json:"warm_steps"`
	Steps int `json:"steps"`
	// Epoch counts the steps of an epoch of the loader if whole epochs are measured; else 0.
	Epoch int `json:"epoch_steps,omitempty"`
	// Noise is the share by which two runs of the unchanged program differ.
	Noise   float64 `json:"noise"`
	Device  string  `json:"device,omitempty"` // kind of device of the parameters: "cpu", "cuda"
	Threads int     `json:"threads,omitempty"`
	CPUs    int     `json:"cpus"`
	// Copied: the runs had a copy of the working folder. Otherwise they wrote into it.
	Copied bool `json:"copied"`
	// Losses measures the agreement between runs of the unchanged program.
	Losses LossCheck `json:"losses"`
	// Patch lists the lines to change in the program for the recommended setting.
	Patch []string `json:"patch"`
	// Left are settings that were not tried, each with its reason.
	Left []LeftOut `json:"left_out"`
	// Findings are those of a recording of the unchanged program, beside the gains measured here.
	Findings []FindingGain `json:"findings,omitempty"`
	// Runs are the processes in the order in which they ran: a search that is resumed takes them from here.
	Runs []ProgramRun `json:"runs"`
}

// Metric selects the time by which runs of the program compare.
type Metric string

// The metrics.
const (
	PerStep Metric = "step" // mean seconds of a step, by the optimizer's steps
	PerRun  Metric = "run"  // seconds of a benchmark result that the program prints, else of the whole process
)

// LeftOut is a setting that was not tried.
type LeftOut struct {
	Setting string `json:"setting"`
	Reason  string `json:"reason"`
}

// FindingGain is a finding of the recording with the measured gain of a setting that removes its cause.
type FindingGain struct {
	Rule    string `json:"rule"`
	Setting string `json:"setting"`
	// Claim is the largest speedup that the finding allows, 1 over 1 less its share of the step; 0: it claims no time.
	Claim   float64    `json:"claim"`
	Gain    float64    `json:"gain"` // 0: fewer than three pairs
	CI95    [2]float64 `json:"ci95"`
	Verdict Claimed    `json:"verdict"`
}

// Claimed compares a finding's claim with the measured gain.
type Claimed string

// The results of this comparison.
const (
	ClaimHeld    Claimed = "held"          // the interval of the gain holds the claim
	OverClaimed  Claimed = "over-claimed"  // the whole interval is below the claim
	UnderClaimed Claimed = "under-claimed" // the whole interval is above the claim
	NoTime       Claimed = "no time claimed"
	NotMeasured  Claimed = "not measured"
)

// ProgramRun is one process of the program.
type ProgramRun struct {
	// Key names the settings, "" for the unchanged program, and Plan the requested steps.
	Key  string `json:"key"`
	Plan [2]int `json:"plan"` // steps left out, steps measured
	// Cost is in seconds per step, or per run; 0 where the run failed.
	Cost     float64 `json:"cost_s"`
	CPU      float64 `json:"cpu_s"` // of the main process per step; of the whole tree per run
	StartupS float64 `json:"startup_s,omitempty"`
	Memory   int64   `json:"memory_bytes,omitempty"` // peak of the main process, on the GPU where it uses one
	Seconds  float64 `json:"seconds"`                // that the process took
	// Losses are the first values handed to backward, as hexadecimal floating point.
	Losses []string       `json:"losses,omitempty"`
	Hook   *HookReport    `json:"hook,omitempty"`
	Failed string         `json:"failed,omitempty"` // why, its last words
	Took   map[string]int `json:"took,omitempty"`   // how often each setting took hold
}

// HookReport is the report of the hook about the program.
type HookReport struct {
	Steps   int               `json:"steps"`
	Ended   bool              `json:"ended,omitempty"` // the program came to its end before all steps were made
	Refused map[string]string `json:"refused,omitempty"`
	Device  string            `json:"device"`
	// Batch is the batch size of the first loader that has one. The cost of a run with another is scaled to the
	// samples of this one.
	Batch int      `json:"batch,omitempty"`
	Seen  Observed `json:"seen"`
}

// Observed holds the facts of the program that decide which settings make sense.
type Observed struct {
	Loaders    []Loader                  `json:"loaders"`
	Epochs     [][2]int                  `json:"epochs"` // number of the loader, steps made before
	Optimizers []Optimizer               `json:"optimizers"`
	Calls      map[string]map[string]int `json:"calls"` // of functions that can be removed, by place
	KeepGrads  int                       `json:"keep_grads"`
	Anomaly    int                       `json:"anomaly"`
	Modules    []string                  `json:"modules"`
	Images     bool                      `json:"four_dimensional"`
	Threads    int                       `json:"threads"`
	Subnormal  float64                   `json:"subnormal"` // share of the values of parameters and gradients

	Deterministic  bool `json:"deterministic"`
	MKLDNN         bool `json:"mkldnn"`
	CUDNNBenchmark bool `json:"cudnn_benchmark"`
	TF32           bool `json:"tf32"`
	Transformers   bool `json:"transformers"`
	GraphBreaks    int  `json:"graph_breaks,omitempty"`
	Graphs         int  `json:"graphs,omitempty"`
}

// Loader is a DataLoader as the program made it.
type Loader struct {
	Type       string `json:"type"`
	Workers    *int   `json:"num_workers"`
	Persistent *bool  `json:"persistent_workers"`
	Pinned     *bool  `json:"pin_memory"`
	Stream     bool   `json:"stream"` // of an IterableDataset: each worker would yield all of it
}

// Optimizer is one whose step was called. Foreach and Fused are true, false, null or "absent".
type Optimizer struct {
	Type    string `json:"type"`
	Foreach any    `json:"foreach"`
	Fused   any    `json:"fused"`
	Tensors int    `json:"tensors"`
	Sparse  bool   `json:"sparse"`
}

// Same grades how closely a training agrees with another.
type Same string

// The results of a comparison of losses.
const (
	SameBits     Same = "same bits"
	Within       Same = "within limit" // differs by no more than --max-error, or than two plain runs do
	Changed      Same = "changed"
	NotChecked   Same = "not checked"    // no values were handed to backward
	Incomparable Same = "not comparable" // the program's own runs differ
)

// LossCheck compares the losses of two runs.
type LossCheck struct {
	Verdict  Same `json:"verdict,omitempty"`
	Compared int  `json:"compared"` // values
	// Deviation is the largest difference over the size of the first loss; -1 where a loss is not finite.
	Deviation float64 `json:"deviation"`
}

// Text is the check in a few words.
func (l *LossCheck) Text() string {
	switch {
	case l == nil:
		return ""
	case l.Deviation > 0:
		return fmt.Sprintf("%s (%.1e)", l.Verdict, l.Deviation)
	}
	return string(l.Verdict)
}

// soundRuns reports whether the runs read from a file have the form of measured ones.
func (p *Program) soundRuns() bool {
	if p == nil {
		return true
	}
	for _, r := range p.Runs {
		if r.Cost < 0 || r.Seconds < 0 || r.Seconds > longest || r.Memory < 0 || r.Cost == 0 && r.Failed == "" {
			return false
		}
	}
	return true
}

// CommandText is the command as a shell would take it.
func (p *Program) CommandText() string {
	text := ""
	for i, word := range p.Command {
		if i > 0 {
			text += " "
		}
		text += gpuprof.ShellWord(word)
	}
	return text
}
