#include "op.cuh"

// One item is one edge. The destination is unknown until the edge is read, so the loads of a row are wide and the
// atomics, one a value, leave without waiting for an answer.
extern "C" __global__ void scatter_atomic(const float *__restrict__ src, const int *__restrict__ dst,
                                          float *__restrict__ out, int count, int c, int n) {
  op_team t = op_teams(c);
  int e = (int)blockIdx.x * t.count + t.index;
  if (e >= n) return;
  const float *from = op_row(src, e, c);
  float *to = op_row(out, dst[e], c);
  if ((c & 3) == 0 && op_aligned(src)) {
    for (int i = t.rank * 4; i < c; i += t.size * 4) {
      float4 v = __ldg((const float4 *)(from + i));
      atomicAdd(to + i, v.x);
      atomicAdd(to + i + 1, v.y);
      atomicAdd(to + i + 2, v.z);
      atomicAdd(to + i + 3, v.w);
    }
    return;
  }
  for (int i = t.rank; i < c; i += t.size) atomicAdd(to + i, __ldg(from + i));
}
GPUPROF_KERNEL(scatter_atomic)

// SCATTER edges are in flight at once and added in order: the loads overlap and the sum stays the same.
#define SCATTER 8

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
