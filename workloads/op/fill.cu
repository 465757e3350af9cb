#include "op.cuh"

// One item is one element, FILL of them a block.
#define FILL 1024

extern "C" __global__ void fill(float *__restrict__ out, int count, float value, int n) {
  long long end = gp_min((long long)(blockIdx.x + 1) * FILL, (long long)n);
  for (long long i = (long long)blockIdx.x * FILL + threadIdx.x; i < end; i += blockDim.x) out[i] = value;
}
GPUPROF_KERNEL(fill)
