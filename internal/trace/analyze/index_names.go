package analyze

import (
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// Flags of an event's name; see NameInfo.
const (
	nameModule       = 1 << iota // nn.Module frame
	nameHousekeeping             // a range of the profiler or of a library, not of the model
	nameLoader                   // fetches the next batch
	NameOptimizer                // Optimizer.step
	nameFrame                    // Python frame with file and line
	nameLibrary                  // Python frame of PyTorch, the standard library or an installed package
	NameBackward                 // operator of the backward pass
	nameExperts                  // operator that computes the experts of a mixture-of-experts layer
)

// NameInfo holds the meaning of a name, parsed once for all events with that name.
type NameInfo struct {
	Flags      uint8
	call       model.Call
	op         opMeaning
	Kernel     uint8 // class of kernels with this name, NoClass unknown
	inLLMTable bool  // the kernel name alone decides the class
	model      moduleKind
	isRange    bool // some annotation has this name
}

// describeNames parses every name once, because there are far fewer names than events. Only annotations that contain a
// counter can make many names, and these are cheap to parse.
func describeNames(t *model.Trace) []NameInfo {
	kinds := make([]uint16, len(t.Names))
	for i := range t.Host {
		kinds[t.Host[i].Name] |= 1 << t.Host[i].Kind
	}
	for i := range t.GPU {
		kinds[t.GPU[i].Name] |= 1 << t.GPU[i].Kind
	}
	info := make([]NameInfo, len(t.Names))
	for i, name := range t.Names {
		in, k := &info[i], kinds[i]
		in.op.class, in.Kernel = NoClass, NoClass
		if k&(1<<model.API) != 0 {
			in.call = model.CallOf(name)
		}
		if k&(1<<model.Python) != 0 {
			in.Flags |= frameFlags(name)
		}
		if k&(1<<model.Annotation|1<<model.Op|1<<model.Step) != 0 {
			in.Flags |= rangeFlags(name)
			in.op = parseOpName(name)
			in.isRange = k&(1<<model.Annotation) != 0
		}
		if k&(1<<model.Annotation|1<<model.Python) != 0 {
			in.model = parseModuleName(name)
		}
		if k&(1<<model.Kernel) != 0 {
			in.Kernel, in.inLLMTable = kernelClassOf(name)
		}
	}
	return info
}

// modulePrefix starts the names of frames that PyTorch records for calls of modules.
const modulePrefix = "nn.Module: "

// frameFlags returns the flags of a name that may be a Python frame. "nn.Module: Conv2d_0" gets nameModule.
// "file.py(123): function" gets nameFrame, and also nameLibrary if the file belongs to a library. Other names such as
// "<built-in method …>" get 0.
func frameFlags(name string) uint8 {
	if strings.HasPrefix(name, modulePrefix) {
		return nameModule
	}
	if !isFrame(name) {
		return 0
	}
	if isLibraryFrame(name) {
		return nameFrame | nameLibrary
	}
	return nameFrame
}

// isFrame reports whether a name has the form "file(line): function"; built-in functions do not count.
func isFrame(name string) bool {
	i := strings.Index(name, "): ")
	if i <= 0 {
		return false
	}
	j := strings.LastIndexByte(name[:i], '(')
	if j <= 0 || j+1 == i {
		return false
	}
	for _, c := range name[j+1 : i] {
		if c < '0' || c > '9' {
			return false
		}
	}
	return !strings.HasPrefix(name, "<built-in")
}

// isLibraryFrame reports whether a frame belongs to an installed package, to PyTorch, or to code of the standard
// library that calls user functions.
func isLibraryFrame(name string) bool {
	path, _, _ := strings.Cut(name, "(")
	path = strings.ReplaceAll(path, `\`, "/")
	for _, s := range [...]string{"site-packages/", "dist-packages/", "/torch/", "<frozen ", "<string>", "<eval_with_key>", "torch_compile_debug", "/tmp/torchinductor"} {
		if strings.Contains(path, s) {
			return true
		}
	}
	if strings.Contains(path, "/lib/python") {
		return true
	}
	head, _, found := strings.Cut(path, "/")
	if found {
		switch head {
		case "torch", "torch_scatter", "torch_geometric", "torchvision", "torchaudio", "e3nn", "numpy", "asyncio", "multiprocessing", "concurrent",
			"importlib", "unittest", "logging", "json", "transformers", "accelerate", "deepspeed", "lightning", "pytorch_lightning", "triton":
			return true
		}
		return false
	}
	switch path {
	case "threading.py", "runpy.py", "contextlib.py", "functools.py", "queue.py", "selectors.py", "socket.py", "subprocess.py", "copy.py",
		"typing.py", "enum.py", "abc.py", "random.py", "pickle.py", "weakref.py", "tempfile.py", "inspect.py", "warnings.py", "_collections_abc.py":
		return true
	}
	return false
}

func rangeFlags(name string) uint8 {
	var f uint8
	switch {
	case strings.HasPrefix(name, "enumerate(DataLoader)"), strings.HasPrefix(name, "enumerate(DataPipe)"), strings.HasPrefix(name, "enumerate(MapDataset)"):
		f |= nameLoader | nameHousekeeping
	case strings.HasPrefix(name, "Optimizer."):
		f |= nameHousekeeping
		if strings.HasPrefix(name, "Optimizer.step#") {
			f |= NameOptimizer
		}
	}
	for _, p := range [...]string{"ProfilerStep", "PyTorch Profiler", "DistributedDataParallel.", "FullyShardedDataParallel.", "FSDP::", "nccl", "NCCL",
		"gloo:", "mpi:", "aten::", "autograd::", "c10d::", "record_param_comms", "Torch-Compiled Region", "## Call CompiledFxGraph", "Call CompiledFxGraph", "TorchDynamo Cache Lookup",
		"CompiledFunction", "cudnn", "cublas", "cusparse", "cuda", "DataLoader", "Profiler"} {
		if strings.HasPrefix(name, p) {
			f |= nameHousekeeping
			break
		}
	}
	if model.OfLibrary(name) {
		f |= nameHousekeeping
	}
	if strings.Contains(name, "Backward") || strings.Contains(name, "AccumulateGrad") || strings.HasPrefix(name, "autograd::engine::") {
		f |= NameBackward
	}
	for _, s := range [...]string{"fused_experts", "fused_moe", "fused_marlin_moe"} {
		if strings.Contains(name, s) {
			f |= nameExperts
		}
	}
	return f
}
