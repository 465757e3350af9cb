#include "pack.cuh"

// One item is one element of an operand with its padding, ITEMS of them a block.
#define ITEMS 1024

// The left side, x [rows,K] -> out [rows, inner] of 16 bits, or [rows, high|high|low] of 3 x inner floats.
extern "C" __global__ void pack_left(const float *__restrict__ x, float *__restrict__ out, int K, int inner, int form, int n) {
  unsigned short *halves = (unsigned short *)out;
  long long end = gp_min((long long)(blockIdx.x + 1) * ITEMS, (long long)n);
  for (long long i = (long long)blockIdx.x * ITEMS + threadIdx.x; i < end; i += blockDim.x) {
    int r = (int)(i / inner), k = (int)(i % inner);
    float v = k < K ? __ldg(op_row(x, r, K) + k) : 0.0f;
    if (form != PACK_SPLIT) {
      halves[i] = pack_half(form, v);
      continue;
    }
    float *row = op_row(out, r, 3 * inner) + k;
    row[0] = row[inner] = pack_tf32(v);
    row[2 * inner] = pack_low(v);
  }
}
GPUPROF_KERNEL(pack_left)

// The right side, x [filled] -> out [n] of 16 bits with zeros at its end, or its [high; low; high], 3 n floats.
extern "C" __global__ void pack_right(const float *__restrict__ x, float *__restrict__ out, int filled, int count, int form, int n) {
  unsigned short *halves = (unsigned short *)out;
  long long end = gp_min((long long)(blockIdx.x + 1) * ITEMS, (long long)n);
  for (long long i = (long long)blockIdx.x * ITEMS + threadIdx.x; i < end; i += blockDim.x) {
    float v = i < filled ? __ldg(x + i) : 0.0f;
    if (form != PACK_SPLIT) {
      halves[i] = pack_half(form, v);
      continue;
    }
    out[i] = out[i + 2 * (long long)n] = pack_tf32(v);
    out[i + n] = pack_low(v);
  }
}
GPUPROF_KERNEL(pack_right)
