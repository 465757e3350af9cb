#include "op.cuh"

#define CHUNK 4096 // sumChunk in readout.go
#define THREADS 256

// One item is one row, a warp of a block's four a row.
extern "C" __global__ void readout(const float *__restrict__ x, const float *__restrict__ a, float *__restrict__ rho, int count,
                                   int width, int first, int factors, int add, int n) {
  int r = (int)blockIdx.x * 4 + gp_warp();
  if (r >= n) return;
  const float *row = op_row(x, r, width) + first;
  float sum = 0;
  for (int u = gp_lane(); u < factors; u += 32) sum = gp_fma(__ldg(a + u), __ldg(row + u), sum);
  sum = gp_warp_sum(sum);
  if (gp_lane() == 0) rho[r] = add ? rho[r] + sum : sum;
}
GPUPROF_KERNEL(readout)

extern "C" __global__ void readout_grad(const float *__restrict__ drho, const float *__restrict__ a, float *__restrict__ dx, int count,
                                        int width, int first, int factors, int n) {
  int r = (int)blockIdx.x * 4 + gp_warp();
  if (r >= n) return;
  float *row = op_row(dx, r, width), g = drho[r];
  for (int u = gp_lane(); u < width; u += 32) row[u] = u >= first && u < first + factors ? g * __ldg(a + u - first) : 0.0f;
}
GPUPROF_KERNEL(readout_grad)

// One item is one row.
extern "C" __global__ void residual(const float *__restrict__ rho, const float *__restrict__ target, float *__restrict__ drho,
                                    float *__restrict__ loss, int count, float scale, int n) {
  int r = gp_thread();
  if (r >= n) return;
  float d = rho[r] - target[r];
  drho[r] = d * scale;
  loss[r] = d * d * scale / 2;
}
GPUPROF_KERNEL(residual)

// One item is one chunk, one block a chunk: threads add values a block apart, and their sums are added by halves.
extern "C" __global__ void __launch_bounds__(THREADS)
    sum(const float *__restrict__ x, float *__restrict__ out, int count, int values, int n) {
  __shared__ double sums[THREADS];
  int c = (int)blockIdx.x, t = (int)threadIdx.x;
  if (c >= n) return;
  int first = c * CHUNK, end = (int)gp_min((long long)first + CHUNK, (long long)values);
  double s = 0;
  for (int i = first + t; i < end; i += THREADS) s += x[i];
  sums[t] = s;
  for (int half = THREADS / 2; half > 0; half >>= 1) {
    __syncthreads();
    if (t < half) sums[t] += sums[t + half];
  }
  if (t == 0) out[c] = (float)sums[0];
}
GPUPROF_KERNEL(sum)
