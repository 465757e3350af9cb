package model

import "strings"

// Call classifies a function of the CUDA or HIP runtime or driver.
type Call uint8

// Kinds of API calls.
const (
	CallNone Call = iota // not an API call
	CallOther
	CallLaunch // starts one kernel
	CallGraph  // starts a graph of kernels
	CallCopy
	CallFill
	CallSync // {cuda,cu,hip}{Stream,Device,Event,Ctx,Thread}Synchronize
	CallAlloc
	CallFree
	CallWaitEvent // makes a stream wait for an event: {cuda,cu,hip}StreamWaitEvent
)

// CallOf classifies an API function by name, with or without Nsight's suffixes for versions ("cuMemcpyDtoHAsync_v2").
func CallOf(name string) Call {
	rest := name
	switch {
	case strings.HasPrefix(rest, "cuda"):
		rest = rest[4:]
	case strings.HasPrefix(rest, "hip"):
		rest = rest[3:]
	case strings.HasPrefix(rest, "cu"):
		rest = rest[2:]
	default:
		return CallOther
	}
	if i := strings.Index(rest, "_v"); i > 0 {
		rest = rest[:i]
	}
	switch {
	case strings.HasPrefix(rest, "GraphLaunch"):
		return CallGraph
	case strings.Contains(rest, "LaunchHostFunc"):
		return CallOther
	case strings.Contains(rest, "Launch"): // LaunchKernel[ExC], ExtModuleLaunchKernel, LaunchCooperativeKernel, LaunchGrid
		return CallLaunch
	case strings.HasPrefix(rest, "Memcpy"):
		return CallCopy
	case strings.HasPrefix(rest, "Memset"):
		return CallFill
	}
	if rest == "StreamWaitEvent" {
		return CallWaitEvent
	}
	for _, what := range [...]string{"Stream", "Device", "Event", "Ctx", "Thread"} {
		if strings.HasPrefix(rest, what+"Synchronize") {
			return CallSync
		}
	}
	switch {
	case strings.HasPrefix(rest, "Malloc"), strings.HasPrefix(rest, "MemAlloc"), strings.HasPrefix(rest, "HostAlloc"),
		strings.HasPrefix(rest, "HostMalloc"), strings.HasPrefix(rest, "ExtMalloc"), rest == "MemCreate", rest == "MemHostAlloc":
		return CallAlloc
	case strings.HasPrefix(rest, "Free"), strings.HasPrefix(rest, "MemFree"), strings.HasPrefix(rest, "HostFree"), rest == "MemRelease":
		return CallFree
	}
	return CallOther
}
