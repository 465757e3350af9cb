// Package bisect finds the commit that made a program slower, by measuring. The user names an older commit, GOOD, and
// a newer one, BAD. Each measurement, a Quartet, runs four processes of two commits; a quartet of a commit against
// GOOD is a probe. No single measurement decides: each updates the probabilities of all commits.
//
// A Search is the whole state, and the document of gpuprof bisect. The next measurement, the posterior and the outcome
// are pure functions of it, so an interrupted search can be resumed exactly.
package bisect

import (
	"math"
	"slices"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
)

// Search looks for the commit from which a metric is worse. Positions: 0 is GOOD, 1 to N are Commits, oldest first.
type Search struct {
	gpuprof.Head
	Started time.Time        `json:"started"`
	Status  gpuprof.Status   `json:"status"` // partial while the search can be resumed
	Reason  string           `json:"reason,omitempty"`
	Range   string           `json:"range"` // as typed
	Good    Commit           `json:"good"`
	Commits []Commit         `json:"commits"`
	Command []string         `json:"command"` // masked
	Machine string           `json:"machine"`
	Metric  string           `json:"metric"`
	Unit    string           `json:"unit"`
	Higher  bool             `json:"higher_is_better,omitempty"` // a larger value of Metric is better
	Exact   bool             `json:"exact,omitempty"`            // the metric is a counter: one process per commit suffices
	Options Options          `json:"options"`
	Check   []Quartet        `json:"check"`    // BAD against GOOD, before the search
	Quartet []Quartet        `json:"quartets"` // in the order of measurement
	Builds  []Build          `json:"builds"`
	Failed  []Failure        `json:"failed"`
	Pending *Step            `json:"pending,omitempty"` // a step that was started and not finished
	After   []Belief         `json:"posterior"`         // posterior after each quartet
	Chances []gpuprof.Number `json:"chances"`           // final probability of each of Commits
	Outcome *Outcome         `json:"outcome,omitempty"`
	Before  []Earlier        `json:"before,omitempty"` // results of earlier searches, of wider ranges
}

// Earlier is a commit that an earlier search of a wider range found.
type Earlier struct {
	Commit Commit            `json:"commit"`
	P      gpuprof.Number    `json:"p"`
	Effect gpuprof.Number    `json:"effect"`
	CI95   [2]gpuprof.Number `json:"ci95"`
}

// Commit is a commit of the searched range.
type Commit struct {
	ID      string `json:"id"`
	Subject string `json:"subject"`
	Merge   bool   `json:"merge,omitempty"`
	// Likely reports a commit that changes a path of --prior, with LikelyTimes the prior probability of others.
	Likely bool `json:"likely,omitempty"`
}

// Short returns the first seven characters of the ID.
func (c Commit) Short() string { return c.ID[:min(len(c.ID), 7)] }

// Options are the settings of a search.
type Options struct {
	Threshold  float64 `json:"threshold"`  // smallest relevant relative change, as in a gate
	Confidence float64 `json:"confidence"` // probability at which a commit is named
	// Scatter is the logarithmic standard deviation between builds of equal code. ScatterFrom names its source.
	Scatter     float64 `json:"scatter"`
	ScatterFrom string  `json:"scatter_from"`
	BudgetS     float64 `json:"budget_s"`
	Seed        uint64  `json:"seed"`
	// Faster searches for the first commit with a better metric, instead of a worse one.
	Faster bool `json:"faster,omitempty"`
	// Keeps reports that builds are kept, so that none is repeated.
	Keeps bool `json:"keeps_builds,omitempty"`
	All   bool `json:"all,omitempty"`
	// AllParents also searches the merged branch if the commit found is a merge.
	AllParents bool `json:"all_parents,omitempty"`
	// Prior lists the paths whose commits are more likely.
	Prior []string `json:"prior,omitempty"`
}

// Quartet is a measurement by four processes, of the old, new, new, old commit in this order. A counter needs one
// process, of the newer commit.
type Quartet struct {
	Commit  int `json:"commit"`
	Against int `json:"against"` // 0 is GOOD; otherwise the commit before, for a direct comparison
	// Values are the medians of the four processes in that order. StartS is Unix time, s.
	Values  [4]gpuprof.Number `json:"values"`
	StartS  float64           `json:"start_s"`
	Seconds float64           `json:"seconds"`
	// Also has the other metrics of a direct quartet: stages and counters.
	Also []Also `json:"also,omitempty"`
}

// Also has the medians of another metric on both sides of a quartet.
type Also struct {
	Name  string         `json:"name"`
	Unit  string         `json:"unit"`
	Exact bool           `json:"exact,omitempty"`
	Old   gpuprof.Number `json:"old"`
	New   gpuprof.Number `json:"new"`
}

// Build is a commit that was built.
type Build struct {
	Commit  int     `json:"commit"`
	Seconds float64 `json:"seconds"`
	Cached  bool    `json:"cached,omitempty"`
}

// Failure is a commit that cannot be measured.
type Failure struct {
	Commit  int     `json:"commit"`
	Why     string  `json:"why"`
	Seconds float64 `json:"seconds"`
}

// Belief is the posterior after a quartet: P is the probability that the change is at or before the quartet's commit.
type Belief struct {
	Commit int            `json:"commit"`
	P      gpuprof.Number `json:"p_here_or_before"`
}

// N is the number of commits.
func (s *Search) N() int { return len(s.Commits) }

// At returns the commit at position i; 0 is GOOD.
func (s *Search) At(i int) Commit {
	if i == 0 {
		return s.Good
	}
	return s.Commits[i-1]
}

// Effect returns the mean logarithm of newer over older commit in the quartet's two pairs, in which a linear drift
// cancels. Positive is worse.
func (s *Search) Effect(q Quartet) float64 {
	v := [4]float64{}
	for i, x := range q.Values {
		v[i] = math.Log(float64(x))
	}
	return s.sign() * (v[1] + v[2] - v[0] - v[3]) / 2
}

// sign returns the factor, +1 or -1, that makes worse positive.
func (s *Search) sign() float64 {
	if s.Higher != s.Options.Faster {
		return -1
	}
	return 1
}

// Ratio converts an effect to the metric's relative change: 0.05 is 5 % more.
func (s *Search) Ratio(effect float64) float64 { return math.Expm1(s.sign() * effect) }

// Spent returns the duration of the search so far, s.
func (s *Search) Spent() float64 {
	sum := 0.0
	for _, b := range s.Builds {
		sum += b.Seconds
	}
	for _, f := range s.Failed {
		sum += f.Seconds
	}
	for _, q := range slices.Concat(s.Check, s.Quartet) {
		sum += q.Seconds
	}
	return sum
}

func (s *Search) hasFailed(m int) bool {
	return slices.ContainsFunc(s.Failed, func(f Failure) bool { return f.Commit == m })
}

// Ran reports whether a commit's program gave results; position 0 is GOOD.
func (s *Search) Ran(m int) bool {
	if (m == 0 || m == s.N()) && len(s.Check) > 0 {
		return true
	}
	return slices.ContainsFunc(s.Quartet, func(q Quartet) bool { return q.Commit == m || q.Against == m })
}

// previousMeasurable returns the last commit before m that has not failed; 0 is GOOD.
func (s *Search) previousMeasurable(m int) int {
	for m--; m > 0 && s.hasFailed(m); m-- {
	}
	return m
}

// Decode reads a document of gpuprof bisect. name is its file, for errors, which are ErrInput.
func Decode(text []byte, name string) (*Search, error) {
	s := &Search{}
	if err := document.Decode(text, name, s, document.Bisect); err != nil {
		return nil, err
	}
	if err := s.Validate(name); err != nil {
		return nil, err
	}
	return s, nil
}

// Validate returns ErrInput if the document names commits that it does not have.
func (s *Search) Validate(name string) error {
	ok := s.N() > 0 && (len(s.Chances) == 0 || len(s.Chances) == s.N())
	in := func(i int) { ok = ok && i >= 0 && i <= s.N() }
	for _, q := range slices.Concat(s.Check, s.Quartet) {
		in(q.Commit)
		in(q.Against)
		ok = ok && q.Against < q.Commit
		for _, v := range q.Values {
			ok = ok && gpuprof.IsFinite(float64(v)) && (s.Exact || v > 0)
		}
	}
	for _, b := range s.Builds {
		in(b.Commit)
	}
	for _, f := range s.Failed {
		in(f.Commit)
	}
	for _, b := range s.After {
		in(b.Commit)
	}
	if s.Pending != nil {
		in(s.Pending.Commit)
		in(s.Pending.Against)
	}
	if !ok || !s.spansFit() {
		return gpuprof.Errorf(gpuprof.ErrInput, "reading %s: its quartets, builds or outcome do not fit its commits", name).WithFix("write it again with gpuprof bisect -o FILE.json")
	}
	return nil
}

func (s *Search) spansFit() bool {
	o := s.Outcome
	if o == nil {
		return true
	}
	spans := append([]Span{{o.From, o.To}}, o.Set...)
	if o.Rest != nil {
		spans = append(spans, *o.Rest)
	}
	return !slices.ContainsFunc(spans, func(r Span) bool { return r.From < 1 || r.From > r.To || r.To > s.N() })
}
