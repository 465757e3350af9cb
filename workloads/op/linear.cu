#include "op.cuh"

// Linear in ir_mul: of every output block a product [rows * d, K] x [K, copies], all components of a row together. K
// passes over the input blocks of the same irrep, one after the other and without a gap, so that multiplicities of a
// dozen fill the slices, too.
//
// One item is one tile. 128 threads make 8 x 4 values each, and as many of them lie beside each other as the copies
// need (at most 32 times 4): a tile of 128 copies has 32 rows, one of 11 has 336.
#define SLICE 16
#define DEEP 8

// The plan (see linear.go): of every item two integers, its kind and which tile of that kind it is; of every kind
// eight: where its values start in out, copies, first and last+1 source, components, copies of the whole block, first
// copy, threads beside each other; of every source eight: offset in x of component 0, mul_in, offset in w, mul_out,
// coefficient as bits, 0 0 0.

// linear_place is where a thread's next value along K is: value k of source s.
struct linear_place {
  int s, k;
};
GP_FN void linear_settle(linear_place &p, const int *sources, int last) {
  while (p.s < last && p.k >= sources[p.s * 8 + 1]) p.k -= sources[p.s++ * 8 + 1];
}

extern "C" __global__ void __launch_bounds__(128, 5)
    linear(const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ out, const int *__restrict__ table,
           const float *__restrict__ coefficients, const int *__restrict__ plan, int rows, int in_dim, int out_dim, int pairs,
           int add, int kinds, int n) {
  GPUPROF_SHARED(float, shared);
  int item = (int)blockIdx.x;
  if (item >= n) return;
  const int *kind = plan + 2 * n + plan[2 * item] * 8, *sources = plan + 2 * n + kinds * 8;
  int o_at = kind[0], copies = kind[1], first = kind[2], last = kind[3], d = kind[4], block = kind[5], v0 = kind[6], beside = kind[7];
  int deep = gp_min(128 / beside, 42), tall = deep * DEEP, pitch = tall + 4, wide = beside * 4;
  int m0 = plan[2 * item + 1] * tall, total = rows * d;
  float *xs = shared, *ws = xs + SLICE * pitch;
  int *row = (int *)(ws + SLICE * wide), *component = row + tall;
  int tid = (int)threadIdx.x, tx = tid % beside, ty = tid / beside, r0 = m0 / d;
  for (int m = tid; m < tall; m += 128) {
    int at = gp_min(m0 + m, total - 1);
    row[m] = (at / d - r0) * in_dim;
    component[m] = at % d;
  }
  const float *rows_at = op_row(x, r0, in_dim);
  int length = 0;
  for (int s = first; s < last; s++) length += sources[s * 8 + 1];
  // Sixteen neighbouring threads read sixteen neighbouring values of a row; eight share a row of weights.
  linear_place px = {first, tid & 15}, pw = {first, tid >> 3};
  float sum[DEEP][4] = {};
  __syncthreads();
  for (int k0 = 0; k0 < length; k0 += SLICE) {
    linear_settle(px, sources, last);
    linear_settle(pw, sources, last);
    {
      bool there = px.s < last;
      const int *at = sources + px.s * 8;
      int m1 = there ? at[1] : 0;
      float factor = there ? __int_as_float(at[4]) : 0.0f;
      const float *from = rows_at + (there ? at[0] + px.k : 0);
      float *to = xs + (tid & 15) * pitch;
#pragma unroll 4
      for (int m = tid >> 4; m < tall; m += 8) to[m] = there ? factor * __ldg(from + row[m] + component[m] * m1) : 0.0f;
    }
    {
      bool there = pw.s < last;
      const int *at = sources + pw.s * 8;
      int m3 = there ? at[3] : 0;
      const float *from = w + (there ? at[2] + pw.k * m3 + v0 : 0);
      float *to = ws + (tid >> 3) * wide;
      bool fours = op_aligned(from) && ((m3 | copies) & 3) == 0 && there;
      for (int v = (tid & 7) * 4; v < wide; v += 32) {
        float4 q = {0.0f, 0.0f, 0.0f, 0.0f};
        if (fours) {
          q = __ldg((const float4 *)(from + v));
        } else if (there) {
          if (v < copies) q.x = __ldg(from + v);
          if (v + 1 < copies) q.y = __ldg(from + v + 1);
          if (v + 2 < copies) q.z = __ldg(from + v + 2);
          if (v + 3 < copies) q.w = __ldg(from + v + 3);
        }
        *(float4 *)(to + v) = q;
      }
    }
    px.k += SLICE;
    pw.k += SLICE;
    __syncthreads();
    if (ty < deep) {
      const float *a = xs + ty * DEEP, *b = ws + tx * 4;
// Half a slice at a time: all of it keeps more operands in flight than there are registers for.
#pragma unroll 8
      for (int k = 0; k < SLICE; k++) {
        float4 a0 = *(const float4 *)(a + k * pitch), a1 = *(const float4 *)(a + k * pitch + 4), b0 = *(const float4 *)(b + k * wide);
        float p[DEEP] = {a0.x, a0.y, a0.z, a0.w, a1.x, a1.y, a1.z, a1.w}, q[4] = {b0.x, b0.y, b0.z, b0.w};
#pragma unroll
        for (int i = 0; i < DEEP; i++)
#pragma unroll
          for (int j = 0; j < 4; j++) sum[i][j] = gp_fma(p[i], q[j], sum[i][j]);
      }
    }
    __syncthreads();
  }
  if (ty >= deep) return;
#pragma unroll
  for (int i = 0; i < DEEP; i++) {
    int m = m0 + ty * DEEP + i;
    if (m >= total) break;
    float *o = op_row(out, m / d, out_dim) + o_at + m % d * block + tx * 4;
    if (tx * 4 + 4 <= copies && op_aligned(o) && !add) {
      *(float4 *)o = {sum[i][0], sum[i][1], sum[i][2], sum[i][3]};
      continue;
    }
#pragma unroll
    for (int j = 0; j < 4; j++)
      if (tx * 4 + j < copies) o[j] = add ? o[j] + sum[i][j] : sum[i][j];
  }
}
GPUPROF_KERNEL(linear)
