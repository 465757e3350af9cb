#include "basis.cuh"

// One item is one edge.
extern "C" __global__ void basis(const float *__restrict__ vec, float *__restrict__ b, int count, int functions, int kind,
                                 int envelope, float cutoff, int n) {
  int e = gp_thread();
  if (e >= n) return;
  basis_row(op_row(vec, e, 3), op_row(b, e, functions), 1, functions, kind, envelope, cutoff);
}
GPUPROF_KERNEL(basis)
