#include "grid.cuh"

// out = W x over cells. A block takes tile cells, 64 at a time by 64 outputs; each of its 256 threads sums 4 x 4
// values over K in order. W was rounded when it was uploaded, x is as it is read.
#define PANEL 64
#define SLICE 16

extern "C" __global__ void __launch_bounds__(256)
    grid_product(const float *__restrict__ x, const float *__restrict__ weights, float *__restrict__ out, int xAt, int xCs, int wAt,
                 int outAt, int outCs, int K, int M, int cells, int hwc, int precision, int tile, int items) {
  __shared__ float left[SLICE][PANEL + 4];
  __shared__ float right[SLICE][PANEL];
  if ((int)blockIdx.x >= items) return;
  int tid = (int)threadIdx.x, tx = tid % 16, ty = tid / 16;
  int first = (int)blockIdx.x * tile, last = gp_min(cells, first + tile);
  for (int i0 = first; i0 < last; i0 += PANEL)
    for (int m0 = 0; m0 < M; m0 += PANEL) {
      float sum[4][4];
#pragma unroll
      for (int a = 0; a < 4; a++)
#pragma unroll
        for (int b = 0; b < 4; b++) sum[a][b] = 0.0f;
      for (int k0 = 0; k0 < K; k0 += SLICE) {
#pragma unroll
        for (int q = 0; q < 4; q++) {
          int at = tid + q * 256, k = k0 + at / PANEL, i = i0 + at % PANEL, m = m0 + at % PANEL;
          right[at / PANEL][at % PANEL] = k < K && i < last ? grid_round(precision, x[xAt + grid_where(k, i, xCs, K, hwc)]) : 0.0f;
          left[at / PANEL][at % PANEL] = k < K && m < M ? weights[wAt + (hwc ? k * M + m : m * K + k)] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < SLICE; k++)
#pragma unroll
          for (int a = 0; a < 4; a++)
#pragma unroll
            for (int b = 0; b < 4; b++) sum[a][b] = gp_fma(left[k][ty * 4 + a], right[k][tx + 16 * b], sum[a][b]);
        __syncthreads();
      }
#pragma unroll
      for (int a = 0; a < 4; a++)
#pragma unroll
        for (int b = 0; b < 4; b++) {
          int m = m0 + ty * 4 + a, i = i0 + tx + 16 * b;
          if (m < M && i < last) out[outAt + grid_where(m, i, outCs, M, hwc)] = sum[a][b];
        }
    }
}
GPUPROF_KERNEL(grid_product)
