#include "op.cuh"
#include "sph_roots.cuh"

#define EDGES 128

// sph_edge writes the harmonics of one direction to row. In double between the float input and output, because near the
// poles Y_l0 changes by l(l+1)/2 times the rounding of y. With L of 0 or more everything is unrolled and the constants
// are operands; L of -1 takes lmax.
template <int L>
GP_FN void sph_edge(float *row, const float *v, int lmax) {
  enum { TIMES = L < 0 ? 1 : L + 1 };
  if (L >= 0) lmax = L;
  double x = v[0], y = v[1], z = v[2];
  double r = gp_sqrt(x * x + y * y + z * z);
  if (r == 0) {
    float nothing = (float)(x * x); // as 0 this loop would become a store of single bytes
    row[0] = 1;
    for (int i = 1; i < (lmax + 1) * (lmax + 1); i++) row[i] = nothing;
    return;
  }
  double inverse = 1 / r;
  x *= inverse;
  y *= inverse;
  z *= inverse;
  double c = 1, s = 0; // (z + ix)^m
#pragma unroll TIMES
  for (int m = 0; m <= lmax; m++) {
    if (m > 0) {
      double t = c * z - s * x;
      s = s * z + c * x;
      c = t;
    }
    double q = sph_start[m], before = 0;
#pragma unroll TIMES
    for (int l = m; l <= lmax; l++) {
      if (l > m) {
        double next = sph_a[l * SPH_DEGREES + m] * (y * q - sph_b[l * SPH_DEGREES + m] * before);
        before = q;
        q = next;
      }
      int mid = l * l + l;
      row[mid + m] = (float)(q * c);
      if (m > 0) row[mid - m] = (float)(q * s);
    }
  }
}

// One item is one edge. A block's rows lie beside each other in memory: its threads make one each in shared memory, on
// different banks, and write them together, four values at a time.
extern "C" __global__ void __launch_bounds__(128)
    sph(const float *__restrict__ vec, float *__restrict__ out, int count, int lmax, int n) {
  GPUPROF_SHARED(float, rows);
  int dim = (lmax + 1) * (lmax + 1), pitch = dim | 1, tid = (int)threadIdx.x;
  int first = (int)blockIdx.x * EDGES, edges = gp_min(EDGES, n - first);
  for (int e = tid; e < edges; e += (int)blockDim.x) {
    const float *v = op_row(vec, first + e, 3);
    float *row = rows + e * pitch;
    if (lmax == 2)
      sph_edge<2>(row, v, 2);
    else if (lmax == 3)
      sph_edge<3>(row, v, 3);
    else if (lmax == 4)
      sph_edge<4>(row, v, 4);
    else
      sph_edge<-1>(row, v, lmax);
  }
  __syncthreads();
  float *to = op_row(out, first, dim);
  int total = edges * dim, fours = op_aligned(to) && (pitch == dim || (dim & 3) == 0) ? total / 4 : 0;
  for (int i = tid; i < fours; i += (int)blockDim.x) {
    const float *q = rows + i * 4;
    if (pitch != dim) q += i * 4 / dim; // no row begins inside the four
    ((float4 *)to)[i] = {q[0], q[1], q[2], q[3]};
  }
  for (int i = fours * 4 + tid; i < total; i += (int)blockDim.x) to[i] = rows[i / dim * pitch + i % dim];
}
GPUPROF_KERNEL(sph)
