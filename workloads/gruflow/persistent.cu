#include "gru.cuh"

// A whole layer: a block takes tile carriers through all time steps, ROWS of them at a time. Weights come from the
// second-level cache, where all blocks read the same ones; the state in use lies in shared memory, in pieces.
#define ROWS 16
#define SLICE 32

// persistent_product adds left w for ROWS rows to sum, one column a thread; out [.,N] = sum + bias. left has K
// columns and count rows.
GP_FN void persistent_product(float (*piece)[SLICE], const float *left, const float *w, const float *bias, float *out, int count,
                              int K, int N, int precision) {
  for (int c0 = 0; c0 < N; c0 += (int)blockDim.x) {
    int c = c0 + (int)threadIdx.x;
    float sum[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) sum[r] = 0.0f;
    for (int k0 = 0; k0 < K; k0 += SLICE) {
      __syncthreads();
      for (int i = (int)threadIdx.x; i < ROWS * SLICE; i += (int)blockDim.x) {
        int r = i / SLICE, k = k0 + i % SLICE;
        piece[r][i % SLICE] = r < count && k < K ? gru_round(precision, left[(long long)r * K + k]) : 0.0f;
      }
      __syncthreads();
      int inner = gp_min(SLICE, K - k0);
      if (c < N)
#pragma unroll 2
        for (int k = 0; k < inner; k++) {
          float v = gru_load(precision, w, (long long)(k0 + k) * N + c);
#pragma unroll
          for (int r = 0; r < ROWS; r++) sum[r] = gp_fma(piece[r][k], v, sum[r]);
        }
    }
    if (c < N) {
#pragma unroll
      for (int r = 0; r < ROWS; r++)
        if (r < count) out[(long long)r * N + c] = sum[r] + bias[c];
    }
  }
  __syncthreads();
}

extern "C" __global__ void __launch_bounds__(256)
    gru_persistent(const float *__restrict__ x, const float *__restrict__ wi, const float *__restrict__ bi,
                   const float *__restrict__ wh, const float *__restrict__ bh, float *h, float *out, float *scratch, int n, int B,
                   int K, int H, int T, int xAt, int hAt, int hasOut, int precision, int tile, int items) {
  __shared__ float piece[ROWS][SLICE];
  if ((int)blockIdx.x >= items) return;
  int last = gp_min(B, ((int)blockIdx.x + 1) * tile);
  for (int r0 = (int)blockIdx.x * tile; r0 < last; r0 += ROWS) {
    int count = gp_min(ROWS, last - r0);
    float *gx = scratch + (long long)r0 * 6 * H, *gh = gx + (long long)count * 3 * H;
    float *state = h + hAt + (long long)r0 * H;
    for (int t = 0; t < T; t++) {
      persistent_product(piece, x + xAt + ((long long)t * B + r0) * K, wi, bi, gx, count, K, 3 * H, precision);
      persistent_product(piece, state, wh, bh, gh, count, H, 3 * H, precision);
      for (int i = (int)threadIdx.x; i < count * H; i += (int)blockDim.x) {
        long long row = i / H;
        int j = i % H;
        const float *a = gx + row * 3 * H + j, *b = gh + row * 3 * H + j;
        float v = gru_unit(a[0], a[H], a[2 * H], b[0], b[H], b[2 * H], state[i]);
        state[i] = v;
        if (hasOut) out[((long long)t * B + r0) * H + i] = v;
      }
      __syncthreads();
    }
  }
}
GPUPROF_KERNEL(gru_persistent)
