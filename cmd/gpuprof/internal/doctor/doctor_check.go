package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/workloads/devicebench"
)

// A check must end in time even if the driver hangs. Therefore another process calls the driver. It is killed at its
// time limit, and this process does not wait if the killed one cannot end.

const (
	quickWithin = 25 * time.Second // with --quick
	checkWithin = 2 * time.Second  // with --check
	// leaveAfter limits the wait for a killed process to end.
	leaveAfter = time.Second
	// spare is the part of the time limit that is reserved for ending and printing.
	spare = 5 * time.Second
)

func (c *Cmd) usesProcess() bool { return !c.Here && (c.Quick || c.Check || c.Within > 0) }

func (c *Cmd) timeLimit() time.Duration {
	switch {
	case c.Within > 0:
		return c.Within
	case c.Check:
		return checkWithin
	case c.Quick:
		return quickWithin
	}
	return 0
}

func (c *Cmd) checkFlags() error {
	wrong := ""
	switch {
	case c.Bench && c.Check:
		wrong = "--bench measures and --check does not"
	case c.Quick && !c.Bench:
		wrong = "--quick is of --bench"
	case c.Quick && c.Rounds > 1:
		wrong = "--rounds begin a minute apart, and --quick ends before"
	case (c.Within != 0 || c.As != "") && !c.Bench && !c.Check:
		wrong = "--within and --as are of --bench and --check"
	case c.Against != "" && !c.Bench:
		wrong = "--against is of --bench"
	case c.Within < 0:
		wrong = "--within is below 0"
	case c.As == "prolog" && !c.Check:
		wrong = "a prolog has no time for a measurement"
	case c.Unknown != "" && c.As == "":
		wrong = "--unknown is of --as prolog and --as health"
	}
	if wrong == "" {
		return nil
	}
	return gpuprof.Errorf(gpuprof.ErrUsage, "reading the command line of gpuprof doctor: %s", wrong).WithFix("give --bench, --bench --quick or --check, and --as prolog with --check")
}

// examineInProcess examines the GPUs in another process, and returns their cards. There is at least one card.
func (c *Cmd) examineInProcess(ctx context.Context, machine *Machine) []health.Card {
	exe, err := cli.OwnProgram()
	if err != nil {
		return FailedCard(health.AllGPUs, err)
	}
	args := []string{exe, "doctor", "--here", "--format", "json", "--quiet", "--within", c.timeLimit().String()}
	for flag, on := range map[string]bool{"--bench": c.Bench, "--quick": c.Quick, "--check": c.Check} {
		if on {
			args = append(args, flag)
		}
	}
	if c.As != "" {
		args = append(args, "--as", c.As)
	}
	for _, d := range c.Device {
		args = append(args, "--device", d)
	}
	cards := cardsWithin(ctx, child.Command{Args: args, Name: os.Args[0], Limit: c.timeLimit(), Leave: leaveAfter})
	if len(cards) == 1 && cards[0].Device == health.AllGPUs {
		cards = machine.KernelLog(cards) // the log needs no driver, and may name the GPU that hangs
	}
	return cards
}

// cardsWithin runs a command that prints a health report, and returns the report's cards. Without a report in time, it
// returns one card with the reason.
func cardsWithin(ctx context.Context, cmd child.Command) []health.Card {
	out, words, runErr := cmd.Run(ctx)
	var r health.Report
	if err := document.Decode(out, "the output", &r, document.Health); err == nil && len(r.Devices) > 0 {
		for i := range r.Devices {
			if text := r.Devices[i].Error; text != "" {
				r.Devices[i].Err = errors.New(text)
			}
		}
		return r.Devices
	}
	switch {
	case errors.Is(runErr, child.ErrLong) || errors.Is(runErr, child.ErrStuck):
		runErr = gpuprof.Errorf(gpuprof.ErrDevice, "looking at the GPUs for %s: %w", cmd.Limit, runErr).WithFix("look for the GPU in the kernel's log (dmesg), and reset it or restart the machine")
	case runErr != nil:
		runErr = cli.ProcessError(runErr, words)
	default:
		runErr = gpuprof.Errorf(nil, "looking at the GPUs: another process of gpuprof printed no report").WithFix("run gpuprof doctor to see why")
	}
	return FailedCard(health.AllGPUs, runErr)
}

// check implements doctor --check: it reports the faults that the GPUs, the driver and the kernel log report, and
// measures nothing.
func (c *Cmd) check(a *cli.App, machine *Machine) error {
	outs, err := a.Documents.Health.Outputs(c.Output, c.Force)
	if err != nil {
		return err
	}
	var cards []health.Card
	if c.Here {
		if cards, err = machine.Faults(a.Ctx); err != nil {
			return err
		}
	} else {
		cards = c.examineInProcess(a.Ctx, machine)
	}
	return c.writeReport(a, health.JudgeAccounts(cards, a.Tool), outs, nil)
}

// usedBy returns nil if no other program uses one of the GPUs. Otherwise it returns a card for each target, without
// measurements.
func usedBy(targets []devicebench.Target) []health.Card {
	var cards []health.Card
	used := false
	for _, t := range targets {
		card := health.Card{Device: t.Device, UUID: t.UUID, Condition: t.Condition}
		card.Condition.LinkWidth = 0 // an idle link may be narrower than under load
		if t.Instruments != nil {
			if n, ok := t.Instruments.Foreign(); ok {
				card.Condition.Foreign = &n
				used = used || n > 0
			}
		}
		cards = append(cards, card)
	}
	if !used {
		return nil
	}
	return cards
}

// inUse reports whether nothing was measured, because other programs use the GPUs.
func inUse(r *health.Report) bool {
	used := false
	for i := range r.Devices {
		c := &r.Devices[i]
		if len(c.Metrics) > 0 || c.Error != "" {
			return false
		}
		used = used || c.Condition.Foreign != nil && *c.Condition.Foreign > 0
	}
	return used
}

// asScheduler converts the verdict err for a job scheduler (--as). A failing prolog makes the scheduler drain the node.
// Therefore a prolog fails only for a fault that a device itself reports, and for an unknown state only with --unknown
// drain.
func (c *Cmd) asScheduler(a *cli.App, r *health.Report, err error) error {
	unknown := r.Verdict == health.NotChecked || r.Verdict == health.Failed
	switch {
	case c.Here || c.As == "" || err == nil:
		return err
	case c.As == "health" && len(r.Off) > 0 && (!inUse(r) || r.Faulty()):
		printDrain(a, r, r.Off[0].Metric+" of "+r.Identity(r.Off[0].Device))
		return err
	case c.As == "prolog" && r.Faulty():
		return err
	case unknown && c.Unknown == "drain":
		if c.As == "health" {
			printDrain(a, r, "GPUs were not checked")
		}
		return cli.Verdict{Code: cli.ExitRegression, Text: cli.Sentence(err) + "; the node is to be drained (--unknown drain)"}
	case c.As == "prolog":
		a.Note("%s; the job may start, since no GPU is proven to be at fault (--unknown healthy)", cli.Sentence(err))
		return nil
	case r.Verdict == health.NotChecked:
		a.Note("%s; the node stays in service, since no GPU is proven to be at fault (--unknown healthy)", cli.Sentence(err))
		return nil
	case inUse(r):
		a.Note("other programs use the GPUs, so nothing was measured")
		return nil
	}
	return err
}

// printDrain prints the command with which Slurm drains this node.
func printDrain(a *cli.App, r *health.Report, reason string) {
	fmt.Fprintf(a.Stdout, "scontrol update NodeName=%s State=DRAIN Reason=\"gpuprof: %s\"\n", r.Node, reason)
}
