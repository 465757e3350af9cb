#include "op.cuh"

// Linear in ir_mul. One item is one tile: ROWS rows by COLS copies of one component of one output block, which adds
// up the input blocks of the same irrep one after the other. 128 threads, 4 x 4 values each.
#define ROWS 64
#define COLS 32
#define SLICE 16

// The plan (see linear.go): for every tile across, eight integers: where its values start in out, how many copies
// it has, the width of a component of an input block's source: first and last+1 source, component, 0 0 0; then the
// sources, eight integers: offset in x of component 0, mul_in, offset in w of the tile's block, mul_out, coefficient
// as bits, 0 0 0. The first copy of a tile inside its block is tile[5].
extern "C" __global__ void __launch_bounds__(128, 4)
    linear(const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ out, const int *__restrict__ table,
           const float *__restrict__ coefficients, const int *__restrict__ plan, int rows, int in_dim, int out_dim, int pairs,
           int add, int across, int n) {
  __shared__ float xs[SLICE][ROWS + 4], ws[SLICE][COLS];
  int item = (int)blockIdx.x;
  if (item >= n) return;
  int row0 = item / across * ROWS;
  const int *tile = plan + item % across * 8;
  int o_at = tile[0], copies = tile[1], first = tile[2], last = tile[3], component = tile[4], v0 = tile[5];
  const int *sources = plan + across * 8;
  int tid = (int)threadIdx.x, tx = tid & 7, ty = tid >> 3;
  float sum[4][4] = {};
  for (int s = first; s < last; s++) {
    const int *source = sources + s * 8;
    int m1 = source[1], m3 = source[3];
    const float *from = x + source[0] + component * m1, *weights = w + source[2] + v0;
    float factor = __int_as_float(source[4]);
    for (int k0 = 0; k0 < m1; k0 += SLICE) {
      // Sixteen neighbouring threads read sixteen neighbouring copies of a row.
      for (int i = tid; i < ROWS * SLICE; i += 128) {
        int r = i / SLICE, k = i % SLICE;
        xs[k][r] = row0 + r < rows && k0 + k < m1 ? factor * __ldg(op_row(from, row0 + r, in_dim) + k0 + k) : 0.0f;
      }
      for (int i = tid; i < SLICE * COLS; i += 128) {
        int k = i / COLS, v = i % COLS;
        ws[k][v] = k0 + k < m1 && v < copies ? __ldg(weights + (long long)(k0 + k) * m3 + v) : 0.0f;
      }
      __syncthreads();
#pragma unroll
      for (int k = 0; k < SLICE; k++) {
        float4 a = *(const float4 *)&xs[k][ty * 4], b = *(const float4 *)&ws[k][tx * 4];
        float p[4] = {a.x, a.y, a.z, a.w}, q[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
          for (int j = 0; j < 4; j++) sum[i][j] = gp_fma(p[i], q[j], sum[i][j]);
      }
      __syncthreads();
    }
  }
#pragma unroll
  for (int i = 0; i < 4; i++) {
    int r = row0 + ty * 4 + i;
    if (r >= rows) continue;
    float *o = op_row(out, r, out_dim) + o_at + tx * 4;
#pragma unroll
    for (int j = 0; j < 4; j++)
      if (tx * 4 + j < copies) o[j] = add ? o[j] + sum[i][j] : sum[i][j];
  }
}
GPUPROF_KERNEL(linear)
