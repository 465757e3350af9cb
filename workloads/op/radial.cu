#include "basis.cuh"
#include "pack.cuh"

// The radial functions of EDGES edges, then the first layer of the MLP on them, h = c silu(scale b w1), as the second
// one's product reads it. A block holds b, turned, and w1 in shared memory; a thread makes 4 x 4 values of h, its
// neighbours those beside them. One item is one edge.
#define EDGES 128

// radial_store writes four neighbouring values of a row of h from column col on; from stored on there is nothing.
GP_FN void radial_store(float *h, long long at, int col, int inner, int stored, int form, const float (&v)[4], bool wide) {
  if (form == PACK_PLAIN || form == PACK_SPLIT) {
    float high[4], low[4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
      high[j] = form == PACK_SPLIT ? pack_tf32(v[j]) : v[j];
      low[j] = pack_low(v[j]);
    }
    for (int part = 0; part < (form == PACK_SPLIT ? 3 : 1); part++) {
      float *p = h + at + part * inner + col;
      const float *q = part == 2 ? low : high;
      if (wide) {
        *(float4 *)p = {q[0], q[1], q[2], q[3]};
        continue;
      }
#pragma unroll
      for (int j = 0; j < 4; j++)
        if (col + j < stored) p[j] = q[j];
    }
    return;
  }
  unsigned *p = (unsigned *)((unsigned short *)h + at + col); // inner is even there
  p[0] = (unsigned)pack_half(form, v[0]) | (unsigned)pack_half(form, v[1]) << 16;
  p[1] = (unsigned)pack_half(form, v[2]) | (unsigned)pack_half(form, v[3]) << 16;
}

extern "C" __global__ void __launch_bounds__(128, 6)
    radial(const float *__restrict__ vec, const float *__restrict__ w1, float *__restrict__ h, int count, int functions, int kind,
           int envelope, float cutoff, int hidden, int inner, int form, float scale, float c, int n) {
  GPUPROF_SHARED(float, shared);
  int first = (int)blockIdx.x * EDGES, tid = (int)threadIdx.x, columns = (inner + 3) / 4 * 4;
  float *b = shared, *w = shared + functions * EDGES;
  for (int i = tid; i < functions * columns; i += (int)blockDim.x) {
    int k = i / columns, j = i % columns;
    w[i] = j < hidden ? scale * __ldg(w1 + k * hidden + j) : 0.0f;
  }
  for (int e = tid; e < EDGES; e += (int)blockDim.x) basis_row(op_row(vec, gp_min(first + e, n - 1), 3), b + e, EDGES, functions, kind, envelope, cutoff);
  __syncthreads();
  int across = columns / 4, parts = form == PACK_SPLIT ? 3 : 1;
  bool wide = (inner & 3) == 0 && op_aligned(h);
  for (int i = tid; i < across * (EDGES / 4); i += (int)blockDim.x) {
    int col = i % across * 4, e = i / across * 4;
    float sum[4][4] = {};
    for (int k = 0; k < functions; k++) {
      float4 p = *(const float4 *)(b + k * EDGES + e), q = *(const float4 *)(w + k * columns + col);
      float x[4] = {p.x, p.y, p.z, p.w}, y[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
      for (int r = 0; r < 4; r++)
#pragma unroll
        for (int j = 0; j < 4; j++) sum[r][j] = gp_fma(x[r], y[j], sum[r][j]);
    }
#pragma unroll
    for (int r = 0; r < 4; r++) {
      if (first + e + r >= n) break;
#pragma unroll
      for (int j = 0; j < 4; j++) sum[r][j] = c * op_activate(OP_SILU, sum[r][j]);
      radial_store(h, (long long)(first + e + r) * inner * parts, col, inner, inner, form, sum[r], wide);
    }
  }
}
GPUPROF_KERNEL(radial)
