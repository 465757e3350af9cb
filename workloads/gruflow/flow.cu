#include "gru.cuh"

// The columns of a carrier's record, and how far it can move, as in model.go.
enum { OUT_DEPOSIT, OUT_ENERGY, OUT_X, OUT_Y, OUTPUTS };
#define STRIDE 0.01f

extern "C" __global__ void gru_inject(float *__restrict__ x, const float *__restrict__ energy, int n, int I, int B, int items) {
  int i = gp_thread();
  if (i < items) x[(long long)i * I] = energy[i % B];
}
GPUPROF_KERNEL(gru_inject)

// The carriers' state.
struct fleet {
  float *h, *energy;
  int *level;
  float *place;
  const float *source;
  float *out;
  int B, H, L, D;
};

// fleet_move takes carrier c a level down and says whether it left.
GP_FN bool fleet_move(const fleet &f, int c, float p0, float p1, float p2) {
  float deposit = gp_sigmoid(p0) * f.energy[c], energy = f.energy[c] - deposit;
  float x = gp_fma(STRIDE, gp_tanh(p1), f.place[2 * c]), y = gp_fma(STRIDE, gp_tanh(p2), f.place[2 * c + 1]);
  float *rec = f.out + (long long)c * OUTPUTS;
  rec[OUT_DEPOSIT] = deposit;
  rec[OUT_ENERGY] = energy;
  rec[OUT_X] = x;
  rec[OUT_Y] = y;
  int level = f.level[c] + 1;
  bool leaves = level == f.D;
  f.level[c] = leaves ? 0 : level;
  f.energy[c] = leaves ? f.source[c] : energy;
  f.place[2 * c] = leaves ? 0.0f : x;
  f.place[2 * c + 1] = leaves ? 0.0f : y;
  return leaves;
}

// One item is one carrier, and a warp takes it: its lanes share the projection and the clearing.
extern "C" __global__ void gru_flow(const float *__restrict__ proj, const float *__restrict__ bias, float *h, float *energy,
                                    int *level, float *place, const float *__restrict__ source, float *out, int n, int B, int H,
                                    int L, int D, int items) {
  int c = (int)(blockIdx.x * (blockDim.x / 32)) + gp_warp(), lane = gp_lane();
  if (c >= items) return; // the whole warp
  fleet f = {h, energy, level, place, source, out, B, H, L, D};
  const float *top = h + ((long long)(L - 1) * B + c) * H;
  float p[OUTPUTS];
#pragma unroll
  for (int o = 0; o < OUTPUTS; o++) {
    float sum = 0.0f;
    for (int j = lane; j < H; j += 32) sum = gp_fma(proj[o * H + j], top[j], sum);
    p[o] = gp_warp_sum(sum) + bias[o];
  }
  int leaves = 0;
  if (lane == 0) leaves = fleet_move(f, c, p[0], p[1], p[2]);
  leaves = __shfl_sync(0xffffffffu, leaves, 0);
  if (leaves)
    for (int l = 0; l < L; l++)
      for (int j = lane; j < H; j += 32) h[((long long)l * B + c) * H + j] = 0.0f;
}
GPUPROF_KERNEL(gru_flow)

// One item is one carrier.
extern "C" __global__ void gru_move(const float *__restrict__ p, float *h, float *energy, int *level, float *place,
                                    const float *__restrict__ source, float *out, int n, int B, int H, int L, int D, int items) {
  int c = gp_thread();
  if (c >= items) return;
  fleet f = {h, energy, level, place, source, out, B, H, L, D};
  const float *q = p + (long long)c * OUTPUTS;
  if (!fleet_move(f, c, q[0], q[1], q[2])) return;
  for (int l = 0; l < L; l++)
    for (int j = 0; j < H; j++) h[((long long)l * B + c) * H + j] = 0.0f;
}
GPUPROF_KERNEL(gru_move)
