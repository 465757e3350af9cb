package nsys

import (
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/lazyregexp"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// The tables that are read.
const (
	tKernel    = "CUPTI_ACTIVITY_KIND_KERNEL"
	tMemcpy    = "CUPTI_ACTIVITY_KIND_MEMCPY"
	tMemset    = "CUPTI_ACTIVITY_KIND_MEMSET"
	tGraph     = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
	tRuntime   = "CUPTI_ACTIVITY_KIND_RUNTIME"
	tDriver    = "CUPTI_ACTIVITY_KIND_DRIVER" // in RUNTIME since 2019
	tNVTX      = "NVTX_EVENTS"
	tOverhead  = "PROFILER_OVERHEAD"
	tMemory    = "CUDA_GPU_MEMORY_USAGE_EVENTS"
	tCallchain = "CUDA_CALLCHAINS"
	tStrings   = "StringIds"
	tThreads   = "ThreadNames"
	tProcesses = "PROCESSES"
	tGPU       = "TARGET_INFO_GPU"
	tOldGPU    = "TARGET_INFO_CUDA_GPU" // until early 2021
	tDevice    = "TARGET_INFO_CUDA_DEVICE"
	tDiag      = "DIAGNOSTIC_EVENT"
	tGPUFaults = "CUDA_UM_GPU_PAGE_FAULT_EVENTS"
	tCPUFaults = "CUDA_UM_CPU_PAGE_FAULT_EVENTS"

	tCopyKinds     = "ENUM_CUDA_MEMCPY_OPER"
	tMemKinds      = "ENUM_CUDA_MEM_KIND"
	tEventTypes    = "ENUM_NSYS_EVENT_TYPE"
	tSeverities    = "ENUM_DIAGNOSTIC_SEVERITY_LEVEL"
	tOverheadTypes = "ENUM_CUPTI_OVERHEAD_TYPE"
	tMemOps        = "ENUM_CUDA_DEV_MEM_EVENT_OPER"
)

func isWantedTable(name string) bool {
	return slices.Contains([]string{tKernel, tMemcpy, tMemset, tGraph, tRuntime, tDriver, tNVTX, tOverhead, tMemory, tCallchain, tStrings, tThreads,
		tProcesses, tGPU, tOldGPU, tDevice, tDiag, tGPUFaults, tCPUFaults, tCopyKinds, tMemKinds, tEventTypes, tSeverities, tOverheadTypes, tMemOps}, name)
}

// tableVersion matches the version at the end of some table names: NVTX_EVENTS_V2.
var tableVersion = lazyregexp.New(`_[vV]\d+$`)

func splitVersion(name string) (base, version string) {
	version = tableVersion.FindString(name)
	return strings.TrimSuffix(name, version), version
}

// parseInteger converts a value that should be an integer.
func parseInteger(v any) (int64, bool) {
	switch x := v.(type) {
	case int64:
		return x, true
	case float64: // an INTEGER column rewritten by another program
		if x >= -1<<62 && x <= 1<<62 {
			return int64(x), true
		}
	}
	return 0, false
}

func integerOrZero(v any) int64 { n, _ := parseInteger(v); return n }

// textOf converts a value that should be text.
func textOf(v any) string {
	switch x := v.(type) {
	case string:
		return x
	case []byte:
		return string(x)
	}
	return ""
}

// The defaults come from CUPTI's headers; ENUM tables repeat them.

func defaultCopyKinds() map[int64]string {
	return map[int64]string{1: "HTOD", 2: "DTOH", 3: "HTOA", 4: "ATOH", 5: "ATOA", 6: "ATOD", 7: "DTOA", 8: "DTOD", 9: "HTOH", 10: "PTOP",
		11: "UVM_HTOD", 12: "UVM_DTOH", 13: "UVM_DTOD"}
}

func defaultMemKinds() map[int64]string {
	return map[int64]string{0: "PAGEABLE", 1: "PINNED", 2: "DEVICE", 3: "ARRAY", 4: "MANAGED", 5: "DEVICE_STATIC", 6: "MANAGED_STATIC", 7: "UNKNOWN"}
}

// Event types in NVTX_EVENTS.
const (
	nvtxMark     = "nvtxmark"
	nvtxPushPop  = "nvtxpushpoprange"
	nvtxStartEnd = "nvtxstartendrange"
)

func defaultEventTypes() map[int64]string {
	return map[int64]string{34: nvtxMark, 59: nvtxPushPop, 60: nvtxStartEnd}
}

// trimKind removes the common prefix of an ENUM table: CUDA_MEMCPY_KIND_HTOD becomes HTOD.
func trimKind(name string) string {
	if _, rest, ok := strings.Cut(name, "KIND_"); ok {
		return rest
	}
	return name
}

// directionOf returns the direction of a copy kind. Arrays are device memory.
func directionOf(kind string) model.Direction {
	switch strings.TrimPrefix(kind, unifiedCopy) {
	case "HTOD", "HTOA":
		return model.H2D
	case "DTOH", "ATOH":
		return model.D2H
	case "DTOD", "ATOA", "ATOD", "DTOA":
		return model.D2D
	case "PTOP":
		return model.P2P
	case "HTOH":
		return model.H2H
	}
	return model.NoCopy
}

// hostMemory returns the kind of host memory of a copy; unknown for other memory, such as managed memory.
func hostMemory(kind string) model.HostMemory {
	switch kind {
	case "PAGEABLE":
		return model.Pageable
	case "PINNED":
		return model.Pinned
	}
	return model.UnknownMemory
}

// titleCase converts DEVICE_STATIC to "Device Static".
func titleCase(kind string) string {
	words := strings.Split(strings.ToLower(kind), "_")
	for i, w := range words {
		if w != "" {
			words[i] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, " ")
}
