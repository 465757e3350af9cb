package analyze

import (
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/lazyregexp"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// Program is the framework or language of a program; it decides the wording of advice.
type Program string

// The programs with advice of their own.
const (
	PyTorch     Program = "PyTorch"
	LibTorch    Program = "LibTorch C++" // PyTorch's operators in a program without Python
	JAX         Program = "JAX"
	TensorFlow  Program = "TensorFlow"
	TensorRT    Program = "TensorRT"
	ONNXRuntime Program = "ONNX Runtime"
	Triton      Program = "Triton"
	CUDA        Program = "CUDA C++"
	HIP         Program = "HIP C++"
	OpenACC     Program = "OpenACC"
	OpenMP      Program = "OpenMP"
	Julia       Program = "Julia"
	CuPyNumba   Program = "CuPy or Numba"
	Python      Program = "Python"
	Unknown     Program = "program unknown"
)

// hasModels reports whether programs of this framework run machine-learning models, so that steps without training are
// inference.
func (p Program) hasModels() bool {
	switch p {
	case PyTorch, LibTorch, JAX, TensorFlow, TensorRT, ONNXRuntime:
		return true
	}
	return false
}

// Interpreted reports whether an interpreter such as Python runs programs of this kind, so that a recorder can wrap
// their source.
func (p Program) Interpreted() bool {
	switch p {
	case PyTorch, JAX, TensorFlow, Triton, CuPyNumba, Python:
		return true
	}
	return false
}

// IsNative reports whether programs of this kind call the runtime themselves, without a framework that caches device
// memory.
func (p Program) IsNative() bool { return p == CUDA || p == HIP || p == OpenACC || p == OpenMP }

type programMark struct {
	program  Program
	name     *lazyregexp.Regexp
	evidence string // the names that match, for Recording.Evidence
}

// programMarks are patterns of event names by which frameworks are recognized, tried in order. PyTorch is first because
// PyTorch programs may also run kernels of the other frameworks.
var programMarks = []programMark{
	{PyTorch, lazyregexp.New(`\bat::native::|\bc10::|^aten::|^ProfilerStep#|^autograd::engine|\btorch::`), "names of PyTorch's operators and kernels"},
	{TensorFlow, lazyregexp.New(`\btensorflow::|\bEigen::internal::EigenMetaKernel|^EagerExecute|^TfOp`), "names of TensorFlow's kernels"},
	{JAX, lazyregexp.New(`^(TSL|XLA): |^PjitFunction\(|\bxla::|^(loop|input|wrapped|gemm|command_buffer)\w*_fusion|^fusion(_\d+)?$|^jit_`), "names of XLA's modules and fusions"},
	{TensorRT, lazyregexp.New(`^ExecutionContext::|\bnvinfer1::|^trt_|_trt_|^__myl_`), "names of TensorRT's layers and kernels"},
	{ONNXRuntime, lazyregexp.New(`\bonnxruntime::`), "names of ONNX Runtime's kernels"},
	{OpenMP, lazyregexp.New(`^nvkernel_|_F1L\d+_|^__omp_offloading_`), "names of kernels that compilers make of OpenMP's target regions"},
	{OpenACC, lazyregexp.New(`__pgi_uacc|_\d+_gpu(__red)?$`), "names of kernels that NVIDIA's Fortran and C compilers make of OpenACC"},
	{Julia, lazyregexp.New(`^(_Z\d+)?(julia_|gpu_\w+_kernel|ptxcall_)|\bCuDeviceArray`), "names of kernels that Julia compiles"},
	{CuPyNumba, lazyregexp.New(`^cupy_|\bcupy::|\bcudapy|^_ZN6cudapy`), "names of kernels of CuPy and Numba"},
	{Triton, lazyregexp.New(`^triton_|^_?\w+_kernel_0d1d`), "names of kernels that Triton compiles"},
}

// engineMarks are name patterns, each of which occurs in the programs of one engine only. A pattern is tried only on
// names that contain one of the entry's words (in lower case). Searching for a word takes a tenth of the time of a
// regular expression.
var engineMarks = []struct {
	engine string
	words  []string
	name   *lazyregexp.Regexp
}{
	{"SGLang", []string{"sglang", "sgl_kernel", "step[", "scheduler.run_batch"}, lazyregexp.New(`\bsglang\b|sgl_kernel|^step\[(DECODE|EXTEND|MIXED)|^scheduler\.run_batch`)},
	{"vLLM", []string{"vllm::", "vllm/", "gpu_model_runner: ", "execute_"}, lazyregexp.New(`\bvllm::|\bvllm/|^gpu_model_runner: |^execute_(new_\d|context_\d)`)},
	{"TensorRT-LLM", []string{"tensorrt_llm", "_forward_step"}, lazyregexp.New(`\btensorrt_llm\b|^\[Executor\] _forward_step`)},
	{"xDiT", []string{"xfuser", "execute_diffusion_"}, lazyregexp.New(`\bxfuser\b|^execute_diffusion_`)},
	{"DeepSpeed", []string{"deepspeed"}, lazyregexp.New(`(?i)\bdeepspeed\b`)},
	{"Megatron", []string{"megatron"}, lazyregexp.New(`(?i)\bmegatron\b`)},
	{"Lightning", []string{"[pl]", "[strategy]", "lightning"}, lazyregexp.New(`^\[pl\]|^\[Strategy\]|pytorch_lightning|lightning/pytorch`)},
	{"MACE", []string{"mace"}, lazyregexp.New(`\bmace/modules|\bScaleShiftMACE|nn\.Module: MACE`)},
	{"NequIP", []string{"nequip"}, lazyregexp.New(`\bnequip\b`)},
	{"e3nn", []string{"e3nn"}, lazyregexp.New(`\be3nn\b`)},
	{"PyG", []string{"torch_geometric", "torch_scatter"}, lazyregexp.New(`\btorch_geometric\b|\btorch_scatter\b`)},
	{huggingFace, []string{"transformers/generation", "generationmixin"}, lazyregexp.New(`transformers/generation|\bGenerationMixin\b`)},
}

// huggingFace is the engine of programs that call generate of the transformers library.
const huggingFace = "Hugging Face"

func (x *Index) findProgram() {
	r := &x.Recording
	r.Program, r.Evidence = x.recognizeProgram()
	if !r.Program.Interpreted() {
		return
	}
	r.Engine = recognizeEngine(x.T.Names)
	if r.Program == PyTorch && x.T.Format != model.Kineto && r.Engine == "" && isNative(x.T) {
		r.Program, r.Evidence = LibTorch, r.Evidence+", and the process "+x.T.ProcessName()+" is not Python"
	}
}

func recognizeEngine(names []string) string {
	lower := make([]string, len(names))
	for i, name := range names {
		lower[i] = strings.ToLower(name)
	}
	for _, m := range engineMarks {
		for i, name := range names {
			has := func(word string) bool { return strings.Contains(lower[i], word) }
			if slices.ContainsFunc(m.words, has) && m.name.MatchString(name) {
				return m.engine
			}
		}
	}
	return ""
}

func (x *Index) recognizeProgram() (Program, string) {
	t := x.T
	switch {
	case t.Format == model.Kineto && slices.Contains(t.Names, model.SampledWindow):
		return Python, "gpuprof sampled it, and it imported no torch"
	case t.Format == model.Kineto:
		return PyTorch, "PyTorch's profiler recorded it"
	case t.Framework == model.PyTorch:
		return PyTorch, "the process has PyTorch's libraries"
	}
	for _, m := range programMarks {
		if t.Format == model.XLA && m.program != TensorFlow {
			continue
		}
		for _, name := range t.Names {
			if m.name.MatchString(name) {
				return m.program, m.evidence
			}
		}
	}
	switch process := strings.ToLower(t.ProcessName()); {
	case t.Format == model.XLA:
		return JAX, "XLA's profiler recorded it"
	case t.Framework == model.JAX:
		return JAX, "the process has XLA's libraries"
	case strings.Contains(process, "julia"):
		return Julia, "the process is julia"
	case strings.Contains(process, "python"):
		return Python, "the process is python, and no name shows a framework"
	case t.Format == model.Rocpd:
		return HIP, "no name shows a framework"
	case len(t.GPU) == 0 && t.Gate.Launches == 0:
		return Unknown, "no name shows what the program is made with, and no work of a device was recorded"
	}
	return CUDA, "no name shows a framework"
}

// pythonProcess matches names of processes that run Python: interpreters, tools that start one, and names that Python
// programs give themselves (PyTorch: pt_main_thread; Ray: ray::Worker; vLLM: VLLM::EngineCore).
var pythonProcess = lazyregexp.New(`(?i)python|pypy|conda|jupyter|ipykernel|::|^pt_|\bray\b|torchrun|accelerate|deepspeed|vllm|sglang|trtllm|uvicorn|gunicorn|celery|pytest|\.py\b|^(ba|da|z)?sh$`)

// pythonFrame matches names of events that only a Python program has.
var pythonFrame = lazyregexp.New(`\.py(\(\d+\)|:\d+)|libtorch_python|\bpython\d?\b|^nn\.Module: |DataLoader`)

// isNative reports whether nothing shows Python: the name of the process is known and not of a Python program, and no
// event has a name that only Python makes.
func isNative(t *model.Trace) bool {
	process := t.ProcessName()
	return process != "" && !pythonProcess.MatchString(process) && !slices.ContainsFunc(t.Names, pythonFrame.MatchString)
}
