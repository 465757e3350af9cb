package history

import (
	"math"
	"slices"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// Report is what a store says about a program over its commits.
type Report struct {
	gpuprof.Head
	Store     string            `json:"store"`
	Threshold float64           `json:"threshold"` // a share: an alarm is for what is worse by this
	Margin    float64           `json:"margin"`    // a share: what changes by less is no change
	Watched   bool              `json:"watched"`   // the alarm rule was applied
	Trends    []Trend           `json:"trends"`
	Skipped   []Skipped         `json:"skipped"` // objects that were not used
	Warnings  []gpuprof.Warning `json:"warnings"`
}

// Trend is the sessions of one benchmark whose classes follow one another, and the
// metrics in them. Benchmarks that run on two machines by turns have two trends.
type Trend struct {
	Project   string   `json:"project"`
	Benchmark string   `json:"benchmark"`
	Tool      string   `json:"tool"` // what measured
	Classes   []Span   `json:"classes"`
	Sessions  []At     `json:"sessions"` // in order
	Metrics   []Metric `json:"metrics"`
	// Sentinel is the figure of a benchmark whose code never changes, by session; null
	// where a session has none. Empty without any.
	Sentinel Metric `json:"sentinel"`

	totals []float64 // of the sessions
}

// Span is where in a trend a class begins and ends.
type Span struct {
	Class  string            `json:"class"`
	Device string            `json:"device"`
	Env    map[string]string `json:"env"`
	First  int               `json:"first"` // of the sessions
	Last   int               `json:"last"`
}

// At is one session of a trend.
type At struct {
	Commit  Commit    `json:"commit"`
	Started time.Time `json:"started"`
	Class   string    `json:"class"`
	Object  string    `json:"object"` // its name in the store
	// OffBranch: the commit is not on the branch of this checkout, so that the session is
	// placed by its time.
	OffBranch bool `json:"off_branch,omitempty"`
	// LeftOut is why the session is shown and not analysed; "" where it is.
	LeftOut string `json:"left_out,omitempty"`
}

// Metric is a quantity over the sessions of a trend.
type Metric struct {
	Name           string           `json:"name"`
	Unit           string           `json:"unit"`
	HigherIsBetter bool             `json:"higher_is_better,omitempty"`
	Exact          bool             `json:"exact,omitempty"`
	Total          bool             `json:"total,omitempty"` // what the stages add up to
	Values         []gpuprof.Number `json:"values"`          // one a session; null where it has none
	Levels         []Level          `json:"levels"`
	Changes        []Change         `json:"changes"`
	Alarms         []Alarm          `json:"alarms"`
	Seen           []Seen           `json:"seen,omitempty"` // worse, and not certain enough for an alarm
	// Unjudged is why nothing is said about the latest class; "" where something is.
	Unjudged string `json:"unjudged,omitempty"`
	// Judged is how many sessions of the latest class were analysed.
	Judged int `json:"judged"`
	// Spread is the standard deviation of sessions about their level, a share, and
	// robust; Scatter the part of it that repeating a commit does not show. Null where
	// unknown.
	Spread  gpuprof.Number `json:"spread"`
	Scatter gpuprof.Number `json:"scatter"`

	stage      bool // one of the parts of the total
	undirected bool // no direction is better
}

// Level is sessions between two changes.
type Level struct {
	First int            `json:"first"` // of the sessions
	Last  int            `json:"last"`
	Value gpuprof.Number `json:"value"` // the median
	N     int            `json:"n"`     // sessions in it that were analysed
}

// Cause is where a change comes from.
type Cause string

// Causes.
const (
	FromCode    Cause = "code"            // the sentinel did not move
	FromMachine Cause = "machine"         // the sentinel moved with it
	Unknown     Cause = "code or machine" // there is no sentinel
	FromCounter Cause = "counted"         // an exact counter: the program does other work
)

// Change is a place where a metric changes its level.
type Change struct {
	At     int               `json:"at"` // the first session of the new level
	Before Commit            `json:"before"`
	After  Commit            `json:"after"`
	Old    gpuprof.Number    `json:"old"` // the levels
	New    gpuprof.Number    `json:"new"`
	Ratio  gpuprof.Number    `json:"ratio"` // new over old; null where old is 0
	CI95   [2]gpuprof.Number `json:"ci95"`
	P      gpuprof.Number    `json:"p"` // null for a counter
	Worse  bool              `json:"worse"`
	Cause  Cause             `json:"cause"`
	// Sentinel is the ratio of the sentinel's change that explains it; null for none.
	Sentinel gpuprof.Number `json:"sentinel"`
	// Commits are those among which the change lies in 95 % of cases, After among them.
	Commits        []string `json:"commits"`
	SessionsBefore int      `json:"sessions_before"` // of the level before
	SessionsAfter  int      `json:"sessions_after"`
}

// Alarm is a change that a build should fail for: found twice running by the stricter
// test, and the present level is worse than the one before it.
type Alarm struct {
	At     int            `json:"at"`
	Before Commit         `json:"before"`
	After  Commit         `json:"after"`
	Old    gpuprof.Number `json:"old"`   // the level before
	Now    gpuprof.Number `json:"now"`   // the present level
	Ratio  gpuprof.Number `json:"ratio"` // now over old; null where old is 0
	P      gpuprof.Number `json:"p"`     // null for a counter
}

// Seen is a change after which the present level is worse by the threshold, found by the test of a
// table and not by the stricter one of an alarm.
type Seen struct {
	At    int            `json:"at"`
	After Commit         `json:"after"`
	Ratio gpuprof.Number `json:"ratio"` // of the present level over the one before
	P     gpuprof.Number `json:"p"`
	// Sessions is how many more, were they like those since the change, would raise the alarm; 0
	// where 15 would not.
	Sessions int `json:"sessions"`
}

// Alarms are those of all trends, with the trend and metric of each.
func (r *Report) Alarms() (out []Raised) {
	for t := range r.Trends {
		for m := range r.Trends[t].Metrics {
			for _, a := range r.Trends[t].Metrics[m].Alarms {
				out = append(out, Raised{&r.Trends[t], &r.Trends[t].Metrics[m], a})
			}
		}
	}
	return out
}

// Raised is an alarm and what it is about.
type Raised struct {
	Trend  *Trend
	Metric *Metric
	Alarm  Alarm
}

// Unjudged are the trends in whose latest class nothing could be judged, with the
// reason.
func (r *Report) Unjudged() (names, reasons []string) {
	for i := range r.Trends {
		t := &r.Trends[i]
		reason := ""
		for k := range t.Metrics {
			if t.Metrics[k].Unjudged == "" {
				reason = ""
				break
			}
			if reason == "" || t.Metrics[k].Total {
				reason = t.Metrics[k].Unjudged
			}
		}
		if reason != "" {
			names, reasons = append(names, t.Benchmark), append(reasons, reason)
		}
	}
	return names, reasons
}

// LastChange is how far the latest change went, a logarithm; 0 without any.
func (m *Metric) LastChange() float64 {
	if len(m.Changes) == 0 {
		return 0
	}
	if by := math.Abs(math.Log(float64(m.Changes[len(m.Changes)-1].Ratio))); !math.IsNaN(by) {
		return min(by, math.MaxFloat64) // of one from zero, or to it
	}
	return math.MaxFloat64
}

// Range holds the values of most sessions and every level: from the 2nd to the 98th
// percentile, without values beyond the 10th and 90th by one and a half times what lies
// between these. False without a value.
func (m *Metric) Range() (lo, hi float64, ok bool) {
	var all []float64
	for _, v := range m.Values {
		all = append(all, float64(v))
	}
	low, high, ok := stats.Between(0.1, 0.9, all)
	room := 1.5 * (high - low)
	lo, hi, _ = stats.Between(0.02, 0.98, slices.DeleteFunc(all, func(v float64) bool { return v < low-room || v > high+room }))
	for _, l := range m.Levels {
		lo, hi = min(lo, float64(l.Value)), max(hi, float64(l.Value))
	}
	return lo, hi, ok
}
