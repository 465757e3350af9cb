package gate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/judge"
	"github.com/gpuprof/gpuprof/internal/atomicfile"
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// noiseBlocks limits the process pairs of gate --aa. Their 48 processes suffice to estimate the share of slow processes
// to within about 5 percentage points.
const noiseBlocks = 24

// measureNoise implements gate --aa: it measures the present build against itself.
func (c *Cmd) measureNoise(a *cli.App, o compare.Options) error {
	b := c.newBuilds()
	if err := b.Measurable(a, a.Rest); err != nil {
		return err
	}
	run, over := judge.NewChildren(a)
	defer over()
	sides, done, err := equalSides(b, run)
	if err != nil {
		return err
	}
	defer done()
	m := &judge.BlockRun{App: a, Source: b.Source(run, sides, o.Seed), Clock: time.Now, Began: time.Now(), Budget: c.Budget, Check: func(b compare.Block) error { return judge.CouldWork(b, o, nil) }}
	n, err := measureNoiseOf(m, o)
	if err != nil {
		return err
	}
	n.Machine, n.Command = b.Runner(a)
	n.MeasuredAt = m.Clock().UTC().Format(time.RFC3339)
	if err := storeNoise(n); err != nil {
		a.Note("%v", err)
	}
	return c.printNoise(a, n, o)
}

// measureNoiseOf measures one program against itself, in blocks of two processes, and returns the scatter between the
// processes. The error is ErrInput if the budget has no time for enough blocks.
func measureNoiseOf(m *judge.BlockRun, o compare.Options) (*compare.MachineNoise, error) {
	blocks, err := m.Blocks(noiseBlocks, compare.MinRuns, o.Seed)
	if err != nil {
		return nil, err
	}
	if left := compare.MinRuns - len(blocks); left > 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "measuring the noise of this machine: %d of %d pairs are measured", len(blocks), compare.MinRuns).WithFix("%s", m.NoTimeFor(left))
	}
	o.BlockSeconds = m.Each().Seconds()
	return compare.MeasureNoise(blocks, o)
}

// planGate implements gate --plan: from the noise that gate --aa stored, it prints how long a gate takes to find a
// slowdown.
func (c *Cmd) planGate(a *cli.App, o compare.Options) error {
	b := c.newBuilds()
	if err := b.Measurable(a, a.Rest); err != nil {
		return err
	}
	machine, command := b.Runner(a)
	n, err := readNoise(machine, command)
	if err != nil {
		return err
	}
	return c.printNoise(a, n, o)
}

// equalSides returns two equal sides for a comparison: both run the present build.
func equalSides(c *judge.Builds, run judge.Children) (out [2]judge.Side, done func(), err error) {
	here, err := os.Getwd()
	if err != nil {
		return out, nil, gpuprof.Errorf(nil, "finding the current folder: %w", err).WithFix("change into one that exists")
	}
	if rest := run.App.Rest; len(rest) > 0 {
		for i := range out {
			out[i] = judge.Side{Name: cli.ShownPath(rest[0]), Dir: here, Args: rest, File: c.ResultIn(here)}
		}
		return out, func() {}, c.BuildIn(run, here)
	}
	if c.Build != "" {
		return out, nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading the command line of gpuprof gate: --build has nothing to build for --aa of a workload, which this gpuprof runs").WithFix("leave it out")
	}
	room, err := child.NewScratch("gate")
	if err != nil {
		return out, nil, gpuprof.Errorf(nil, "making a folder for the gate: %w", err).WithFix("check TMPDIR")
	}
	done = room.Close
	exe, err := cli.OwnProgram()
	if err == nil {
		out, err = c.WorkloadSides(run.App, exe, exe, room.Dir)
	}
	if err != nil {
		done()
	}
	return out, done, err
}

// NoiseFile returns the path of the file with the noise of a command on a machine. Its name is a hash, because the
// command may contain secrets.
func NoiseFile(machine, command string) (string, error) {
	dir, err := cli.CacheDir()
	if err != nil {
		return "", err
	}
	host, _ := os.Hostname() // "" where unknown: then machines of one kind share an entry
	sum := sha256.Sum256([]byte(host + " " + machine + "\x00" + command))
	return filepath.Join(dir, "noise-"+hex.EncodeToString(sum[:12])+".json"), nil
}

// storeNoise stores noise for gate --plan. It replaces the file atomically; of several writers, the last one wins.
func storeNoise(n *compare.MachineNoise) error {
	path, err := NoiseFile(n.Machine, n.Command)
	if err != nil {
		return fmt.Errorf("keeping the noise for gate --plan: %w", err)
	}
	text, err := json.Marshal(n)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = atomicfile.Options{}.Write(path, text)
	}
	if err != nil {
		const set = "set XDG_CACHE_HOME to a folder that can be written"
		return gpuprof.Unwritable("keeping the noise for gate --plan in "+path, err, set, set)
	}
	return nil
}

// readNoise reads the noise that gate --aa stored for a machine and command line; ErrUsage if there is none.
func readNoise(machine, command string) (*compare.MachineNoise, error) {
	refuse := func(why string) (*compare.MachineNoise, error) {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "planning the gate: %s on this machine", why).WithFix("measure it with the same command line and --aa instead of --plan and --against")
	}
	path, err := NoiseFile(machine, command)
	if err != nil {
		return nil, fmt.Errorf("planning the gate: %w", err)
	}
	text, err := outside.ReadFound(path)
	if errors.Is(err, fs.ErrNotExist) {
		return refuse("the noise of " + command + " is not known")
	}
	n := &compare.MachineNoise{}
	if err == nil {
		err = document.Decode(text, path, n, document.Noise)
	}
	if err != nil || len(n.Metrics) == 0 || !(n.BlockSeconds > 0) || n.Machine != machine || n.Command != command {
		return refuse("the noise of " + command + " cannot be read in " + path)
	}
	return n, nil
}

// printNoise prints the noise, and the smallest slowdown that a gate can find with it.
func (c *Cmd) printNoise(a *cli.App, n *compare.MachineNoise, o compare.Options) error {
	return a.Documents.Noise.Show(a, c.Format, n.Planned(c.Budget.Seconds(), o.Threshold))
}
