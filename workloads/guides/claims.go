// Package guides holds the claims of published tuning guides as data: each claim names the workload, the preset and
// the settings that test it. Two small programs that only claims need are here too.
package guides

import "github.com/gpuprof/gpuprof"

// Claim is one rule of a published tuning guide with its test. A is the habit that the guide warns of, B its
// recommendation.
type Claim struct {
	ID, Guide, Claim, Figure string
	// Speedup is the least ratio that the guide promises, time of A over time of B; 0: the guide gives no figure for
	// time, or claims a loss without one.
	Speedup float64
	// Placebo: nothing should change; an interval that excludes 1 is a find.
	Placebo bool
	AB      []AB
	// Null is the row that compares a setting with itself.
	Null bool
	// Shares are the guide's shares of a step per stage, the largest first, for a claim of Share.
	Shares []StageShare
	// Run is the kind of measurement. "share" or "overhead": the figure comes from one whole run of AB[0].B, not from
	// a comparison. "first": the figure is the time to the first answer, in processes of its own. "exact": times have
	// no meaning on the host device, which has no such arithmetic; errors and bytes have. "transfers": the guide's
	// figure counts copies. "memory": it is the peak of device memory, which is counted too.
	Run string
	// Host and GPU are true where that kind of device can measure the claim.
	Host, GPU bool
	// Not is the reason why a row is not measured here at all; Why is the reason in words, for a reason of this claim
	// alone.
	Not, Why string
	// Program names the settings of gpuprof tune -- COMMAND that try the recommendation on the user's own program.
	// Reversed: they undo it.
	Program  []string
	Reversed bool
	// Notes correct statements of the guide; reports show them next to the figures.
	Notes []string
}

// AB is one comparison of a claim; the first of a claim on a kind of device decides its
// verdict, the others are details.
type AB struct {
	Workload, Preset string
	A, B             gpuprof.Settings // over the preset
	EnvB             map[string]string
	On               string // only on this kind of device, "host" or "cuda"; empty: on both
	// Latency compares the p99 of requests at the rate that A's settings ask for, not times.
	Latency bool
}

// StageShare is a stage's part of a step's time, 0 to 1.
type StageShare struct {
	Stage string
	Share float64
}

// The values of Claim.Run and of Claim.Not that tune handles.
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

// recommended is every change to the naive pipeline that a guide recommends.
func recommended() set {
	return set{"impl": "cached", "reuse": "on", "shortcut": "on", "workers": "1", "pinned": "on", "async_copy": "on", "streams": "2"}
}

// recommendedExcept is recommended with one change left out.
func recommendedExcept(knob, naive string) set {
	s := recommended()
	s[knob] = naive
	return s
}

// Claims lists every claim, in the order of the guides.
func Claims() []Claim {
	var all []Claim
	for _, part := range [][]Claim{energyFlowClaims(), aetheriaClaims(), pharmagenClaims(), deepawClaims(), rxVisionClaims(), trainClaims()} {
		all = append(all, part...)
	}
	return all
}

// Null is the row that compares a setting with itself.
func Null() Claim {
	return Claim{ID: "a/a", Null: true, Guide: "none", Claim: "no change: the error of the method itself", Figure: "x1", Placebo: true, Host: true, GPU: true,
		AB: []AB{gruPair(set{}, set{})}}
}
