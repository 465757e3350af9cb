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

// switchable lists the hook keys that can change between two steps. Others are fixed for the whole process.
var switchable = [...]string{"remove", "anomaly_off", "set_to_none", "deterministic_off", "mkldnn_on", "cudnn_benchmark",
	"tf32", "threads", "foreach", "fused"}

// Cells describes a process that switches settings. A block has every setting in turn off for Steps steps, on for
// 2*Steps and off for Steps. The step after a switch is not timed. The settings of Base are always on.
type Cells struct {
	Base          Set
	Settings      []Setting
	Steps, Blocks int
}

// blockConfig is the JSON form of Cells for the hook.
type blockConfig struct {
	Settings []blockSetting `json:"settings"`
	Steps    int            `json:"steps"`
	Count    int            `json:"count"`
}

type blockSetting struct {
	Name string         `json:"name"`
	Hook map[string]any `json:"hook"`
}

// Key identifies the run in the document.
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

// countSteps returns the number of steps of all blocks, and stepsOfBlock the number of steps of one block, which has
// every setting once.
func (c Cells) countSteps() int   { return c.Blocks * c.stepsOfBlock() }
func (c Cells) stepsOfBlock() int { return len(c.Settings) * (4*c.Steps + 3) }

func (c Cells) config() *blockConfig {
	out := &blockConfig{Steps: c.Steps, Count: c.Blocks}
	for _, s := range c.Settings {
		out.Settings = append(out.Settings, blockSetting{s.Name(), c.Base.addSetting(s).hookSettings()})
	}
	return out
}

// Limits of the blocks.
const (
	cellTime            = 50 * time.Millisecond // intended time between two switches
	leastCell, mostCell = 2, 50                 // steps between two switches
	mostBlocks          = 10
	leastBlocks         = 4    // fewest blocks that decide a setting
	shareOfBudget       = 0.15 // maximum share of the budget for the planned blocks
	shareOfBlocks       = 0.2  // share of the budget by which the process may take longer than one run
	leastMaskingSpeedup = 1.5  // speedup of a set from which the gains of other settings are measured again
)

// switchSettings compares all settings that can be switched within one process: many pairs of neighbouring steps cost
// less than two fresh processes. A clear gain then needs one fresh pair for its losses, and no gain needs none. An
// unclear gain is screened in fresh pairs after all other settings.
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

// runCells runs as many blocks as the program and the budget allow. It returns an empty run if too few fit. A setting
// that makes the program fail is found by its own run later.
func (e *engine) runCells(c Cells, phase string) (r tune.ProgramRun, err error) {
	step := e.plain[len(e.plain)-1].Cost
	c.Steps = min(max(int(math.Ceil(cellTime.Seconds()/step)), leastCell), mostCell)
	c.Blocks = min(mostBlocks, int(shareOfBudget*e.decidingBudget().Seconds()/(step*float64(c.stepsOfBlock()))))
	if h := e.plain[0].Hook; h.Ended { // the program has only plan.Steps steps
		c.Blocks = min(c.Blocks, e.plan.Steps/c.stepsOfBlock())
	}
	if c.Blocks < leastBlocks || !e.fitsBudget(1, 0, c.Base) {
		return r, nil
	}
	plan := Plan{e.plan.Warm, c.countSteps()}
	if len(e.replay) > 0 && e.replay[0].Key == c.Key() { // a search with another budget made another number of blocks
		plan = Plan{e.replay[0].Plan[0], e.replay[0].Plan[1]}
	}
	return e.runOnce(c.Key(), plan, phase, func() (tune.ProgramRun, error) {
		return e.boundRun(c.Base, func(limit time.Duration) (tune.ProgramRun, error) {
			return e.Runner.Switch(e.ctx, c, plan.Warm, min(limit, e.timeOf(c.Base)+shareOf(e.Budget, shareOfBlocks)))
		})
	})
}

// switchedGains compares two sets in blocks of one process; nil if they differ by more than one switchable setting.
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

// listMasked compares the settings outside the best set once more, with that set on both sides. A small part of a plain
// step is a large part of a step that the set made much shorter. It returns the promising settings, the best first.
// compareSets must still confirm each of them.
func (e *engine) listMasked(best Set) ([]*row, error) {
	rows := slices.DeleteFunc(slices.Clone(e.rows), func(r *row) bool {
		return r.failed != "" || r.worse != "" || !e.canSwitch(r.Setting) || best.hasChoice(r.Setting)
	})
	if len(rows) == 0 || e.p.Metric != tune.PerStep || e.gainOf(best) < math.Log(leastMaskingSpeedup) {
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
		if g := listBlockGains(b); isBetter(g) && isPromising(g) {
			gains[b.Name] = stat.Mean(g, nil)
		}
	}
	rows = slices.DeleteFunc(rows, func(r *row) bool { return gains[r.Name()] == 0 })
	slices.SortStableFunc(rows, func(a, b *row) int { return cmp.Compare(gains[b.Name()], gains[a.Name()]) })
	return bestOfChoices(rows), nil
}

// gainOf returns the sum of the logarithmic gains that the settings of a set have alone.
func (e *engine) gainOf(s Set) (sum float64) {
	for _, r := range e.rows {
		if len(r.gains) > 0 && slices.ContainsFunc(s, func(one Setting) bool { return one.Name() == r.Name() }) {
			sum += r.meanGain()
		}
	}
	return sum
}

// canSwitch reports whether the hook can switch a setting within a process. A fused optimizer's state is on the GPU
// and cannot be exchanged there.
func (e *engine) canSwitch(s Setting) bool {
	for key := range s.Hook {
		if !slices.Contains(switchable[:], key) || key == "fused" && e.p.Device == "cuda" {
			return false
		}
	}
	return len(s.Hook) > 0 && len(s.Args) == 0
}

// useBlocks records the gains that blocks measured, or marks the setting undecided if its gain may be noise.
func (r *row) useBlocks(b tune.Switched) {
	gains := listBlockGains(b)
	if r.undecided = len(gains) > 0; !r.undecided {
		return
	}
	if isBetter(gains) || !isPromising(gains) {
		r.gains, r.switched, r.undecided = gains, true, false
	}
}

// listBlockGains returns the natural logarithms of the speedups per block. It returns nil for too few blocks, or if
// the setting never took effect.
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
