package record

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// What a command is decides who records it, before it runs: running it twice
// to find out is not for gpuprof to do.

var (
	pythonName   = regexp.MustCompile(`^(python|pypy|ipython|jupyter)[0-9.]*t?d?$|^(torchrun|accelerate|deepspeed|lightning|composer|pytest|py\.test|pyinstrument|horovodrun)$`)
	pythonWords  = regexp.MustCompile(`(?m)(^|[\s/;&|("'=])(python|pypy|ipython)[0-9.]*t?($|[\s;&|)"'])|torchrun|accelerate\s+launch|deepspeed\s|\.py($|[\s;&|)"'])`)
	importsTorch = regexp.MustCompile(`(?m)^\s*(import|from)\s+(torch\w*|lightning|pytorch_lightning|transformers|accelerate|fastai|e3nn|mace|timm|diffusers|ultralytics)\b`)
	importsOther = regexp.MustCompile(`(?m)^\s*(import|from)\s+(jax|flax|cupy|tensorflow|numba\.cuda|pycuda|mxnet|warp|triton)\b`)
)

// headBytes is how much of a script is looked at.
const headBytes = 64 << 10

func nsysThere() bool {
	_, err := exec.LookPath("nsys")
	return err == nil
}

// useNsys decides for Nsight Systems: on demand, or for what is no Python
// program, or one whose script imports JAX or the like and not torch.
func useNsys(o *Options) bool {
	switch {
	case o.Nsys == NsysAlways:
		return true
	case o.Nsys == NsysNever || o.Memory:
		return false
	}
	// Under an outer nsys there is nothing to start.
	if !nsysThere() || lookup(o.Env, "NSYS_PROFILING_SESSION_ID") != "" {
		return false
	}
	return !looksPython(o.Args) || otherFramework(o.Args)
}

// looksPython says whether a command is, starts or may start Python.
func looksPython(args []string) bool {
	path, err := exec.LookPath(args[0])
	if err != nil {
		path = args[0]
	}
	if isPythonName(path) {
		return true
	}
	if real, err := filepath.EvalSymlinks(path); err == nil && isPythonName(real) {
		return true
	}
	for _, a := range args[1:] {
		if pythonWords.MatchString(a) {
			return true
		}
	}
	// A script: its first line, or what it calls. Shells name theirs as an argument.
	for _, p := range append([]string{path}, scriptsIn(args[1:])...) {
		if head := headOf(p); !isELF(head) && pythonWords.Match(head) {
			return true
		}
	}
	return false
}

func isPythonName(path string) bool { return pythonName.MatchString(filepath.Base(path)) }

// scriptsIn are the arguments that are files of text.
func scriptsIn(args []string) []string {
	var out []string
	for _, a := range args {
		if strings.HasSuffix(a, ".sh") || strings.HasSuffix(a, ".bash") || strings.HasSuffix(a, ".slurm") {
			out = append(out, a)
		}
	}
	return out
}

// otherFramework says whether the Python script of a command imports JAX or
// another user of the GPU, and not torch.
func otherFramework(args []string) bool {
	for _, a := range args {
		if strings.HasSuffix(a, ".py") {
			head := headOf(a)
			return importsOther.Match(head) && !importsTorch.Match(head)
		}
	}
	return false
}

func isELF(head []byte) bool { return bytes.HasPrefix(head, []byte("\x7fELF")) }

func headOf(path string) []byte {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, headBytes))
	if err != nil {
		return nil
	}
	return b
}
