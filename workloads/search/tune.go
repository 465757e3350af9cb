// Package search finds the knobs of a workload that are worth changing, by measuring them. It compares every change
// with the default in alternating blocks within one process, beginning with the changes that findings about the
// default name. Then it tries combinations. Last it compares the winner with the default in fresh processes, and
// recommends only settings that these processes confirm. The input is a workload and a device, the output a document
// of package tune. It imports no concrete workload.
//
// Read top down: tune.go is the search from start to end, alternatives.go and findings.go list the changes to try,
// search.go and combine.go order them; bench.go compares two settings (session.go opens one, pairs.go decides when to
// stop, block.go times a block of steps), effect.go estimates their ratio; confirm.go compares in fresh processes,
// conclude.go words the result. claims_run.go tests the rules of published tuning guides (package guides).
package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/workloads"
)

// Options describe a search: its target, its limits and how it measures.
type Options struct {
	Workload  workloads.Workload
	Preset    string
	Set       gpuprof.Settings // fixed in addition to the preset, in any spelling
	Device    string           // value of --device
	DeviceDoc string           // name of the device model
	Driver    string           // version of the GPU's driver, which compiles PTX; "" if unknown or on the host
	Only      []string         // knobs to change; empty: all tuning knobs
	Goal      tune.Goal
	Budget    time.Duration
	MaxError  float64
	MaxMemory int64
	Seed      uint64
	Tool      gpuprof.Tool
	// Build identifies the measuring program by a hash of its file; "" if unknown.
	Build string

	// Peers is a folder of baselines with figures of other programs; it may be nil.
	Peers fs.FS

	Bench Bench
	// Fresh compares two settings by paired blocks in a separate process. If nil, nothing is confirmed.
	Fresh func(ctx context.Context, a, b Side, l Limits) (*tune.Outcome, error)
	// Findings measures the starting point, which takes about the time limit, and returns the knobs that its findings
	// name, which are tried first. If nil, there are no findings.
	Findings func(ctx context.Context, limit time.Duration) ([]tune.Hint, error)
	// Resume is an earlier result that was cut short. Its measurements are not repeated, and its time counts.
	Resume *tune.Result
	// Save stores the result so far; it is called after every measurement.
	Save     func(*tune.Result) error
	Progress func(Progress)
	Now      func() time.Time // nil: time.Now
}

// Progress is the state of a running search.
type Progress struct {
	Phase string // screening, searching, confirming, claims
	Done  float64
	Total float64 // total of Done, in seconds of the budget
	Left  time.Duration
	Note  string
}

// Shares of the budget after which each part of the search ends; the confirmation has the remainder.
const (
	findingsShare = 0.1
	screenUntil   = 0.4
	refineUntil   = 0.5
	searchUntil   = 0.62
	mostFindings  = 8 * time.Second // for measuring the starting point
	leastFindings = time.Second
)

// mostRefined is the number of rounds that measure undecided changes again, and leastRefine the least time for each
// change.
const (
	mostRefined = 3
	leastRefine = 2 * time.Second
)

// engine is the state of one search.
type engine struct {
	Options
	ctx     context.Context
	base    gpuprof.Settings
	out     *tune.Result
	journal map[string]*tune.Outcome
	began   time.Time
	prior   float64 // seconds spent before a resume
	round   int     // number of rounds that measured undecided changes again
	// over names the limit that the default exceeds, or "".
	over string
	// overhead is the time of a fresh process beyond its limit, for starting and ending; 0 before the first process.
	overhead time.Duration
	alts     []alternative // every change, in the order of trying
}

// Run searches. With valid options the result is not nil, even if ctx ends: its status is then partial, the error is
// the context's, and the search can be resumed. A default that cannot be measured is an error. If the goal does not
// apply to the default, the error is ErrUsage and there is no result.
func Run(ctx context.Context, o Options) (*tune.Result, error) {
	e, err := newEngine(ctx, o)
	if err != nil {
		return nil, err
	}
	changes, err := listAlternatives(o.Workload, o.Goal, e.base, o.Only, o.Set, o.Seed)
	if err != nil {
		return nil, err
	}
	if len(changes) == 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "tuning %s: no knob is left to turn", o.Workload.Name()).WithFix("leave out --knob or --set")
	}
	err = e.readHints()
	if err == nil {
		err = e.search(orderChanges(o.Workload, changes, e.out.Findings, e.base))
	}
	if errors.Is(err, gpuprof.ErrUsage) && len(e.out.Journal) == 0 {
		return nil, err // the goal does not apply to the start: more time would not help
	}
	e.finish(err)
	return e.finishSearch(err)
}

func newEngine(ctx context.Context, o Options) (*engine, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	base, err := workloads.Resolve(o.Workload, o.Preset, o.Set)
	if err != nil {
		return nil, err
	}
	e := &engine{Options: o, ctx: ctx, base: base, journal: map[string]*tune.Outcome{}, began: o.Now()}
	e.out = newResult(o)
	e.out.Started = o.Now().UTC().Round(time.Millisecond)
	if err := e.resumeSearch(); err != nil {
		return nil, err
	}
	return e, nil
}

func newResult(o Options) *tune.Result {
	kind := document.Tune
	if o.Workload == nil {
		kind = document.Claims
	}
	r := &tune.Result{Head: document.NewHead(kind, o.Tool), Build: o.Build, Status: gpuprof.Partial, Reason: "not finished",
		Preset: o.Preset, Set: o.Set, Device: o.Device, DeviceDoc: o.DeviceDoc, Driver: o.Driver, Seed: o.Seed, Goal: o.Goal, Only: o.Only,
		MaxError: o.MaxError, MaxMemory: o.MaxMemory, BudgetS: o.Budget.Seconds(),
		Peers: o.peersOf(), Effects: []tune.Effect{}, Curves: []tune.Curve{}, Failed: []tune.Failure{}, Claims: []tune.ClaimRow{}, Confirmations: []tune.Confirmation{}, Journal: []tune.Entry{}}
	if o.Workload != nil {
		r.Workload = o.Workload.Name()
	}
	return r
}

// resumeSearch takes over the measurements of an earlier search.
func (e *engine) resumeSearch() error {
	old := e.Resume
	if old == nil {
		return nil
	}
	if err := checkSearch(old, e.out); err != nil {
		return err
	}
	e.prior, e.out.Started, e.out.Findings, e.out.Rate = old.SpentS, old.Started, old.Findings, old.Rate
	for _, entry := range old.Journal {
		if entry.Outcome == nil {
			continue
		}
		e.out.Journal = append(e.out.Journal, entry)
		e.journal[entry.Key] = entry.Outcome
	}
	return nil
}

// checkSearch refuses to resume a search with another target or another build.
func checkSearch(old, now *tune.Result) error {
	if !isOneBuild(old, now) {
		return gpuprof.Errorf(gpuprof.ErrUsage, "resuming the search: %s measured it, and this is %s", builtAs(old), builtAs(now)).WithFix("resume with that one, or start a new file with -o")
	}
	for _, f := range []struct{ name, old, now string }{
		{"workload", old.Workload, now.Workload}, {"preset", old.Preset, now.Preset}, {"device", old.DeviceDoc, now.DeviceDoc},
		{"goal", string(old.Goal), string(now.Goal)}, {"seed", fmt.Sprint(old.Seed), fmt.Sprint(now.Seed)},
		{"settings", tune.DescribeSettings(old.Set), tune.DescribeSettings(now.Set)}, {"knobs", fmt.Sprint(old.Only), fmt.Sprint(now.Only)},
		{"max-error", fmt.Sprint(old.MaxError), fmt.Sprint(now.MaxError)}, {"max-memory", fmt.Sprint(old.MaxMemory), fmt.Sprint(now.MaxMemory)},
		{"driver", cmp.Or(old.Driver, now.Driver), cmp.Or(now.Driver, old.Driver)}, // files before schema 2.3 do not name it
	} {
		if f.old != f.now {
			return gpuprof.Errorf(gpuprof.ErrUsage, "resuming the search: its %s was %q and is now %q", f.name, f.old, f.now).WithFix("give the same, or start a new file with -o")
		}
	}
	return nil
}

// isOneBuild reports whether the same program measured both. One commit may have many builds of a working tree, so
// only a hash identifies a build; if a side has no hash, the commit decides.
func isOneBuild(old, now *tune.Result) bool {
	return old.Tool.Commit == now.Tool.Commit && (old.Build == "" || now.Build == "" || old.Build == now.Build)
}

// builtAs describes the program of a result for people.
func builtAs(r *tune.Result) string {
	name := "gpuprof of commit " + cmp.Or(r.Tool.Commit, "unknown")
	if r.Build != "" {
		name += " (build " + r.Build[:min(len(r.Build), 12)] + ")"
	}
	return name
}

func (e *engine) spent() float64 { return e.prior + e.Now().Sub(e.began).Seconds() }

// timeLeft returns the time until a share of the budget is spent.
func (e *engine) timeLeft(share float64) time.Duration {
	return time.Duration((share*e.Budget.Seconds() - e.spent()) * float64(time.Second))
}

// finishSearch saves the result for the last time and returns it, with err.
func (e *engine) finishSearch(err error) (*tune.Result, error) {
	err = errors.Join(err, e.save())
	document.CleanStrings(e.out) // also if nothing is saved
	return e.out, err
}

func (e *engine) save() error {
	e.out.SpentS = e.spent()
	if e.Save == nil {
		return nil
	}
	document.CleanStrings(e.out) // texts of devices, other programs' records and failed processes may hold control characters
	return e.Save(e.out)
}

func (e *engine) reportProgress(phase, note string) {
	if e.Progress == nil {
		return
	}
	e.Progress(Progress{phase, e.spent(), e.Budget.Seconds(), max(0, e.timeLeft(1)), note})
}

// errSpent reports that no time is left for a comparison. It ends the current part of the search, which is no failure.
var errSpent = errors.New("the budget is spent")

// compare measures b against a, or returns the outcome stored in the journal, which holds all outcomes of this
// search.
func (e *engine) compare(phase string, a, b gpuprof.Settings, limit time.Duration, pairs int) (*tune.Outcome, error) {
	return e.compareBy(phase, a, b, e.limitsOf(limit, pairs, 0))
}

func (e *engine) compareBy(phase string, a, b gpuprof.Settings, l Limits) (*tune.Outcome, error) {
	sa, sb := e.side(a), e.side(b)
	return e.measureOnce(phase, sa.key()+" | "+sb.key(), tune.DescribeSettings(changedSettings(a, b)), l.Time, func() (*tune.Outcome, error) {
		return e.Bench.Compare(e.ctx, sa, sb, l)
	})
}

func (e *engine) side(set gpuprof.Settings) Side {
	return Side{Workload: e.Workload, Preset: e.Preset, Knobs: set}
}

// limitsOf returns the limits of one comparison; turn distinguishes repeated comparisons of the same settings.
func (e *engine) limitsOf(limit time.Duration, pairs, turn int) Limits {
	l := e.limits()
	l.Time, l.Pairs, l.Seed = limit, pairs, e.Seed+uint64(turn)
	return l
}

// measureOnce returns the outcome that the journal has under key. If there is none, it measures the outcome and
// stores it there.
func (e *engine) measureOnce(phase, key, note string, limit time.Duration, measure func() (*tune.Outcome, error)) (*tune.Outcome, error) {
	if o := e.journal[key]; o != nil {
		return o, nil
	}
	if err := e.ctx.Err(); err != nil {
		return nil, err
	}
	if limit <= 0 {
		return nil, errSpent
	}
	e.reportProgress(phase, note)
	o, err := measure()
	if err != nil {
		return nil, err
	}
	if err := e.ctx.Err(); err != nil { // an interrupted measurement is not stored
		return nil, err
	}
	e.journal[key] = o
	if e.out.Rate == 0 && e.Goal == tune.Latency { // set once
		e.out.Rate = o.Rate
	}
	e.out.Journal = append(e.out.Journal, tune.Entry{Key: key, Outcome: o})
	return o, e.save()
}

func changedSettings(a, b gpuprof.Settings) gpuprof.Settings {
	out := gpuprof.Settings{}
	for k, v := range b {
		if a[k] != v {
			out[k] = v
		}
	}
	return out
}
