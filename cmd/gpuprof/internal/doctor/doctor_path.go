package doctor

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// pathLine reports which program the command "gpuprof" starts, because another project on PyPI has a command of this
// name. self is the path of this executable.
func pathLine(self string) gpuprof.CheckLine {
	l := gpuprof.CheckLine{Name: "command", State: gpuprof.OK, Found: "gpuprof is not on PATH; this program is " + self}
	file, err := exec.LookPath("gpuprof")
	if err != nil {
		return l
	}
	switch {
	case cli.SameFile(self, file):
		l.Found = "gpuprof is this program, " + file
		return l
	case isStartScript(file, self):
		l.Found = fmt.Sprintf("gpuprof is %s, which starts this program, %s", file, self)
		return l
	}
	l.State, l.Found = gpuprof.Limited, fmt.Sprintf("gpuprof is %s, and this program is %s", file, self)
	l.Reason = "it is another program, or another build of this one"
	if isPython(file) {
		l.Reason = "it is a Python script: the package gpuprof on PyPI is another project whose command has the same name"
	}
	l.Fix = fmt.Sprintf("put the folder of this program first in PATH, or call it by its path, %s", self)
	if ours, err := exec.LookPath(cli.Distribution); err == nil && cli.SameFile(self, ours) {
		l.Fix = fmt.Sprintf("call this program as %s, which is %s", cli.Distribution, ours)
	}
	return l
}

// isStartScript reports whether file is the shell script that starts this program. A wheel installs the script in the
// same folder.
func isStartScript(file, self string) bool {
	if whole, err := filepath.EvalSymlinks(file); err == nil {
		file = whole
	}
	return cli.SameFile(self, filepath.Join(filepath.Dir(file), cli.Distribution)) && bytes.HasPrefix(firstLine(file), []byte("#!/bin/sh"))
}

// isPython reports whether a file is a Python script, the form in which pip installs commands.
func isPython(file string) bool {
	line := firstLine(file)
	return bytes.HasPrefix(line, []byte("#!")) && bytes.Contains(line, []byte("python"))
}

// firstLine returns at most 128 bytes of a file's first line; empty if the file cannot be read.
func firstLine(file string) []byte {
	f, err := outside.OpenRegular(file, os.O_RDONLY, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	head := make([]byte, 128)
	n, err := io.ReadFull(f, head)
	if err != nil && n == 0 {
		return nil
	}
	line, _, _ := bytes.Cut(head[:n], []byte("\n"))
	return line
}
