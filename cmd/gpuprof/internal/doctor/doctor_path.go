package doctor

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// pathLine says which program the command gpuprof starts: another project's package on
// PyPI installs one of the same name. self is this program's file.
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
	case sameContent(self, file):
		l.Found = fmt.Sprintf("gpuprof is a copy of this program, %s; this one is %s", file, self)
		return l
	}
	l.State, l.Found = gpuprof.Limited, fmt.Sprintf("gpuprof is %s, and this program is %s", file, self)
	l.Reason = "it is another program, or another build of this one"
	if isPython(file) {
		l.Reason = "it is a Python script: the package gpuprof on PyPI is another project whose command has the same name"
	}
	l.Fix = fmt.Sprintf("put the folder of this program first in PATH, or call it by its path, %s", self)
	if ours, err := exec.LookPath(cli.Distribution); err == nil && (cli.SameFile(self, ours) || sameContent(self, ours)) {
		l.Fix = fmt.Sprintf("call this program as %s, which is %s", cli.Distribution, ours)
	}
	return l
}

// sameContent reports whether two files are copies of each other, as the two commands of the package are.
func sameContent(a, b string) bool {
	one, err1 := os.Stat(a)
	two, err2 := os.Stat(b)
	if err1 != nil || err2 != nil || one.Size() != two.Size() {
		return false
	}
	first, err1 := sumOf(a)
	second, err2 := sumOf(b)
	return err1 == nil && err2 == nil && first == second
}

func sumOf(file string) (sum [sha256.Size]byte, err error) {
	f, err := outside.OpenRegular(file, os.O_RDONLY, 0)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return [sha256.Size]byte(h.Sum(nil)), err
}

// isPython says whether a file is a script of Python, as pip installs a package's commands.
func isPython(file string) bool {
	f, err := outside.OpenRegular(file, os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 128)
	n, err := io.ReadFull(f, head)
	if err != nil && n == 0 {
		return false
	}
	line, _, _ := bytes.Cut(head[:n], []byte("\n"))
	return bytes.HasPrefix(line, []byte("#!")) && bytes.Contains(line, []byte("python"))
}
