package main

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

// blockSource measures a gate's blocks. A block is one process of either build;
// how the two take turns within it is the source's own affair.
type blockSource interface {
	// block measures one; bFirst says that the new side takes the first turn.
	block(bFirst bool) (compare.Block, error)
}

// gateRun takes blocks from a source for as long as the budget lasts.
type gateRun struct {
	app    *cli.App
	source blockSource
	clock  func() time.Time
	began  time.Time
	budget time.Duration
	done   int                       // blocks, of all stages
	most   int                       // blocks of a later stage; 0 as many as it can use
	check  func(compare.Block) error // of the very first block: what could never work ends there
}

// judgeAgainst measures both sides in this job, in blocks of one process each,
// in the order of statistics: stage 1, where it escalates stage 2, and where
// processes spread too far for that alone stage 3.
func (c *builds) judgeAgainst(a *cli.App, o compare.Options, budgets []compare.Budget) (*compare.Comparison, error) {
	if err := c.measurable(a, a.Rest); err != nil {
		return nil, err
	}
	run, over := newChildren(a)
	defer over()
	sides, done, err := c.sides(run)
	if err != nil {
		return nil, err
	}
	defer done()
	m := &gateRun{app: a, source: c.source(run, sides, o.Seed), clock: time.Now, began: time.Now(), budget: c.Budget}
	m.check = func(b compare.Block) error { return couldWork(b, o, budgets) }
	comparison, counted, err := m.judge(o)
	if err != nil {
		return nil, err
	}
	return comparison.With(nil, c.Warnings).WithBudgets(newSide(counted), budgets, o)
}

// couldWork looks at the first block: a metric or counter that was misspelt must
// not come to light only when all is measured.
func couldWork(b compare.Block, o compare.Options, budgets []compare.Budget) error {
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

// judge measures and judges, stage by stage, as far as the budget goes, and gives
// the blocks that were counted as well.
func (m *gateRun) judge(o compare.Options) (*compare.Comparison, []compare.Block, error) {
	g := compare.NewGate(o)
	counted, err := m.blocks(compare.Stage1Blocks, compare.EarlyBlocks, o.Seed)
	if err != nil {
		return nil, nil, err
	}
	g.Pace(m.each().Seconds())
	comparison, err := g.Stage1(counted)
	if err != nil {
		return nil, nil, err
	}
	if left := compare.Stage1Blocks - len(counted); left > 0 && comparison.Verdict != compare.Regressed {
		return comparison.WithFirst(m.noTimeFor(left)), counted, nil
	}
	for _, more := range []struct {
		open  func() []string
		why   string
		judge func([]compare.Block) (*compare.Comparison, error)
	}{
		{g.Escalated, "stage 1 cannot pass %s (%s); measuring %d fresh blocks, about %s", g.Stage2},
		{g.Doubtful, "stage 2 found %s slower (%s), but processes of one side differ as much; measuring %d fresh blocks, about %s", g.Stage3},
	} {
		open := more.open()
		if len(open) == 0 {
			break
		}
		n := m.fitting(g.Useful(), g.StagesLeft())
		if n < compare.MinRuns {
			comparison = comparison.WithFirst(m.noTimeFor(compare.MinRuns))
			break
		}
		m.app.Note(more.why, cli.Plural(len(open), "metric"), strings.Join(open[:min(len(open), 3)], ", "), n, compare.Lasting(float64(n)*m.each().Seconds()))
		fresh, err := m.blocks(n, compare.MinRuns, o.Seed+uint64(comparison.Stages))
		if err != nil {
			return nil, nil, err
		}
		g.Pace(m.each().Seconds())
		if comparison, err = more.judge(fresh); err != nil {
			return nil, nil, err
		}
		counted = append(counted, fresh...)
	}
	return comparison, counted, nil
}

// newSide is what the first process of the new side gave, which m.check has seen,
// with the figures of all of them: a counter that any one had above its budget is
// above it.
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

// blocks measures n blocks, repeating those whose samples carry flags. It stops
// early, and says so by fewer blocks, where the next does not fit into the budget,
// or not even the least number fits that could decide anything.
func (m *gateRun) blocks(n, least int, seed uint64) ([]compare.Block, error) {
	order := compare.Order(n, seed)
	var out []compare.Block
	bar := m.app.NewProgress("gate")
	defer bar.Close()
	for i, bFirst := range order {
		for attempt := 0; ; attempt++ {
			bar.Show(measure.Progress{Phase: "block", Done: float64(i), Total: float64(n)})
			b, err := m.source.block(bFirst)
			if err != nil {
				return nil, err
			}
			b.Attempt = attempt
			if m.done == 0 && attempt == 0 {
				if err := m.check(b); err != nil {
					return nil, err
				}
			}
			again, why := compare.Rerun(b)
			if !again {
				out = append(out, b)
				break
			}
			m.app.Note("measuring block %d again: %s", i+1, why)
		}
		m.done++
		if fit := m.fit(m.budget); fit < 1 || len(out)+fit < min(n, least) {
			break
		}
	}
	return out, nil
}

// each is how long a block took so far, in the mean.
func (m *gateRun) each() time.Duration {
	return m.clock().Sub(m.began) / time.Duration(max(m.done, 1))
}

// fit is how many more blocks end before so much time is spent.
func (m *gateRun) fit(budget time.Duration) int {
	spent := m.clock().Sub(m.began)
	return int((budget - spent) / max(m.each(), 1))
}

// fitting is how many blocks a stage takes: as many as it can use, as far as its
// part of the time goes. The order of blocks is mirrored, so the number is even.
// Where only the least number fits, this stage has it, and no later one.
func (m *gateRun) fitting(useful, stages int) int {
	// One block is spare: the next ones may take longer than those before.
	fit := m.fit(m.budget - m.each())
	n := min(useful, max(fit/stages, min(fit, compare.MinRuns)))
	if m.most > 0 {
		n = min(n, m.most)
	}
	return n - n%2
}

// noTimeFor says why n more blocks do not fit into the budget.
func (m *gateRun) noTimeFor(n int) string {
	spent, need := m.clock().Sub(m.began), m.each()*time.Duration(n)
	return fmt.Sprintf("give --budget %s: %d more blocks need about %s and %s of %s are spent",
		(spent+need).Round(time.Minute)+time.Minute, n, need.Round(time.Second), spent.Round(time.Second), m.budget)
}
