package kineto

import (
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/opcost"
)

// category is the meaning of an event's "cat" for the reader.
type category uint8

const (
	unknown category = iota
	ignored          // a known category whose events are not kept
	launchFlow
	instant
	host    // a host event; meaning.kind is its kind
	device  // a device event; meaning.kind is its kind
	waiting // a wait of a thread or a stream, on a device's track
)

type meaning struct {
	category category
	kind     model.Kind
}

// parseCategory maps the categories of all releases. Some releases capitalise them, and each kind of accelerator has
// its own "…_runtime".
func parseCategory(cat string) meaning {
	s := strings.ReplaceAll(strings.ToLower(strings.TrimSpace(cat)), " ", "_")
	switch s {
	case "cpu_op", "operator":
		return meaning{host, model.Op}
	case "user_annotation":
		return meaning{host, model.Annotation}
	case "python_function":
		return meaning{host, model.Python}
	case "overhead":
		return meaning{host, model.Overhead}
	case "kernel", "concurrent_kernel":
		return meaning{device, model.Kernel}
	case "gpu_memcpy", "memcpy":
		return meaning{device, model.Memcpy}
	case "gpu_memset", "memset":
		return meaning{device, model.Memset}
	case "cpu_instant_event":
		return meaning{category: instant}
	case "ac2g", "async_cpu_to_gpu", "async":
		return meaning{category: launchFlow}
	case "cuda_sync":
		return meaning{category: waiting}
	case "gpu_user_annotation", // a host range, drawn over the kernels launched in it
		"cuda_event",
		"trace", "traces", "fwdbwd", "external_correlation", "cuda_profiler_range", "gpu_pm_counter":
		return meaning{category: ignored}
	}
	if strings.HasSuffix(s, "runtime") || strings.HasSuffix(s, "driver") {
		return meaning{host, model.API}
	}
	return meaning{}
}

// nameSense holds the properties of an event that follow from its name.
type nameSense struct {
	kind       model.Kind // Step or Annotation for operators and annotations, else 0
	memory     bool       // an allocation or a release
	window     bool       // marks the window of the profiler itself
	costed     bool       // operator with a cost model, whose arguments are kept
	copied     bool       // dir and hostMemory are parsed
	dir        model.Direction
	hostMemory model.HostMemory
}

func parseName(name string) nameSense {
	s := nameSense{memory: name == "[memory]", costed: opcost.Known(name)}
	switch {
	case strings.HasPrefix(name, "ProfilerStep"):
		s.kind = model.Step
	// Early releases gave these ranges the category of operators.
	case strings.HasPrefix(name, "enumerate(DataLoader)#"), strings.HasPrefix(name, "enumerate(DataPipe)#"),
		strings.HasPrefix(name, "Optimizer.step#"), strings.HasPrefix(name, "Optimizer.zero_grad#"):
		s.kind = model.Annotation
	case strings.HasPrefix(name, "Iteration Start:"), name == "Record Window End", strings.HasPrefix(name, "PyTorch Profiler ("):
		s.window = true
	}
	return s
}

// parseCopyName parses the name of a copy, such as CUPTI's "Memcpy DtoH (Device -> Pageable)". ROCm's names lack the
// kind of memory.
func parseCopyName(name string) (model.Direction, model.HostMemory) {
	s := strings.ToLower(name)
	if !strings.HasPrefix(s, "memcpy") && !strings.Contains(s, "copy") {
		return model.NoCopy, model.UnknownMemory
	}
	end := model.UnknownMemory
	switch {
	case strings.Contains(s, "pageable"):
		end = model.Pageable
	case strings.Contains(s, "pinned"):
		end = model.Pinned
	}
	return model.DirectionOf(s), end
}
