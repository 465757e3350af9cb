#include "grid.cuh"

// A step of mlp. A block takes 32 x 8 cells, as in fused.go; each of its 128 threads takes two of them, four rows
// apart, so that every weight read from shared memory serves two cells. The planes of the block's cells and their
// border pass through shared memory one after the other.
#define WIDE 32
#define HIGH 8
#define CELLS 2
#define THREADS 128
// Weights of a chunk of hidden units in shared memory.
#define UNITS 16
#define MOST 64

// What a thread holds of its cells.
template <int MAX>
struct grid_cells {
  float p[CELLS][2 * MAX], delta[CELLS][MAX];
};

// With EXACT there are MAX channels, and every loop over them is unrolled; else at most so many.
template <int MAX, bool EXACT>
GP_FN void grid_step(const float *psi, const float *weights, float *out, int N, int channels, int H, int hwc, int zero, int normalise,
                     int identity, int precision, float tau, float (*tile)[WIDE + 2], float *w1, float *w2) {
  constexpr int UNROLL = EXACT ? MAX : 1;
  const int C = EXACT ? MAX : channels;
  int across = (N + WIDE - 1) / WIDE;
  int y0 = (int)blockIdx.x / across * HIGH, x0 = (int)blockIdx.x % across * WIDE;
  int tid = (int)threadIdx.x, tx = tid % WIDE, ty = tid / WIDE;
  grid_cells<MAX> v;
#pragma unroll UNROLL
  for (int c = 0; c < C; c++) {
    for (int q = tid; q < (HIGH + 2) * (WIDE + 2); q += THREADS) {
      int y = y0 + q / (WIDE + 2) - 1, x = x0 + q % (WIDE + 2) - 1;
      tile[q / (WIDE + 2)][q % (WIDE + 2)] = y > N || x > N ? 0.0f : grid_at(psi, c, y, x, N, C, hwc, zero);
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < CELLS; r++) {
      int y = ty + 4 * r;
      float s = tile[y][tx] + tile[y][tx + 1];
      s += tile[y][tx + 2];
      s += tile[y + 1][tx];
      s += tile[y + 1][tx + 2];
      s += tile[y + 2][tx];
      s += tile[y + 2][tx + 1];
      s += tile[y + 2][tx + 2];
      v.p[r][c] = tile[y + 1][tx + 1];
      v.p[r][MAX + c] = grid_round(precision, s * 0.125f);
      v.delta[r][c] = 0.0f;
    }
    __syncthreads();
  }
  const float *b1 = weights + 2 * (3 * C * H), *b2 = b1 + H;
  for (int h0 = 0; h0 < H; h0 += UNITS) {
    int units = gp_min(UNITS, H - h0);
    for (int q = tid; q < units * 2 * C; q += THREADS) w1[q / (2 * C) * 2 * MAX + (q % (2 * C) < C ? q % (2 * C) : MAX + q % (2 * C) - C)] = weights[h0 * 2 * C + q];
    for (int q = tid; q < units * C; q += THREADS) w2[q / C * MAX + q % C] = weights[2 * C * H + q % C * H + h0 + q / C];
    __syncthreads();
    for (int h = 0; h < units; h++) {
      float a[CELLS];
#pragma unroll
      for (int r = 0; r < CELLS; r++) a[r] = 0.0f;
#pragma unroll UNROLL
      for (int c = 0; c < C; c++) {
#pragma unroll
        for (int r = 0; r < CELLS; r++) {
          a[r] = gp_fma(w1[h * 2 * MAX + c], grid_round(precision, v.p[r][c]), a[r]);
          a[r] = gp_fma(w1[h * 2 * MAX + MAX + c], v.p[r][MAX + c], a[r]);
        }
      }
      float bias = b1[h0 + h];
#pragma unroll
      for (int r = 0; r < CELLS; r++) {
        a[r] += bias;
        if (!identity) a[r] = grid_elu(a[r]);
        a[r] = grid_round(precision, a[r]);
      }
#pragma unroll UNROLL
      for (int c = 0; c < C; c++) {
#pragma unroll
        for (int r = 0; r < CELLS; r++) v.delta[r][c] = gp_fma(w2[h * MAX + c], a[r], v.delta[r][c]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < CELLS; r++) {
    int y = y0 + ty + 4 * r, x = x0 + tx;
    if (y >= N || x >= N) continue;
    float sum = 0.0f;
#pragma unroll UNROLL
    for (int c = 0; c < C; c++) {
      v.p[r][c] = gp_fma(tau, v.delta[r][c] + b2[c], v.p[r][c]);
      sum = gp_fma(v.p[r][c], v.p[r][c], sum);
    }
    float part = normalise ? 1.0f / gp_sqrt(sum + 1e-8f) : 1.0f;
#pragma unroll UNROLL
    for (int c = 0; c < C; c++) {
      out[grid_where(c, y * N + x, N * N, C, hwc)] = v.p[r][c] * part;
    }
  }
}

extern "C" __global__ void __launch_bounds__(128)
    grid_fused(const float *__restrict__ psi, const float *__restrict__ weights, float *__restrict__ out, int psiAt, int outAt, int N,
               int C, int H, int hwc, int zero, int normalise, int identity, int precision, int tileCells, float tau, int items) {
  __shared__ float tile[HIGH + 2][WIDE + 2];
  __shared__ float w1[UNITS * 2 * MOST], w2[UNITS * MOST];
  if ((int)blockIdx.x >= items) return;
  const float *from = psi + psiAt;
  float *to = out + outAt;
  if (C == 4)
    grid_step<4, true>(from, weights, to, N, C, H, hwc, zero, normalise, identity, precision, tau, tile, w1, w2);
  else if (C == 8)
    grid_step<8, true>(from, weights, to, N, C, H, hwc, zero, normalise, identity, precision, tau, tile, w1, w2);
  else if (C == 16)
    grid_step<16, true>(from, weights, to, N, C, H, hwc, zero, normalise, identity, precision, tau, tile, w1, w2);
  else
    grid_step<MOST, false>(from, weights, to, N, C, H, hwc, zero, normalise, identity, precision, tau, tile, w1, w2);
}
GPUPROF_KERNEL(grid_fused)
