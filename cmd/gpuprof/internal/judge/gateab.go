package judge

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

// Builds describes two builds of a program, and how to measure them: the present build, from the user's checkout, and
// the build that Against names.
type Builds struct {
	Args     []string // a workload of gpuprof; empty for a command after --
	Against  string   // a git revision, or the path of a program
	Way      string   // "--aa" or "--plan", for messages, if only the present build is measured; otherwise ""
	Build    string   // shell command that builds the program in a checkout
	Result   string   // file that the command writes; "" for its standard output
	Budget   time.Duration
	MinTime  time.Duration // minimum time of a workload per process
	Preset   string
	Set      []string // KNOB=VALUE
	Device   string
	Link     []string          // files of the present checkout to link into the other one
	Warnings []gpuprof.Warning // about building the sides
}

// Side is one of the two compared builds, and how to run it once.
type Side struct {
	Name string // for messages, and as Source of its results
	Dir  string // folder to run in
	Args []string
	File string // file of its result; "" is standard output
	own  bool   // the program is gpuprof, so that its exit codes are known
	// Made is the checkout that was made for this side; nil for the user's own.
	Made *Place
	// Turns is the command line of a process that measures on request (gpuprof run --blocks-on-stdin); nil for programs
	// that cannot.
	Turns []string
}

// ProcessPairs is the BlockSource of commands that cannot measure on request. A block is one process of each side, one
// after the other.
type ProcessPairs struct {
	Run      Children
	Sides    [2]Side
	Patience func() time.Duration // returns the time limit of the next process
	Longest  time.Duration        // longest process so far
	Budget   time.Duration        // for messages
	// Recorded marks a command that prints no result: it runs under gpuprof run --, and its recorded steps are the
	// samples.
	Recorded bool
	// Whole marks a command that has neither a result nor recordable steps: its processes are timed as a whole.
	Whole  bool
	spent  child.Spent // time of the last process
	rate   float64     // request rate of a served load, 1/s, as the first process measured it; 0 without a load
	Prints bool        // the command has printed a result, so that a process without one has failed
	// Tries is the number of tries of a failing process; 0 means one. A side that never worked may always fail, so it
	// gets a third and further tries only within the time NewTries.
	Tries    int
	NewTries time.Duration
	ran      [2]bool // sides of which a process gave a result
}

// buildSides builds both sides, the old one first, and returns how to run them. done removes the temporary files.
func (c *Builds) buildSides(run Children) (out [2]Side, done func(), err error) {
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
	top, prefix, err := run.Checkout()
	switch {
	case errors.Is(err, cli.ErrInterrupted):
		return out, done, err
	case err != nil:
		return out, done, unknownRevision(c.Against, "", err)
	}
	tree := filepath.Join(scratch, "tree")
	if err := run.Worktree(room, top, c.Against, tree); err != nil {
		return out, done, err
	}
	c.noteProgram(run.App)
	if run.isUnchanged(top, c.Against) {
		c.Warnings = append(c.Warnings, gpuprof.Warning{
			Code: "same-revision", Text: "this checkout is at " + c.Against + " and changes no file of it: the same program was measured against itself",
			Fix: "give --against an earlier revision, unless you want to see the noise of this machine",
		})
	}
	place := Place{Top: top, Prefix: prefix, Tree: tree}
	if err := c.linkFiles(run, place); err != nil {
		return out, done, err
	}
	there := filepath.Join(tree, filepath.FromSlash(prefix))
	if _, err = os.Stat(there); err != nil && len(run.App.Rest) > 0 {
		err = gpuprof.Errorf(gpuprof.ErrUsage, "measuring %s: it has no folder %s, where the command would run", c.Against, prefix).WithFix("run gate in a folder that both sides have")
		return out, done, err
	}
	out, err = c.treeSides(run, place, [2]string{there, here}, scratch)
	return out, done, err
}

// linkFiles links files of the user's checkout (--link) into the other checkout. It warns if they make that checkout
// import the user's own modules.
func (c *Builds) linkFiles(run Children, place Place) error {
	if err := run.Link(place, c.Link); err != nil {
		return err
	}
	if file := EditableInstall(place, c.Link); file != "" {
		c.Warnings = append(c.Warnings, EditableWarning(file))
	}
	return nil
}

// binarySides returns the sides if a given binary is the old side. For a command after "--", the binary replaces the
// command's program.
func (c *Builds) binarySides(run Children, binary, here, scratch string) (out [2]Side, err error) {
	if rest := run.App.Rest; len(rest) > 0 {
		out[0] = Side{Name: cli.ShownPath(c.Against), Dir: here, Args: append([]string{binary}, rest[1:]...), File: c.ResultIn(here)}
		out[1] = Side{Name: cli.ShownPath(rest[0]), Dir: here, Args: rest, File: c.ResultIn(here)}
		return out, c.BuildIn(run, here)
	}
	if c.Build != "" {
		return out, gpuprof.Errorf(gpuprof.ErrUsage, "reading the command line of gpuprof gate: --build has nothing to build, since both gpuprofs are there").WithFix("leave it out, or give --against a git revision")
	}
	exe, err := cli.OwnProgram()
	if err != nil {
		return out, err
	}
	return c.WorkloadSides(run.App, binary, exe, scratch)
}

// treeSides returns the sides if the old side is a checkout of a revision. A command runs in the same folder of both
// checkouts.
func (c *Builds) treeSides(run Children, place Place, folders [2]string, scratch string) (out [2]Side, err error) {
	if rest := run.App.Rest; len(rest) > 0 {
		for i, name := range []string{c.Against, "this checkout"} {
			out[i] = Side{Name: name, Dir: folders[i], Args: rest, File: c.ResultIn(folders[i])}
		}
		out[0].Made = &place
		for _, s := range out {
			if err := run.WithLacking(s.Name, s.Made, c.BuildIn(run, s.Dir)); err != nil {
				return out, fmt.Errorf("making %s: %w", s.Name, err)
			}
		}
		return out, nil
	}
	old, now := filepath.Join(scratch, "old"), filepath.Join(scratch, "new")
	for _, b := range []struct{ dir, out string }{{place.Tree, old}, {place.Top, now}} {
		if c.Build != "" {
			if err := run.Shell(b.dir, c.Build); err != nil {
				return out, err
			}
		}
		if err := run.Command(b.dir, "go", "build", "-trimpath", "-buildvcs=false", "-o", b.out, "./cmd/gpuprof"); err != nil {
			return out, gpuprof.Errorf(nil, "building gpuprof in %s: %w", b.dir, err).WithFix("a workload's gate needs gpuprof's own checkout, other programs go after --")
		}
	}
	return c.WorkloadSides(run.App, old, now, scratch)
}

// WorkloadSides returns two gpuprof programs as sides that run the workload and write their results into the folder
// scratch.
func (c *Builds) WorkloadSides(a *cli.App, old, now, scratch string) (out [2]Side, err error) {
	device := c.Device
	if device == "auto" { // choose once for both sides, and note it
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
		out[i] = Side{
			Name: name, Dir: scratch, File: file, own: true,
			Args:  slices.Concat(args, []string{"--min-time", c.MinTime.String(), "--max-time", (4 * c.MinTime).String(), "-o", file, "--force"}),
			Turns: slices.Concat(args, []string{"--warmup", warmingTime.String(), TurnsFlag}),
		}
	}
	return out, nil
}

// ResultIn returns the result file of a command that runs in dir; "" for standard output.
func (c *Builds) ResultIn(dir string) string {
	if c.Result == "" || filepath.IsAbs(c.Result) {
		return c.Result
	}
	return filepath.Join(dir, c.Result)
}

// BuildIn runs the build command in dir, if there is one.
func (c *Builds) BuildIn(run Children, dir string) error {
	if c.Build == "" {
		return nil
	}
	return run.Shell(dir, c.Build)
}

func (m *ProcessPairs) block(bFirst bool) (compare.Block, error) {
	got := [2]*compare.Result{}
	for _, i := range FirstTo(bFirst) {
		var err error
		if got[i], err = m.Again(m.Sides[i], m.Tries, m.ran[i]); err != nil {
			return compare.Block{}, err
		}
		m.ran[i] = true
	}
	return compare.Block{A: got[0], B: got[1], BFirst: bFirst}, nil
}

// Again runs processes of a side until one gives a result, at most tries times. ran reports that an earlier process
// gave a result; otherwise a third and further tries must begin within NewTries. It does not retry after an interrupt,
// or an error that the user must correct.
func (m *ProcessPairs) Again(s Side, tries int, ran bool) (r *compare.Result, err error) {
	began := time.Now()
	for k := range max(tries, 1) {
		if k > 1 && !ran && time.Since(began) > m.NewTries {
			break
		}
		if r, err = m.Once(s); err == nil || errors.Is(err, cli.ErrInterrupted) || errors.Is(err, gpuprof.ErrUsage) {
			break
		}
	}
	return r, err
}

// Once runs one process of a side and returns its result.
func (m *ProcessPairs) Once(s Side) (*compare.Result, error) {
	if m.Recorded && !m.Whole {
		return m.record(s)
	}
	if err := clearResult(s); err != nil {
		return nil, err
	}
	args := s.Args
	if m.rate > 0 {
		args = append(slices.Clone(args), cli.RequestRate(m.rate)...)
	}
	out, err := m.runBounded(s, args...)
	if err == nil && s.File != "" {
		out, err = readResult(s)
	}
	if err != nil {
		return nil, m.failSide(s, err)
	}
	switch {
	case m.Whole && results.Known(out):
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "measuring %s: it printed a result, and the process of the other side before it printed none", s.Name).WithFix("run both by themselves to see why")
	case m.Whole:
		return m.processResult(s), nil
	case s.File == "" && !s.own && !m.Prints && !results.Known(out):
		return m.recordFirst(s)
	}
	return m.resultOf(s, out)
}

func (m *ProcessPairs) resultOf(s Side, out []byte) (*compare.Result, error) {
	found, _, err := results.Parse(out, s.Name, s.readSideFile)
	if err != nil {
		return nil, err
	}
	for _, r := range found[1:] {
		if !maps.Equal(r.Knobs, found[0].Knobs) {
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "measuring %s: it gave %d runs of a sweep, and a gate takes one setting", s.Name, len(found)).WithFix("give each --set one value")
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
	r.Source = s.Name
	m.Prints = true
	if r.Tool == results.FormatPlain { // frameworks repeat as they choose: their CPU time means nothing
		addCPU(r, m.spent.CPU.Seconds())
	}
	return r, nil
}

// readSideFile reads a file that the side's result names, such as NVBench's samples. name is the path in the result,
// joined to the folder of s.Name.
func (s *Side) readSideFile(name string) ([]byte, error) {
	dir := s.Dir
	if s.File != "" {
		dir = filepath.Dir(s.File)
	}
	rel, err := filepath.Rel(filepath.Dir(s.Name), name) // the path in the result
	if err != nil {
		return nil, err
	}
	return results.OS(filepath.Join(dir, rel))
}
