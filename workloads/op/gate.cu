#include "op.cuh"

// One item is one row, one block a row: its warps take the runs in turn, its lanes the copies.
extern "C" __global__ void gate(const float *__restrict__ x, float *__restrict__ out, const int *__restrict__ table,
                                const float *__restrict__ constants, int count, int in_dim, int out_dim, int runs, int n) {
  int r = (int)blockIdx.x;
  if (r >= n) return;
  const float *src = op_row(x, r, in_dim);
  float *dst = op_row(out, r, out_dim);
  for (int run = gp_warp(); run < runs; run += (int)blockDim.x >> 5) {
    const int *t = table + run * 8;
    int x_at = t[0], o_at = t[1], copies = t[2], d = t[3], gate_at = t[4], act = t[5], su = t[6], si = t[7];
    for (int u = gp_lane(); u < copies; u += 32) {
      float g = constants[run] * op_activate(act, __ldg(src + gate_at + u));
      if (d == 0) {
        dst[o_at + u] = g;
        continue;
      }
      for (int i = 0; i < d; i++) {
        int at = u * su + i * si;
        dst[o_at + at] = g * __ldg(src + x_at + at);
      }
    }
  }
}
GPUPROF_KERNEL(gate)
