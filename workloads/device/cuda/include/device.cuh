// The one header of gpuprof's kernels. It serves three compilers:
//
//   clang++ -x cuda --cuda-device-only -nocudainc -nocudalib   PTX for GPUs (no SDK, no libdevice)
//   g++ -DGPUPROF_SIM                                          the simulated driver: threads are fibers
//   NVRTC                                                      at run time, for what is generated there
//
// A kernel and its registration, which is nothing on a GPU:
//
//   #include "../../workloads/device/cuda/include/device.cuh"
//
//   extern "C" __global__ void axpy(float *__restrict__ y, const float *__restrict__ x, float a, int n) {
//     int i = blockIdx.x * blockDim.x + threadIdx.x;
//     if (i < n) y[i] = gp_fma(a, x[i], y[i]);
//   }
//   GPUPROF_KERNEL(axpy)
//
// Write
//   - parameters of int, unsigned, long long, float, double and pointers only; `const T *` for what is only
//     read and `volatile T *` for flags that host and device touch at the same time (the simulator's race
//     check goes by them: const reads, plain writes, volatile is left alone);
//   - `__shared__ float tile[32][33];` inside the kernel for shared memory of fixed size, and
//     `GPUPROF_SHARED(float, name);` for the dynamic part: name is a float*, aligned to 16 bytes; carve further
//     arrays out of it with pointer arithmetic; never a raw extern __shared__;
//   - helpers as `GP_FN float f(float x) {…}` (static, inlined, device); tables as `__constant__ float t[] = {…};`
//   - barriers as __syncthreads() and __syncwarp(), shuffles and votes as __shfl_*_sync, __ballot_sync, __any_sync,
//     __all_sync; every lane that the mask names must still be running: leave the kernel after the last of them;
//   - spin loops over gp_load_acquire_system (flags with the host) or gp_load_acquire (between blocks), never over
//     a plain or volatile read: the helpers are also where the simulator lets others run;
//   - mathematics from device_math.cuh (gp_exp, gp_tanh, gp_sin…) and the exact gp_fma, gp_abs, gp_min, gp_max,
//     gp_sqrt, gp_rcp, gp_floor, gp_rint for float and double; 16-bit floats through device_convert.cuh;
//   - gp_prefetch(p) for what is read once and much later.
//
// Do not write inline PTX (no compiler here checks it), expf and friends (they are calls into libdevice),
// printf, assert, new, dynamic parallelism, textures, static variables, or functions shared between files other
// than through a header. gp_trap() ends a kernel that found its input impossible.
#pragma once

#ifdef GPUPROF_SIM
#include "device_sim.cuh"
#elif defined(__CUDACC_RTC__)
#include "device_nvrtc.cuh"
#else
#include "device_cuda.cuh"
#endif

#include "device_convert.cuh"
#include "device_math.cuh"

// gp_thread is the thread's index in the whole one-dimensional grid, gp_threads the number of threads in it.
GP_FN int gp_thread() { return (int)(blockIdx.x * blockDim.x + threadIdx.x); }
GP_FN int gp_threads() { return (int)(gridDim.x * blockDim.x); }

// gp_lane is the thread's place in its warp, gp_warp its warp's place in the block.
GP_FN int gp_rank() { return (int)((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x); }
GP_FN int gp_lane() { return gp_rank() & 31; }
GP_FN int gp_warp() { return gp_rank() >> 5; }

// gp_warp_sum adds v over the warp by halving; every lane gets the sum, in the same order each time.
GP_FN float gp_warp_sum(float v) {
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}
GP_FN double gp_warp_sum(double v) {
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}
GP_FN int gp_warp_sum(int v) {
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}

// gp_grid_sync waits until every block of a cooperative launch has arrived. state is one unsigned in device
// memory, zero before the first launch, used by nothing else; it counts arrivals and need not be reset until
// 2^32 of them.
GP_FN void gp_grid_sync(unsigned *state) {
  __syncthreads();
  if (gp_rank() == 0) {
    unsigned blocks = gridDim.x * gridDim.y * gridDim.z;
    __threadfence();
    unsigned ticket = atomicAdd(state, 1u);
    unsigned target = (ticket / blocks + 1u) * blocks;
    while ((int)(gp_load_acquire(state) - target) < 0) {
    }
    __threadfence();
  }
  __syncthreads();
}
