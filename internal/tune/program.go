package tune

import (
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// Program holds the part of a Result that exists only if tune measured the user's own program: tune -- COMMAND.
// Ratios divide the steps (or whole runs) per second with the setting by the unchanged program's.
type Program struct {
	Command []string `json:"command"` // with masked secrets
	Metric  Metric   `json:"metric"`
	// Each process skips Warm steps and measures Steps; both are 0 if whole runs are timed.
	Warm  int `json:"warm_steps"`
	Steps int `json:"steps"`
	// Epoch is the number of steps per epoch if whole epochs are measured, else 0.
	Epoch int `json:"epoch_steps,omitempty"`
	// Noise is the relative difference between two runs of the unchanged program.
	Noise   float64 `json:"noise"`
	Device  string  `json:"device,omitempty"` // kind of device that holds the parameters: "cpu", "cuda"
	Threads int     `json:"threads,omitempty"`
	CPUs    int     `json:"cpus"`
	// Joules is the energy per step of the GPUs that the unchanged program uses, in J; 0 if EnergyUnknown has a reason.
	Joules        float64 `json:"joules,omitempty"`
	EnergyUnknown string  `json:"energy_unknown,omitempty"`
	// Copied reports that the runs used a copy of the working folder. Otherwise they wrote into it.
	Copied bool `json:"copied"`
	// Losses is the agreement between runs of the unchanged program.
	Losses LossCheck `json:"losses"`
	// Patch lists the lines to change in the program for the recommended setting.
	Patch []string `json:"patch"`
	// Left lists the settings that were not tried, with reasons.
	Left []LeftOut `json:"left_out"`
	// Findings compares the findings of a recording of the unchanged program with the gains measured here.
	Findings []FindingGain `json:"findings,omitempty"`
	// Runs lists the processes in the order in which they ran; a resumed search reuses them.
	Runs []ProgramRun `json:"runs"`
}

// Metric selects the time by which the program's runs are compared.
type Metric string

// The metrics.
const (
	PerStep Metric = "step" // mean seconds per step of the optimizer
	PerRun  Metric = "run"  // seconds, of a benchmark result that the program prints, else of the whole process
)

// LeftOut is a setting that was not tried.
type LeftOut struct {
	Setting string `json:"setting"`
	Reason  string `json:"reason"`
}

// FindingGain compares a finding of the recording with the measured gain of a setting that removes its cause.
type FindingGain struct {
	Rule    string `json:"rule"`
	Setting string `json:"setting"`
	// Claim is the largest speedup that the finding allows, 1/(1 - its share of the step); 0 if it claims no time.
	Claim   float64    `json:"claim"`
	Gain    float64    `json:"gain"` // 0 with fewer than three pairs
	CI95    [2]float64 `json:"ci95"`
	Verdict Claimed    `json:"verdict"`
}

// Claimed is the result of comparing a finding's claim with the measured gain.
type Claimed string

// The values of Claimed.
const (
	ClaimHeld    Claimed = "held"          // the interval of the gain contains the claim
	OverClaimed  Claimed = "over-claimed"  // the whole interval is below the claim
	UnderClaimed Claimed = "under-claimed" // the whole interval is above the claim
	NoTime       Claimed = "no time claimed"
	NotMeasured  Claimed = "not measured"
)

// ProgramRun is one process of the program.
type ProgramRun struct {
	// Key names the settings, "" for the unchanged program, and Plan the requested steps.
	Key  string `json:"key"`
	Plan [2]int `json:"plan"` // steps skipped, steps measured
	// Cost is in seconds per step, or per run; 0 if the run failed.
	Cost     float64 `json:"cost_s"`
	CPU      float64 `json:"cpu_s"` // seconds of the main process per step; of the process tree per run
	StartupS float64 `json:"startup_s,omitempty"`
	Memory   int64   `json:"memory_bytes,omitempty"` // peak of the main process, on the GPU if it uses one
	Seconds  float64 `json:"seconds"`                // wall time of the process
	// Joules is the energy per step of the GPUs that the program used, in J; 0 if unknown. If the program uses a GPU,
	// EnergyUnknown then has the reason.
	Joules        float64 `json:"joules,omitempty"`
	EnergyUnknown string  `json:"energy_unknown,omitempty"`
	// Losses holds the first values passed to backward, as hexadecimal floating point.
	Losses []string    `json:"losses,omitempty"`
	Hook   *HookReport `json:"hook,omitempty"`
	Failed string      `json:"failed,omitempty"` // why the run failed: its last output
	// Stopped names the limit that ended the run before its measurement was complete; "" if no limit did.
	Stopped Stop `json:"stopped,omitempty"`
	// AtLeast is the lowest cost that a stopped run can have, in seconds as Cost; 0 if unknown.
	AtLeast float64 `json:"at_least_s,omitempty"`
	// Printed reports that Cost comes from a benchmark result that the program printed.
	Printed bool `json:"printed,omitempty"`
	// EndS is the part of the budget that was spent when the run ended, s.
	EndS float64 `json:"end_s,omitempty"`
	// BudgetS is the budget of the search that made the run, s.
	BudgetS float64        `json:"budget_s,omitempty"`
	Took    map[string]int `json:"took,omitempty"` // how often each setting took effect
	// Blocks lists the settings that this process switched on and off between its steps.
	Blocks []Switched `json:"blocks,omitempty"`
}

// Stop is the limit that ended a run.
type Stop string

// The values of Stop.
const (
	StopBudget Stop = "budget" // the budget, without the part that is reserved for a confirmation
	StopRun    Stop = "run"    // the time limit of one run
)

// IsMeasured reports whether the run came to the end of its measurement.
func (r *ProgramRun) IsMeasured() bool { return r.Failed == "" && r.Stopped == "" }

// Switched is a setting that one process switched on and off.
type Switched struct {
	Name string `json:"name"`
	Took int    `json:"took"` // how often it took effect
	// Seconds holds, by block, the time of steps without the setting and of as many steps with it.
	Seconds [][2]float64 `json:"seconds"`
}

// HookReport is the report of the hook inside the program.
type HookReport struct {
	Steps   int               `json:"steps"`
	Ended   bool              `json:"ended,omitempty"` // the program ended before all requested steps
	Refused map[string]string `json:"refused,omitempty"`
	Device  string            `json:"device"`
	// Batch is the first loader's batch size; the cost of a run with another size is scaled to it.
	Batch int      `json:"batch,omitempty"`
	Seen  Observed `json:"seen"`
}

// Observed holds the facts about the program that decide which settings to try.
type Observed struct {
	Loaders    []Loader                  `json:"loaders"`
	Epochs     [][2]int                  `json:"epochs"` // index of the loader, number of steps before
	Optimizers []Optimizer               `json:"optimizers"`
	Calls      map[string]map[string]int `json:"calls"` // by place: calls of functions that could be removed
	KeepGrads  int                       `json:"keep_grads"`
	Anomaly    int                       `json:"anomaly"`
	Modules    []string                  `json:"modules"`
	Images     bool                      `json:"four_dimensional"`
	Threads    int                       `json:"threads"`
	Subnormal  float64                   `json:"subnormal"` // share of subnormal values among parameters and gradients

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
	Stream     bool   `json:"stream"` // an IterableDataset: each worker would yield all of it
}

// Optimizer describes an optimizer whose step was called. Foreach and Fused are true, false, null or "absent".
type Optimizer struct {
	Type    string `json:"type"`
	Foreach any    `json:"foreach"`
	Fused   any    `json:"fused"`
	Tensors int    `json:"tensors"`
	Sparse  bool   `json:"sparse"`
}

// Same is the degree to which the losses of two trainings agree.
type Same string

// The values of Same.
const (
	SameBits     Same = "same bits"
	Within       Same = "within limit" // difference up to --max-error, or up to the difference between two unchanged runs
	Changed      Same = "changed"
	NotChecked   Same = "not checked"    // the program passed no values to backward
	Incomparable Same = "not comparable" // the unchanged program's own runs differ
)

// LossCheck compares the losses of two runs.
type LossCheck struct {
	Verdict  Same `json:"verdict,omitempty"`
	Compared int  `json:"compared"` // number of values
	// Deviation is the largest difference between losses of the same step, divided by the size of the first loss. It is
	// -1 if a loss is unreadable, or if one of two differing losses is not finite.
	Deviation float64 `json:"deviation"`
}

// Text formats the result of the check.
func (l *LossCheck) Text() string {
	switch {
	case l == nil:
		return ""
	case l.Deviation > 0:
		return fmt.Sprintf("%s (%.1e)", l.Verdict, l.Deviation)
	}
	return string(l.Verdict)
}

func (p *Program) soundRuns() bool {
	if p == nil {
		return true
	}
	for i := range p.Runs {
		r := &p.Runs[i]
		if min(r.Cost, r.Seconds, r.AtLeast, r.EndS, r.BudgetS, r.Joules) < 0 || max(r.Seconds, r.EndS, r.BudgetS) > longest || r.Memory < 0 ||
			r.Cost == 0 && r.IsMeasured() {
			return false
		}
	}
	return true
}

// CommandText formats the command for a shell.
func (p *Program) CommandText() string {
	var words []string
	for _, word := range p.Command {
		words = append(words, gpuprof.ShellWord(word))
	}
	return strings.Join(words, " ")
}
