// The binary interfaces of CUPTI's releases, as far as they differ: API version, sizes of records, and which functions
// there are. Numbers measured on the releases; nothing is copied from NVIDIA's headers.
#pragma once

#include <stdint.h>

// FAMILY is the set of functions that the library exports: 0 up to 12.4; 1 calls by number, 12.6 to 12.9; 2 the second
// subscribe, 13.0 to 13.2; 3 the functions of one subscriber, from 13.3.
#ifndef FAMILY
#error "FAMILY is 0 to 3"
#endif

struct Abi {
  const char *name;
  uint32_t version;
  int family, kernel, copy, fill, overhead, graph, device;
};

static const Abi abis[] = {
    {"11.7", 17, 0, 176, 88, 88, 40, 48, 176},      {"11.8", 18, 0, 200, 88, 88, 40, 48, 176},      {"12.0", 18, 0, 208, 88, 88, 40, 48, 176},
    {"12.2", 20, 0, 208, 88, 88, 40, 48, 184},      {"12.4", 22, 0, 208, 88, 88, 56, 56, 184},      {"12.6", 24, 1, 208, 88, 88, 56, 56, 184},
    {"12.8", 26, 1, 208, 96, 88, 56, 56, 184},      {"12.9", 28, 1, 208, 96, 88, 56, 56, 184},      {"13.0", 130001, 2, 216, 96, 88, 56, 56, 184},
    {"13.1", 130101, 2, 224, 96, 88, 56, 56, 184},  {"13.2", 130201, 2, 224, 96, 88, 56, 56, 192},  {"13.3", 130301, 3, 232, 96, 88, 56, 56, 192},
    {"13.5", 130500, 3, 248, 112, 104, 56, 56, 192},
};

// The calls of the driver and the runtime that have a number here; a real library has some hundred.
static const char *const driver_calls[] = {
    nullptr, "cuInit", "cuLaunchKernel", "cuLaunchCooperativeKernel", "cuGraphLaunch", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync_v2", "cuMemcpyAsync", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuMemsetD8Async", "cuMemsetD32Async", "cuStreamSynchronize",
    "cuCtxSynchronize", "cuEventSynchronize", "cuEventRecord", "cuEventRecordWithFlags", "cuStreamWaitEvent", "cuMemAlloc_v2", "cuMemAllocAsync",
    "cuMemAllocFromPoolAsync", "cuMemHostAlloc", "cuMemFree_v2", "cuMemFreeAsync", "cuMemFreeHost", "cuModuleLoadData", "cuModuleLoadDataEx",
    "cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuStreamIsCapturing", "cuGraphInstantiateWithFlags", "cuGraphInstantiate_v2", "cuFuncGetAttribute",
    "cuFuncSetAttribute", "cuCtxGetCurrent", "cuCtxSetCurrent", "cuCtxGetDevice", "cuEventQuery", "cuStreamQuery", "cuMemGetInfo_v2", "cuDeviceGetAttribute",
};
static const char *const runtime_calls[] = {
    nullptr, "cudaLaunchKernel_v7000", "cudaGraphLaunch_v10000", "cudaMemcpyAsync_v3020", "cudaMemsetAsync_v3020", "cudaStreamSynchronize_v3020", "cudaGetDevice_v3020", "cudaMalloc_v3020",
};
