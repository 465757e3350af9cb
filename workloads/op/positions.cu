#include "op.cuh"

#define THREADS 128

// One item is one point, one block a point: every thread adds edges a block apart, first those from the point and then
// those to it, and the threads' sums are added by halves.
extern "C" __global__ void __launch_bounds__(THREADS)
    positions(const float *__restrict__ f, const int *__restrict__ rowptr, const int *__restrict__ colptr,
              const int *__restrict__ perm, float *__restrict__ out, int count, int atoms, int rows, int n) {
  __shared__ double sums[3][THREADS];
  int i = (int)blockIdx.x, t = (int)threadIdx.x;
  if (i >= n) return;
  int row = i - colptr[atoms + 1];
  double x = 0, y = 0, z = 0;
  if (i < atoms)
    for (int k = colptr[i] + t; k < colptr[i + 1]; k += THREADS) {
      const float *p = op_row(f, perm[k], 3);
      x -= p[0];
      y -= p[1];
      z -= p[2];
    }
  if (row >= 0 && row < rows)
    for (int e = rowptr[row] + t; e < rowptr[row + 1]; e += THREADS) {
      const float *p = op_row(f, e, 3);
      x += p[0];
      y += p[1];
      z += p[2];
    }
  sums[0][t] = x;
  sums[1][t] = y;
  sums[2][t] = z;
  for (int half = THREADS / 2; half > 0; half >>= 1) {
    __syncthreads();
    if (t < half)
      for (int k = 0; k < 3; k++) sums[k][t] += sums[k][t + half];
  }
  __syncthreads();
  if (t < 3) op_row(out, i, 3)[t] = (float)sums[t][0];
}
GPUPROF_KERNEL(positions)
