package gate

import (
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/input"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/judge"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/compare/results"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// files has the paths of the two results to compare, and how to judge them.
type files struct {
	old, now string // old may be autoBaseline
	dir      string // folder of the baselines; empty for the default
	flags    *judge.Flags
	budgets  []compare.Budget
}

// autoBaseline, as the old result, means the stored baseline that fits the new result.
const autoBaseline = "auto"

// judgeFiles reads and compares both results. It checks the counter names of --max before it reads the old result.
func (f *files) judgeFiles(a *cli.App, o compare.Options) (*compare.Comparison, error) {
	defer input.LimitHeap(outside.DocumentMemory())()
	in, err := input.OpenFile(a.Ctx, f.now)
	if err != nil {
		return nil, results.Failed(f.now, err)
	}
	defer in.Close()
	now, err := in.Result(a)
	if err != nil {
		return nil, err
	}
	if err := compare.ValidateBudgets(now, f.budgets); err != nil {
		return nil, err
	}
	old := &input.OldSide{}
	if f.old == autoBaseline {
		run, err := in.Run()
		if err != nil {
			return nil, err
		}
		if old.Sessions, err = input.StoredFit(run, f.dir); err != nil {
			return nil, err
		}
	} else if old, err = input.ReadOld(a, f.old); err != nil {
		return nil, err
	}
	if err := f.flags.Learn(a, now, &o); err != nil {
		return nil, err
	}
	comparison, err := old.Against(a, now, o)
	if err != nil || !o.Judge {
		return comparison, err
	}
	return comparison.WithBudgets(now, f.budgets, o)
}
