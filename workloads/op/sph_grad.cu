#include "op.cuh"

#define SPH_DEGREES 9 // so3.MaxL + 1

// A degree of R_l^m (see sph_grad.go), real and imaginary parts; two zeros follow.
struct sph_degree {
  double re[SPH_DEGREES + 2], im[SPH_DEGREES + 2];
};

// sph_climb makes the degree l on the unit sphere from the two below it.
GP_FN void sph_climb(sph_degree &here, const sph_degree &below, const sph_degree &before, int l, double x, double y, double z) {
  for (int m = 0; m < l; m++) {
    double a = (double)(2 * l - 1) * y, b = (double)(l + m - 1), c = (double)(l - m);
    here.re[m] = (a * below.re[m] - b * before.re[m]) / c;
    here.im[m] = (a * below.im[m] - b * before.im[m]) / c;
  }
  double k = (double)(2 * l - 1), re = below.re[l - 1], im = below.im[l - 1];
  here.re[l] = k * (re * z - im * x);
  here.im[l] = k * (re * x + im * z);
}

// sph_norms writes what R lacks to a block's shared memory.
GP_FN void sph_norms(double *norm) {
  for (int i = (int)threadIdx.x; i < SPH_DEGREES * SPH_DEGREES; i += (int)blockDim.x) {
    int l = i / SPH_DEGREES, m = i % SPH_DEGREES;
    double ratio = m ? 2.0 * (2 * l + 1) : 2 * l + 1;
    for (int k = 1; k <= m && m <= l; k++) ratio /= (double)((l + k) * (l - k + 1));
    norm[i] = gp_sqrt(ratio);
  }
  __syncthreads();
}

// One item is one edge; in double between the float input and output, as sph is. A block computes the norms once.
extern "C" __global__ void sph_grad(const float *__restrict__ vec, const float *__restrict__ dy, const float *__restrict__ slope,
                                    float *__restrict__ f, int count, int lmax, int n) {
  __shared__ double norm[SPH_DEGREES * SPH_DEGREES];
  sph_norms(norm);
  int e = gp_thread();
  if (e >= n) return;
  const float *v = op_row(vec, e, 3), *back = op_row(dy, e, (lmax + 1) * (lmax + 1));
  float *out = op_row(f, e, 3);
  double x = v[0], y = v[1], z = v[2];
  double r = gp_sqrt(x * x + y * y + z * z);
  if (r == 0) {
    out[0] = out[1] = out[2] = 0;
    return;
  }
  x /= r;
  y /= r;
  z /= r;
  sph_degree before = {}, below = {}, here = {};
  below.re[0] = 1;
  double sx = 0, sy = 0, sz = 0, along = 0;
  for (int l = 1; l <= lmax; l++) {
    sph_climb(here, below, before, l, x, y, z);
    int mid = l * l + l;
    for (int m = 0; m <= l; m++) {
      double q = norm[l * SPH_DEGREES + m], re = q * (double)back[mid + m], im = m ? q * (double)back[mid - m] : 0.0;
      along += (double)l * (re * here.re[m] + im * here.im[m]);
      sy += (double)(l + m) * (re * below.re[m] + im * below.im[m]);
      double ur = below.re[m + 1], ui = below.im[m + 1];
      if (m == 0) {
        sz -= re * ur;
        sx -= re * ui;
        continue;
      }
      double k = (double)((l + m) * (l + m - 1)), dr = k * below.re[m - 1], di = k * below.im[m - 1];
      sz += (re * (dr - ur) + im * (di - ui)) / 2;
      sx += (im * (dr + ur) - re * (di + ui)) / 2; // i (D+U)/2
    }
    before = below;
    below = here;
  }
  double g = slope[e];
  out[0] = (float)((sx - along * x) / r + g * x);
  out[1] = (float)((sy - along * y) / r + g * y);
  out[2] = (float)((sz - along * z) / r + g * z);
}
GPUPROF_KERNEL(sph_grad)
