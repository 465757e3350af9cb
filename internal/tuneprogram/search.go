package tuneprogram

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/tune"
)

// Options are the inputs of a search.
type Options struct {
	Tool     gpuprof.Tool
	Runner   Runner
	Command  []string // for the document
	Tries    []Try
	Only     []string // names or knobs of settings; empty: all
	Skip     []string
	Steps    int // measured in each run; 0: as many as take a second and a half
	MaxError float64
	Budget   time.Duration
	CPUs     int
	Copied   bool
	Getenv   func(string) string
	Build    string
	Now      func() time.Time
	Save     func(*tune.Result) error // after every run
	Progress func(Progress)
	// Findings records the program once and returns the findings of the recording; nil: none.
	Findings func(ctx context.Context) ([]Finding, error)
	Resume   *tune.Result // an earlier search of the same program, whose runs are taken over
	// Whole is called if the program makes no steps that the hook can see: from then on its runs are timed as a
	// whole.
	Whole func()
}

// Progress describes the state of a search.
type Progress struct {
	Phase string
	Note  string
	Spent time.Duration
	Left  time.Duration
}

// The search in numbers.
const (
	probeWarm, probeSteps = 4, 8
	leastWarm, mostWarm   = 4, 8 // steps that are left out, as many as take a second
	leastSteps, mostSteps = 8, 400
	window                = 1500 * time.Millisecond // of measured steps
	mostEpoch             = 400                     // steps of an epoch that is measured whole
	plainRuns             = 2
	passes                = 3    // of the screening
	hopeless              = 0.95 // times faster in its first pair: a setting below it has no second one
	promising             = 1.03 // times faster in the mean of all pairs
	mostCandidates        = 4
	additionPairs         = 5
	slowRun               = 45 * time.Second // that compiling may take before any run of it was seen
	reserve               = 2 * gatePairs    // runs of a confirmation that one stage decides
	longerThan            = 60 * time.Second // that a run may take beside several times a plain one
)

// engine is one search.
type engine struct {
	Options
	ctx    context.Context
	out    *tune.Result
	p      *tune.Program
	replay []tune.ProgramRun
	before time.Duration // spent by the search that is resumed
	began  time.Time
	plan   Plan
	plain  []tune.ProgramRun // of the program as it is, with the plan
	own    tune.LossCheck
	rows   []*row
	found  []Finding                // of the recording
	times  map[string]time.Duration // of one run, by the key of its settings
}

// row holds one setting with its results so far.
type row struct {
	Setting
	gains  []float64 // logarithms of how many times faster
	cpu    []float64 // likewise, of CPU time
	memory []int64
	losses *tune.LossCheck
	failed string
	worse  string // why it is refused
	// startup has the seconds before the first step beyond the unchanged program's, graphs the graphs and graph breaks
	// of a compiled model.
	startup []float64
	graphs  [2]int
}

// Run searches. With an error that ended the search it returns the results so far.
func Run(ctx context.Context, o Options) (*tune.Result, error) {
	e := newEngine(ctx, o)
	err := e.runSearch()
	return e.finishResult(err), err
}

// newEngine is a search that has not begun, with an empty document.
func newEngine(ctx context.Context, o Options) *engine {
	e := &engine{Options: o, ctx: ctx, began: o.Now(), times: map[string]time.Duration{}}
	e.p = &tune.Program{Command: document.MaskCommand(o.Command), CPUs: o.CPUs, Copied: o.Copied,
		Metric: tune.PerStep, Patch: []string{}, Left: []tune.LeftOut{}, Runs: []tune.ProgramRun{}}
	e.out = &tune.Result{
		Head: document.NewHead(document.Tune,
			o.Tool), Build: o.Build, Started: o.Now().UTC(), Goal: tune.Throughput, MaxError: o.MaxError, BudgetS: o.Budget.Seconds(), Seed: 1, Only: o.Only,
		Confirmations: []tune.Confirmation{}, Effects: []tune.Effect{}, Curves: []tune.Curve{}, Failed: []tune.Failure{}, Claims: []tune.ClaimRow{}, Journal: []tune.Entry{}, Program: e.p,
	}
	if o.Resume != nil {
		e.replay, e.before, e.out.Started = o.Resume.Program.Runs, time.Duration(o.Resume.SpentS*float64(time.Second)), o.Resume.Started
		e.found = earlierFindings(o.Resume.Program.Findings)
	}
	return e
}

func (e *engine) runSearch() error {
	if err := e.prepareSearch(); err != nil {
		return err
	}
	e.askFindings()
	if err := e.screenSettings(); err != nil {
		return err
	}
	best, err := e.combineSettings()
	if err != nil {
		return err
	}
	return e.decideSet(best)
}

// runProgram makes one run, or takes it from the search that is resumed.
func (e *engine) runProgram(s Set, phase string) (tune.ProgramRun, error) {
	if err := e.ctx.Err(); err != nil {
		return tune.ProgramRun{}, err
	}
	var r tune.ProgramRun
	if next, ok := e.replayRun(s); ok {
		r = next
	} else {
		if e.Progress != nil {
			e.Progress(Progress{Phase: phase, Note: s.Key(), Spent: e.timeSpent(), Left: e.Budget - e.timeSpent()})
		}
		var err error
		if r, err = e.Runner.Run(e.ctx, s, e.plan, e.timeLimit(s)); err != nil {
			return r, err
		}
		e.perSample(&r)
	}
	e.p.Runs = append(e.p.Runs, r)
	took := time.Duration(r.Seconds * float64(time.Second))
	if before, known := e.times[r.Key]; known { // the later ones count more: the load of the machine changes
		took = (before + took) / 2
	}
	e.times[r.Key] = took
	e.out.SpentS = e.timeSpent().Seconds()
	if e.Save == nil {
		return r, nil
	}
	e.out.Status, e.out.Reason = gpuprof.Partial, "the search is under way"
	return r, e.Save(e.out)
}

// perSample scales the cost of a run with another batch size to the number of samples in the program's own batch.
func (e *engine) perSample(r *tune.ProgramRun) {
	if len(e.plain) == 0 || r.Hook == nil || e.plain[0].Hook == nil {
		return
	}
	if was, now := e.plain[0].Hook.Batch, r.Hook.Batch; was > 0 && now > 0 && was != now {
		share := float64(was) / float64(now)
		r.Cost, r.CPU = r.Cost*share, r.CPU*share
	}
}

// replayRun is the next run of the search that is resumed, if it is the one that is needed now.
func (e *engine) replayRun(s Set) (tune.ProgramRun, bool) {
	n := len(e.p.Runs)
	if n >= len(e.replay) || e.replay[n].Key != s.Key() || e.replay[n].Plan != [2]int{e.plan.Warm, e.plan.Steps} {
		e.replay = nil // another way was taken: the rest belongs to the old one
		return tune.ProgramRun{}, false
	}
	return e.replay[n], true
}

func (e *engine) timeSpent() time.Duration { return e.before + e.Now().Sub(e.began) }

// timeLimit returns the longest time for one run.
func (e *engine) timeLimit(s Set) time.Duration {
	plain, known := e.times[""]
	if !known {
		return max(e.Budget, longerThan)
	}
	most := 5*plain + longerThan
	if s.isSlow() {
		most += 4 * longerThan
	}
	return most
}

// fitsBudget reports whether runs with these settings, and others runs of the unchanged program, end within the budget.
// Runs of the resumed search cost nothing.
func (e *engine) fitsBudget(runs, others int, s Set) bool {
	if len(e.p.Runs)+runs+others <= len(e.replay) {
		return true
	}
	one, known := e.times[s.Key()]
	if !known {
		if one = e.times[""]; s.isSlow() {
			one += slowRun
		}
	}
	return e.timeSpent()+time.Duration(runs)*one+time.Duration(others)*e.times[""] <= e.Budget
}

// prepareSearch finds out what the program does, how many steps to measure, and whether its training repeats.
func (e *engine) prepareSearch() error {
	e.plan = Plan{probeWarm, probeSteps}
	probe, err := e.runProgram(nil, "probe")
	if err != nil {
		return err
	}
	if probe.Hook == nil {
		return e.prepareWhole(probe)
	}
	if probe.Failed != "" {
		return e.brokenError(probe)
	}
	e.shortenPlan(probe)
	for len(e.plain) < plainRuns {
		r, err := e.plainRun("the program as it is")
		if err != nil {
			return err
		}
		if e.shortenPlan(r) { // it showed an epoch, or its end
			e.plain = nil
		}
	}
	h := e.plain[0].Hook
	e.p.Device, e.p.Threads = h.Device, h.Seen.Threads
	e.describeProgram()
	for _, o := range listOffers(h, e.CPUs) {
		if o.without != "" {
			e.p.Left = append(e.p.Left, tune.LeftOut{Setting: o.Name(), Reason: o.without})
			continue
		}
		e.addOffer(o.Setting)
	}
	return e.offerTries()
}

// wholeSettings names the whole table, where none of its settings applies.
const wholeSettings = "settings of PyTorch"

// prepareWhole is for programs whose steps the hook does not see.
func (e *engine) prepareWhole(probe tune.ProgramRun) error {
	if probe.Failed != "" {
		return e.brokenError(probe)
	}
	if e.Whole != nil {
		e.Whole()
	}
	e.plan, e.p.Metric, e.plain = Plan{}, tune.PerRun, nil
	for len(e.plain) < plainRuns {
		if _, err := e.plainRun("the program as it is"); err != nil {
			return err
		}
	}
	e.describeProgram()
	e.p.Left = append(e.p.Left, tune.LeftOut{Setting: wholeSettings,
		Reason: "no step of an optimizer of PyTorch was seen: only --try applies"})
	return e.offerTries()
}

func (e *engine) offerTries() error {
	for _, t := range e.Tries {
		for _, s := range t.listSettings(e.Getenv) {
			e.addOffer(s)
		}
	}
	for _, name := range e.Only {
		if !slices.ContainsFunc(e.rows, func(r *row) bool { return isNamed(r.Setting, name) }) {
			return gpuprof.Errorf(gpuprof.ErrUsage,
				"choosing settings with --only %s: none of that name applies to this program", name).
				WithFix("its settings are %s", strings.Join(e.tryNames(), ", "))
		}
	}
	return nil
}

// tryNames are the settings that apply, and those that were left out.
func (e *engine) tryNames() (out []string) {
	for _, r := range e.rows {
		out = append(out, r.Name())
	}
	for _, l := range e.p.Left {
		out = append(out, l.Setting+" ("+l.Reason+")")
	}
	return out
}

func isNamed(s Setting, name string) bool { return s.Knob == name || s.Name() == name }

// addOffer takes a setting into the search, unless the user leaves it out.
func (e *engine) addOffer(s Setting) {
	is := func(name string) bool { return isNamed(s, name) }
	switch {
	case len(e.Only) > 0 && !slices.ContainsFunc(e.Only, is):
		e.p.Left = append(e.p.Left, tune.LeftOut{Setting: s.Name(), Reason: "--only does not name it"})
	case slices.ContainsFunc(e.Skip, is):
		e.p.Left = append(e.p.Left, tune.LeftOut{Setting: s.Name(), Reason: "--skip names it"})
	default:
		e.rows = append(e.rows, &row{Setting: s})
	}
}

// brokenError returns the error for a program that fails without settings.
func (e *engine) brokenError(r tune.ProgramRun) error {
	fix := "run it by itself to see why"
	if e.Copied {
		fix += "; it ran in a copy of the working folder, and --in-place runs it in the folder itself"
	}
	return gpuprof.Errorf(gpuprof.ErrInput, "running the program as it is: %s", r.Failed).WithFix("%s", fix)
}

// describeProgram writes the properties of the unchanged program into the document.
func (e *engine) describeProgram() {
	e.own = checkRepeats(e.plain, e.MaxError)
	e.p.Losses, e.p.Warm, e.p.Steps = e.own, e.plan.Warm, e.plan.Steps
	costs := []float64{e.plain[0].Cost, e.plain[1].Cost}
	e.p.Noise = max(costs[0], costs[1])/min(costs[0], costs[1]) - 1
	e.setDefault()
}

// setDefault records the cost of the unchanged program, over all its runs.
func (e *engine) setDefault() {
	var logs []float64
	for _, r := range e.plain {
		logs = append(logs, -math.Log(r.Cost))
	}
	if len(logs) == 0 {
		return
	}
	perS, ci := estimateRatio(logs)
	e.out.Unit = "steps/s"
	if e.p.Metric != tune.PerStep {
		e.out.Unit = "runs/s"
	}
	e.out.Default = &tune.Point{Knobs: gpuprof.Settings{}, Median: perS, CI95: ci}
}

// errStarved ends a part of the search for which the budget is too short.
var errStarved = errors.New("the budget is too short")

// reportProgress adds a run's failure to the document.
func (e *engine) reportProgress(s Set, failed string) {
	e.out.Failed = append(e.out.Failed, tune.Failure{Knobs: s.Knobs(), Error: failed})
}

// interruptedText is the reason of a search that the user ended.
func interruptedText(err error) string {
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	return strings.Join(strings.Fields(fmt.Sprint(err)), " ")
}
