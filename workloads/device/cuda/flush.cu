// What clears the last-level cache: writing one region and reading another,
// each at least twice the cache. n counts groups of four words.
#include "include/device.cuh"

typedef int quad __attribute__((vector_size(16)));

extern "C" __global__ void flush_write(quad *to, int v, int n) {
  for (long long i = gp_thread(); i < n; i += gp_threads()) to[i] = quad{v, v, v, v};
}
GPUPROF_KERNEL(flush_write)

// The sum keeps the reads alive; it reaches memory only where it meets a value
// the region cannot give.
extern "C" __global__ void flush_read(const quad *from, int *sink, int impossible, int n) {
  int sum = 0;
  for (long long i = gp_thread(); i < n; i += gp_threads()) {
    quad v = from[i];
    sum |= v[0] | v[1] | v[2] | v[3];
  }
  if (sum == impossible) sink[0] = sum;
}
GPUPROF_KERNEL(flush_read)
