package history

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/judge"
	"github.com/gpuprof/gpuprof/internal/history"
)

// CheckCmd has the arguments and flags of gpuprof history check.
type CheckCmd struct {
	trends       `embed:""`
	Inconclusive string        `placeholder:"pass|fail" help:"Exit code where a benchmark has too few sessions: 0 or 1 instead of 3."`
	Confirm      bool          `help:"Measure the commit before a change and this checkout in one job, as gpuprof gate --against does, with the command after --."`
	Build        string        `placeholder:"COMMAND" help:"How to build the program in a checkout, for --confirm."`
	Result       string        `complete:"file" placeholder:"FILE" help:"File that the command after -- writes its result to, for --confirm; without it its standard output is read."`
	Budget       time.Duration `default:"10m" placeholder:"TIME" help:"Time for the measurement of --confirm (10m)."`
}

// Help implements kong.HelpProvider.
func (CheckCmd) Help() string {
	return "Exits 1 if something became slower by the threshold, found in two looks running; 0 where nothing is, or where a change is seen and not certain yet, which is printed with the sessions still needed; 3 with fewer than 8 sessions; 4 if the store cannot be read.\n\n" + cli.Examples(
		"gpuprof history check --store perf",
		"gpuprof history check e3nn-small --store perf --threshold 3%",
	)
}

// Run implements gpuprof history check.
func (c *CheckCmd) Run(a *cli.App, h *Cmd) error {
	if err := c.checkFlags(len(a.Rest) > 0); err != nil {
		return err
	}
	r, err := c.makeReport(a, h, true)
	if err != nil {
		return err
	}
	if c.Confirm {
		if change := toConfirm(r); change != nil {
			return c.confirmChange(a, change)
		}
		a.Note("no change for the worse was found, so that there is nothing to measure")
	}
	if len(r.Alarms()) > 0 {
		return cli.Verdict{Code: cli.ExitRegression} // the report has the message
	}
	names, reasons := r.Unjudged()
	for i, n := range names {
		a.Note("%s cannot be judged: %s", n, reasons[i])
	}
	if len(names) == 0 && len(r.Trends) > 0 {
		return nil
	}
	switch c.Inconclusive {
	case "pass":
		return nil
	case "fail":
		return cli.Verdict{Code: cli.ExitRegression}
	}
	return cli.Verdict{Code: cli.ExitInconclusive}
}

// checkFlags refuses flags that would have no effect.
func (c *CheckCmd) checkFlags(command bool) error {
	refuse := func(what, fix string) error {
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading the command line of gpuprof history check: %s", what).WithFix("%s", fix)
	}
	switch {
	case c.Inconclusive != "" && c.Inconclusive != "pass" && c.Inconclusive != "fail":
		return refuse(fmt.Sprintf("--inconclusive %q is neither pass nor fail", c.Inconclusive), "give one of them")
	case c.Confirm && !command:
		return refuse("--confirm measures a command and none follows --", "give the one that writes a result")
	case !c.Confirm && command:
		return refuse("a command after -- is for --confirm", "add --confirm, or leave it out")
	case !c.Confirm && c.Build+c.Result != "":
		return refuse("--build and --result are for --confirm", "add --confirm, or leave them out")
	}
	return nil
}

// toConfirm returns the slowdown to measure again; nil if there is none. It looks at the latest change of each metric,
// and chooses the largest that reaches the threshold and that the machine did not cause.
func toConfirm(r *history.Report) *history.Change {
	var found *history.Change
	worst := math.Log1p(r.Threshold)
	for i := range r.Trends {
		for k := range r.Trends[i].Metrics {
			m := &r.Trends[i].Metrics[k]
			if len(m.Changes) == 0 {
				continue
			}
			c := &m.Changes[len(m.Changes)-1]
			if by := math.Abs(math.Log(float64(c.Ratio))); c.Worse && c.Cause != history.FromMachine && c.Before.ID != "" && by >= worst {
				found, worst = c, by
			}
		}
	}
	return found
}

// confirmChange measures this checkout against the commit before a change, and reports the comparison.
func (c *CheckCmd) confirmChange(a *cli.App, change *history.Change) error {
	a.Note("measuring %s against this checkout, since the history shows a change at %s", change.Before.Short(), change.After.Short())
	j := judge.Flags{Format: "table", Seed: 1}
	if c.Format == "json" || c.Format == "markdown" {
		j.Format = c.Format
	}
	if c.Threshold != nil {
		j.Threshold = []string{strings.TrimSpace(fmt.Sprintf("%g%%", 100*float64(*c.Threshold)))}
	}
	o, err := j.Options(a)
	if err != nil {
		return err
	}
	o.Judge = true
	b := &judge.Builds{Against: change.Before.ID, Build: c.Build, Result: c.Result, Budget: c.Budget, MinTime: 2 * time.Second, Device: "auto"}
	comparison, err := b.JudgeAgainst(a, o, nil)
	if err != nil {
		return err
	}
	return j.Report(a, comparison, nil)
}
