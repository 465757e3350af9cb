package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/measure"
)

// blockSource measures a gate's blocks. A block is one process of either build;
// how the two take turns within it is the source's own affair.
type blockSource interface {
	// block measures one; bFirst says that the new side takes the first turn.
	block(bFirst bool) (compare.Block, error)
}

// gateRun takes blocks from a source for as long as the budget lasts.
type gateRun struct {
	app    *app
	source blockSource
	clock  func() time.Time
	began  time.Time
	budget time.Duration
	done   int                       // blocks, of all stages
	check  func(compare.Block) error // of the very first block: what could never work ends there
}

// judgeAgainst measures both sides in this job, in blocks of one process each,
// in the order of statistics: stage 1, where it escalates stage 2, and where
// processes spread too far for that alone stage 3.
func (c *gateCmd) judgeAgainst(a *app, o compare.Options, budgets []compare.Budget) (*compare.Comparison, error) {
	if err := c.measurable(a.rest); err != nil {
		return nil, err
	}
	run, over := newChildren(a)
	defer over()
	sides, done, err := c.sides(run)
	if err != nil {
		return nil, err
	}
	defer done()
	m := &gateRun{app: a, source: c.source(run, sides, o.Seed), clock: time.Now, began: time.Now(), budget: c.Budget, check: func(b compare.Block) error {
		// A metric or counter that was misspelt must not come to light only when
		// all is measured.
		if _, err := compare.NewGate(o).Stage1([]compare.Block{b}); err != nil {
			return err
		}
		c, err := compare.CheckBudgets(b.B, budgets, o)
		if err != nil {
			return err
		}
		for _, r := range c.Budgets {
			if r.Verdict == compare.Inconclusive && b.B.Metric(r.Name) == nil {
				return gpuprof.Errorf(gpuprof.ErrUsage, "setting --max %s=%g: %s; choose one that it has", r.Name, r.Max, r.Reason)
			}
		}
		return nil
	}}
	g := compare.NewGate(o)
	first, err := m.blocks(compare.Stage1Blocks, o.Seed)
	if err != nil {
		return nil, err
	}
	comparison, err := g.Stage1(first)
	if err != nil {
		return nil, err
	}
	counted := first
	if left := compare.Stage1Blocks - len(first); left > 0 {
		if why := m.noTimeFor(left); why != "" {
			comparison.Next = append([]string{why}, comparison.Next...)
		}
	}
	for _, more := range []struct {
		open  func() []string
		why   string
		judge func([]compare.Block) (*compare.Comparison, error)
	}{
		{g.Escalated, "stage 1 cannot pass %s (%s); measuring %d fresh blocks", g.Stage2},
		{g.Doubtful, "stage 2 found %s slower (%s), but processes of one side differ as much; measuring %d fresh blocks", g.Stage3},
	} {
		open := more.open()
		if len(open) == 0 {
			break
		}
		a.note(more.why, plural(len(open), "metric"), strings.Join(open[:min(len(open), 3)], ", "), compare.Stage2Blocks)
		if why := m.noTimeFor(compare.Stage2Blocks); why != "" {
			comparison.Next = append([]string{why}, comparison.Next...)
			break
		}
		fresh, err := m.blocks(compare.Stage2Blocks, o.Seed+uint64(comparison.Stages))
		if err != nil {
			return nil, err
		}
		if comparison, err = more.judge(fresh); err != nil {
			return nil, err
		}
		counted = append(counted, fresh...)
	}
	comparison.Warnings = append(comparison.Warnings, c.warnings...)
	err = comparison.AddBudgets(newSide(counted), budgets, o)
	return comparison, err
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
// early, and says so by fewer blocks, where they will not fit into the budget.
func (m *gateRun) blocks(n int, seed uint64) ([]compare.Block, error) {
	order := compare.Order(n, seed)
	var out []compare.Block
	bar := m.app.newProgress("gate")
	defer bar.close()
	for i, bFirst := range order {
		for attempt := 0; ; attempt++ {
			bar.show(measure.Progress{Phase: "block", Done: float64(i), Total: float64(n)})
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
			m.app.note("measuring block %d again: %s", i+1, why)
		}
		m.done++
		if left := n - len(out); left > 0 && m.over(left) {
			break
		}
	}
	return out, nil
}

// over says that n more blocks, each as long as those done so far in the mean,
// end past the budget by more than what such a guess is worth.
func (m *gateRun) over(n int) bool {
	spent, need := m.times(n)
	return spent > m.budget || spent+need > m.budget+m.budget/5
}

// times are what is spent and what n more blocks need.
func (m *gateRun) times(n int) (spent, need time.Duration) {
	spent = m.clock().Sub(m.began)
	return spent, spent * time.Duration(n) / time.Duration(max(m.done, 1))
}

// noTimeFor says why n more blocks do not fit into the budget; "" when they do.
func (m *gateRun) noTimeFor(n int) string {
	spent, need := m.times(n)
	if spent+need <= m.budget {
		return ""
	}
	return fmt.Sprintf("give --budget %s: %d more blocks need about %s and %s of %s are spent",
		(spent+need).Round(time.Minute)+time.Minute, n, need.Round(time.Second), spent.Round(time.Second), m.budget)
}
