#include "op.cuh"

#define CHUNK 4096 // outerChunk in weight_grad.go, whose numbers have to agree with those here
#define INTS 12
#define TILE 64
#define SLICE 16

// One item is one tile of one chunk: 64 copies of a by 64 of b, every thread 4 x 4 of them; rows are added in order, the
// components of each in order.
extern "C" __global__ void __launch_bounds__(256)
    weight_grad(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ partial, const int *__restrict__ tiles,
          float *work, int rows, int a_dim, int b_dim, int numel, int across, int n) {
  __shared__ float as[SLICE][TILE + 4], bs[SLICE][TILE + 4];
  int item = (int)blockIdx.x;
  if (item >= n) return;
  const int *t = tiles + item % across * INTS;
  int chunk = item / across, m1 = t[3], m3 = t[4], d = t[5], copies = t[7], cols = t[9];
  int first = chunk * CHUNK, end = (int)gp_min((long long)first + CHUNK, (long long)rows);
  int tid = (int)threadIdx.x, tx = tid & 15, ty = tid >> 4;
  float sum[4][4] = {};
  for (int r0 = first; r0 < end; r0 += SLICE)
    for (int c = 0; c < d; c++) {
      for (int i = tid; i < SLICE * TILE; i += 256) {
        int r = r0 + i / TILE, at = i % TILE;
        as[i / TILE][at] = r < end && at < copies ? __ldg(op_row(a, r, a_dim) + t[0] + c * m1 + t[6] + at) : 0.0f;
        bs[i / TILE][at] = r < end && at < cols ? __ldg(op_row(b, r, b_dim) + t[1] + c * m3 + t[8] + at) : 0.0f;
      }
      __syncthreads();
#pragma unroll
      for (int k = 0; k < SLICE; k++) {
        float p[4], q[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
          p[i] = as[k][ty * 4 + i];
          q[i] = bs[k][tx * 4 + i];
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
          for (int j = 0; j < 4; j++) sum[i][j] = gp_fma(p[i], q[j], sum[i][j]);
      }
      __syncthreads();
    }
  float factor = __int_as_float(t[10]), *out = op_row(partial, chunk, numel) + t[2];
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) {
      int u = ty * 4 + i, v = tx * 4 + j;
      if (u < copies && v < cols) out[(long long)(t[6] + u) * m3 + t[8] + v] = factor * sum[i][j];
    }
}
GPUPROF_KERNEL(weight_grad)

#define RUN 1024
#define EACH(i, n)                                                            \
  long long end = gp_min((long long)(blockIdx.x + 1) * RUN, (long long)(n)); \
  for (long long i = (long long)blockIdx.x * RUN + threadIdx.x; i < end; i += blockDim.x)

extern "C" __global__ void weight_sum(const float *__restrict__ partial, float *__restrict__ out, int count, int rows, int add, int n) {
  int chunks = (rows + CHUNK - 1) / CHUNK;
  EACH(i, n) {
    float sum = add ? out[i] : 0.0f;
    for (int c = 0; c < chunks; c++) sum += partial[(long long)c * n + i];
    out[i] = sum;
  }
}
GPUPROF_KERNEL(weight_sum)

extern "C" __global__ void round_inplace(float *__restrict__ x, int count, int mode, int n) {
  EACH(i, n) {
    float v = x[i];
    x[i] = mode == 1 ? gp_to_tf32(v) : mode == 2 ? gp_from_bf16(gp_to_bf16(v)) : gp_from_fp16(gp_to_fp16(v));
  }
}
GPUPROF_KERNEL(round_inplace)
