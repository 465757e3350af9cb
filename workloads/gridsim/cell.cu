#include "grid.cuh"

// The operations of split, a thread a cell; kernels.go has the formulas and arguments.

extern "C" __global__ void grid_neighbours(const float *__restrict__ psi, float *__restrict__ out, int psiAt, int outAt,
                                           int outCs, int N, int C, int first, int hwc, int zero, int concat, int items) {
  int i = gp_thread();
  if (i >= items) return;
  int cell = first + i, y = cell / N, x = cell % N, width = concat ? 2 * C : C;
  for (int c = 0; c < C; c++) {
    float k = grid_mean(psi + psiAt, c, y, x, N, C, hwc, zero);
    if (concat) {
      out[outAt + grid_where(c, i, outCs, width, hwc)] = psi[psiAt + grid_where(c, cell, N * N, C, hwc)];
      out[outAt + grid_where(C + c, i, outCs, width, hwc)] = k;
    } else {
      out[outAt + grid_where(c, i, outCs, width, hwc)] = k;
    }
  }
}
GPUPROF_KERNEL(grid_neighbours)

extern "C" __global__ void grid_concat(const float *__restrict__ psi, const float *__restrict__ k, float *__restrict__ out,
                                       int psiAt, int psiCs, int kAt, int kCs, int outAt, int outCs, int C, int hwc, int items) {
  int i = gp_thread();
  if (i >= items) return;
  for (int c = 0; c < C; c++) {
    out[outAt + grid_where(c, i, outCs, 2 * C, hwc)] = psi[psiAt + grid_where(c, i, psiCs, C, hwc)];
    out[outAt + grid_where(C + c, i, outCs, 2 * C, hwc)] = k[kAt + grid_where(c, i, kCs, C, hwc)];
  }
}
GPUPROF_KERNEL(grid_concat)

// x and out may be one array.
extern "C" __global__ void grid_activate(float *x, const float *__restrict__ weights, float *out, int xAt, int xCs, int biasAt,
                                         int outAt, int outCs, int H, int hwc, int identity, int items) {
  int i = gp_thread();
  if (i >= items) return;
  for (int h = 0; h < H; h++) {
    float v = x[xAt + grid_where(h, i, xCs, H, hwc)] + weights[biasAt + h];
    out[outAt + grid_where(h, i, outCs, H, hwc)] = identity ? v : grid_elu(v);
  }
}
GPUPROF_KERNEL(grid_activate)

GP_FN void grid_ends(const float *psi, const float *delta, const float *weights, float *out, int psiAt, int psiCs, int deltaAt,
                     int deltaCs, int biasAt, int outAt, int outCs, int C, int hwc, int normalise, float tau, int i) {
  float sum = 0.0f;
  for (int c = 0; c < C; c++) {
    float d = delta[deltaAt + grid_where(c, i, deltaCs, C, hwc)] + weights[biasAt + c];
    float u = gp_fma(tau, d, psi[psiAt + grid_where(c, i, psiCs, C, hwc)]);
    sum = gp_fma(u, u, sum);
    out[outAt + grid_where(c, i, outCs, C, hwc)] = u;
  }
  if (!normalise) return;
  float part = 1.0f / gp_sqrt(sum + 1e-8f);
  for (int c = 0; c < C; c++) out[outAt + grid_where(c, i, outCs, C, hwc)] *= part;
}

extern "C" __global__ void grid_update(const float *__restrict__ psi, const float *__restrict__ delta,
                                       const float *__restrict__ weights, float *__restrict__ out, int psiAt, int psiCs,
                                       int deltaAt, int deltaCs, int biasAt, int outAt, int outCs, int C, int hwc, int normalise,
                                       float tau, int items) {
  int i = gp_thread();
  if (i < items) grid_ends(psi, delta, weights, out, psiAt, psiCs, deltaAt, deltaCs, biasAt, outAt, outCs, C, hwc, normalise, tau, i);
}
GPUPROF_KERNEL(grid_update)

extern "C" __global__ void grid_finish(const float *__restrict__ psi, const float *__restrict__ delta,
                                       const float *__restrict__ weights, float *__restrict__ out, int psiAt, int psiCs,
                                       int deltaAt, int deltaCs, int biasAt, int outAt, int outCs, int C, int hwc, int normalise,
                                       float tau, int items) {
  int i = gp_thread();
  if (i < items) grid_ends(psi, delta, weights, out, psiAt, psiCs, deltaAt, deltaCs, biasAt, outAt, outCs, C, hwc, normalise, tau, i);
}
GPUPROF_KERNEL(grid_finish)

extern "C" __global__ void grid_square(const float *__restrict__ x, float *__restrict__ out, int xAt, int outAt, int items) {
  int i = gp_thread();
  if (i < items) out[outAt + i] = x[xAt + i] * x[xAt + i];
}
GPUPROF_KERNEL(grid_square)

extern "C" __global__ void grid_sum(const float *__restrict__ x, float *__restrict__ out, int xAt, int xCs, int outAt, int C,
                                    int hwc, int items) {
  int i = gp_thread();
  if (i >= items) return;
  float sum = 0.0f;
  for (int c = 0; c < C; c++) sum += x[xAt + grid_where(c, i, xCs, C, hwc)];
  out[outAt + i] = sum;
}
GPUPROF_KERNEL(grid_sum)

extern "C" __global__ void grid_root(const float *__restrict__ x, float *__restrict__ out, int xAt, int outAt, int items) {
  int i = gp_thread();
  if (i < items) out[outAt + i] = gp_sqrt(x[xAt + i] + 1e-8f);
}
GPUPROF_KERNEL(grid_root)

extern "C" __global__ void grid_divide(const float *__restrict__ u, const float *__restrict__ root, float *__restrict__ out,
                                       int uAt, int uCs, int rootAt, int outAt, int outCs, int C, int hwc, int items) {
  int i = gp_thread();
  if (i >= items) return;
  float r = root[rootAt + i];
  for (int c = 0; c < C; c++) out[outAt + grid_where(c, i, outCs, C, hwc)] = u[uAt + grid_where(c, i, uCs, C, hwc)] / r;
}
GPUPROF_KERNEL(grid_divide)

extern "C" __global__ void grid_relax(const float *__restrict__ psi, const float *__restrict__ k, float *__restrict__ out,
                                      int psiAt, int psiCs, int kAt, int kCs, int outAt, int outCs, int C, int hwc, float tau,
                                      int items) {
  int i = gp_thread();
  if (i >= items) return;
  for (int c = 0; c < C; c++) {
    float v = psi[psiAt + grid_where(c, i, psiCs, C, hwc)];
    out[outAt + grid_where(c, i, outCs, C, hwc)] = gp_fma(tau, k[kAt + grid_where(c, i, kCs, C, hwc)] - v, v);
  }
}
GPUPROF_KERNEL(grid_relax)

extern "C" __global__ void grid_diffuse(const float *__restrict__ psi, float *__restrict__ out, int psiAt, int outAt, int N, int C,
                                        int hwc, int zero, float tau, int items) {
  int i = gp_thread();
  if (i >= items) return;
  for (int c = 0; c < C; c++) {
    float v = psi[psiAt + grid_where(c, i, N * N, C, hwc)];
    float k = grid_mean(psi + psiAt, c, i / N, i % N, N, C, hwc, zero);
    out[outAt + grid_where(c, i, N * N, C, hwc)] = gp_fma(tau, k - v, v);
  }
}
GPUPROF_KERNEL(grid_diffuse)

// The a and b of a pair of channels.
struct grid_pair {
  float a, b;
};

GP_FN grid_pair grid_turned(const float *psi, int k, int y, int x, int N, int C, int hwc, float cos, float sin) {
  float a = grid_at(psi, k, y, x, N, C, hwc, 0), b = grid_at(psi, k + 1, y, x, N, C, hwc, 0);
  grid_pair p = {cos * a - sin * b, sin * a + cos * b};
  return p;
}

// The pair in a cell after the pass along the rows' axis.
GP_FN grid_pair grid_down(const float *psi, int k, int y, int x, int N, int C, int hwc, float cos, float sin) {
  grid_pair p = {grid_turned(psi, k, y - 1, x, N, C, hwc, cos, sin).a, grid_turned(psi, k, y + 1, x, N, C, hwc, cos, sin).b};
  return p;
}

extern "C" __global__ void grid_walk(const float *__restrict__ psi, float *__restrict__ out, int psiAt, int outAt, int N, int C,
                                     int hwc, int axis, int first, float cos, float sin, int items) {
  int i = gp_thread();
  if (i >= items) return;
  i += first;
  int y = i / N, x = i % N;
  const float *from = psi + psiAt;
  for (int k = 0; k < C; k += 2) {
    grid_pair p;
    if (axis == 0) {
      p = grid_down(from, k, y, x, N, C, hwc, cos, sin);
    } else if (axis == 1) {
      p.a = grid_turned(from, k, y, x - 1, N, C, hwc, cos, sin).a;
      p.b = grid_turned(from, k, y, x + 1, N, C, hwc, cos, sin).b;
    } else {
      grid_pair l = grid_down(from, k, y, x - 1, N, C, hwc, cos, sin), r = grid_down(from, k, y, x + 1, N, C, hwc, cos, sin);
      p.a = cos * l.a - sin * l.b;
      p.b = sin * r.a + cos * r.b;
    }
    out[outAt + grid_where(k, i, N * N, C, hwc)] = p.a;
    out[outAt + grid_where(k + 1, i, N * N, C, hwc)] = p.b;
  }
}
GPUPROF_KERNEL(grid_walk)

// One item is one pixel.
extern "C" __global__ void grid_maps(const float *__restrict__ psi, const float *__restrict__ before, float *__restrict__ out,
                                     int psiAt, int beforeAt, int N, int C, int hwc, int maps, int scale, int items) {
  int px = gp_thread();
  if (px >= items) return;
  int side = N / scale, y0 = px / side * scale, x0 = px % side * scale;
  float density = 0.0f, change = 0.0f, re = 0.0f, im = 0.0f;
  for (int dy = 0; dy < scale; dy++)
    for (int dx = 0; dx < scale; dx++) {
      int i = (y0 + dy) * N + x0 + dx;
      for (int c = 0; c < C; c++) {
        float v = psi[psiAt + grid_where(c, i, N * N, C, hwc)];
        density = gp_fma(v, v, density);
        if (maps > 1) {
          float d = v - before[beforeAt + grid_where(c, i, N * N, C, hwc)];
          change = gp_fma(d, d, change);
        }
      }
      re += psi[psiAt + grid_where(0, i, N * N, C, hwc)];
      im += psi[psiAt + grid_where(C / 2, i, N * N, C, hwc)];
    }
  float part = 1.0f / (float)(scale * scale);
  long long plane = (long long)side * side;
  out[px] = density * part;
  if (maps > 1) out[plane + px] = change * part;
  if (maps > 2) out[2 * plane + px] = re * part;
  if (maps > 3) out[3 * plane + px] = im * part;
}
GPUPROF_KERNEL(grid_maps)

// One item is one cell of the region.
extern "C" __global__ void grid_crop(const float *__restrict__ psi, float *__restrict__ out, int psiAt, int outAt, int N, int C,
                                     int width, int height, int hwc, int items) {
  int i = gp_thread();
  if (i >= items) return;
  int from = i / width * N + i % width;
  for (int c = 0; c < C; c++)
    out[outAt + grid_where(c, i, width * height, C, hwc)] = psi[psiAt + grid_where(c, from, N * N, C, hwc)];
}
GPUPROF_KERNEL(grid_crop)

extern "C" __global__ void grid_poison(float *__restrict__ out, int at, float value, int items) {
  int i = gp_thread();
  if (i < items) out[at + i] = value;
}
GPUPROF_KERNEL(grid_poison)
