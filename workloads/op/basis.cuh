// The radial functions of one edge, for the kernels that make them. In double between the float input and output, as on
// the host: the recurrence of the sine would lose digits.
#pragma once
#include "op.cuh"

// 1 - 28 t^6 + 48 t^7 - 21 t^8, p = 6; 0 from t = 1 on.
GP_FN double basis_envelope(double t) {
  if (t >= 1) return 0;
  double t3 = t * t * t;
  return 1 - t3 * t3 * (28 - t * (48 - 21 * t));
}

// basis_row writes the functions of the vector v to row, step values from one to the next.
GP_FN void basis_row(const float *v, float *row, int step, int functions, int kind, int envelope, float cutoff) {
  const double pi = 3.14159265358979323846;
  double x = v[0], y = v[1], z = v[2], c = cutoff;
  double r = gp_sqrt(x * x + y * y + z * z);
  double factor = envelope ? basis_envelope(r / c) : 1.0;
  if (kind == 0) {
    double t = r * ((double)(functions - 1) / c);
    factor /= 1.12;
    for (int i = 0; i < functions; i++) {
      row[i * step] = (float)(factor * gp_exp(-t * t));
      t -= 1;
    }
    return;
  }
  // sin(n t) = 2 cos t sin((n-1) t) - sin((n-2) t). Near r = 0 the limit is exact to float.
  double t = pi * r / c;
  factor *= gp_sqrt(2 / c);
  if (t < 1e-9) {
    for (int i = 0; i < functions; i++) row[i * step] = (float)(factor * (double)(i + 1) * pi / c);
    return;
  }
  double cosine = gp_cos(t), now = gp_sin(t), before = 0;
  factor /= r;
  for (int i = 0; i < functions; i++) {
    row[i * step] = (float)(factor * now);
    double next = 2 * cosine * now - before;
    before = now;
    now = next;
  }
}
