#include "op.cuh"

// In double between the float input and output, as on the host.

// basis_walk is the sum of every function's derivative at r times back. u and du are the envelope and its slope by r.
GP_FN double basis_walk(double r, const float *back, int functions, int kind, int envelope, float cutoff) {
  const double pi = 3.14159265358979323846;
  double c = cutoff, u = 1, du = 0, sum = 0;
  if (envelope) {
    double t = r / c, t2 = t * t, left = 1 - t;
    u = t >= 1 ? 0.0 : 1 - t2 * t2 * t2 * (28 - t * (48 - 21 * t));
    du = t >= 1 ? 0.0 : -168 * t2 * t2 * t * left * left / c;
  }
  if (kind == 0) {
    double delta = c / (double)(functions - 1);
    for (int i = 0; i < functions; i++) {
      double t = r / delta - (double)i, d = gp_exp(-t * t) * (du - 2 * t / delta * u);
      sum += (double)back[i] * d;
    }
    return sum / 1.12;
  }
  // sin and cos of n t as in basis.cu. Near 0 the difference of b' loses digits and its series takes over.
  double t = pi * r / c, cosine = gp_cos(t), s = gp_sin(t), s_before = 0, k = cosine, k_before = 1, root = gp_sqrt(2 / c);
  for (int i = 0; i < functions; i++) {
    double wave = (double)(i + 1) * pi / c, kr = wave * r;
    double b = wave, slope = -wave * wave * kr / 3 * (1 - kr * kr / 10);
    if (kr > 1e-3) {
      b = s / r;
      slope = (wave * k - b) / r;
    }
    double d = slope * u + b * du;
    sum += (double)back[i] * d;
    double next = 2 * cosine * s - s_before;
    s_before = s;
    s = next;
    next = 2 * cosine * k - k_before;
    k_before = k;
    k = next;
  }
  return sum * root;
}

// One item is one edge.
extern "C" __global__ void basis_grad(const float *__restrict__ vec, const float *__restrict__ db, float *__restrict__ g, int count,
                                      int functions, int kind, int envelope, float cutoff, int n) {
  int e = gp_thread();
  if (e >= n) return;
  const float *v = op_row(vec, e, 3);
  double x = v[0], y = v[1], z = v[2];
  g[e] = (float)basis_walk(gp_sqrt(x * x + y * y + z * z), op_row(db, e, functions), functions, kind, envelope, cutoff);
}
GPUPROF_KERNEL(basis_grad)
