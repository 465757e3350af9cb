package history

import (
	"math"
	"slices"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// Report describes the metrics of a store's benchmarks over their commits.
type Report struct {
	gpuprof.Head
	Store     string            `json:"store"`
	Threshold float64           `json:"threshold"` // a share: the least worsening that raises an alarm
	Margin    float64           `json:"margin"`    // a share: changes below it are ignored
	Watched   bool              `json:"watched"`   // the alarm rule was applied
	Trends    []Trend           `json:"trends"`
	Skipped   []Skipped         `json:"skipped"` // unused objects
	Warnings  []gpuprof.Warning `json:"warnings"`
}

// Trend has the sessions of one benchmark and their metrics. The classes of its sessions (device and options) follow
// each other: a benchmark that alternates between two machines has two trends.
type Trend struct {
	Project   string   `json:"project"`
	Benchmark string   `json:"benchmark"`
	Tool      string   `json:"tool"` // the measuring program
	Classes   []Span   `json:"classes"`
	Sessions  []At     `json:"sessions"` // in order
	Metrics   []Metric `json:"metrics"`
	// Sentinel is the metric of the sentinel (a benchmark whose code never changes), by session: null for sessions
	// without one, empty if no session has one.
	Sentinel Metric `json:"sentinel"`

	totals []float64 // totals of the sessions
}

// Span is the range of a trend's sessions that share one class: the same device and options.
type Span struct {
	Class  string            `json:"class"`
	Device string            `json:"device"`
	Env    map[string]string `json:"env"`
	First  int               `json:"first"` // index of the first session
	Last   int               `json:"last"`
}

// At is a session of a trend.
type At struct {
	Commit  Commit    `json:"commit"`
	Started time.Time `json:"started"`
	Class   string    `json:"class"`
	Object  string    `json:"object"` // its name in the store
	// OffBranch reports a commit outside the checked-out branch; its session is placed by time.
	OffBranch bool `json:"off_branch,omitempty"`
	// LeftOut is the reason why the session is shown but not analysed; "" if it is analysed.
	LeftOut string `json:"left_out,omitempty"`
}

// Metric is a quantity over the sessions of a trend.
type Metric struct {
	Name           string           `json:"name"`
	Unit           string           `json:"unit"`
	HigherIsBetter bool             `json:"higher_is_better,omitempty"`
	Exact          bool             `json:"exact,omitempty"`
	Total          bool             `json:"total,omitempty"` // the total of the stages
	Values         []gpuprof.Number `json:"values"`          // one per session; null if missing
	Levels         []Level          `json:"levels"`
	Changes        []Change         `json:"changes"`
	Alarms         []Alarm          `json:"alarms"`
	Seen           []Seen           `json:"seen,omitempty"` // worse, without sufficient evidence for an alarm
	// Unjudged is the reason why the sessions of the latest class (device and options) are not judged; "" if they are.
	Unjudged string `json:"unjudged,omitempty"`
	// Judged is the number of analysed sessions of the latest class.
	Judged int `json:"judged"`
	// Spread is the robust standard deviation of sessions about their level, a share. Scatter is its part between
	// commits, which repeating a commit does not show. Null if unknown.
	Spread  gpuprof.Number `json:"spread"`
	Scatter gpuprof.Number `json:"scatter"`

	stage      bool // part of the total
	undirected bool // no better direction
}

// Level is a range of sessions between two changes.
type Level struct {
	First int            `json:"first"` // index of the first session
	Last  int            `json:"last"`
	Value gpuprof.Number `json:"value"` // the median
	N     int            `json:"n"`     // number of analysed sessions
}

// Cause names the origin of a change.
type Cause string

// Causes.
const (
	FromCode    Cause = "code"            // the sentinel did not change
	FromMachine Cause = "machine"         // the sentinel changed too
	Unknown     Cause = "code or machine" // there is no sentinel
	FromCounter Cause = "counted"         // an exact counter: the program does different work
)

// Change is a change of a metric's level between two sessions.
type Change struct {
	At     int               `json:"at"` // the first session of the new level
	Before Commit            `json:"before"`
	After  Commit            `json:"after"`
	Old    gpuprof.Number    `json:"old"` // the level before
	New    gpuprof.Number    `json:"new"`
	Ratio  gpuprof.Number    `json:"ratio"` // new over old; null if old is 0
	CI95   [2]gpuprof.Number `json:"ci95"`
	P      gpuprof.Number    `json:"p"` // null for a counter
	Worse  bool              `json:"worse"`
	Cause  Cause             `json:"cause"`
	// Sentinel is the ratio of the sentinel's change that explains this change; null without one.
	Sentinel gpuprof.Number `json:"sentinel"`
	// Commits lists the commits among which the change is with 95 % probability, including After.
	Commits        []string `json:"commits"`
	SessionsBefore int      `json:"sessions_before"` // number of sessions of the level before
	SessionsAfter  int      `json:"sessions_after"`
}

// Alarm is a change that should fail a build. The test for alarms finds it with and without the latest session, and the
// present level is worse than the level before the change.
type Alarm struct {
	At     int            `json:"at"`
	Before Commit         `json:"before"`
	After  Commit         `json:"after"`
	Old    gpuprof.Number `json:"old"`   // the level before
	Now    gpuprof.Number `json:"now"`   // the present level
	Ratio  gpuprof.Number `json:"ratio"` // now over old; null if old is 0
	P      gpuprof.Number `json:"p"`     // null for a counter
}

// Seen is a worsening above the threshold that the report's test finds and the stricter test of alarms does not.
type Seen struct {
	At    int            `json:"at"`
	After Commit         `json:"after"`
	Ratio gpuprof.Number `json:"ratio"` // present level over the level before
	P     gpuprof.Number `json:"p"`
	// Sessions is how many further sessions, equal to the ones since the change, would raise the alarm; 0 means more
	// than 15.
	Sessions int `json:"sessions"`
}

// Alarms returns the alarms of all trends, each with its trend and metric.
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

// Raised is an alarm with its trend and metric.
type Raised struct {
	Trend  *Trend
	Metric *Metric
	Alarm  Alarm
}

// Unjudged returns the trends without a judged metric on the latest device and options (class), with the reasons.
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

// LastChange returns the size of the latest change, |log ratio|; 0 without a change.
func (m *Metric) LastChange() float64 {
	if len(m.Changes) == 0 {
		return 0
	}
	return min(changeSize(m.Changes[len(m.Changes)-1].Ratio), math.MaxFloat64) // infinite from or to zero
}

// Range returns a range for drawing: every level, and the 2nd to the 98th percentile of the values without outliers. A
// value is an outlier if it is beyond the 10th or the 90th percentile by more than 1.5 times the distance between both.
// ok is false without a value.
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
