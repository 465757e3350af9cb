// Package guides holds the claims of published tuning guides as data: each claim names the workload, the preset and
// the settings that test it. Two small programs that only claims need are here too.
package guides

import (
	"slices"

	"github.com/gpuprof/gpuprof"
)

// Claim is one rule of a published tuning guide with the comparisons that test it. Their settings A are those that the
// guide warns of, B those that it recommends.
type Claim struct {
	ID, Guide, Claim, Figure string
	// Speedup is the least ratio that the guide promises, the time of A divided by the time of B. 0: the guide gives
	// no figure for time.
	Speedup float64
	// Placebo marks a change that should have no effect; an interval that excludes 1 is then a discovery.
	Placebo bool
	AB      []AB
	// Null marks the claim that compares a setting with itself.
	Null bool
	// Shares are the guide's shares of a step by stage, the largest first, for Run "share".
	Shares []StageShare
	// Run is the kind of measurement. "share", "overhead": the figure comes from one whole run of AB[0].B. "first":
	// the figure is the time to the first answer, in separate processes. "exact": on the host device only errors and
	// bytes count, since its arithmetic is float32 alone. "transfers": the figure counts copies. "memory": the figure is
	// the peak of device memory.
	Run string
	// Host and GPU report whether this kind of device can measure the claim.
	Host, GPU bool
	// Not is set if the claim is never measured. Why is the reason if it differs from the usual one.
	Not, Why string
	// Program holds the settings of gpuprof tune -- COMMAND that try the recommendation on the user's own program.
	// Reversed reports that these settings undo the recommendation.
	Program  []string
	Reversed bool
	// Notes correct statements of the guide; reports show them next to the figures.
	Notes []string
}

// AB is one comparison of a claim. The first for a kind of device decides the verdict there; the others are details.
type AB struct {
	Workload, Preset string
	A, B             gpuprof.Settings // in addition to the preset
	EnvB             map[string]string
	On               string // "host" or "cuda": only on this kind of device; empty: on both
	// Latency compares the p99 of requests, at the rate that A's settings give, instead of times.
	Latency bool
}

// StageShare is a stage's part of a step's time, 0 to 1.
type StageShare struct {
	Stage string
	Share float64
}

// Values of Claim.Run and Claim.Not.
const (
	Share     = "share"
	Overhead  = "overhead"
	Transfers = "transfers"
	Memory    = "memory"
	Exactly   = "exact"
	First     = "first"

	BeyondTool = "not measurable here"
)

type set = gpuprof.Settings

func gruPair(a, b set) AB                 { return AB{Workload: "gruflow", Preset: "small", A: a, B: b} }
func e3nnPair(a, b set) AB                { return AB{Workload: "e3nn", Preset: "small", A: a, B: b} }
func collatePair(a, b set) AB             { return AB{Workload: "collate", Preset: "small", A: a, B: b} }
func naivePair(a, b set) AB               { return AB{Workload: "collate", Preset: "naive", A: a, B: b} }
func transferPair(a, b set) AB            { return AB{Workload: transferName, Preset: "small", A: a, B: b} }
func weightsPair(a, b set) AB             { return AB{Workload: weightsName, Preset: "small", A: a, B: b} }
func gpuOnly(c Claim) Claim               { c.GPU = true; return c }
func markMissing(c Claim, w string) Claim { c.Not = w; return c }

// recommended returns every change to the naive pipeline that a guide recommends.
func recommended() set {
	return set{"impl": "cached", "reuse": "on", "shortcut": "on", "workers": "1", "pinned": "on", "async_copy": "on", "streams": "2"}
}

func recommendedExcept(knob, naive string) set {
	s := recommended()
	s[knob] = naive
	return s
}

// Claims returns all claims in the order of the guides.
func Claims() []Claim {
	return slices.Concat(energyFlowClaims(), aetheriaClaims(), pharmagenClaims(), deepawClaims(), rxVisionClaims(), trainClaims())
}

// Null returns the claim that compares a setting with itself.
func Null() Claim {
	return Claim{ID: "a/a", Null: true, Guide: "none", Claim: "no change: the error of the method itself", Figure: "x1", Placebo: true, Host: true, GPU: true,
		AB: []AB{gruPair(set{}, set{})}}
}
