package judge

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/document"
)

// oldProgram is the full path of the program that --against names, "" where it
// names a git revision. Only what is written as a path is a program: a file that
// is called like a revision must never be measured in its place.
func (c *Builds) oldProgram() (string, error) {
	if !writtenAsPath(c.Against) {
		return "", nil
	}
	program, ok := executable(c.Against)
	if !ok {
		return "", gpuprof.Errorf(gpuprof.ErrUsage, "choosing the old side: there is no program %s, and a name that begins so is no git revision", c.Against).WithFix("give the path of a program that can be run, or a branch, tag or commit")
	}
	return program, nil
}

// writtenAsPath: no git revision begins like that.
func writtenAsPath(name string) bool {
	return filepath.IsAbs(name) || strings.HasPrefix(name, "./") || strings.HasPrefix(name, "../")
}

// executable is the full path of a program, if it is one.
func executable(name string) (string, bool) {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return "", false
	}
	full, err := filepath.Abs(name)
	return full, err == nil
}

// alsoProgram tells of a program with the name of the revision that is measured.
func (c *Builds) alsoProgram(a *cli.App) {
	if _, ok := executable(c.Against); ok {
		a.Note("%s is a git revision and also a program here; the revision is measured; write ./%s for the program", c.Against, c.Against)
	}
}

// noRevision is the error of a name that git does not know. top is the checkout,
// "" where there is none.
func noRevision(name, top string, cause error) error {
	fix := "give a branch, tag or commit (a shallow clone may lack it), or the path of a program, such as ./old"
	if _, ok := executable(name); ok {
		fix = "fetch it (a shallow clone may lack it), or write ./" + name + " for the program of that name"
	}
	if top == "" {
		return gpuprof.Errorf(gpuprof.ErrUsage, "choosing the old side %s: finding the git checkout: %w", name, cause).WithFix("run gate inside one, or %s", fix)
	}
	return gpuprof.Errorf(gpuprof.ErrUsage, "choosing the old side: %s is no git revision of %s", name, top).WithFix("%s", fix)
}

// Measurable refuses, before anything is built, what could never be measured.
func (c *Builds) Measurable(a *cli.App, rest []string) error {
	way, example := "--against", "--against main"
	if c.Way != "" {
		way, example = c.Way, c.Way
	}
	if len(rest) == 0 {
		switch {
		case rest != nil:
			return gpuprof.Errorf(gpuprof.ErrUsage, "reading the command line of gpuprof gate: no command follows --").WithFix("give the one that writes a result")
		case len(c.Args) != 1:
			return gpuprof.Errorf(gpuprof.ErrUsage, "reading the command line of gpuprof gate: %s takes one workload, or a command after --", way).WithFix("give for example gpuprof gate e3nn %s", example)
		}
	}
	if err := cli.OneSetting(c.Set); err != nil {
		return err
	}
	if err := c.ungated(a); err != nil {
		return err
	}
	// What an earlier process left there is removed before each measurement.
	if info, err := os.Stat(c.Result); c.Result != "" && err == nil && (!info.Mode().IsRegular() || info.Mode()&0o111 != 0) {
		return gpuprof.Errorf(gpuprof.ErrUsage, "measuring with --result %s: that is a folder, a device or a program and no result", c.Result).WithFix("give the file that the command writes")
	}
	return nil
}

// ungated refuses a setting under which a gate's figures would mean nothing.
func (c *Builds) ungated(a *cli.App) error {
	if len(c.Args) == 0 {
		return nil
	}
	w := a.WorkloadNamed(c.Args[0])
	if w == nil {
		return nil // which another place says
	}
	for _, k := range w.Knobs() {
		for _, s := range c.Set {
			if name, value, _ := strings.Cut(s, "="); name == k.Name && k.Ungated[value] != "" {
				return gpuprof.Errorf(gpuprof.ErrUsage, "gating %s with %s: %s", w.Name(), s, k.Ungated[value]).WithFix("use another value of %s", name)
			}
		}
	}
	return nil
}

// Runner says whose noise it is: the kind of machine, without its name, and what runs
// on it. A workload's device is the one that was asked for.
func (c *Builds) Runner(a *cli.App) (machine, command string) {
	defer func() { machine, command = document.CleanText(machine), document.CleanText(command) }()
	machine = strings.TrimSpace(fmt.Sprintf("%s, %d CPUs", cmp.Or(a.CPUModel(), "unknown"), runtime.NumCPU()))
	if len(a.Rest) > 0 {
		return machine, strings.Join(document.MaskCommand(a.Rest), " ")
	}
	words := append([]string{"gpuprof", "run"}, c.Args...)
	words = append(words, "--device", c.Device, "--min-time", c.MinTime.String())
	if c.Preset != "" {
		words = append(words, "--preset", c.Preset)
	}
	for _, s := range c.Set {
		words = append(words, "--set", s)
	}
	return machine, strings.Join(words, " ")
}
