package record

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/lazyregexp"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// The recorder is chosen by the command line and the scripts that it names: to find out more, the program would have to
// run twice.

var (
	pythonName   = lazyregexp.New(`^(python|pypy|ipython|jupyter)[0-9.]*t?d?$|^(torchrun|accelerate|deepspeed|lightning|composer|pytest|py\.test|pyinstrument|horovodrun)$`)
	pythonWords  = lazyregexp.New(`(?m)(^|[\s/;&|("'=])(python|pypy|ipython)[0-9.]*t?($|[\s;&|)"'])|torchrun|accelerate\s+launch|deepspeed\s|\.py($|[\s;&|)"'])`)
	importsTorch = lazyregexp.New(`(?m)^\s*(import|from)\s+(torch\w*|lightning|pytorch_lightning|transformers|accelerate|fastai|e3nn|mace|timm|diffusers|ultralytics)\b`)
	importsOther = lazyregexp.New(`(?m)^\s*(import|from)\s+(jax|flax|cupy|tensorflow|numba\.cuda|pycuda|mxnet|warp|triton)\b`)
)

// headBytes limits how much of a script is searched for imports and commands.
const headBytes = 64 << 10

func hasNsys() bool {
	_, err := exec.LookPath("nsys")
	return err == nil
}

// checkCUDA returns an error if the user requires the CUDA recorder and it cannot work.
func checkCUDA(o *Options) error {
	if o.CUDA != CUDAAlways {
		return nil
	}
	if len(injectLibrary) == 0 {
		return gpuprof.Errorf(gpuprof.ErrUsage, "recording CUDA calls: the recorder is for Linux on x86-64 and arm64").WithFix("leave out --cuda")
	}
	if path := injectionTaken(o.Env); path != "" {
		return gpuprof.Errorf(gpuprof.ErrUsage, "recording CUDA calls: %s names %s, another tool that the driver is to load", envInjection, path).WithFix("unset it, or leave out --cuda")
	}
	if o.CUPTI != "" && o.CUPTI != ProgramsCUPTI {
		if _, err := os.Stat(o.CUPTI); err != nil {
			return gpuprof.Errorf(gpuprof.ErrUsage, "reading --cupti %s: %w", o.CUPTI, unwrapPath(err)).WithFix("give the path of a libcupti.so, or program if the program brings one")
		}
		return nil
	}
	if found, searched := findCUPTI(o); len(found) == 0 && o.CUPTI != ProgramsCUPTI {
		text, fix := missingCUPTI(searched)
		return gpuprof.Errorf(gpuprof.ErrUsage, "recording CUDA calls: %s", text).WithFix("%s", fix)
	}
	return nil
}

func findCUPTI(o *Options) ([]CUPTI, []string) {
	return FindCUPTI(o.Env, o.Args[0], o.DriverCUDA, o.AskCUPTI)
}

// useCUDA decides whether the CUDA recorder is used: if the user asks for it, or if there is a libcupti and the program
// is not Python or uses JAX or another framework instead of torch. cupti lists the libraries to try.
func useCUDA(o *Options, r *Result) (cupti []string, use bool) {
	auto := o.CUDA == CUDAAuto && o.Nsys != NsysAlways && len(injectLibrary) > 0 && (!looksPython(o.Args) || importsOtherFramework(o.Args))
	if o.Memory || o.CUDA != CUDAAlways && !auto {
		return nil, false
	}
	switch o.CUPTI {
	case ProgramsCUPTI:
		return nil, true
	case "":
	default:
		path, err := filepath.Abs(o.CUPTI)
		if err != nil {
			path = o.CUPTI
		}
		return []string{path}, true
	}
	if path := injectionTaken(o.Env); path != "" {
		r.warn("injection-taken", envInjection+" names "+path+", another tool that the driver is to load, so the CUDA recorder was not used", "unset it to record with gpuprof")
		return nil, false
	}
	found, searched := findCUPTI(o)
	for _, c := range found {
		cupti = append(cupti, c.Path)
	}
	if len(found) == 0 && o.CUDA == CUDAAuto && o.DriverCUDA > 0 && !hasNsys() {
		text, fix := missingCUPTI(searched)
		r.warn("no-cupti", "the program was not recorded on the GPU: "+text, fix)
	}
	return cupti, len(found) > 0
}

// useNsys decides whether Nsight Systems is used: if the user asks for it, or if the program is not Python or uses JAX
// or another framework instead of torch.
func useNsys(o *Options) bool {
	switch {
	case o.Nsys == NsysAlways:
		return true
	case o.Nsys == NsysNever || o.Memory:
		return false
	}
	// A program under an outer nsys cannot be recorded again.
	if !hasNsys() || lookup(o.Env, "NSYS_PROFILING_SESSION_ID") != "" {
		return false
	}
	return !looksPython(o.Args) || importsOtherFramework(o.Args)
}

// looksPython reports whether a command is Python, or a script or command line that may start Python.
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
	// The command is a script: look at its first line and the commands in it. Shells get a script as an argument.
	for _, p := range append([]string{path}, scriptsIn(args[1:])...) {
		if head := headOf(p); !isELF(head) && pythonWords.Match(head) {
			return true
		}
	}
	return false
}

func isPythonName(path string) bool { return pythonName.MatchString(filepath.Base(path)) }

// scriptsIn returns the arguments that are shell scripts.
func scriptsIn(args []string) []string {
	var out []string
	for _, a := range args {
		if strings.HasSuffix(a, ".sh") || strings.HasSuffix(a, ".bash") || strings.HasSuffix(a, ".slurm") {
			out = append(out, a)
		}
	}
	return out
}

// importsOtherFramework reports whether a command's Python script imports JAX or another GPU framework, not torch.
func importsOtherFramework(args []string) bool {
	for _, a := range args {
		if strings.HasSuffix(a, ".py") {
			head := headOf(a)
			return importsOther.Match(head) && !importsTorch.Match(head)
		}
	}
	return false
}

func isELF(head []byte) bool { return bytes.HasPrefix(head, []byte("\x7fELF")) }

// headOf returns the first headBytes of a file; nil if it cannot be read.
func headOf(path string) []byte {
	f, err := outside.OpenRegular(path, os.O_RDONLY, 0)
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
