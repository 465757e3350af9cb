// Package search finds out which knobs of a workload are worth turning, by
// measuring them: every alternative against the default in turns within one
// process, first those that findings about the start name, then combinations, then
// the winner against the default by paired blocks in fresh processes. It recommends
// nothing that the fresh processes did not confirm. In comes a workload with its
// device, out goes the document of package tune. It imports no concrete workload.
//
// The package reads top down: tune.go is the search from start to end, alternatives.go and findings.go list the
// changes to try, search.go and combine.go set their order; bench.go measures two settings in turns (session.go opens
// one, pairs.go decides when to stop, block.go times one row of steps), effect.go estimates their ratio; confirm.go
// does so in fresh processes, conclude.go words the result. claims_run.go tests the rules of published tuning guides
// (package guides).
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
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/workloads"
)

// Options describe the search: its target, limits and ways to measure.
type Options struct {
	Workload  workloads.Workload
	Preset    string
	Set       gpuprof.Settings // fixed beside the preset, canonical or not
	Device    string           // as --device takes it
	DeviceDoc string
	Driver    string   // version of the GPU's driver, which compiles PTX; "" on the host and where unknown
	Only      []string // knobs to turn; empty: all tuning knobs
	Goal      tune.Goal
	Budget    time.Duration
	MaxError  float64
	MaxMemory int64
	Seed      uint64
	Tool      gpuprof.Tool
	// Build identifies the very program that measures, and changes with it: a hash
	// of its file. Empty where that is unknown.
	Build string

	// Peers is a folder of baselines, where figures of other programs may lie.
	Peers fs.FS

	Bench Bench
	// Fresh compares two settings by paired blocks in a process of its own, and returns the process's error. Nil:
	// nothing is confirmed.
	Fresh func(ctx context.Context, a, b Side, l Limits) (*tune.Outcome, error)
	// Findings measures the start in about limit and returns the knobs that its findings name; they are tried first.
	// Nil: no findings.
	Findings func(ctx context.Context, limit time.Duration) ([]tune.Hint, error)
	// Resume is an earlier result that was cut short; its measurements are not
	// made again and its time counts.
	Resume *tune.Result
	// Save keeps the result so far; it is called after every measurement.
	Save     func(*tune.Result) error
	Progress func(Progress)
	Now      func() time.Time // nil: time.Now
}

// Progress is the state of a running search.
type Progress struct {
	Phase string // screening, searching, confirming, claims
	Done  float64
	Total float64 // of Done, in seconds of the budget
	Left  time.Duration
	Note  string
}

// Which part of the budget is over by when. The rest is the confirmation's.
const (
	findingsShare = 0.1
	screenUntil   = 0.4
	refineUntil   = 0.5
	searchUntil   = 0.62
	mostFindings  = 8 * time.Second // for measuring the start
	leastFindings = time.Second
)

// Rounds in which undecided changes are measured again, and the least time for each.
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
	bs      *stats.Bootstrap
	began   time.Time
	prior   float64 // seconds spent before a resume
	round   int     // of measuring again what was undecided
	// over names the limit that the default itself exceeds; empty for none.
	over string
	// overhead is the time of a fresh process beyond its limit: its start and its end. It is unknown before the first
	// process.
	overhead time.Duration
	alts     []alternative // every change, in the order in which they are tried
}

// Run searches. With sound options the result is not nil, even if ctx ends: then its status is partial, the error is
// the context's, and the search can be resumed. A default that cannot be measured is an error, and one that cannot
// have the goal is ErrUsage, without a result.
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
		return nil, err // the start does not have the goal: more time would not help
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
	e := &engine{Options: o, ctx: ctx, base: base, journal: map[string]*tune.Outcome{}, bs: stats.NewBootstrap(seedOfDraws, 0), began: o.Now()}
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

// resumeSearch takes over what an earlier search measured.
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

// checkSearch refuses to go on with measurements of something else.
func checkSearch(old, now *tune.Result) error {
	if !isOneBuild(old, now) {
		return gpuprof.Errorf(gpuprof.ErrUsage, "resuming the search: %s measured it, and this is %s", builtAs(old), builtAs(now)).WithFix("resume with that one, or start a new file with -o")
	}
	for _, f := range []struct{ name, old, now string }{
		{"workload", old.Workload, now.Workload}, {"preset", old.Preset, now.Preset}, {"device", old.DeviceDoc, now.DeviceDoc},
		{"goal", string(old.Goal), string(now.Goal)}, {"seed", fmt.Sprint(old.Seed), fmt.Sprint(now.Seed)},
		{"settings", describeSettings(old.Set), describeSettings(now.Set)}, {"knobs", fmt.Sprint(old.Only), fmt.Sprint(now.Only)},
		{"max-error", fmt.Sprint(old.MaxError), fmt.Sprint(now.MaxError)}, {"max-memory", fmt.Sprint(old.MaxMemory), fmt.Sprint(now.MaxMemory)},
		{"driver", cmp.Or(old.Driver, now.Driver), cmp.Or(now.Driver, old.Driver)}, // which files before schema 2.3 do not name
	} {
		if f.old != f.now {
			return gpuprof.Errorf(gpuprof.ErrUsage, "resuming the search: its %s was %q and is now %q", f.name, f.old, f.now).WithFix("give the same, or start a new file with -o")
		}
	}
	return nil
}

// isOneBuild reports whether one program measured both. A working tree is built many times at one commit, so only a
// hash identifies a build; if one side has no hash, the commit must do.
func isOneBuild(old, now *tune.Result) bool {
	return old.Tool.Commit == now.Tool.Commit && (old.Build == "" || now.Build == "" || old.Build == now.Build)
}

// builtAs names the program of a result for people.
func builtAs(r *tune.Result) string {
	name := "gpuprof of commit " + cmp.Or(r.Tool.Commit, "unknown")
	if r.Build != "" {
		name += " (build " + r.Build[:min(len(r.Build), 12)] + ")"
	}
	return name
}

func (e *engine) spent() float64 { return e.prior + e.Now().Sub(e.began).Seconds() }

// timeLeft returns the remaining time of the budget until a share of it is spent.
func (e *engine) timeLeft(share float64) time.Duration {
	return time.Duration((share*e.Budget.Seconds() - e.spent()) * float64(time.Second))
}

// finishSearch saves the result for the last time and returns it, with err.
func (e *engine) finishSearch(err error) (*tune.Result, error) {
	err = errors.Join(err, e.save())
	document.CleanStrings(e.out) // also where nothing is saved
	return e.out, err
}

func (e *engine) save() error {
	e.out.SpentS = e.spent()
	if e.Save == nil {
		return nil
	}
	document.CleanStrings(e.out) // a device, another program's record and a failed process had words in it
	return e.Save(e.out)
}

func (e *engine) reportProgress(phase, note string) {
	if e.Progress == nil {
		return
	}
	e.Progress(Progress{phase, e.spent(), e.Budget.Seconds(), max(0, e.timeLeft(1)), note})
}

// errSpent ends a comparison whose time is over; it is not an error of the search.
var errSpent = errors.New("the budget is spent")

// compare measures b against a, or looks it up.
func (e *engine) compare(phase string, a, b gpuprof.Settings, limit time.Duration, pairs int) (*tune.Outcome, error) {
	return e.compareBy(phase, a, b, e.limitsOf(limit, pairs, 0))
}

func (e *engine) compareBy(phase string, a, b gpuprof.Settings, l Limits) (*tune.Outcome, error) {
	sa, sb := e.side(a), e.side(b)
	return e.measureOnce(phase, sa.key()+" | "+sb.key(), describeSettings(changedSettings(a, b)), l.Time, func() (*tune.Outcome, error) {
		return e.Bench.Compare(e.ctx, sa, sb, l)
	})
}

func (e *engine) side(set gpuprof.Settings) Side {
	return Side{Workload: e.Workload, Preset: e.Preset, Knobs: set}
}

// limitsOf returns the limits of one comparison; turn separates repeated comparisons of the same two settings.
func (e *engine) limitsOf(limit time.Duration, pairs, turn int) Limits {
	l := e.limits()
	l.Time, l.Pairs, l.Seed = limit, pairs, e.Seed+uint64(turn)
	return l
}

// measureOnce makes a measurement that is not in the journal and keeps it there.
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
	if err := e.ctx.Err(); err != nil { // cut short: not a finished measurement
		return nil, err
	}
	e.journal[key] = o
	if e.out.Rate == 0 && e.Goal == tune.Latency { // it is fixed once
		e.out.Rate = o.Rate
	}
	e.out.Journal = append(e.out.Journal, tune.Entry{Key: key, Outcome: o})
	return o, e.save()
}

// changedSettings returns the settings of b that differ from a.
func changedSettings(a, b gpuprof.Settings) gpuprof.Settings {
	out := gpuprof.Settings{}
	for k, v := range b {
		if a[k] != v {
			out[k] = v
		}
	}
	return out
}
