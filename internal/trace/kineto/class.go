package kineto

import (
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace"
)

// category is what an event's category makes of it.
type category uint8

const (
	unknown category = iota
	ignored          // known, and not kept
	launchFlow
	instant
	host    // kind says which
	device  // kind says which
	waiting // a wait of a thread or a stream, drawn on a device's track
)

type meaning struct {
	category category
	kind     trace.Kind
}

// meaningOf knows the categories of every release: they were capitalised once,
// and each kind of accelerator has its own "_runtime" and "_driver".
func meaningOf(cat string) meaning {
	s := strings.ReplaceAll(strings.ToLower(strings.TrimSpace(cat)), " ", "_")
	switch s {
	case "cpu_op", "operator":
		return meaning{host, trace.Op}
	case "user_annotation":
		return meaning{host, trace.Annotation}
	case "python_function":
		return meaning{host, trace.Python}
	case "overhead":
		return meaning{host, trace.Overhead}
	case "kernel", "concurrent_kernel":
		return meaning{device, trace.Kernel}
	case "gpu_memcpy", "memcpy":
		return meaning{device, trace.Memcpy}
	case "gpu_memset", "memset":
		return meaning{device, trace.Memset}
	case "cpu_instant_event":
		return meaning{category: instant}
	case "ac2g", "async_cpu_to_gpu", "async":
		return meaning{category: launchFlow}
	case "cuda_sync":
		return meaning{category: waiting}
	case "gpu_user_annotation", // a host range drawn over the kernels launched in it
		"cuda_event",
		"trace", "traces", "fwdbwd", "external_correlation", "cuda_profiler_range", "gpu_pm_counter":
		return meaning{category: ignored}
	}
	if strings.HasSuffix(s, "runtime") || strings.HasSuffix(s, "driver") {
		return meaning{host, trace.API}
	}
	return meaning{}
}

// sense is what a name says about its event.
type sense struct {
	kind   trace.Kind // for operators and annotations: Step or Annotation, or 0
	memory bool       // an allocation or a release
	window bool       // a mark of the profiler's own window
	// product: an operator that is a matrix product or a convolution, whose shapes are kept.
	product bool
	copied  bool // dir and end are known
	dir     trace.Direction
	end     trace.HostMemory
}

func senseOf(name string) sense {
	s := sense{memory: name == "[memory]"}
	switch name {
	case "aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::_scaled_mm", "aten::cudnn_convolution", "aten::miopen_convolution",
		"aten::convolution_backward", "aten::_convolution":
		s.product = true
	}
	switch {
	case strings.HasPrefix(name, "ProfilerStep"):
		s.kind = trace.Step
	// Early releases gave these ranges the category of operators.
	case strings.HasPrefix(name, "enumerate(DataLoader)#"), strings.HasPrefix(name, "enumerate(DataPipe)#"),
		strings.HasPrefix(name, "Optimizer.step#"), strings.HasPrefix(name, "Optimizer.zero_grad#"):
		s.kind = trace.Annotation
	case strings.HasPrefix(name, "Iteration Start:"), name == "Record Window End", strings.HasPrefix(name, "PyTorch Profiler ("):
		s.window = true
	}
	return s
}

// copyOf reads a copy's name: "Memcpy DtoH (Device -> Pageable)" from CUPTI; ROCm
// does not say what kind of host memory it was.
func copyOf(name string) (trace.Direction, trace.HostMemory) {
	s := strings.ToLower(name)
	if !strings.HasPrefix(s, "memcpy") && !strings.Contains(s, "copy") {
		return trace.NoCopy, trace.UnknownMemory
	}
	end := trace.UnknownMemory
	switch {
	case strings.Contains(s, "pageable"):
		end = trace.Pageable
	case strings.Contains(s, "pinned"):
		end = trace.Pinned
	}
	return trace.DirectionOf(s), end
}
