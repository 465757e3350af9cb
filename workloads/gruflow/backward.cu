#include "gru.cuh"

// gradChunk of backward.go.
#define CHUNK 4096

// gru_store writes element i of what is kept: float32, or 16 bits wide.
GP_FN void gru_store(int precision, float *p, long long i, float v) {
  if (precision == GRU_BF16)
    ((unsigned short *)p)[i] = gp_to_bf16(v);
  else if (precision == GRU_FP16)
    ((unsigned short *)p)[i] = gp_to_fp16(v);
  else
    p[i] = v;
}

GP_FN bool gru_narrow(int precision) { return precision == GRU_BF16 || precision == GRU_FP16; }

// gru_left says whether a carrier of this level now left so many levels ago.
GP_FN bool gru_left(int level, int ago, int depth) { return (level + depth - ago % depth) % depth == 0; }

// One item is one unit of one carrier in the four kernels that follow.
extern "C" __global__ void gru_keep(const float *__restrict__ gx, const float *__restrict__ gh, const float *__restrict__ bx,
                                    const float *__restrict__ bh, float *__restrict__ h, float *states, float *__restrict__ kept, int n,
                                    int H, int at, int precision, int biased, int items) {
  int i = gp_thread();
  if (i >= items) return;
  int row = i / H, j = i % H;
  const float *x = gx + (long long)row * 3 * H + j, *s = gh + (long long)row * 3 * H + j;
  float g[6] = {x[0], x[H], x[2 * H], s[0], s[H], s[2 * H]};
  if (biased) {
#pragma unroll
    for (int k = 0; k < 3; k++) {
      g[k] += bx[k * H + j];
      g[3 + k] += bh[k * H + j];
    }
  }
  float u = g[5], r = gp_sigmoid(g[0] + g[3]), z = gp_sigmoid(g[1] + g[4]), c = gp_tanh(gp_fma(r, u, g[2]));
  long long k = (long long)row * 4 * H + j;
  gru_store(precision, kept, k, r);
  gru_store(precision, kept, k + H, z);
  gru_store(precision, kept, k + 2 * H, c);
  gru_store(precision, kept, k + 3 * H, u);
  long long from = (long long)at + i;
  float before = gru_narrow(precision) ? h[i] : states[from], after = gp_fma(z, before - c, c);
  if (gru_narrow(precision)) h[i] = after;
  gru_store(precision, states, from + n, after);
}
GPUPROF_KERNEL(gru_keep)

extern "C" __global__ void gru_cell_bwd(const float *__restrict__ dout, float *__restrict__ dh, const float *__restrict__ chain,
                                        const float *__restrict__ states, const float *__restrict__ kept, const int *__restrict__ level,
                                        float *__restrict__ gx, float *__restrict__ gh, int n, int H, int at, int precision, int depth,
                                        int ago, int step, int first, int last, int items) {
  int i = gp_thread();
  if (i >= items) return;
  int row = i / H, j = i % H;
  long long gate = (long long)row * 3 * H + j, k = (long long)row * 4 * H + j;
  float r = gru_load(precision, kept, k), z = gru_load(precision, kept, k + H), c = gru_load(precision, kept, k + 2 * H),
        u = gru_load(precision, kept, k + 3 * H);
  float d = dh[i] + chain[i];
  if (step == last && depth > 0 && gru_left(level[row], ago, depth)) d = 0.0f;
  if (step >= first) d += dout[(long long)(step - first) * n + i];
  float an = d * (1.0f - z) * (1.0f - c * c);
  float ar = an * u * r * (1.0f - r), az = d * (gru_load(precision, states, (long long)at + i) - c) * z * (1.0f - z);
  gx[gate] = ar;
  gx[gate + H] = az;
  gx[gate + 2 * H] = an;
  gh[gate] = ar;
  gh[gate + H] = az;
  gh[gate + 2 * H] = an * r;
  dh[i] = d * z;
}
GPUPROF_KERNEL(gru_cell_bwd)

extern "C" __global__ void gru_leave(float *__restrict__ states, float *__restrict__ h, const int *__restrict__ level, int n, int H,
                                     int at, int precision, int depth, int ago, int items) {
  int i = gp_thread();
  if (i >= items || !gru_left(level[i / H], ago, depth)) return;
  gru_store(precision, states, (long long)at + i, 0.0f);
  if (gru_narrow(precision)) h[i] = 0.0f;
}
GPUPROF_KERNEL(gru_leave)

extern "C" __global__ void gru_restore(float *states, const float *__restrict__ kept, const int *__restrict__ level, int n, int H,
                                       int at, int precision, int depth, int ago, int items) {
  int i = gp_thread();
  if (i >= items || !gru_left(level[i / H], ago, depth)) return;
  long long k = (long long)(i / H) * 4 * H + i % H, from = (long long)at + i;
  float z = gru_load(precision, kept, k + H), c = gru_load(precision, kept, k + 2 * H);
  gru_store(precision, states, from, gp_fma(z, gru_load(precision, states, from - n) - c, c));
}
GPUPROF_KERNEL(gru_restore)

// One item is one value of p.
extern "C" __global__ void gru_turn(const float *__restrict__ p, float *__restrict__ out, int n, int rows, int K, int precision, int items) {
  int i = gp_thread();
  if (i < items) gru_store(precision, out, i, gru_round(precision, p[(long long)(i % rows) * K + i / rows]));
}
GPUPROF_KERNEL(gru_turn)

// One item is one carrier, and a warp takes it.
extern "C" __global__ void gru_energy_bwd(const float *__restrict__ gx, const float *__restrict__ w, float *__restrict__ de, int n,
                                          int steps, int G, int precision, int items) {
  int c = (int)(blockIdx.x * (blockDim.x / 32)) + gp_warp(), lane = gp_lane();
  if (c >= items) return; // the whole warp
  float sum = 0.0f;
  for (int t = 0; t < steps; t++) {
    const float *g = gx + ((long long)t * n + c) * G;
    for (int j = lane; j < G; j += 32) sum = gp_fma(gru_round(precision, g[j]), gru_load(precision, w, j), sum);
  }
  sum = gp_warp_sum(sum);
  if (lane == 0) de[c] += sum;
}
GPUPROF_KERNEL(gru_energy_bwd)

// One item is one column.
extern "C" __global__ void gru_bias(const float *__restrict__ g, float *__restrict__ db, int n, int rows, int add, int items) {
  int m = gp_thread();
  if (m >= items) return;
  float total = add ? db[m] : 0.0f;
  for (int c0 = 0; c0 < rows; c0 += CHUNK) {
    float sum = 0.0f;
    for (int r = c0; r < gp_min(rows, c0 + CHUNK); r++) sum += g[(long long)r * n + m];
    total += sum;
  }
  db[m] = total;
}
GPUPROF_KERNEL(gru_bias)
