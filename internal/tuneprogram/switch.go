package tuneprogram

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/gpuprof/gpuprof/internal/tune"
)

// switchable are the keys of the hook that it can switch between two steps. A loader, a compiled model and the
// memory format of a module stay for the process.
var switchable = [...]string{"remove", "anomaly_off", "set_to_none", "deterministic_off", "mkldnn_on", "cudnn_benchmark",
	"tf32", "threads", "foreach", "fused"}

// Cells describes the blocks of one process: every setting is off for Steps steps, on for 2 Steps and off for Steps
// again, Blocks times, the settings in turns. One step behind each switch is not timed. Both sides have the settings
// of Base.
type Cells struct {
	Base          Set
	Settings      []Setting
	Steps, Blocks int
}

// blockConfig is the hook's form of Cells.
type blockConfig struct {
	Settings []blockSetting `json:"settings"`
	Steps    int            `json:"steps"`
	Count    int            `json:"count"`
}

type blockSetting struct {
	Name string         `json:"name"`
	Hook map[string]any `json:"hook"`
}

// Key names the run in the document.
func (c Cells) Key() string {
	names := make([]string, len(c.Settings))
	for i, s := range c.Settings {
		names[i] = s.Name()
	}
	key := "switched in one process: " + strings.Join(names, ", ")
	if len(c.Base) > 0 {
		key += " beside " + c.Base.Key()
	}
	return key
}

// countSteps is the number of steps that the blocks take, stepsOfBlock that of one block of every setting.
func (c Cells) countSteps() int   { return c.Blocks * c.stepsOfBlock() }
func (c Cells) stepsOfBlock() int { return len(c.Settings) * (4*c.Steps + 3) }

func (c Cells) config() *blockConfig {
	out := &blockConfig{Steps: c.Steps, Count: c.Blocks}
	for _, s := range c.Settings {
		out.Settings = append(out.Settings, blockSetting{s.Name(), c.Base.addSetting(s).hookSettings()})
	}
	return out
}

// The blocks in numbers.
const (
	cellTime                    = 50 * time.Millisecond // of the steps on one side between two switches
	leastCell, mostCell         = 2, 50                 // steps
	mostBlocks                  = 10
	leastBlocks                 = 4    // that decide something
	shareOfBudget       float64 = 0.15 // that the blocks may take
	masking                     = 1.5  // times faster: a set that may hide the gain of others
)

// switchSettings compares the settings that one process can switch between its steps: many pairs of neighbouring
// steps cost less than two fresh processes. A setting with a clear gain needs one fresh pair for its losses, one
// without a gain needs none. What looks faster and may be noise is screened in fresh pairs, after all others.
func (e *engine) switchSettings() error {
	rows := slices.DeleteFunc(slices.Clone(e.rows), func(r *row) bool { return !e.canSwitch(r.Setting) })
	if len(rows) == 0 || e.p.Metric != tune.PerStep {
		return nil
	}
	c := Cells{}
	for _, r := range rows {
		c.Settings = append(c.Settings, r.Setting)
	}
	r, err := e.runCells(c, "comparing in one process")
	if err != nil {
		return err
	}
	for _, b := range r.Blocks {
		if i := slices.IndexFunc(rows, func(r *row) bool { return r.Name() == b.Name }); i >= 0 {
			rows[i].useBlocks(b)
		}
	}
	return nil
}

// runCells runs as many blocks as the program and the budget have room for: none is no failure. A setting with which
// the program fails is found by a run of its own.
func (e *engine) runCells(c Cells, phase string) (r tune.ProgramRun, err error) {
	step := e.plain[len(e.plain)-1].Cost
	c.Steps = min(max(int(math.Ceil(cellTime.Seconds()/step)), leastCell), mostCell)
	c.Blocks = min(mostBlocks, int(shareOfBudget*e.Budget.Seconds()/(step*float64(c.stepsOfBlock()))))
	if h := e.plain[0].Hook; h.Ended { // it has no more steps than those
		c.Blocks = min(c.Blocks, e.plan.Steps/c.stepsOfBlock())
	}
	if c.Blocks < leastBlocks || !e.fitsBudget(1, earlyPairs, c.Base) {
		return r, nil
	}
	took := time.Duration(step * float64(c.countSteps()) * float64(time.Second))
	plan := Plan{e.plan.Warm, c.countSteps()}
	return e.runOnce(c.Key(), plan, phase, func() (tune.ProgramRun, error) {
		return e.Runner.Switch(e.ctx, c, plan.Warm, e.timeLimit(c.Base)+3*took)
	})
}

// switchedGains returns the gains of a set over another with one setting less, by blocks of one process; nil where they
// need fresh processes.
func (e *engine) switchedGains(base, tuned Set, phase string) ([]float64, error) {
	more := slices.DeleteFunc(slices.Clone(tuned), func(s Setting) bool {
		return slices.ContainsFunc(base, func(had Setting) bool { return had.Name() == s.Name() })
	})
	if len(more) != 1 || len(tuned) != len(base)+1 || !e.canSwitch(more[0]) || e.p.Metric != tune.PerStep {
		return nil, nil
	}
	r, err := e.runCells(Cells{Base: base, Settings: more}, phase)
	if err != nil || len(r.Blocks) == 0 {
		return nil, err
	}
	return listBlockGains(r.Blocks[0]), nil
}

// listMasked compares the settings that lost the screening once more, beside the best set. What is a small part of a
// plain step is a large part of one that the set made much shorter. It returns the promising ones, the best first; each
// must still be compared alone.
func (e *engine) listMasked(best Set) ([]*row, error) {
	rows := slices.DeleteFunc(slices.Clone(e.rows), func(r *row) bool {
		return r.failed != "" || r.worse != "" || !e.canSwitch(r.Setting) || best.hasKnob(r.Knob)
	})
	if len(rows) == 0 || e.p.Metric != tune.PerStep || e.gainOf(best) < math.Log(masking) || !e.fitsBudget(1, reserve, best) {
		return nil, nil
	}
	c := Cells{Base: best}
	for _, r := range rows {
		c.Settings = append(c.Settings, r.Setting)
	}
	run, err := e.runCells(c, "comparing in one process")
	if err != nil {
		return nil, err
	}
	gains := map[string]float64{}
	for _, b := range run.Blocks {
		if g := listBlockGains(b); isBetter(g) {
			gains[b.Name] = stat.Mean(g, nil)
		}
	}
	rows = slices.DeleteFunc(rows, func(r *row) bool { return gains[r.Name()] <= math.Log(promising) })
	slices.SortStableFunc(rows, func(a, b *row) int { return cmp.Compare(gains[b.Name()], gains[a.Name()]) })
	return bestOfKnobs(rows), nil
}

// gainOf is the sum of the gains that the settings of a set have alone.
func (e *engine) gainOf(s Set) (sum float64) {
	for _, r := range e.rows {
		if len(r.gains) > 0 && slices.ContainsFunc(s, func(one Setting) bool { return one.Name() == r.Name() }) {
			sum += r.meanGain()
		}
	}
	return sum
}

// canSwitch reports whether the hook can switch a setting within a process. The state of a fused optimizer is on the
// GPU and cannot be exchanged there.
func (e *engine) canSwitch(s Setting) bool {
	for key := range s.Hook {
		if !slices.Contains(switchable[:], key) || key == "fused" && e.p.Device == "cuda" {
			return false
		}
	}
	return len(s.Hook) > 0 && len(s.Args) == 0
}

// useBlocks takes over the gains of blocks, unless they leave open whether a setting that looks faster is.
func (r *row) useBlocks(b tune.Switched) {
	gains := listBlockGains(b)
	if r.undecided = len(gains) > 0; !r.undecided {
		return
	}
	if isBetter(gains) || stat.Mean(gains, nil) <= math.Log(promising) {
		r.gains, r.switched, r.undecided = gains, true, false
	}
}

// listBlockGains returns the logarithms of how many times faster a setting was; nil where there are too few, or it never took
// hold.
func listBlockGains(b tune.Switched) (gains []float64) {
	for _, s := range b.Seconds {
		if s[0] > 0 && s[1] > 0 {
			gains = append(gains, math.Log(s[0]/s[1]))
		}
	}
	if b.Took == 0 || len(gains) < leastBlocks {
		return nil
	}
	return gains
}
