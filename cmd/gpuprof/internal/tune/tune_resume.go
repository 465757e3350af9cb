package tune

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/tune"
)

// readEarlier reads the file of --resume, and takes options that the user did not give from it. If the file does not
// exist, a new search begins.
func (c *Cmd) readEarlier() (*tune.Result, error) {
	if err := c.refuseWithClaims(); err != nil || c.Resume == "" {
		return nil, err
	}
	text, err := outside.ReadFound(c.Resume)
	if errors.Is(err, fs.ErrNotExist) && (c.Workload != "" || c.Claims) {
		return nil, nil
	}
	if err != nil {
		return nil, outside.Failed("reading tuning result "+c.Resume, err, "give the file that gpuprof tune left", "start again with another -o FILE")
	}
	old, err := tune.Decode(text, c.Resume)
	if err != nil {
		return nil, err
	}
	if old.Program != nil {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "resuming %s: it holds the tuning of a program", c.Resume).WithFix("give its command, gpuprof tune --resume %s -- %s", c.Resume, old.Program.CommandText())
	}
	if c.Claims && old.Workload != "" {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "resuming %s: it holds a search of %s, no claims", c.Resume, old.Workload).WithFix("leave out --claims, or start a new file with -o")
	}
	if old.Workload == "" && !c.Claims {
		c.Claims = true
		if err := c.refuseWithClaims(); err != nil {
			return nil, fmt.Errorf("resuming %s, which holds claims: %w", c.Resume, err)
		}
	}
	c.Workload = cmp.Or(c.Workload, old.Workload)
	if c.Workload != old.Workload {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "resuming the search: its workload was %q and is now %q", old.Workload, c.Workload).WithFix("give the same, or start a new file with -o")
	}
	c.takeOver(old)
	return old, nil
}

// takeOver sets the options that the user did not give from the earlier search. The search later refuses options that
// differ.
func (c *Cmd) takeOver(old *tune.Result) {
	c.Preset = cmp.Or(c.Preset, old.Preset)
	c.Goal = cmp.Or(c.Goal, string(old.Goal))
	if c.Device == "auto" {
		c.Device = old.Device
	}
	if c.Seed == nil {
		c.Seed = &old.Seed
	}
	if c.Budget == nil {
		c.Budget = new(time.Duration)
		*c.Budget = time.Duration(old.BudgetS * float64(time.Second))
	}
	if len(c.Knob) == 0 {
		c.Knob = old.Only
	}
	if len(c.Set) == 0 {
		for k, v := range old.Set {
			c.Set = append(c.Set, k+"="+v)
		}
	}
	if c.MaxError == nil {
		limit := cli.Share(old.MaxError)
		c.MaxError = &limit
	}
	if c.MaxMemory == "" && old.MaxMemory > 0 {
		c.MaxMemory = cli.Size(fmt.Sprint(old.MaxMemory))
	}
}

// refuseWithClaims refuses flags that --claims would ignore.
func (c *Cmd) refuseWithClaims() error {
	if c.Claims && (c.Workload != "" || len(c.Knob) > 0 || len(c.Set) > 0 || c.Preset != "" || c.Goal != "" || c.MaxError != nil || c.MaxMemory != "") {
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading the command line of gpuprof tune: --claims chooses workloads and knobs itself").WithFix("leave out the workload, --preset, --knob, --set, --goal, --max-error and --max-memory")
	}
	return nil
}
