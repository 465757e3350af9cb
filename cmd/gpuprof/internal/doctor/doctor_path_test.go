package doctor

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
)

// TestCommandOnPath: doctor tells this program from another of the same name, and a package
// of Python by its first line.
func TestCommandOnPath(t *testing.T) {
	name := "gpuprof"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	file := func(content string, mode os.FileMode) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	self := file("binary", 0o755)
	python, other, text := file("#!/usr/bin/python3\nimport gpuprof\n", 0o755), file("another", 0o755), file("no program", 0o644)
	// A wheel's program has the name that no other package takes, and the command beside it starts that.
	wheel := filepath.Join(t.TempDir(), "gpuprof-cli")
	if err := os.Symlink(self, wheel); err != nil {
		t.Fatal(err)
	}
	launcher := filepath.Join(filepath.Dir(wheel), name)
	if err := os.WriteFile(launcher, []byte("#!/bin/sh\nexec \"$here/gpuprof-cli\" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	list := func(files ...string) (out string) {
		var dirs []string
		for _, f := range files {
			dirs = append(dirs, filepath.Dir(f))
		}
		return strings.Join(dirs, string(filepath.ListSeparator))
	}
	for what, c := range map[string]struct {
		path  string
		state gpuprof.CheckState
		said  string
	}{
		"nowhere":     {list(), gpuprof.OK, "not on PATH"},
		"first":       {list(self, python), gpuprof.OK, "is this program"},
		"a wheel":     {list(launcher, self), gpuprof.OK, "which starts this program"},
		"a script":    {list(python, self), gpuprof.Limited, "the package gpuprof on PyPI is another project"},
		"another":     {list(other, self), gpuprof.Limited, "another build"},
		"no program":  {list(text, self), gpuprof.OK, "is this program"},
		"no such dir": {list(filepath.Join(t.TempDir(), "none", name), self), gpuprof.OK, "is this program"},
	} {
		t.Setenv("PATH", c.path)
		l := groupByCause([]gpuprof.CheckLine{pathLine(self)})[0]
		if l.Detail != (l.State == gpuprof.OK) {
			t.Errorf("%s: a terminal hides the line: %t", what, l.Detail)
		}
		if all := l.Found + " " + l.Reason; l.State != c.state || !strings.Contains(all, c.said) {
			t.Errorf("%s: %s, %s", what, l.State, all)
		}
	}
}

// Where another project's gpuprof answers, doctor names its file, and how to call this program: by the second command
// of its package where that is on PATH, else by its path.
func TestForeignCommand(t *testing.T) {
	ending := map[bool]string{true: ".exe"}[runtime.GOOS == "windows"]
	foreign, ours := t.TempDir(), t.TempDir()
	other, self := filepath.Join(foreign, "gpuprof"+ending), filepath.Join(ours, cli.Distribution+ending)
	for path, content := range map[string]string{other: "#!/usr/bin/env python3\nfrom gpuprof.cli import main\n", self: "binary"} {
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", foreign+string(filepath.ListSeparator)+ours)
	l := pathLine(self)
	if l.State != gpuprof.Limited || !strings.Contains(l.Found, other) || !strings.Contains(l.Reason, "another project") || l.Fix != "call this program as gpuprof-cli, which is "+self {
		t.Errorf("%+v", l)
	}
	t.Setenv("PATH", foreign)
	if l := pathLine(self); !strings.Contains(l.Fix, "call it by its path, "+self) {
		t.Errorf("%+v", l)
	}
}

// The package on PyPI has one name, in the program and where its wheel is made.
func TestDistributionHasOneName(t *testing.T) {
	text, err := os.ReadFile("../../../../scripts/dist/python/gpuprof/_name.py")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^DISTRIBUTION = "([^"]*)"`).FindStringSubmatch(string(text))
	if len(m) != 2 || m[1] != cli.Distribution {
		t.Errorf("scripts/dist/python/gpuprof/_name.py has %q, the program %q", m, cli.Distribution)
	}
}
