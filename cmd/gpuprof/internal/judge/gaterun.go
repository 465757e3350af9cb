package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/workloads/measure"
)

// BlockSource measures blocks. In a block, one process of each side is measured: one after the other, or alternately.
// bFirst makes the new side go first.
type BlockSource interface {
	block(bFirst bool) (compare.Block, error)
}

// BlockRun measures blocks (one process of each side) within a time budget, and judges them.
type BlockRun struct {
	App    *cli.App
	Source BlockSource
	Clock  func() time.Time
	Began  time.Time
	Budget time.Duration
	done   int                       // blocks measured in all stages
	Most   int                       // limit of the blocks of each stage after the first; 0 for no limit
	Check  func(compare.Block) error // checks the first block for errors that further blocks cannot cure
}

// JudgeAgainst builds both sides, measures them, and compares them in up to three statistical stages. Stage 2 measures
// more blocks for metrics that stage 1 does not pass, or to confirm an improvement. Stage 3 follows if the processes of
// one side differ too much for stage 2 to decide.
func (c *Builds) JudgeAgainst(a *cli.App, o compare.Options, budgets []compare.Budget) (*compare.Comparison, error) {
	if err := c.Measurable(a, a.Rest); err != nil {
		return nil, err
	}
	run, over := NewChildren(a)
	defer over()
	sides, done, err := c.buildSides(run)
	if err != nil {
		return nil, err
	}
	defer done()
	m := &BlockRun{App: a, Source: c.Source(run, sides, o.Seed), Clock: time.Now, Began: time.Now(), Budget: c.Budget}
	m.Check = func(b compare.Block) error { return CouldWork(b, o, budgets) }
	comparison, counted, err := m.Judge(o)
	if err != nil {
		return nil, err
	}
	return comparison.With(nil, c.Warnings).WithBudgets(newSide(counted), budgets, o)
}

// CouldWork checks the first block against the options and counter limits, so that a misspelt name is reported early.
func CouldWork(b compare.Block, o compare.Options, budgets []compare.Budget) error {
	if _, err := compare.NewGate(o).Stage1([]compare.Block{b}); err != nil {
		return err
	}
	c, err := compare.CheckBudgets(b.B, budgets, o)
	if err != nil {
		return err
	}
	for _, r := range c.Budgets {
		if r.Verdict == compare.Inconclusive && b.B.Metric(r.Name) == nil {
			return gpuprof.Errorf(gpuprof.ErrUsage, "setting --max %s=%g: %s", r.Name, r.Max, r.Reason).WithFix("choose one that it has")
		}
	}
	return nil
}

// Judge measures stage by stage within the budget, and compares the sides after each stage. It also returns all blocks
// that were compared, without repeated ones.
func (m *BlockRun) Judge(o compare.Options) (*compare.Comparison, []compare.Block, error) {
	g := compare.NewGate(o)
	counted, err := m.Blocks(compare.Stage1Blocks, compare.EarlyBlocks, o.Seed)
	if err != nil {
		return nil, nil, err
	}
	g.Pace(m.Each().Seconds())
	comparison, err := g.Stage1(counted)
	if err != nil {
		return nil, nil, err
	}
	if left := compare.Stage1Blocks - len(counted); left > 0 && comparison.Verdict != compare.Regressed {
		return comparison.WithBudget(m.NoTimeFor(left)), counted, nil
	}
	for _, more := range []struct {
		open  func() []string
		why   string
		judge func([]compare.Block) (*compare.Comparison, error)
	}{
		{g.Escalated, "stage 1 cannot pass %s (%s); measuring %d fresh blocks, about %s", g.Stage2},
		{g.Doubtful, "stage 2 cannot pass %s (%s), and processes of one side differ much; measuring %d more blocks, about %s", g.Stage3},
	} {
		open, why := more.open(), more.why
		if len(open) == 0 {
			open, why = g.Unconfirmed(), "%s became faster (%s), which is not confirmed yet; measuring %d fresh blocks, about %s"
		}
		if len(open) == 0 {
			break
		}
		n := m.stageBlocks(g.Useful(), g.StagesLeft())
		if n < compare.MinRuns {
			comparison = comparison.WithBudget(m.NoTimeFor(compare.MinRuns))
			break
		}
		m.App.Note(why, gpuprof.Plural(len(open), "metric"), strings.Join(open[:min(len(open), 3)], ", "), n, compare.Lasting(float64(n)*m.Each().Seconds()))
		fresh, err := m.Blocks(n, compare.MinRuns, o.Seed+uint64(comparison.Stages))
		if err != nil {
			return nil, nil, err
		}
		g.Pace(m.Each().Seconds())
		if comparison, err = more.judge(fresh); err != nil {
			return nil, nil, err
		}
		counted = append(counted, fresh...)
	}
	return comparison, counted, nil
}

// newSide returns one result of the new side with the values of all blocks, because the limit of a counter (--max)
// applies to every process.
func newSide(blocks []compare.Block) *compare.Result {
	out := *blocks[0].B
	out.Metrics = slices.Clone(out.Metrics)
	for _, b := range blocks[1:] {
		for i := range out.Metrics {
			m := &out.Metrics[i]
			if now := b.B.Metric(m.Name); now != nil {
				m.Runs = slices.Concat(m.Runs, now.Runs)
			}
		}
		if out.Status == gpuprof.Complete {
			out.Status, out.Reason = b.B.Status, b.B.Reason
		}
	}
	return &out
}

// Blocks measures n blocks, and repeats a block if too many of its samples are flagged as disturbed. It ends early if
// the budget has no time for the next block, or for at least least blocks in total.
func (m *BlockRun) Blocks(n, least int, seed uint64) ([]compare.Block, error) {
	order := compare.Order(n, seed)
	var out []compare.Block
	bar := m.App.NewProgress("gate")
	defer bar.Close()
	for i, bFirst := range order {
		for attempt := 0; ; attempt++ {
			bar.Show(measure.Progress{Phase: "block", Done: float64(i), Total: float64(n)})
			b, err := m.Source.block(bFirst)
			if err != nil {
				return nil, err
			}
			b.Attempt = attempt
			if m.done == 0 && attempt == 0 {
				if err := m.Check(b); err != nil {
					return nil, err
				}
			}
			again, why := compare.Rerun(b)
			if !again {
				out = append(out, b)
				break
			}
			m.App.Note("measuring block %d again: %s", i+1, why)
		}
		m.done++
		if fit := m.countFit(m.Budget); fit < 1 || len(out)+fit < min(n, least) {
			break
		}
	}
	return out, nil
}

// Each returns the mean duration of a block so far.
func (m *BlockRun) Each() time.Duration {
	return m.Clock().Sub(m.Began) / time.Duration(max(m.done, 1))
}

// countFit returns the number of further blocks that fit into the budget.
func (m *BlockRun) countFit(budget time.Duration) int {
	spent := m.Clock().Sub(m.Began)
	return int((budget - spent) / max(m.Each(), 1))
}

// stageBlocks returns the number of blocks of a stage: at most useful, and as many as fit into the stage's share of the
// remaining time. For compare.MinRuns blocks, the least number, a stage may exceed its share. The number is even,
// because every second block reverses the order of the sides.
func (m *BlockRun) stageBlocks(useful, stages int) int {
	// Reserve the time of one block: later blocks may take longer.
	fit := m.countFit(m.Budget - m.Each())
	n := min(useful, max(fit/stages, min(fit, compare.MinRuns)))
	if m.Most > 0 {
		n = min(n, m.Most)
	}
	return n - n%2
}

// NoTimeFor returns the advice to raise the budget because n more blocks do not fit into it.
func (m *BlockRun) NoTimeFor(n int) string {
	spent, need := m.Clock().Sub(m.Began), m.Each()*time.Duration(n)
	return fmt.Sprintf("give --budget %s: %d more blocks need about %s and %s of %s are spent",
		(spent+need).Round(time.Minute)+time.Minute, n, need.Round(time.Second), spent.Round(time.Second), m.Budget.Round(time.Millisecond))
}
