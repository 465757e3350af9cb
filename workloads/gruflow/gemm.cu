#include "gru.cuh"

// out = a w + bias, a [rows,K], w [K,N]. A block takes tile rows by 64 columns, 64 rows at a time; each of its 256
// threads sums 4 x 4 values over K in order.
#define PANEL 64
#define SLICE 16

extern "C" __global__ void __launch_bounds__(256)
    gru_gemm(const float *__restrict__ a, const float *__restrict__ w, const float *__restrict__ bias, float *__restrict__ out,
             int n, int rows, int K, int N, int aAt, int tile, int precision, int items) {
  __shared__ float left[SLICE][PANEL + 4];
  __shared__ float right[SLICE][PANEL];
  if ((int)blockIdx.x >= items) return;
  int panels = (N + PANEL - 1) / PANEL, band = (int)blockIdx.x / panels, c0 = (int)blockIdx.x % panels * PANEL;
  int tid = (int)threadIdx.x, tx = tid % 16, ty = tid / 16;
  int last = gp_min(rows, (band + 1) * tile);
  for (int r0 = band * tile; r0 < last; r0 += PANEL) {
    float sum[4][4];
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int j = 0; j < 4; j++) sum[i][j] = 0.0f;
    for (int k0 = 0; k0 < K; k0 += SLICE) {
#pragma unroll
      for (int q = 0; q < 4; q++) {
        int i = tid + q * 256, r = r0 + i / SLICE, k = k0 + i % SLICE;
        left[i % SLICE][i / SLICE] = r < last && k < K ? gru_load(precision, a, aAt + (long long)r * K + k) : 0.0f;
        int wk = k0 + i / PANEL, c = c0 + i % PANEL;
        right[i / PANEL][i % PANEL] = wk < K && c < N ? gru_load(precision, w, (long long)wk * N + c) : 0.0f;
      }
      __syncthreads();
#pragma unroll
      for (int k = 0; k < SLICE; k++)
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
          for (int j = 0; j < 4; j++) sum[i][j] = gp_fma(left[k][ty * 4 + i], right[k][tx + 16 * j], sum[i][j]);
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int j = 0; j < 4; j++) {
        int r = r0 + ty * 4 + i, c = c0 + tx + 16 * j;
        if (r < last && c < N) out[(long long)r * N + c] = sum[i][j] + bias[c];
      }
  }
}
GPUPROF_KERNEL(gru_gemm)
