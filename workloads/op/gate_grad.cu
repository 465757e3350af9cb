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

// The change of a row when x moves along dx.
extern "C" __global__ void gate_tangent(const float *__restrict__ x, const float *__restrict__ dx, float *__restrict__ out,
                                        const int *__restrict__ table, const float *__restrict__ constants, int count, int in_dim,
                                        int out_dim, int runs, int n) {
  int r = (int)blockIdx.x;
  if (r >= n) return;
  const float *src = op_row(x, r, in_dim), *move = op_row(dx, r, in_dim);
  float *dst = op_row(out, r, out_dim);
  for (int run = gp_warp(); run < runs; run += (int)blockDim.x >> 5) {
    const int *t = table + run * 8;
    int x_at = t[0], o_at = t[1], copies = t[2], d = t[3], gate_at = t[4], act = t[5], su = t[6], si = t[7];
    for (int u = gp_lane(); u < copies; u += 32) {
      float z = __ldg(src + gate_at + u), slope = constants[run] * op_derive(act, z) * __ldg(move + gate_at + u);
      if (d == 0) {
        dst[o_at + u] = slope;
        continue;
      }
      float phi = constants[run] * op_activate(act, z);
      for (int i = 0; i < d; i++) {
        int at = u * su + i * si;
        dst[o_at + at] = gp_fma(slope, __ldg(src + x_at + at), phi * __ldg(move + x_at + at));
      }
    }
  }
}
GPUPROF_KERNEL(gate_tangent)

// The gradient by x of dout times that change.
extern "C" __global__ void gate_second(const float *__restrict__ x, const float *__restrict__ dx, const float *__restrict__ dout,
                                       float *__restrict__ grad, const int *__restrict__ table, const float *__restrict__ constants,
                                       int count, int in_dim, int out_dim, int runs, int n) {
  int r = (int)blockIdx.x;
  if (r >= n) return;
  const float *src = op_row(x, r, in_dim), *move = op_row(dx, r, in_dim), *back = op_row(dout, r, out_dim);
  float *dst = op_row(grad, r, in_dim);
  for (int run = gp_warp(); run < runs; run += (int)blockDim.x >> 5) {
    const int *t = table + run * 8;
    int x_at = t[0], o_at = t[1], copies = t[2], d = t[3], gate_at = t[4], act = t[5], su = t[6], si = t[7];
    for (int u = gp_lane(); u < copies; u += 32) {
      float z = __ldg(src + gate_at + u), dz = __ldg(move + gate_at + u);
      float slope = constants[run] * op_derive(act, z), bend = constants[run] * op_curve(act, z) * dz;
      if (d == 0) {
        dst[gate_at + u] = bend * __ldg(back + o_at + u);
        continue;
      }
      float sum = 0, moved = 0;
      for (int i = 0; i < d; i++) {
        int at = u * su + i * si;
        float g = __ldg(back + o_at + at);
        sum = gp_fma(__ldg(src + x_at + at), g, sum);
        moved = gp_fma(__ldg(move + x_at + at), g, moved);
        dst[x_at + at] = slope * dz * g;
      }
      dst[gate_at + u] = gp_fma(bend, sum, slope * moved);
    }
  }
}
GPUPROF_KERNEL(gate_second)
