#include "op.cuh"

// One item is one row, one block a row: its warps take the irreps' blocks in turn. Writes run along memory; the
// reads of a block stride over a few kilobytes that stay in the first-level cache.
extern "C" __global__ void transpose(const float *__restrict__ x, float *__restrict__ out, const int *__restrict__ table,
                                     int count, int dim, int blocks, int add, int n) {
  int r = (int)blockIdx.x;
  if (r >= n) return;
  const float *src = op_row(x, r, dim);
  float *dst = op_row(out, r, dim);
  for (int b = gp_warp(); b < blocks; b += (int)blockDim.x >> 5) {
    int at = table[4 * b], rows = table[4 * b + 1], cols = table[4 * b + 2], size = rows * cols;
    for (int i = gp_lane(); i < size; i += 32) {
      float v = __ldg(src + at + i % rows * cols + i / rows);
      dst[at + i] = add ? dst[at + i] + v : v;
    }
  }
}
GPUPROF_KERNEL(transpose)
