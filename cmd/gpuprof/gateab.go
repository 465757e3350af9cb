package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/compare/results"
)

// builds are two builds of a program and how each is measured: the present one, and Against.
type builds struct {
	Args     []string // a workload of gpuprof; none for the command after --
	Against  string   // a git revision, or a program written as a path
	Way      string   // the flag that measures the present build alone, for messages; "" for Against
	Build    string   // shell command that builds the program in a checkout
	Result   string   // file that the command writes; "" for its standard output
	Budget   time.Duration
	MinTime  time.Duration // of a workload in each process
	Preset   string
	Set      []string // KNOB=VALUE
	Device   string
	Warnings []gpuprof.Warning // of how the sides were made
}

// side is one build of the program under test and how to run it once.
type side struct {
	name string // for messages and as the comparison's source
	dir  string // where it runs
	args []string
	file string // what it writes its result to; "" is standard output
	own  bool   // a gpuprof, whose exit codes mean what ours do
	// turns is how to run it so that it measures when asked, see takeTurns; nil
	// where only a gpuprof could.
	turns []string
}

// processPairs is the blockSource of any command: each side of a block is one
// process, and they run one after the other.
type processPairs struct {
	run   children
	sides [2]side
	// patience is how long the next process may take.
	patience func() time.Duration
	longest  time.Duration // that any took
	budget   time.Duration // for messages
	// recorded: the command prints no result, and is run under gpuprof run --.
	recorded bool
	rate     float64 // of requests under load: what the first process took
	prints   bool    // it is known to print one: a process that does not has failed
}

// sides builds what is needed. done removes what was made for it.
func (c *builds) sides(run children) (out [2]side, done func(), err error) {
	here, err := os.Getwd()
	if err != nil {
		return out, nil, gpuprof.Errorf(nil, "finding the current folder: %w", err).WithFix("change into one that exists")
	}
	room, err := child.NewScratch("gate")
	if err != nil {
		return out, nil, gpuprof.Errorf(nil, "making a folder for the gate: %w", err).WithFix("check TMPDIR")
	}
	scratch, done := room.Dir, room.Close
	defer func() {
		if err != nil {
			done()
		}
	}()
	binary, err := c.oldProgram()
	if err != nil {
		return out, done, err
	}
	if binary != "" {
		out, err = c.binarySides(run, binary, here, scratch)
		return out, done, err
	}
	top, prefix, err := run.checkout()
	switch {
	case errors.Is(err, cli.ErrInterrupted):
		return out, done, err
	case err != nil:
		return out, done, noRevision(c.Against, "", err)
	}
	tree := filepath.Join(scratch, "tree")
	if err := run.worktree(room, top, c.Against, tree); err != nil {
		return out, done, err
	}
	c.alsoProgram(run.app)
	if run.unchanged(top, c.Against) {
		c.Warnings = append(c.Warnings, gpuprof.Warning{
			Code: "same-revision", Text: "this checkout is at " + c.Against + " and changes no file of it: the same program was measured against itself",
			Fix: "give --against an earlier revision, unless you want to see the noise of this machine",
		})
	}
	there := filepath.Join(tree, filepath.FromSlash(prefix))
	if _, err = os.Stat(there); err != nil && len(run.app.Rest) > 0 {
		err = gpuprof.Errorf(gpuprof.ErrUsage, "measuring %s: it has no folder %s, where the command would run", c.Against, prefix).WithFix("run gate in a folder that both sides have")
		return out, done, err
	}
	out, err = c.treeSides(run, [2]string{tree, top}, [2]string{there, here}, scratch)
	return out, done, err
}

// binarySides: a given binary as the old side. After -- it takes the place of
// the command's own program.
func (c *builds) binarySides(run children, binary, here, scratch string) (out [2]side, err error) {
	if rest := run.app.Rest; len(rest) > 0 {
		out[0] = side{name: cli.ShownPath(c.Against), dir: here, args: append([]string{binary}, rest[1:]...), file: c.resultIn(here)}
		out[1] = side{name: cli.ShownPath(rest[0]), dir: here, args: rest, file: c.resultIn(here)}
		return out, c.buildIn(run, here)
	}
	if c.Build != "" {
		return out, gpuprof.Errorf(gpuprof.ErrUsage, "reading the command line of gpuprof gate: --build has nothing to build, since both gpuprofs are there").WithFix("leave it out, or give --against a git revision")
	}
	exe, err := cli.OwnProgram()
	if err != nil {
		return out, err
	}
	return c.workloadSides(run.app, binary, exe, scratch)
}

// treeSides: a checkout of the revision as the old side. folders are where a
// command runs in either.
func (c *builds) treeSides(run children, trees, folders [2]string, scratch string) (out [2]side, err error) {
	if rest := run.app.Rest; len(rest) > 0 {
		if err := errors.Join(c.buildIn(run, folders[0]), c.buildIn(run, folders[1])); err != nil {
			return out, err
		}
		for i, name := range []string{c.Against, "this checkout"} {
			out[i] = side{name: name, dir: folders[i], args: rest, file: c.resultIn(folders[i])}
		}
		return out, nil
	}
	old, now := filepath.Join(scratch, "old"), filepath.Join(scratch, "new")
	for _, b := range []struct{ dir, out string }{{trees[0], old}, {trees[1], now}} {
		if c.Build != "" {
			if err := run.shell(b.dir, c.Build); err != nil {
				return out, err
			}
		}
		if err := run.command(b.dir, "go", "build", "-trimpath", "-buildvcs=false", "-o", b.out, "./cmd/gpuprof"); err != nil {
			return out, gpuprof.Errorf(nil, "building gpuprof in %s: %w", b.dir, err).WithFix("a workload's gate needs gpuprof's own checkout, other programs go after --")
		}
	}
	return c.workloadSides(run.app, old, now, scratch)
}

func (c *builds) workloadSides(a *cli.App, old, now, scratch string) (out [2]side, err error) {
	device := c.Device
	if device == "auto" { // one choice for both sides, made here and said
		d, err := a.ChoosePlainly(device, "gate")
		if err != nil {
			return out, err
		}
		device = d.Name
	}
	for i, exe := range []string{old, now} {
		file := filepath.Join(scratch, fmt.Sprintf("%d.json", i))
		args := []string{exe, "run", c.Args[0], "--device", device, "--quiet"}
		if c.Preset != "" {
			args = append(args, "--preset", c.Preset)
		}
		for _, s := range c.Set {
			args = append(args, "--set", s)
		}
		name := cli.ShownPath(c.Against)
		if i == 1 {
			name = "this build"
		}
		out[i] = side{
			name: name, dir: scratch, file: file, own: true,
			args:  slices.Concat(args, []string{"--min-time", c.MinTime.String(), "--max-time", (4 * c.MinTime).String(), "-o", file, "--force"}),
			turns: slices.Concat(args, []string{"--warmup", warmingTime.String(), turnsFlag}),
		}
	}
	return out, nil
}

func (c *builds) resultIn(dir string) string {
	if c.Result == "" || filepath.IsAbs(c.Result) {
		return c.Result
	}
	return filepath.Join(dir, c.Result)
}

func (c *builds) buildIn(run children, dir string) error {
	if c.Build == "" {
		return nil
	}
	return run.shell(dir, c.Build)
}

// block implements blockSource.
func (m *processPairs) block(bFirst bool) (compare.Block, error) {
	got := [2]*compare.Result{}
	for _, i := range firstTo(bFirst) {
		var err error
		if got[i], err = m.once(m.sides[i]); err != nil {
			return compare.Block{}, err
		}
	}
	return compare.Block{A: got[0], B: got[1], BFirst: bFirst}, nil
}

// once runs one side in a process of its own and reads what it wrote.
func (m *processPairs) once(s side) (*compare.Result, error) {
	if m.recorded {
		return m.record(s)
	}
	if err := clearResult(s); err != nil {
		return nil, err
	}
	args := s.args
	if m.rate > 0 {
		args = append(slices.Clone(args), cli.RequestRate(m.rate)...)
	}
	out, err := m.bounded(s, args...)
	if err == nil && s.file != "" {
		out, err = readLeft(s)
	}
	if err != nil {
		return nil, m.failed(s, err)
	}
	if s.file == "" && !s.own && !m.prints && !results.Known(out) {
		m.announce(s)
		return m.record(s)
	}
	found, _, err := results.Parse(out, s.name, s.beside)
	if err != nil {
		return nil, err
	}
	for _, r := range found[1:] {
		if !maps.Equal(r.Knobs, found[0].Knobs) {
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "measuring %s: it gave %d runs of a sweep, and a gate takes one setting", s.name, len(found)).WithFix("give each --set one value")
		}
	}
	r, err := results.Merge(found...)
	if err != nil {
		return nil, err
	}
	if s.own && m.rate == 0 {
		m.rate = r.Rate()
	}
	r = results.Process(r)
	r.Source = s.name
	return r, nil
}

// beside reads a file that the side's result names (samples of NVBench): next to
// the result, and never next to the other side's.
func (s *side) beside(name string) ([]byte, error) {
	dir := s.dir
	if s.file != "" {
		dir = filepath.Dir(s.file)
	}
	rel, err := filepath.Rel(filepath.Dir(s.name), name) // the reader looks beside the name in its messages
	if err != nil {
		return nil, err
	}
	return results.OS(filepath.Join(dir, rel))
}
