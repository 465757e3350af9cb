#include "derive.cuh"

// One item is one value, RUN of them a block.
#define RUN 1024

#define EACH(i, n)                                                            \
  long long end = gp_min((long long)(blockIdx.x + 1) * RUN, (long long)(n)); \
  for (long long i = (long long)blockIdx.x * RUN + threadIdx.x; i < end; i += blockDim.x)

extern "C" __global__ void act_apply(const float *__restrict__ x, float *__restrict__ out, int count, int act, float c, int n) {
  EACH(i, n) out[i] = c * op_activate(act, x[i]);
}
GPUPROF_KERNEL(act_apply)

extern "C" __global__ void act_grad(const float *__restrict__ x, float *__restrict__ d, int count, int act, float c, int n) {
  EACH(i, n) d[i] *= c * op_derive(act, x[i]);
}
GPUPROF_KERNEL(act_grad)

extern "C" __global__ void add(const float *__restrict__ x, float *__restrict__ out, int count, int n) {
  EACH(i, n) out[i] += x[i];
}
GPUPROF_KERNEL(add)

// One item is one row of a matrix that is turned, one block a row.
extern "C" __global__ void flip(const float *__restrict__ src, float *__restrict__ out, const int *__restrict__ table, int count, int n) {
  int r = (int)blockIdx.x;
  if (r >= n) return;
  const int *t = table + r * 4;
  const float *from = src + t[0];
  float *to = out + t[1];
  for (int i = (int)threadIdx.x; i < t[2]; i += (int)blockDim.x) to[(long long)i * t[3]] = __ldg(from + i);
}
GPUPROF_KERNEL(flip)
