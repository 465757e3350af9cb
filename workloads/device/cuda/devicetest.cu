// The twins of workloads/testkit/devicetest's kernels, for the conformance suite. Their names have a prefix
// because raise is a function of the C library, too.
#include "include/device.cuh"

extern "C" __global__ void devicetest_gate(volatile int *flags, int n) {
  if (gp_thread() >= n) return;
  gp_store_release_system(&flags[0], 1);
  while (gp_load_acquire_system(&flags[1]) == 0) gp_nanosleep(100);
}
GPUPROF_KERNEL(devicetest_gate)

extern "C" __global__ void devicetest_raise(volatile int *flags, int i, int n) {
  if (gp_thread() < n) gp_store_release_system(&flags[i], 1);
}
GPUPROF_KERNEL(devicetest_raise)

extern "C" __global__ void devicetest_fill(int *out, int v, int n) {
  int k = gp_thread();
  if (k < n) out[k] = v;
}
GPUPROF_KERNEL(devicetest_fill)

extern "C" __global__ void devicetest_chain(int *y, int v, int n) {
  int k = gp_thread();
  if (k < n) y[k] = (int)(3u * (unsigned)y[k] + (unsigned)v);
}
GPUPROF_KERNEL(devicetest_chain)

extern "C" __global__ void devicetest_mix(float *out, const float *in, int i, float f, int n) {
  int k = gp_thread();
  if (k < n) out[k] = gp_fma(f, in[k], (float)i);
}
GPUPROF_KERNEL(devicetest_mix)

extern "C" __global__ void devicetest_fail(int n) {
  if (gp_thread() < n) gp_trap();
}
GPUPROF_KERNEL(devicetest_fail)

// out[k] = the sum of two neighbours' places, which only blocks that have met
// can know: a cooperative launch. state is one zero.
extern "C" __global__ void devicetest_meet(unsigned *state, int *places, int *out, int n) {
  for (int k = gp_thread(); k < n; k += gp_threads()) places[k] = k;
  gp_grid_sync(state);
  for (int k = gp_thread(); k < n; k += gp_threads()) out[k] = places[(k + 1) % n] + places[(k + n - 1) % n];
}
GPUPROF_KERNEL(devicetest_meet)

// out[k] = k's value turned round within its block, through words words of
// dynamic shared memory, of which the last ones are used.
extern "C" __global__ void devicetest_turn(int *out, int words, int n) {
  GPUPROF_SHARED(int, all);
  int *mine = all + words - (int)blockDim.x;
  int k = gp_thread(), t = (int)threadIdx.x;
  mine[t] = k;
  __syncthreads();
  if (k < n) out[k] = mine[(int)blockDim.x - 1 - t];
}
GPUPROF_KERNEL(devicetest_turn)
