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

// oldProgram returns the full path of the program that --against names; "" for a git revision. Only a path can name a
// program, so that a file with the name of a revision is never measured by mistake.
func (c *Builds) oldProgram() (string, error) {
	if !writtenAsPath(c.Against) {
		return "", nil
	}
	program, ok := findExecutable(c.Against)
	if !ok {
		return "", gpuprof.Errorf(gpuprof.ErrUsage, "choosing the old side: there is no program %s, and a name that begins so is no git revision", c.Against).WithFix("give the path of a program that can be run, or a branch, tag or commit")
	}
	return program, nil
}

// writtenAsPath reports whether a name begins like a path (/, ./ or ../); no git revision does.
func writtenAsPath(name string) bool {
	return filepath.IsAbs(name) || strings.HasPrefix(name, "./") || strings.HasPrefix(name, "../")
}

func findExecutable(name string) (string, bool) {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return "", false
	}
	full, err := filepath.Abs(name)
	return full, err == nil
}

// noteProgram notes for the user that Against names both a git revision, which is measured, and a program.
func (c *Builds) noteProgram(a *cli.App) {
	if _, ok := findExecutable(c.Against); ok {
		a.Note("%s is a git revision and also a program here; the revision is measured; write ./%s for the program", c.Against, c.Against)
	}
}

// unknownRevision returns the error about a name that is no git revision. top is the checkout; "" outside of one.
func unknownRevision(name, top string, cause error) error {
	fix := "give a branch, tag or commit (a shallow clone may lack it), or the path of a program, such as ./old"
	if _, ok := findExecutable(name); ok {
		fix = "fetch it (a shallow clone may lack it), or write ./" + name + " for the program of that name"
	}
	if top == "" {
		return gpuprof.Errorf(gpuprof.ErrUsage, "choosing the old side %s: finding the git checkout: %w", name, cause).WithFix("run gate inside one, or %s", fix)
	}
	return gpuprof.Errorf(gpuprof.ErrUsage, "choosing the old side: %s is no git revision of %s", name, top).WithFix("%s", fix)
}

// Measurable refuses settings and arguments that cannot be measured, before anything is built.
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
	if err := c.refuseUngated(a); err != nil {
		return err
	}
	// Before each measurement the earlier result file is removed. It must be nothing else.
	if info, err := os.Stat(c.Result); c.Result != "" && err == nil && (!info.Mode().IsRegular() || info.Mode()&0o111 != 0) {
		return gpuprof.Errorf(gpuprof.ErrUsage, "measuring with --result %s: that is a folder, a device or a program and no result", c.Result).WithFix("give the file that the command writes")
	}
	return nil
}

// refuseUngated refuses a setting of a workload whose figures a gate cannot compare (Knob.Ungated).
func (c *Builds) refuseUngated(a *cli.App) error {
	if len(c.Args) == 0 {
		return nil
	}
	w := a.WorkloadNamed(c.Args[0])
	if w == nil {
		return nil // another check reports it
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

// Runner returns the machine and the command for which noise is stored. machine is the CPU model and count, without the
// host's name. The command of a workload has the device as requested ("auto").
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
