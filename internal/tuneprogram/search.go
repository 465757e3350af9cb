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
	Command  []string // for the document; the Runner has its own
	Tries    []Try
	Only     []string // setting names or knobs; empty: all
	Skip     []string
	Steps    int     // measured steps per run; 0: as many as take 1.5 s
	MaxError float64 // largest relative deviation of losses
	Budget   time.Duration
	CPUs     int
	Copied   bool // the program runs in a copy of its folder
	Getenv   func(string) string
	Build    string // SHA-256 of gpuprof, for the document
	Now      func() time.Time
	Save     func(*tune.Result) error // called after every run
	Progress func(Progress)
	// Findings records the program once and returns the findings of its analysis. nil: the program is not recorded.
	// Recording takes no longer than limit.
	Findings func(ctx context.Context, limit time.Duration) ([]Finding, error)
	Resume   *tune.Result // an earlier search of the same program, whose runs are reused
	// Whole is called if the hook sees no steps in the program. Later runs must be timed as whole processes.
	Whole func()
}

// Progress describes the state of a search.
type Progress struct {
	Phase string
	Note  string
	Spent time.Duration
	Left  time.Duration
}

// Limits of the search. Ratios are speedups.
const (
	probeWarm, probeSteps = 4, 8
	leastWarm, mostWarm   = 4, 8 // warmup steps, as many as take a second
	leastSteps, mostSteps = 8, 400
	window                = 1500 * time.Millisecond // total time of the measured steps
	mostEpoch             = 400                     // steps of the longest epoch that is measured whole
	plainRuns             = 2
	passes                = 3    // passes of the screening, each with one pair per setting
	hopeless              = 0.95 // speedup in the first pair below which a setting gets no second pair
	promising             = 1.03 // mean speedup of all pairs above which a setting is a candidate
	mostCandidates        = 4
	additionPairs         = 5
	slowRun               = 45 * time.Second // assumed time of compiling until a compiled run was measured
)

type engine struct {
	Options
	ctx      context.Context
	out      *tune.Result
	p        *tune.Program
	replay   []tune.ProgramRun // remaining runs of the resumed search
	replayed time.Duration     // time that the resumed search had spent after the last replayed run
	before   time.Duration     // time that the resumed search had spent
	began    time.Time
	reserved int // pairs for which the present phase leaves time, see reservedTime
	plan     Plan
	plain    []tune.ProgramRun // runs of the unchanged program with the current plan
	own      tune.LossCheck
	rows     []*row
	found    []Finding                // findings of the recording
	times    map[string]time.Duration // time of one run, by the key of its settings
}

type row struct {
	Setting
	claim float64   // share of the step that a finding promises, 0 to 1; 0 if none names the setting
	gains []float64 // natural logarithms of the speedups
	// switched marks that the gains come from blocks within one process, undecided that these blocks show a gain that
	// may be noise.
	switched, undecided bool
	cpu                 []float64 // natural logarithms of the CPU time ratios, tuned over base
	energy              energies
	memory              []int64
	losses              *tune.LossCheck
	failed              string
	worse               string // why the setting is refused
	stopped             string // why its run was stopped: it gets no further pair
	// startup has the extra seconds before the first step, compared with the unchanged program. graphs has the
	// numbers of graphs and graph breaks of a compiled model.
	startup []float64
	graphs  [2]int
}

// Run searches for faster settings. If an error ends the search, Run returns it with the results so far.
func Run(ctx context.Context, o Options) (*tune.Result, error) {
	e := newEngine(ctx, o)
	err := e.runSearch()
	return e.finishResult(err), err
}

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
		e.replay, e.before, e.out.Started = o.Resume.Program.Runs, convertSeconds(o.Resume.SpentS), o.Resume.Started
		e.found = earlierFindings(o.Resume.Program.Findings)
	}
	return e
}

func (e *engine) runSearch() error {
	if err := e.prepareSearch(); err != nil {
		return err
	}
	e.askFindings()
	e.reserved = signTestPairs
	if err := e.switchSettings(); err != nil && !errors.Is(err, errStarved) {
		return err
	}
	if err := e.screenSettings(); err != nil && !errors.Is(err, errStarved) {
		return err
	}
	best, err := e.combineSettings()
	if err != nil {
		return err
	}
	e.reserved = 0
	return e.decideSet(best)
}

func (e *engine) runProgram(s Set, phase string) (tune.ProgramRun, error) {
	return e.runOnce(s.Key(), e.plan, phase, func() (tune.ProgramRun, error) {
		return e.boundRun(s, func(limit time.Duration) (tune.ProgramRun, error) {
			r, err := e.Runner.Run(e.ctx, s, e.plan, limit)
			e.perSample(&r)
			return r, err
		})
	})
}

// runOnce makes one run, or takes the run from the resumed search.
func (e *engine) runOnce(key string, plan Plan, phase string, run func() (tune.ProgramRun, error)) (tune.ProgramRun, error) {
	if err := e.ctx.Err(); err != nil {
		return tune.ProgramRun{}, err
	}
	r, ok := e.replayRun(key, plan)
	if !ok {
		e.showProgress(phase, key)
		var err error
		if r, err = run(); err != nil {
			return r, err
		}
		r.EndS, r.BudgetS = e.timeNow().Seconds(), e.Budget.Seconds()
	}
	e.p.Runs = append(e.p.Runs, r)
	took := convertSeconds(r.Seconds)
	if before, known := e.times[r.Key]; known { // weigh later runs more: the machine's load changes
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

func (e *engine) showProgress(phase, note string) {
	if e.Progress != nil {
		spent := e.timeSpent()
		e.Progress(Progress{Phase: phase, Note: note, Spent: spent, Left: e.Budget - spent})
	}
}

// perSample scales the cost of a run with another batch size to the samples of the program's original batch.
func (e *engine) perSample(r *tune.ProgramRun) {
	if len(e.plain) == 0 || r.Hook == nil || e.plain[0].Hook == nil {
		return
	}
	if was, now := e.plain[0].Hook.Batch, r.Hook.Batch; was > 0 && now > 0 && was != now {
		share := float64(was) / float64(now)
		r.Cost, r.CPU, r.Joules = r.Cost*share, r.CPU*share, r.Joules*share
	}
}

// replayRun returns the next recorded run of the resumed search. ok is false if that run has another key or plan, or if
// a smaller budget stopped it; a new run must then be made.
func (e *engine) replayRun(key string, plan Plan) (tune.ProgramRun, bool) {
	if len(e.replay) == 0 || e.replay[0].Key != key || e.replay[0].Plan != [2]int{plan.Warm, plan.Steps} {
		e.replay = nil // the search took another path; the remaining runs belong to the old one
		return tune.ProgramRun{}, false
	}
	r := e.replay[0]
	e.replay, e.replayed = e.replay[1:], convertSeconds(r.EndS)
	return r, r.Stopped != tune.StopBudget || e.Budget.Seconds() <= r.BudgetS
}

// prepareSearch probes the program, plans the steps to measure, checks whether losses repeat, and lists the settings.
func (e *engine) prepareSearch() error {
	if err := e.checkNames(); err != nil {
		return err
	}
	e.plan = Plan{probeWarm, probeSteps}
	probe, err := e.runProgram(nil, "probe")
	if err != nil {
		return e.shortBudget(err)
	}
	if !probe.IsMeasured() {
		return e.shortBudget(e.brokenError(probe))
	}
	if probe.Hook == nil {
		return e.prepareWhole()
	}
	e.shortenPlan(probe)
	for len(e.plain) < plainRuns {
		r, err := e.plainRun("the program as it is")
		if err != nil {
			return e.shortBudget(err)
		}
		if e.shortenPlan(r) { // the run showed an epoch or the program's end
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

// wholeSettings names all PyTorch settings together in Left, for a program to which none applies.
const wholeSettings = "settings of PyTorch"

// prepareWhole prepares a program whose steps the hook does not see: whole processes are timed.
func (e *engine) prepareWhole() error {
	if e.Whole != nil {
		e.Whole()
	}
	e.plan, e.p.Metric, e.plain = Plan{}, tune.PerRun, nil
	for len(e.plain) < plainRuns {
		if _, err := e.plainRun("the program as it is"); err != nil {
			return e.shortBudget(err)
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

// checkNames refuses a name of --only or --skip that neither the table of settings nor --try has, before the first run.
func (e *engine) checkNames() error {
	known := make([]Setting, 0, len(e.Tries))
	for _, o := range listOffers(&tune.HookReport{}, e.CPUs) {
		known = append(known, o.Setting)
	}
	for _, t := range e.Tries {
		known = append(known, t.listSettings(func(string) string { return "" })...)
	}
	var names []string
	for _, s := range known {
		names = append(names, s.Name())
	}
	for i, name := range slices.Concat(e.Only, e.Skip) {
		if slices.ContainsFunc(known, func(s Setting) bool { return isNamed(s, name) }) {
			continue
		}
		flag := "--only"
		if i >= len(e.Only) {
			flag = "--skip"
		}
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading %s %s: there is no such setting%s", flag, name,
			gpuprof.DidYouMean(name, names)).WithFix("the settings are %s", strings.Join(names, ", "))
	}
	return nil
}

// tryNames lists the settings that apply, and the left-out settings with their reasons.
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

// addOffer adds a setting to the search, unless --only or --skip excludes it.
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

// brokenError is the error of an unmeasured run of the unchanged program: errStarved if the budget stopped it.
func (e *engine) brokenError(r tune.ProgramRun) error {
	switch r.Stopped {
	case tune.StopBudget:
		return errStarved
	case tune.StopRun:
		r.Failed = "it had not ended after " + gpuprof.FormatSeconds(r.Seconds)
	}
	fix := "run it by itself to see why"
	if e.Copied {
		fix += "; it ran in a copy of the working folder, and --in-place runs it in the folder itself"
	}
	return gpuprof.Errorf(gpuprof.ErrInput, "running the program as it is: %s", r.Failed).WithFix("%s", fix)
}

func (e *engine) describeProgram() {
	e.own = checkRepeats(e.plain, e.MaxError)
	e.p.Losses, e.p.Warm, e.p.Steps = e.own, e.plan.Warm, e.plan.Steps
	costs := []float64{e.plain[0].Cost, e.plain[1].Cost}
	e.p.EnergyUnknown = e.energyUnknown()
	e.p.Noise = max(costs[0], costs[1])/min(costs[0], costs[1]) - 1
	e.setDefault()
}

// setDefault records the rate of the unchanged program over all its runs.
func (e *engine) setDefault() {
	var logs []float64
	for _, r := range e.plain {
		logs = append(logs, -math.Log(r.Cost))
	}
	if len(logs) == 0 {
		return
	}
	e.p.Joules = meanJoules(e.plain)
	perS, ci := estimateRatio(logs)
	e.out.Unit = "steps/s"
	if e.p.Metric != tune.PerStep {
		e.out.Unit = "runs/s"
	}
	e.out.Default = &tune.Point{Knobs: gpuprof.Settings{}, Median: perS, CI95: ci}
}

// errStarved means that the budget is too short for a part of the search.
var errStarved = errors.New("the budget is too short")

// addFailure adds a failed run to the document.
func (e *engine) addFailure(s Set, failed string) {
	e.out.Failed = append(e.out.Failed, tune.Failure{Knobs: s.Knobs(), Error: failed})
}

// interruptedText returns the reason for a partial result: "interrupted" after Ctrl-C, otherwise err on one line.
func interruptedText(err error) string {
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	return strings.Join(strings.Fields(fmt.Sprint(err)), " ")
}
