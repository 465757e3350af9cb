#include "op.cuh"

// In double between the float input and output, as on the host: the recurrence of the sine would lose digits.

// 1 - 28 t^6 + 48 t^7 - 21 t^8, p = 6; 0 from t = 1 on.
GP_FN double basis_envelope(double t) {
  if (t >= 1) return 0;
  double t3 = t * t * t;
  return 1 - t3 * t3 * (28 - t * (48 - 21 * t));
}

// One item is one edge.
extern "C" __global__ void basis(const float *__restrict__ vec, float *__restrict__ b, int count, int functions, int kind,
                                 int envelope, float cutoff, int n) {
  const double pi = 3.14159265358979323846;
  int e = gp_thread();
  if (e >= n) return;
  const float *v = op_row(vec, e, 3);
  double x = v[0], y = v[1], z = v[2], c = cutoff;
  double r = gp_sqrt(x * x + y * y + z * z);
  float *row = op_row(b, e, functions);
  double factor = envelope ? basis_envelope(r / c) : 1.0;
  if (kind == 0) {
    double delta = c / (double)(functions - 1);
    factor /= 1.12;
    for (int i = 0; i < functions; i++) {
      double t = r / delta - (double)i;
      row[i] = (float)(factor * gp_exp(-t * t));
    }
    return;
  }
  // sin(n t) = 2 cos t sin((n-1) t) - sin((n-2) t). Near r = 0 the limit is exact to float.
  double t = pi * r / c;
  factor *= gp_sqrt(2 / c);
  if (t < 1e-9) {
    for (int i = 0; i < functions; i++) row[i] = (float)(factor * (double)(i + 1) * pi / c);
    return;
  }
  double cosine = gp_cos(t), now = gp_sin(t), before = 0;
  factor /= r;
  for (int i = 0; i < functions; i++) {
    row[i] = (float)(factor * now);
    double next = 2 * cosine * now - before;
    before = now;
    now = next;
  }
}
GPUPROF_KERNEL(basis)
