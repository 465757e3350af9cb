#include "derive.cuh"

// One item is one row, one block a row: its warps take the runs in turn, its lanes the copies.
extern "C" __global__ void gate_grad(const float *__restrict__ x, const float *__restrict__ dout, float *__restrict__ dx,
                                     const int *__restrict__ table, const float *__restrict__ constants, int count, int in_dim,
                                     int out_dim, int runs, int n) {
  int r = (int)blockIdx.x;
  if (r >= n) return;
  const float *src = op_row(x, r, in_dim), *back = op_row(dout, r, out_dim);
  float *dst = op_row(dx, r, in_dim);
  for (int run = gp_warp(); run < runs; run += (int)blockDim.x >> 5) {
    const int *t = table + run * 8;
    int x_at = t[0], o_at = t[1], copies = t[2], d = t[3], gate_at = t[4], act = t[5], su = t[6], si = t[7];
    for (int u = gp_lane(); u < copies; u += 32) {
      float z = __ldg(src + gate_at + u), slope = constants[run] * op_derive(act, z);
      if (d == 0) {
        dst[gate_at + u] = slope * __ldg(back + o_at + u);
        continue;
      }
      float phi = constants[run] * op_activate(act, z), sum = 0;
      for (int i = 0; i < d; i++) {
        int at = u * su + i * si;
        float g = __ldg(back + o_at + at);
        sum = gp_fma(__ldg(src + x_at + at), g, sum);
        dst[x_at + at] = phi * g;
      }
      dst[gate_at + u] = slope * sum;
    }
  }
}
GPUPROF_KERNEL(gate_grad)
