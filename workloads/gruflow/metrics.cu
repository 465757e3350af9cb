#include "gru.cuh"

// As in model.go and metrics.go.
enum { OUT_DEPOSIT, OUT_ENERGY, OUT_X, OUT_Y, OUTPUTS };
enum { MET_DEPOSITED, MET_CARRIED, MET_LEFT, MET_LEAVING, MET_HOTTEST, MET_HIDDEN, MET_SPREAD, MET_DEPTH, MET_FIXED };
#define BLOCK 64

// A metric is a sum, or the largest value.
GP_FN float metric_two(int m, float a, float b) { return m == MET_HOTTEST ? gp_max(a, b) : a + b; }

// metric_carrier gives carrier c's share of the fixed words; it says at which level it left its deposit.
GP_FN int metric_carrier(const float *records, const int *level, int c, int D, float *v) {
  const float *r = records + (long long)c * OUTPUTS;
  bool entered = level[c] == 0;
  v[MET_DEPOSITED] = r[OUT_DEPOSIT];
  v[MET_CARRIED] = entered ? 0.0f : r[OUT_ENERGY];
  v[MET_LEFT] = entered ? r[OUT_ENERGY] : 0.0f;
  v[MET_LEAVING] = entered ? 1.0f : 0.0f;
  v[MET_HOTTEST] = r[OUT_ENERGY];
  v[MET_HIDDEN] = 0.0f;
  v[MET_SPREAD] = gp_fma(r[OUT_X], r[OUT_X], r[OUT_Y] * r[OUT_Y]);
  v[MET_DEPTH] = (float)level[c];
  return entered ? D - 1 : level[c] - 1;
}

// metric_block puts the block's carriers' fixed words into words[0..7][0]: each of 256 threads sums squares of the
// state, the first BLOCK take a carrier each, and everything is added in a fixed tree.
GP_FN void metric_block(float (*words)[BLOCK], float *squares, const float *records, const int *level, const float *h, int first,
                        int count, int H, int D, int *was) {
  int tid = (int)threadIdx.x;
  float sum = 0.0f;
  for (long long i = tid; i < (long long)count * H; i += blockDim.x) {
    float v = h[(long long)first * H + i];
    sum = gp_fma(v, v, sum);
  }
  squares[tid] = sum;
  if (tid < BLOCK) {
    float v[MET_FIXED];
#pragma unroll
    for (int m = 0; m < MET_FIXED; m++) v[m] = 0.0f;
    *was = -1;
    if (tid < count) *was = metric_carrier(records, level, first + tid, D, v);
#pragma unroll
    for (int m = 0; m < MET_FIXED; m++) words[m][tid] = v[m];
  }
  __syncthreads();
  for (int d = 128; d > 0; d /= 2) {
    if (tid < d) squares[tid] += squares[tid + d];
    if (d < BLOCK && tid < d)
      for (int m = 0; m < MET_FIXED; m++) words[m][tid] = metric_two(m, words[m][tid], words[m][tid + d]);
    __syncthreads();
  }
  if (tid == 0) words[MET_HIDDEN][0] = squares[0];
  __syncthreads();
}

// One item is one block of carriers, which gives one row of partial. The doses are added by one thread a level, in
// the carriers' order.
extern "C" __global__ void __launch_bounds__(256)
    gru_sum(const float *__restrict__ records, const int *__restrict__ level, const float *__restrict__ h, float *__restrict__ partial,
            int n, int B, int H, int D, int hAt, int items) {
  __shared__ float words[MET_FIXED][BLOCK];
  __shared__ float squares[256];
  __shared__ int levels[BLOCK];
  if ((int)blockIdx.x >= items) return;
  int tid = (int)threadIdx.x, first = (int)blockIdx.x * BLOCK, count = gp_min(BLOCK, B - first), was = -1;
  metric_block(words, squares, records, level, h + hAt, first, count, H, D, &was);
  if (tid < BLOCK) levels[tid] = was;
  __syncthreads();
  float *row = partial + (long long)blockIdx.x * (MET_FIXED + D);
  if (tid < MET_FIXED) row[tid] = words[tid][0];
  for (int d = tid; d < D; d += (int)blockDim.x) {
    float dose = 0.0f;
    for (int c = 0; c < count; c++)
      if (levels[c] == d) dose += records[(long long)(first + c) * OUTPUTS + OUT_DEPOSIT];
    row[MET_FIXED + d] = dose;
  }
}
GPUPROF_KERNEL(gru_sum)

// One item is one metric.
extern "C" __global__ void gru_sum_final(const float *__restrict__ partial, float *__restrict__ metrics, int n, int blocks, int items) {
  int m = gp_thread();
  if (m >= items) return;
  float sum = 0.0f;
  for (int b = 0; b < blocks; b++) sum = metric_two(m, sum, partial[(long long)b * items + m]);
  metrics[m] = sum;
}
GPUPROF_KERNEL(gru_sum_final)

// An energy is not negative, and such numbers are ordered as their bits are.
GP_FN void metric_max(float *p, float v) { atomicMax((int *)p, __float_as_int(v)); }

// One item is one carrier, BLOCK of them a block: sums of the block are added atomically, and every dose by itself.
extern "C" __global__ void __launch_bounds__(256)
    gru_sum_racy(const float *__restrict__ records, const int *__restrict__ level, const float *__restrict__ h, float *metrics, int n,
                 int H, int D, int hAt, int items) {
  __shared__ float words[MET_FIXED][BLOCK];
  __shared__ float squares[256];
  int tid = (int)threadIdx.x, first = (int)blockIdx.x * BLOCK, count = gp_min(BLOCK, items - first), was = -1;
  metric_block(words, squares, records, level, h + hAt, first, count, H, D, &was);
  if (tid < count) atomicAdd(metrics + MET_FIXED + was, records[(long long)(first + tid) * OUTPUTS + OUT_DEPOSIT]);
  if (tid >= MET_FIXED) return;
  if (tid == MET_HOTTEST)
    metric_max(metrics + tid, words[tid][0]);
  else
    atomicAdd(metrics + tid, words[tid][0]);
}
GPUPROF_KERNEL(gru_sum_racy)

// One item is one value.
extern "C" __global__ void gru_fill(float *__restrict__ out, int n, float value, int items) {
  int i = gp_thread();
  if (i < items) out[i] = value;
}
GPUPROF_KERNEL(gru_fill)
