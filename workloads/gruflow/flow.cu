#include "gru.cuh"

// The columns of a carrier's record, and how far it can move, as in model.go.
enum { OUT_DEPOSIT, OUT_ENERGY, OUT_X, OUT_Y, OUTPUTS };
#define STRIDE 0.01f
// The columns of what the way back reads, as in flow.go.
enum { PATH_ENERGY, PATH_SHARE, PATH_X, PATH_Y, PATH };

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
  float *out, *path;
  int B, H, L, D, keeps;
};

// fleet_move takes carrier c a level down and says whether it left.
GP_FN bool fleet_move(const fleet &f, int c, float p0, float p1, float p2) {
  float share = gp_sigmoid(p0), dx = gp_tanh(p1), dy = gp_tanh(p2), had = f.energy[c];
  float deposit = share * had, energy = had - deposit;
  float x = gp_fma(STRIDE, dx, f.place[2 * c]), y = gp_fma(STRIDE, dy, f.place[2 * c + 1]);
  if (f.keeps) {
    float *p = f.path + (long long)c * PATH;
    p[PATH_ENERGY] = had;
    p[PATH_SHARE] = share;
    p[PATH_X] = dx;
    p[PATH_Y] = dy;
  }
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
                                    int *level, float *place, const float *__restrict__ source, float *out, float *path, int n,
                                    int B, int H, int L, int D, int keeps, int items) {
  int c = (int)(blockIdx.x * (blockDim.x / 32)) + gp_warp(), lane = gp_lane();
  if (c >= items) return; // the whole warp
  fleet f = {h, energy, level, place, source, out, path, B, H, L, D, keeps};
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
                                    const float *__restrict__ source, float *out, float *path, int n, int B, int H, int L, int D,
                                    int keeps, int items) {
  int c = gp_thread();
  if (c >= items) return;
  fleet f = {h, energy, level, place, source, out, path, B, H, L, D, keeps};
  const float *q = p + (long long)c * OUTPUTS;
  if (!fleet_move(f, c, q[0], q[1], q[2])) return;
  for (int l = 0; l < L; l++)
    for (int j = 0; j < H; j++) h[((long long)l * B + c) * H + j] = 0.0f;
}
GPUPROF_KERNEL(gru_move)

// flow_level is the level so many levels ago of a carrier of this level now.
GP_FN int flow_level(int level, int ago, int depth) { return (level + depth - ago % depth) % depth; }

// One item is one carrier, and a warp takes it; see refFlowBack.
extern "C" __global__ void gru_flow_bwd(const float *__restrict__ proj, const float *__restrict__ path, const int *__restrict__ level,
                                        const float *__restrict__ ddose, float *__restrict__ de, float *__restrict__ dplace,
                                        float *__restrict__ dp, float *__restrict__ dh, int n, int H, int D, int ago, int items) {
  int c = (int)(blockIdx.x * (blockDim.x / 32)) + gp_warp(), lane = gp_lane();
  if (c >= items) return; // the whole warp
  int after = flow_level(level[c], ago, D);
  const float *k = path + (long long)c * PATH;
  float e = k[PATH_ENERGY], d = k[PATH_SHARE], a = after ? de[c] : ddose[D], dq = ddose[after ? after - 1 : D - 1];
  float x = after ? dplace[2 * c] : 0.0f, y = after ? dplace[2 * c + 1] : 0.0f;
  float q[OUTPUTS] = {(dq - a) * e * d * (1.0f - d), STRIDE * x * (1.0f - k[PATH_X] * k[PATH_X]), STRIDE * y * (1.0f - k[PATH_Y] * k[PATH_Y]), 0.0f};
  for (int j = lane; j < H; j += 32) {
    float sum = 0.0f;
#pragma unroll
    for (int o = 0; o < OUTPUTS; o++) sum = gp_fma(proj[o * H + j], q[o], sum);
    dh[(long long)c * H + j] = sum;
  }
  __syncwarp();
  if (lane != 0) return;
#pragma unroll
  for (int o = 0; o < OUTPUTS; o++) dp[(long long)c * OUTPUTS + o] = q[o];
  de[c] = gp_fma(dq, d, a * (1.0f - d));
  dplace[2 * c] = x;
  dplace[2 * c + 1] = y;
}
GPUPROF_KERNEL(gru_flow_bwd)

// One item is a level's dose or a carrier's place; see refLoss.
extern "C" __global__ void gru_loss(const float *__restrict__ metrics, const float *__restrict__ target, const float *__restrict__ place,
                                    float *__restrict__ ddose, float *__restrict__ dplace, float *__restrict__ de,
                                    float *__restrict__ losses, int n, int D, int levels, int width, int fixed, float kappa, int items) {
  int i = gp_thread();
  if (i >= items) return;
  if (i < D) {
    float dose = 0.0f;
    for (int w = 0; w < levels; w++) dose += metrics[(long long)w * width + fixed + i];
    float off = dose - target[i];
    ddose[i] = off;
    losses[i] = 0.5f * off * off;
    if (i == 0) ddose[D] = 0.0f; // energy that leaves counts nothing
    return;
  }
  int c = i - D;
  float x = place[2 * c], y = place[2 * c + 1];
  dplace[2 * c] = kappa * x;
  dplace[2 * c + 1] = kappa * y;
  de[c] = 0.0f;
  losses[i] = 0.5f * kappa * (x * x + y * y);
}
GPUPROF_KERNEL(gru_loss)
