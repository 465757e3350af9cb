#include "op.cuh"

#define TOGETHER 4

// One item is one row, one block a row. Of every column of out there are four integers (see gate.go): its column in x, or
// -1 where it is the activation itself, that of its gate, the activation, the constant as bits. A thread takes TOGETHER columns
// at a time, whose loads wait for each other's answers at once; neighbours read neighbours, whatever the multiplicities.
extern "C" __global__ void __launch_bounds__(256)
    gate(const float *__restrict__ x, float *__restrict__ out, const int *__restrict__ table, const float *__restrict__ constants,
         const int *__restrict__ columns, int count, int in_dim, int out_dim, int runs, int n) {
  int r = (int)blockIdx.x;
  if (r >= n) return;
  const float *src = op_row(x, r, in_dim);
  float *dst = op_row(out, r, out_dim);
  for (int first = (int)threadIdx.x; first < out_dim; first += TOGETHER * (int)blockDim.x) {
    int4 column[TOGETHER];
    float gate[TOGETHER], value[TOGETHER];
#pragma unroll
    for (int i = 0; i < TOGETHER; i++) column[i] = ((const int4 *)columns)[gp_min(first + i * (int)blockDim.x, out_dim - 1)];
#pragma unroll
    for (int i = 0; i < TOGETHER; i++) {
      gate[i] = __ldg(src + column[i].y);
      value[i] = column[i].x < 0 ? 1.0f : __ldg(src + column[i].x);
    }
#pragma unroll
    for (int i = 0; i < TOGETHER; i++) {
      int at = first + i * (int)blockDim.x;
      if (at < out_dim) dst[at] = __int_as_float(column[i].w) * op_activate(column[i].z, gate[i]) * value[i];
    }
  }
}
GPUPROF_KERNEL(gate)
