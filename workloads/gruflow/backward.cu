#include "gru.cuh"

// gradTile and gradChunk of backward.go, and the rows that a block reads at a time.
#define TILE 64
#define CHUNK 4096
#define SLICE 16

// One item is one unit of one carrier.
extern "C" __global__ void gru_keep(const float *__restrict__ gx, const float *__restrict__ gh, float *states, float *__restrict__ kept,
                                    int n, int B, int H, int step, int items) {
  int i = gp_thread();
  if (i >= items) return;
  int row = i / H, j = i % H;
  long long all = (long long)B * H;
  const float *x = gx + step * 3 * all + (long long)row * 3 * H + j, *s = gh + (long long)row * 3 * H + j;
  float *k = kept + step * 4 * all + (long long)row * 4 * H + j;
  float u = s[2 * H], r = gp_sigmoid(x[0] + s[0]), z = gp_sigmoid(x[H] + s[H]), c = gp_tanh(gp_fma(r, u, x[2 * H]));
  k[0] = r;
  k[H] = z;
  k[2 * H] = c;
  k[3 * H] = u;
  states[(step + 1) * all + i] = gp_fma(z, states[step * all + i] - c, c);
}
GPUPROF_KERNEL(gru_keep)

extern "C" __global__ void gru_cell_bwd(const float *__restrict__ dout, float *__restrict__ dh, const float *__restrict__ states,
                                        const float *__restrict__ kept, float *__restrict__ gx, float *__restrict__ gh, int n, int B,
                                        int H, int step, int items) {
  int i = gp_thread();
  if (i >= items) return;
  int row = i / H, j = i % H;
  long long all = (long long)B * H, gate = step * 3 * all + (long long)row * 3 * H + j;
  const float *k = kept + step * 4 * all + (long long)row * 4 * H + j;
  float r = k[0], z = k[H], c = k[2 * H], u = k[3 * H];
  float d = dh[i] + dout[step * all + i];
  float an = d * (1.0f - z) * (1.0f - c * c);
  float ar = an * u * r * (1.0f - r), az = d * (states[step * all + i] - c) * z * (1.0f - z);
  gx[gate] = ar;
  gx[gate + H] = az;
  gx[gate + 2 * H] = an;
  gh[gate] = ar;
  gh[gate + H] = az;
  gh[gate + 2 * H] = an * r;
  dh[i] = d * z;
}
GPUPROF_KERNEL(gru_cell_bwd)

// multiply adds SLICE products to a thread's 4 x 4 sums.
GP_FN void multiply(float sum[4][4], const float left[SLICE][TILE + 4], const float right[SLICE][TILE], int tx, int ty) {
#pragma unroll
  for (int k = 0; k < SLICE; k++)
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int j = 0; j < 4; j++) sum[i][j] = gp_fma(left[k][ty * 4 + i], right[k][tx + 16 * j], sum[i][j]);
}

GP_FN void zero(float sum[4][4]) {
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) sum[i][j] = 0.0f;
}

// out += a w. A block takes 64 rows by 64 columns; each of its 256 threads sums 4 x 4 values over K in order.
extern "C" __global__ void __launch_bounds__(256)
    gru_chain(const float *__restrict__ a, const float *__restrict__ w, float *__restrict__ out, int n, int rows, int K, int N, int aAt,
              int items) {
  __shared__ float left[SLICE][TILE + 4];
  __shared__ float right[SLICE][TILE];
  if ((int)blockIdx.x >= items) return;
  int panels = (N + TILE - 1) / TILE, r0 = (int)blockIdx.x / panels * TILE, c0 = (int)blockIdx.x % panels * TILE;
  int tid = (int)threadIdx.x, tx = tid % 16, ty = tid / 16;
  float sum[4][4];
  zero(sum);
  for (int k0 = 0; k0 < K; k0 += SLICE) {
#pragma unroll
    for (int q = 0; q < 4; q++) {
      int i = tid + q * 256, r = r0 + i / SLICE, k = k0 + i % SLICE, wk = k0 + i / TILE, c = c0 + i % TILE;
      left[i % SLICE][i / SLICE] = r < rows && k < K ? a[aAt + (long long)r * K + k] : 0.0f;
      right[i / TILE][i % TILE] = wk < K && c < N ? w[(long long)wk * N + c] : 0.0f;
    }
    __syncthreads();
    multiply(sum, left, right, tx, ty);
    __syncthreads();
  }
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) {
      int r = r0 + ty * 4 + i, c = c0 + tx + 16 * j;
      if (r < rows && c < N) out[(long long)r * N + c] += sum[i][j];
    }
}
GPUPROF_KERNEL(gru_chain)

// dw = g^T x. A block takes 64 x 64 of dw, each thread 4 x 4; the sums of chunks are added in order.
extern "C" __global__ void __launch_bounds__(256)
    gru_weights(const float *__restrict__ g, const float *__restrict__ x, float *__restrict__ dw, int n, int rows, int M, int K, int xAt,
                int items) {
  __shared__ float left[SLICE][TILE + 4];
  __shared__ float right[SLICE][TILE];
  if ((int)blockIdx.x >= items) return;
  int panels = (K + TILE - 1) / TILE, m0 = (int)blockIdx.x / panels * TILE, k0 = (int)blockIdx.x % panels * TILE;
  int tid = (int)threadIdx.x, tx = tid % 16, ty = tid / 16;
  float total[4][4], sum[4][4];
  zero(total);
  for (int c0 = 0; c0 < rows; c0 += CHUNK) {
    int end = gp_min(rows, c0 + CHUNK);
    zero(sum);
    for (int r0 = c0; r0 < end; r0 += SLICE) {
#pragma unroll
      for (int q = 0; q < 4; q++) {
        int i = tid + q * 256, r = r0 + i / TILE, m = m0 + i % TILE, k = k0 + i % TILE;
        left[i / TILE][i % TILE] = r < end && m < M ? g[(long long)r * M + m] : 0.0f;
        right[i / TILE][i % TILE] = r < end && k < K ? x[xAt + (long long)r * K + k] : 0.0f;
      }
      __syncthreads();
      multiply(sum, left, right, tx, ty);
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int j = 0; j < 4; j++) total[i][j] += sum[i][j];
  }
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) {
      int m = m0 + ty * 4 + i, k = k0 + tx + 16 * j;
      if (m < M && k < K) dw[(long long)m * K + k] = total[i][j];
    }
}
GPUPROF_KERNEL(gru_weights)

// One item is one column.
extern "C" __global__ void gru_bias(const float *__restrict__ g, float *__restrict__ db, int n, int rows, int items) {
  int m = gp_thread();
  if (m >= items) return;
  float total = 0.0f;
  for (int c0 = 0; c0 < rows; c0 += CHUNK) {
    float sum = 0.0f;
    for (int r = c0; r < gp_min(rows, c0 + CHUNK); r++) sum += g[(long long)r * n + m];
    total += sum;
  }
  db[m] = total;
}
GPUPROF_KERNEL(gru_bias)
