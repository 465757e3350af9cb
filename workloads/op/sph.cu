#include "op.cuh"

#define SPH_DEGREES 9 // so3.MaxL + 1

// One item is one edge. The constants of the recurrences (see sph_host.go) are a few roots that a block computes
// once; the rest is in double between the float input and output, because near the poles Y_l0 changes by l(l+1)/2
// times the rounding of y.
extern "C" __global__ void sph(const float *__restrict__ vec, float *__restrict__ out, int count, int lmax, int n) {
  __shared__ double start[SPH_DEGREES], a[SPH_DEGREES * SPH_DEGREES], b[SPH_DEGREES * SPH_DEGREES];
  for (int i = (int)threadIdx.x; i < SPH_DEGREES * SPH_DEGREES; i += (int)blockDim.x) {
    int l = i / SPH_DEGREES, m = i % SPH_DEGREES;
    double ll = l, mm = m;
    if (l > m) a[i] = gp_sqrt((4 * ll * ll - 1) / (ll * ll - mm * mm));
    if (l > m + 1) b[i] = gp_sqrt(((ll - 1) * (ll - 1) - mm * mm) / (4 * (ll - 1) * (ll - 1) - 1));
    if (l == m + 1) b[i] = 0;
    if (l == m) {
      double q = m ? gp_sqrt(3.0) : 1.0;
      for (int k = 2; k <= m; k++) q *= gp_sqrt((double)(2 * k + 1) / (double)(2 * k));
      start[m] = q;
    }
  }
  __syncthreads();
  int e = gp_thread();
  if (e >= n) return;
  const float *v = op_row(vec, e, 3);
  float *row = op_row(out, e, (lmax + 1) * (lmax + 1));
  double x = v[0], y = v[1], z = v[2];
  double r = gp_sqrt(x * x + y * y + z * z);
  if (r == 0) {
    row[0] = 1;
    for (int i = 1; i < (lmax + 1) * (lmax + 1); i++) row[i] = 0;
    return;
  }
  x /= r;
  y /= r;
  z /= r;
  double c = 1, s = 0; // (z + ix)^m
  for (int m = 0; m <= lmax; m++) {
    if (m > 0) {
      double t = c * z - s * x;
      s = s * z + c * x;
      c = t;
    }
    double q = start[m], before = 0;
    for (int l = m; l <= lmax; l++) {
      if (l > m) {
        double next = a[l * SPH_DEGREES + m] * (y * q - b[l * SPH_DEGREES + m] * before);
        before = q;
        q = next;
      }
      int mid = l * l + l;
      row[mid + m] = (float)(q * c);
      if (m > 0) row[mid - m] = (float)(q * s);
    }
  }
}
GPUPROF_KERNEL(sph)
