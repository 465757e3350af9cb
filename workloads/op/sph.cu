#include "op.cuh"
#include "sph_roots.cuh"

// sph_edge writes the harmonics of one direction to row. In double between the float input and output, because near the
// poles Y_l0 changes by l(l+1)/2 times the rounding of y. With L of 0 or more everything is unrolled and the constants
// are operands; L of -1 takes lmax.
template <int L>
GP_FN void sph_edge(float *row, const float *v, int lmax) {
  enum { TIMES = L < 0 ? 1 : L + 1 };
  if (L >= 0) lmax = L;
  double x = __ldg(v), y = __ldg(v + 1), z = __ldg(v + 2);
  double square = x * x + y * y + z * z;
  if (square == 0) {
    float nothing = (float)square; // as 0 this loop would become a store of single bytes
    row[0] = 1;
    for (int i = 1; i < (lmax + 1) * (lmax + 1); i++) row[i] = nothing;
    return;
  }
  double inverse = gp_rcp(gp_sqrt(square));
  x *= inverse;
  y *= inverse;
  z *= inverse;
  double c = 1, s = 0; // (z + ix)^m
#pragma unroll TIMES
  for (int m = 0; m <= lmax; m++) {
    if (m == 1) {
      c = z;
      s = x;
    } else if (m > 1) {
      double t = c * z - s * x;
      s = s * z + c * x;
      c = t;
    }
    double q = sph_start[m], before = 0;
#pragma unroll TIMES
    for (int l = m; l <= lmax; l++) {
      if (l > m) {
        double next = y * q;
        if (l > m + 1) next -= sph_b[l * SPH_DEGREES + m] * before;
        before = q;
        q = sph_a[l * SPH_DEGREES + m] * next;
      }
      int mid = l * l + l;
      row[mid + m] = (float)(m > 0 ? q * c : q);
      if (m > 0) row[mid - m] = (float)(q * s);
    }
  }
}

// One item is one edge. A warp makes the rows of 32 edges in shared memory, on different banks, and writes them
// together, four values at a time: they lie beside each other in out. No warp waits for another.
extern "C" __global__ void __launch_bounds__(64)
    sph(const float *__restrict__ vec, float *__restrict__ out, int count, int lmax, int n) {
  GPUPROF_SHARED(float, shared);
  int dim = (lmax + 1) * (lmax + 1), pitch = dim | 1, tid = (int)threadIdx.x, lane = tid & 31;
  int first = (int)(blockIdx.x * blockDim.x) + (tid & ~31), edges = gp_min(32, n - first);
  if (edges <= 0) return;
  float *rows = shared + (tid & ~31) * pitch;
  if (lane < edges) {
    const float *v = op_row(vec, first + lane, 3);
    float *row = rows + lane * pitch;
    if (lmax == 2)
      sph_edge<2>(row, v, 2);
    else if (lmax == 3)
      sph_edge<3>(row, v, 3);
    else if (lmax == 4)
      sph_edge<4>(row, v, 4);
    else
      sph_edge<-1>(row, v, lmax);
  }
  __syncwarp();
  float *to = op_row(out, first, dim);
  int total = edges * dim, fours = op_aligned(to) && (pitch == dim || (dim & 3) == 0) ? total / 4 : 0;
  if (pitch == dim) { // rows lie there as they do in out
#pragma unroll 4
    for (int i = lane; i < fours; i += 32) {
      float4 q = ((const float4 *)rows)[i];
      ((float4 *)to)[i] = {q.x, q.y, q.z, q.w}; // as q it would be two halves
    }
  } else { // no row begins inside the four; the division is exact for the rows of a warp
    unsigned inverse = (unsigned)((4 * 65536 + dim - 1) / dim);
#pragma unroll 4
    for (int i = lane; i < fours; i += 32) {
      const float *q = rows + i * 4 + ((unsigned)i * inverse >> 16);
      ((float4 *)to)[i] = {q[0], q[1], q[2], q[3]};
    }
  }
  for (int i = fours * 4 + lane; i < total; i += 32) to[i] = rows[i / dim * pitch + i % dim];
}
GPUPROF_KERNEL(sph)
