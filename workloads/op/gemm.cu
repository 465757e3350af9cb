#include "pack.cuh"

// out = c*phi(scale * a b), a [rows,K], b [K,N], out [rows,N]. A block computes a tile of T x T (128 with 256
// threads, 64 with 64), every thread 8 x 8 of it in four squares of 4 x 4; the next slice of K is on its way from
// memory while the present one, in shared memory, is multiplied. Sums run over K in order.

#define TILE 128
#define SLICE 8

// How an element of an operand is read: as float, rounded to TF32, or from 16 bits.
struct gemm_fp32 {
  typedef float value;
  GP_FN float wide(float v) { return v; }
};
struct gemm_tf32 {
  typedef float value;
  GP_FN float wide(float v) { return pack_tf32(v); }
};
struct gemm_bf16 {
  typedef unsigned short value;
  GP_FN float wide(unsigned short v) { return gp_from_bf16(v); }
};
struct gemm_fp16 {
  typedef unsigned short value;
  GP_FN float wide(unsigned short v) { return gp_from_fp16(v); }
};

// gemm_four reads four elements in a row, p[0..3], of which the first limit exist. wide says that all rows start on
// 16 bytes; only floats make use of it.
template <typename F>
GP_FN void gemm_four(float (&v)[4], const float *p, int limit, bool wide) {
  if (wide && limit >= 4) {
    float4 q = __ldg((const float4 *)p);
    v[0] = F::wide(q.x);
    v[1] = F::wide(q.y);
    v[2] = F::wide(q.z);
    v[3] = F::wide(q.w);
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; i++) v[i] = i < limit ? F::wide(p[i]) : 0.0f;
}
template <typename F>
GP_FN void gemm_four(float (&v)[4], const unsigned short *p, int limit, bool) {
#pragma unroll
  for (int i = 0; i < 4; i++) v[i] = i < limit ? F::wide(p[i]) : 0.0f;
}

// Four more than a tile, so that the transposing stores of a do not all meet in one bank and rows stay aligned.
template <int T>
struct gemm_shared {
  float a[2][SLICE][T + 4];
  float b[2][SLICE][T];
};

// gemm_source is where a thread's part of the next slice is: rows of a and of b, four elements at a time. Their limits
// are worked out again every time; the registers are for sums.
template <typename F, int T>
struct gemm_source {
  const typename F::value *a[128 / T], *b[128 / T];
};

template <typename F, int T>
GP_FN gemm_source<F, T> gemm_begin(const typename F::value *a, const typename F::value *b, int rows, int K, int N, int row0, int col0) {
  gemm_source<F, T> s;
#pragma unroll
  for (int q = 0; q < 128 / T; q++) {
    int i = (int)threadIdx.x + q * (T * T / 64);
    s.a[q] = op_row(a, gp_min(row0 + (i >> 1), rows - 1), K) + (i & 1) * 4;
    s.b[q] = op_row(b, i / (T / 4), N) + col0 + i % (T / 4) * 4;
  }
  return s;
}

// gemm_fetch reads the slice that has left rows of b, its own included, to go; b_cols columns of the tile exist. Rows
// of a that do not exist repeat the last, since what comes of them is not stored.
template <typename F, int T>
GP_FN void gemm_fetch(float (&fa)[128 / T][4], float (&fb)[128 / T][4], gemm_source<F, T> &s, int left, int b_cols, int N,
                      bool a4, bool b4) {
#pragma unroll
  for (int q = 0; q < 128 / T; q++) {
    int i = (int)threadIdx.x + q * (T * T / 64);
    gemm_four<F>(fa[q], s.a[q], left - (i & 1) * 4, a4);
    gemm_four<F>(fb[q], s.b[q], i / (T / 4) < left ? b_cols - i % (T / 4) * 4 : 0, b4);
    s.a[q] += SLICE;
    s.b[q] += (long long)SLICE * N;
  }
}

// gemm_tile computes the tile at (row0, col0).
template <typename F, int T>
GP_FN void gemm_tile(gemm_shared<T> *s, const typename F::value *a, const typename F::value *b, float *out, int rows, int K,
                     int N, int row0, int col0, int act, float scale, float c) {
  const int threads = T * T / 64, fours = 128 / T, half = T / 2;
  int tid = (int)threadIdx.x, tx = tid % (T / 8), ty = tid / (T / 8);
  gemm_source<F, T> from = gemm_begin<F, T>(a, b, rows, K, N, row0, col0);
  bool a4 = (K & 3) == 0 && op_aligned(a), b4 = (N & 3) == 0 && op_aligned(b);
  float sum[8][8], fa[fours][4], fb[fours][4];
#pragma unroll
  for (int i = 0; i < 8; i++)
#pragma unroll
    for (int j = 0; j < 8; j++) sum[i][j] = 0;

  gemm_fetch(fa, fb, from, K, N - col0, N, a4, b4);
  int now = 0;
#pragma unroll 1
  for (int k0 = 0; k0 < K; k0 += SLICE) {
#pragma unroll
    for (int q = 0; q < fours; q++) {
      int i = tid + q * threads;
#pragma unroll
      for (int j = 0; j < 4; j++) s->a[now][(i & 1) * 4 + j][i >> 1] = fa[q][j];
      *(float4 *)&s->b[now][i / (T / 4)][i % (T / 4) * 4] = {fb[q][0], fb[q][1], fb[q][2], fb[q][3]};
    }
    __syncthreads();
    if (k0 + SLICE < K) gemm_fetch(fa, fb, from, K - k0 - SLICE, N - col0, N, a4, b4);
// Two at a time: all eight keep more operands in flight than there are registers for.
#pragma unroll 2
    for (int k = 0; k < SLICE; k++) {
      float4 a0 = *(const float4 *)&s->a[now][k][ty * 4], a1 = *(const float4 *)&s->a[now][k][half + ty * 4];
      float4 b0 = *(const float4 *)&s->b[now][k][tx * 4], b1 = *(const float4 *)&s->b[now][k][half + tx * 4];
      float x[8] = {a0.x, a0.y, a0.z, a0.w, a1.x, a1.y, a1.z, a1.w};
      float y[8] = {b0.x, b0.y, b0.z, b0.w, b1.x, b1.y, b1.z, b1.w};
#pragma unroll
      for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 8; j++) sum[i][j] = gp_fma(x[i], y[j], sum[i][j]);
    }
    // One barrier a slice is enough: the next stores go to the other half.
    now ^= 1;
  }
  float *corner = op_row(out, row0 + ty * 4, N) + col0 + tx * 4;
  bool o4 = (N & 3) == 0 && op_aligned(out);
#pragma unroll
  for (int i = 0; i < 8; i++) {
    if (row0 + ty * 4 + (i & 3) + (i >> 2) * half < rows) {
#pragma unroll
      for (int h = 0; h < 2; h++) {
        float *p = corner + h * half;
        int left = N - col0 - tx * 4 - h * half;
        float v[4];
#pragma unroll
        for (int j = 0; j < 4; j++) v[j] = scale * sum[i][h * 4 + j];
        if (o4 && left >= 4) {
          *(float4 *)p = {v[0], v[1], v[2], v[3]};
        } else {
#pragma unroll
          for (int j = 0; j < 4; j++)
            if (j < left) p[j] = v[j];
        }
      }
    }
    corner += i == 3 ? (long long)(half - 3) * N : N;
  }
  // The activation goes over what this thread just wrote: 64 copies of it in the code would cost more than the
  // cached reads of the one small layer that has one.
  if (act != OP_NONE) {
#pragma unroll 1
    for (int i = 0; i < 64; i++) {
      int r = row0 + (i >> 3 & 3) + ty * 4 + (i >> 5) * half, at = col0 + (i & 3) + tx * 4 + (i >> 2 & 1) * half;
      if (r < rows && at < N) op_row(out, r, N)[at] = c * op_activate(act, op_row(out, r, N)[at]);
    }
  }
  __syncthreads(); // whoever computes another tile stores to shared memory next
}

// One item is one tile, row after row of tiles. Tiles that share rows of a follow each other, so that a comes from
// memory once and b stays in the second-level cache.
extern "C" __global__ void __launch_bounds__(256, 2)
    gemm(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ out, int rows, int K, int N, int act,
         float scale, float c, int n) {
  __shared__ gemm_shared<128> s;
  int across = (N + 127) / 128, tile = (int)blockIdx.x;
  if (tile >= n) return;
  gemm_tile<gemm_fp32, 128>(&s, a, b, out, rows, K, N, tile / across * 128, tile % across * 128, act, scale, c);
}
GPUPROF_KERNEL(gemm)

// The same in smaller tiles, for products that would leave multiprocessors without one.
extern "C" __global__ void __launch_bounds__(64, 6)
    gemm64(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ out, int rows, int K, int N, int act,
           float scale, float c, int n) {
  __shared__ gemm_shared<64> s;
  int across = (N + 63) / 64, tile = (int)blockIdx.x;
  if (tile >= n) return;
  gemm_tile<gemm_fp32, 64>(&s, a, b, out, rows, K, N, tile / across * 64, tile % across * 64, act, scale, c);
}
GPUPROF_KERNEL(gemm64)

// The stand-ins for a vendor's matrix product: the same rounding of the operands, products added in float. One
// item is one row of out, 128 a block.
template <typename F>
GP_FN void gemm_rows(gemm_shared<TILE> *s, const typename F::value *a, const typename F::value *b, float *out, int K, int N,
                     float scale, int n) {
#pragma unroll 1
  for (int col0 = 0; col0 < N; col0 += TILE)
    gemm_tile<F, TILE>(s, a, b, out, n, K, N, (int)blockIdx.x * TILE, col0, OP_NONE, scale, 1.0f);
}

extern "C" __global__ void __launch_bounds__(256, 2) gemm_lib_fp32(const float *__restrict__ a, const float *__restrict__ b,
                                                                   float *__restrict__ out, int K, int N, float scale, int n) {
  __shared__ gemm_shared<TILE> s;
  gemm_rows<gemm_fp32>(&s, a, b, out, K, N, scale, n);
}
GPUPROF_KERNEL(gemm_lib_fp32)

extern "C" __global__ void __launch_bounds__(256, 2) gemm_lib_tf32(const float *__restrict__ a, const float *__restrict__ b,
                                                                   float *__restrict__ out, int K, int N, float scale, int n) {
  __shared__ gemm_shared<TILE> s;
  gemm_rows<gemm_tf32>(&s, a, b, out, K, N, scale, n);
}
GPUPROF_KERNEL(gemm_lib_tf32)

extern "C" __global__ void __launch_bounds__(256, 2)
    gemm_lib_bf16(const unsigned short *__restrict__ a, const unsigned short *__restrict__ b, float *__restrict__ out, int K,
                  int N, float scale, int n) {
  __shared__ gemm_shared<TILE> s;
  gemm_rows<gemm_bf16>(&s, a, b, out, K, N, scale, n);
}
GPUPROF_KERNEL(gemm_lib_bf16)

extern "C" __global__ void __launch_bounds__(256, 2)
    gemm_lib_fp16(const unsigned short *__restrict__ a, const unsigned short *__restrict__ b, float *__restrict__ out, int K,
                  int N, float scale, int n) {
  __shared__ gemm_shared<TILE> s;
  gemm_rows<gemm_fp16>(&s, a, b, out, K, N, scale, n);
}
GPUPROF_KERNEL(gemm_lib_fp16)

// The activation after a vendor's product; one item is one element, POINTWISE of them a block.
#define POINTWISE 1024

extern "C" __global__ void act_inplace(float *__restrict__ x, int count, int act, float c, int n) {
  long long end = gp_min((long long)(blockIdx.x + 1) * POINTWISE, (long long)n);
  for (long long i = (long long)blockIdx.x * POINTWISE + threadIdx.x; i < end; i += blockDim.x) x[i] = c * op_activate(act, x[i]);
}
GPUPROF_KERNEL(act_inplace)
