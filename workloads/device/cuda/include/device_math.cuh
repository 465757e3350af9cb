// Elementary functions without libdevice. Polynomials are near-minimax fits of our own (Chebyshev points, 50
// digits); the bounds hold over the stated range, by comparison with double or 50-digit values.
//
//   gp_exp(float)          1 ulp, all x          gp_exp(double)          1 ulp, all x
//   gp_tanh(float)         2 ulp, all x          gp_sigmoid(double)      3 ulp, all x
//   gp_sigmoid(float)      3 ulp, all x          gp_sin, gp_cos(double)  2 ulp, |x| < 2^30
//   gp_sin, gp_cos(float)  2 ulp, |x| < 2^30
//
// A sine or cosine beyond its range loses digits one for one with the exponent. Subnormal results are kept.
#pragma once

GP_FN float gp_exp(float x) {
  if (!(x < 88.73f)) return x != x ? x : __uint_as_float(0x7f800000u);
  if (x < -104.0f) return 0.0f;
  // x = n ln2 + r, |r| <= ln2/2; adding 1.5 * 2^23 leaves the rounded n in the low bits.
  float shifted = gp_fma(x, 1.44269502f, 12582912.0f);
  int n = __float_as_int(shifted) - 0x4b400000;
  float k = shifted - 12582912.0f;
  float r = gp_fma(k, -0.693147182f, x);
  r = gp_fma(k, 1.9046542121259336e-9f, r);
  float p = 0x1.6d113cp-10f;
  p = gp_fma(p, r, 0x1.120ba2p-7f);
  p = gp_fma(p, r, 0x1.55551ap-5f);
  p = gp_fma(p, r, 0x1.5554dcp-3f);
  p = gp_fma(p, r, 0.5f);
  p = gp_fma(p * r, r, r) + 1.0f;
  // Two exact factors, since 2^n itself leaves the range of float at both ends; only the last product rounds.
  int half = n >> 1;
  return p * __int_as_float((half + 127) << 23) * __int_as_float((n - half + 127) << 23);
}

GP_FN float gp_tanh(float x) {
  float a = gp_abs(x), t;
  if (a < 0.625f) {
    float z = a * a, p = -0x1.c07742p-11f;
    p = gp_fma(p, z, 0x1.b0620ap-9f);
    p = gp_fma(p, z, -0x1.1ff718p-7f);
    p = gp_fma(p, z, 0x1.6624b8p-6f);
    p = gp_fma(p, z, -0x1.ba1a4p-5f);
    p = gp_fma(p, z, 0x1.11110ep-3f);
    p = gp_fma(p, z, -0x1.555556p-2f);
    t = gp_fma(p * z, a, a);
  } else if (a < 9.1f) {
    t = 1.0f - 2.0f / (gp_exp(2.0f * a) + 1.0f);
  } else {
    t = a != a ? a : 1.0f; // 1 - tanh is below a quarter ulp
  }
  return x < 0.0f ? -t : (x == 0.0f ? x : t);
}

// gp_sigmoid is 1/(1+e^-x); below zero e^x/(1+e^x), which keeps its relative precision.
GP_FN float gp_sigmoid(float x) {
  float e = gp_exp(-gp_abs(x)), d = 1.0f + e;
  return x < 0.0f ? e / d : (x != x ? x : 1.0f / d);
}

// The sine and cosine of r in [-pi/4, pi/4].
GP_FN float gp_sin_kernel(float r) {
  float z = r * r, p = 0x1.6dbcfcp-19f;
  p = gp_fma(p, z, -0x1.a013a4p-13f);
  p = gp_fma(p, z, 0x1.11110ep-7f);
  p = gp_fma(p, z, -0x1.555556p-3f);
  return gp_fma(p * z, r, r);
}
GP_FN float gp_cos_kernel(float r) {
  float z = r * r, p = -0x1.25239ap-22f;
  p = gp_fma(p, z, 0x1.a015c2p-16f);
  p = gp_fma(p, z, -0x1.6c16cp-10f);
  p = gp_fma(p, z, 0x1.555556p-5f);
  float tail = gp_fma(p * z, z, -0.5f * z);
  return 1.0f + tail;
}
GP_FN double gp_sin_kernel(double r) {
  double z = r * r, p = -0x1.ab16f5bc68a29p-41;
  p = gp_fma(p, z, 0x1.61217d923a998p-33);
  p = gp_fma(p, z, -0x1.ae645410e9193p-26);
  p = gp_fma(p, z, 0x1.71de3a545f835p-19);
  p = gp_fma(p, z, -0x1.a01a01a01992fp-13);
  p = gp_fma(p, z, 0x1.111111111111p-7);
  p = gp_fma(p, z, -0x1.5555555555555p-3);
  return gp_fma(p * z, r, r);
}
GP_FN double gp_cos_kernel(double r) {
  double z = r * r, p = 0x1.ab77954421f46p-45;
  p = gp_fma(p, z, -0x1.9394b8bd3b322p-37);
  p = gp_fma(p, z, 0x1.1eed8deac3d25p-29);
  p = gp_fma(p, z, -0x1.27e4fb77125c5p-22);
  p = gp_fma(p, z, 0x1.a01a01a019d06p-16);
  p = gp_fma(p, z, -0x1.6c16c16c16c16p-10);
  p = gp_fma(p, z, 0x1.5555555555555p-5);
  return 1.0 + gp_fma(p * z, z, -0.5 * z);
}

// gp_reduce writes x - n pi/2 and returns n; the three parts of pi/2 make each product's remainder exact.
GP_FN int gp_reduce(double x, double *r) {
  double n = gp_rint(x * 0x1.45f306dc9c883p-1);
  double t = gp_fma(n, -0x1.921fb54442d18p+0, x);
  t = gp_fma(n, -0x1.1a62633145c07p-54, t);
  *r = gp_fma(n, 0x1.f1976b7ed8fbcp-110, t);
  return (int)((long long)n & 3);
}
GP_FN int gp_reduce(float x, float *r) {
  if (gp_abs(x) < 32768.0f) {
    float n = gp_rint(x * 0.636619747f);
    float t = gp_fma(n, -0x1.921fb6p+0f, x);
    t = gp_fma(n, 0x1.777a5cp-25f, t);
    *r = gp_fma(n, 0x1.ee59dap-50f, t);
    return (int)n & 3;
  }
  double wide;
  int n = gp_reduce((double)x, &wide);
  *r = (float)wide;
  return n;
}

// gp_quadrant is sin(x + shift pi/2): shift 0 for the sine, 1 for the cosine. Infinities give NaN.
template <typename T>
GP_FN T gp_quadrant(T x, int shift) {
  if (!(gp_abs(x) <= (T)3.4e38)) return x - x;
  T r;
  int q = gp_reduce(x, &r) + shift;
  T v = (q & 1) ? gp_cos_kernel(r) : gp_sin_kernel(r);
  return (q & 2) ? -v : v;
}
GP_FN float gp_sin(float x) { return gp_quadrant(x, 0); }
GP_FN float gp_cos(float x) { return gp_quadrant(x, 1); }
GP_FN double gp_sin(double x) { return gp_quadrant(x, 0); }
GP_FN double gp_cos(double x) { return gp_quadrant(x, 1); }

GP_FN double gp_exp(double x) {
  if (!(x < 709.79)) return x != x ? x : __longlong_as_double(0x7ff0000000000000LL);
  if (x < -745.2) return 0.0;
  double k = gp_rint(x * 0x1.71547652b82fep+0);
  double r = gp_fma(k, -0x1.62e42fefa39efp-1, x);
  r = gp_fma(k, -0x1.abc9e3b39803fp-56, r);
  double p = 0x1.1f731ea5352cap-29;
  p = gp_fma(p, r, 0x1.af4e196027428p-26);
  p = gp_fma(p, r, 0x1.27e4db57442fbp-22);
  p = gp_fma(p, r, 0x1.71de021a90822p-19);
  p = gp_fma(p, r, 0x1.a01a01a6dcaffp-16);
  p = gp_fma(p, r, 0x1.a01a01abef415p-13);
  p = gp_fma(p, r, 0x1.6c16c16c162ccp-10);
  p = gp_fma(p, r, 0x1.11111111100cep-7);
  p = gp_fma(p, r, 0x1.5555555555556p-5);
  p = gp_fma(p, r, 0x1.5555555555557p-3);
  p = gp_fma(p, r, 0.5);
  p = gp_fma(p * r, r, r) + 1.0;
  int n = (int)k, half = n >> 1;
  return p * __longlong_as_double((long long)(half + 1023) << 52) * __longlong_as_double((long long)(n - half + 1023) << 52);
}
GP_FN double gp_sigmoid(double x) {
  double e = gp_exp(-gp_abs(x)), d = 1.0 + e;
  return x < 0.0 ? e / d : (x != x ? x : 1.0 / d);
}

// The names that say float.
GP_FN float gp_expf(float x) { return gp_exp(x); }
GP_FN float gp_tanhf(float x) { return gp_tanh(x); }
GP_FN float gp_sigmoidf(float x) { return gp_sigmoid(x); }
GP_FN float gp_sinf(float x) { return gp_sin(x); }
GP_FN float gp_cosf(float x) { return gp_cos(x); }
