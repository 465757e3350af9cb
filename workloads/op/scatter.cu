#include "op.cuh"

// SCATTER edges are in flight at once and added in order: the loads overlap and the sum stays the same.
#define SCATTER 8

// SCATTER_RUN edges are an item of scatter_atomic; scatterRun in scatter.go is the same number.
#define SCATTER_RUN 16

// op_add4 adds four values to a row by atomics, which leave without waiting for an answer.
GP_FN void op_add4(float *to, const float4 &v) {
  atomicAdd(to, v.x);
  atomicAdd(to + 1, v.y);
  atomicAdd(to + 2, v.z);
  atomicAdd(to + 3, v.w);
}

// One item is SCATTER_RUN edges. Neighbours of one destination are added up before they leave: an atomic costs many
// times what a value does. Edges in any order are right, those in random order leave one by one.
extern "C" __global__ void scatter_atomic(const float *__restrict__ src, const int *__restrict__ dst,
                                          float *__restrict__ out, int edges, int c, int n) {
  op_team t = op_teams(c);
  int item = (int)blockIdx.x * t.count + t.index;
  if (item >= n) return;
  int first = item * SCATTER_RUN, stop = gp_min(first + SCATTER_RUN, edges);
  if ((c & 3) == 0 && op_aligned(src)) {
    for (int i = t.rank * 4; i < c; i += t.size * 4) {
      float4 sum = {0, 0, 0, 0};
      int row = __ldg(dst + first);
#pragma unroll 1
      for (int e = first; e < stop; e += SCATTER) {
        float4 v[SCATTER];
        int to[SCATTER];
#pragma unroll
        for (int j = 0; j < SCATTER; j++)
          if (e + j < stop) {
            v[j] = __ldg((const float4 *)(op_row(src, e + j, c) + i));
            to[j] = __ldg(dst + e + j);
          }
#pragma unroll
        for (int j = 0; j < SCATTER; j++)
          if (e + j < stop) {
            if (to[j] != row) {
              op_add4(op_row(out, row, c) + i, sum);
              sum = v[j];
              row = to[j];
            } else {
              sum = {sum.x + v[j].x, sum.y + v[j].y, sum.z + v[j].z, sum.w + v[j].w};
            }
          }
      }
      op_add4(op_row(out, row, c) + i, sum);
    }
    return;
  }
  for (int i = t.rank; i < c; i += t.size) {
    float sum = 0;
    int row = __ldg(dst + first);
#pragma unroll 4
    for (int e = first; e < stop; e++) {
      float v = __ldg(op_row(src, e, c) + i);
      int to = __ldg(dst + e);
      if (to != row) {
        atomicAdd(op_row(out, row, c) + i, sum);
        sum = 0;
        row = to;
      }
      sum += v;
    }
    atomicAdd(op_row(out, row, c) + i, sum);
  }
}
GPUPROF_KERNEL(scatter_atomic)

// One item is one row.
extern "C" __global__ void scatter_sorted(const float *__restrict__ src, const int *__restrict__ rowptr,
                                          float *__restrict__ out, int count, int c, int n) {
  op_team t = op_teams(c);
  int r = (int)blockIdx.x * t.count + t.index;
  if (r >= n) return;
  int from = rowptr[r], to = rowptr[r + 1];
  float *row = op_row(out, r, c);
  if ((c & 3) == 0 && op_aligned(src) && op_aligned(out)) {
    for (int i = t.rank * 4; i < c; i += t.size * 4) {
      float4 sum = {0, 0, 0, 0};
      const float *p = op_row(src, from, c) + i;
      int e = from;
      for (; e + SCATTER <= to; e += SCATTER, p += (long long)SCATTER * c) {
        float4 v[SCATTER];
#pragma unroll
        for (int j = 0; j < SCATTER; j++) v[j] = __ldg((const float4 *)(p + (long long)j * c));
#pragma unroll
        for (int j = 0; j < SCATTER; j++) sum = {sum.x + v[j].x, sum.y + v[j].y, sum.z + v[j].z, sum.w + v[j].w};
      }
      for (; e < to; e++, p += c) {
        float4 v = __ldg((const float4 *)p);
        sum = {sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w};
      }
      *(float4 *)(row + i) = sum;
    }
    return;
  }
  for (int i = t.rank; i < c; i += t.size) {
    float sum = 0;
    const float *p = op_row(src, from, c) + i;
    int e = from;
    for (; e + SCATTER <= to; e += SCATTER, p += (long long)SCATTER * c) {
      float v[SCATTER];
#pragma unroll
      for (int j = 0; j < SCATTER; j++) v[j] = __ldg(p + (long long)j * c);
#pragma unroll
      for (int j = 0; j < SCATTER; j++) sum += v[j];
    }
    for (; e < to; e++, p += c) sum += __ldg(p);
    row[i] = sum;
  }
}
GPUPROF_KERNEL(scatter_sorted)

// One item is one element, SCALE of them a block.
#define SCALE 1024

extern "C" __global__ void scale(float *__restrict__ out, int count, float factor, int n) {
  long long end = gp_min((long long)(blockIdx.x + 1) * SCALE, (long long)n);
  for (long long i = (long long)blockIdx.x * SCALE + threadIdx.x; i < end; i += blockDim.x) out[i] *= factor;
}
GPUPROF_KERNEL(scale)
