#include "gru.cuh"

// One item is one unit of one carrier.

extern "C" __global__ void gru_cell(const float *__restrict__ gx, const float *__restrict__ gh, const float *__restrict__ bx,
                                    const float *__restrict__ bh, float *__restrict__ h, float *__restrict__ out, int n, int H,
                                    int gxAt, int hAt, int outAt, int biased, int items) {
  int i = gp_thread();
  if (i >= items) return;
  int row = i / H, j = i % H;
  const float *x = gx + gxAt + (long long)row * 3 * H + j, *s = gh + (long long)row * 3 * H + j;
  float g[6] = {x[0], x[H], x[2 * H], s[0], s[H], s[2 * H]};
  if (biased) {
#pragma unroll
    for (int k = 0; k < 3; k++) {
      g[k] += bx[k * H + j];
      g[3 + k] += bh[k * H + j];
    }
  }
  float v = gru_unit(g[0], g[1], g[2], g[3], g[4], g[5], h[hAt + i]);
  h[hAt + i] = v;
  if (outAt >= 0) out[outAt + i] = v;
}
GPUPROF_KERNEL(gru_cell)

// The plain cell's operations. a, b and out may be the same memory, so nothing is said to be restricted.
#define ELEMENTWISE(NAME, VALUE)                                                                                          \
  extern "C" __global__ void NAME(float *a, float *b, float *out, int n, int H, int aAt, int aRow, int bAt, int bRow, \
                                  int outAt, int outRow, int items) {                                                     \
    int i = gp_thread();                                                                                                  \
    if (i >= items) return;                                                                                               \
    long long row = i / H;                                                                                                \
    int j = i % H;                                                                                                        \
    float x = ((const float *)a)[aAt + row * aRow + j], y = ((const float *)b)[bAt + row * bRow + j];                     \
    (void)y;                                                                                                              \
    out[outAt + row * outRow + j] = VALUE;                                                                                \
  }                                                                                                                       \
  GPUPROF_KERNEL(NAME)

ELEMENTWISE(gru_add, x + y)
ELEMENTWISE(gru_sub, x - y)
ELEMENTWISE(gru_mul, x *y)
ELEMENTWISE(gru_sigmoid, gp_sigmoid(x))
ELEMENTWISE(gru_tanh, gp_tanh(x))
ELEMENTWISE(gru_copy, x)
