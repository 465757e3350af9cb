#include "../../workloads/device/cuda/include/device.cuh"

// See optim.go, whose numbers have to agree with those here.
#define RUN 1024
#define CHUNK 4096
#define BETA1 0.9f
#define BETA2 0.999f
#define EPS 1e-8f
enum { STEP, RATE, FACTOR, STEP_SIZE, ROOT, NORM, SCALE, INVERSE, COTANGENT, GOOD, FOUND };
enum { LERP, MUL, ADDCMUL, SQRT, DIV, ADD, ADDCDIV };

#define EACH(i, n)                                                            \
  long long end = gp_min((long long)(blockIdx.x + 1) * RUN, (long long)(n)); \
  for (long long i = (long long)blockIdx.x * RUN + threadIdx.x; i < end; i += blockDim.x)

// Where value i of five tensors is: p and g of the one it is in.
struct optim_place {
  float *p;
  const float *g;
};
#define TENSORS                                                                                                             \
  float *__restrict__ p0, const float *__restrict__ g0, float *__restrict__ p1, const float *__restrict__ g1,               \
      float *__restrict__ p2, const float *__restrict__ g2, float *__restrict__ p3, const float *__restrict__ g3,           \
      float *__restrict__ p4, const float *__restrict__ g4, int e0, int e1, int e2, int e3
#define PLACE(i)                                                                                                            \
  (i < e0   ? optim_place{p0 + i, g0 + i}                                                                                   \
   : i < e1 ? optim_place{p1 + (i - e0), g1 + (i - e0)}                                                                     \
   : i < e2 ? optim_place{p2 + (i - e1), g2 + (i - e1)}                                                                     \
   : i < e3 ? optim_place{p3 + (i - e2), g3 + (i - e2)}                                                                     \
            : optim_place{p4 + (i - e3), g4 + (i - e3)})

extern "C" __global__ void adam(const float *__restrict__ state, float *__restrict__ m, float *__restrict__ v, TENSORS, int n) {
  if (state[FOUND] != 0.0f) return;
  float size = state[STEP_SIZE], root = state[ROOT];
  EACH(i, n) {
    optim_place at = PLACE(i);
    float g = *at.g, a = m[i] + (g - m[i]) * (1.0f - BETA1), b = BETA2 * v[i] + (1.0f - BETA2) * g * g;
    m[i] = a;
    v[i] = b;
    *at.p -= size * a / (gp_sqrt(b) * root + EPS);
  }
}
GPUPROF_KERNEL(adam)

extern "C" __global__ void adam_part(const float *__restrict__ state, float *__restrict__ m, float *__restrict__ v, float *__restrict__ d,
                                     TENSORS, int part, int n) {
  if (state[FOUND] != 0.0f) return;
  EACH(i, n) {
    optim_place at = PLACE(i);
    float g = part == LERP || part == ADDCMUL ? *at.g : 0.0f;
    switch (part) {
    case LERP:
      m[i] += (g - m[i]) * (1.0f - BETA1);
      break;
    case MUL:
      v[i] *= BETA2;
      break;
    case ADDCMUL:
      v[i] += (1.0f - BETA2) * g * g;
      break;
    case SQRT:
      d[i] = gp_sqrt(v[i]);
      break;
    case DIV:
      d[i] *= state[ROOT];
      break;
    case ADD:
      d[i] += EPS;
      break;
    case ADDCDIV:
      *at.p -= state[STEP_SIZE] * m[i] / d[i];
      break;
    }
  }
}
GPUPROF_KERNEL(adam_part)

// One item: the next step. Powers in double, by squaring.
extern "C" __global__ void adam_tick(float *__restrict__ state, int n) {
  if (gp_thread() >= n || state[FOUND] != 0.0f) return;
  double t = (double)state[STEP] + 1, b1 = 0.9, b2 = 0.999, p1 = 1, p2 = 1;
  for (long long left = (long long)t; left > 0; left >>= 1, b1 *= b1, b2 *= b2)
    if (left & 1) {
      p1 *= b1;
      p2 *= b2;
    }
  state[STEP] = (float)t;
  state[STEP_SIZE] = (float)((double)state[RATE] / (1 - p1));
  state[ROOT] = (float)(1 / gp_sqrt(1 - p2));
}
GPUPROF_KERNEL(adam_tick)

// optim_total adds the threads' values by halves, in double.
GP_FN double optim_total(double *sums, double s) {
  int t = (int)threadIdx.x;
  sums[t] = s;
  for (int half = (int)blockDim.x / 2; half > 0; half >>= 1) {
    __syncthreads();
    if (t < half) sums[t] += sums[t + half];
  }
  __syncthreads();
  return sums[0];
}

// One item is one chunk, one block a chunk.
extern "C" __global__ void squares(const float *__restrict__ g, float *__restrict__ partial, int values, int at, int n) {
  __shared__ double sums[256];
  int c = (int)blockIdx.x;
  if (c >= n) return;
  int first = c * CHUNK, last = (int)gp_min((long long)first + CHUNK, (long long)values);
  double s = 0;
  for (int i = first + (int)threadIdx.x; i < last; i += (int)blockDim.x) s += (double)g[i] * (double)g[i];
  s = optim_total(sums, s);
  if (threadIdx.x == 0) partial[at + c] = (float)s;
}
GPUPROF_KERNEL(squares)

extern "C" __global__ void clip(const float *__restrict__ partial, float *__restrict__ state, int count, float limit, int n) {
  __shared__ double sums[256];
  if ((int)blockIdx.x >= n) return;
  double s = 0;
  for (int i = (int)threadIdx.x; i < count; i += (int)blockDim.x) s += partial[i];
  s = optim_total(sums, s);
  if (threadIdx.x == 0) {
    state[NORM] = (float)gp_sqrt(s);
    state[FACTOR] = (float)gp_min(1.0, (double)limit / (gp_sqrt(s) + 1e-6));
  }
}
GPUPROF_KERNEL(clip)

extern "C" __global__ void scale_by(float *__restrict__ g, const float *__restrict__ state, int which, int n) {
  float f = state[which];
  EACH(i, n) g[i] *= f;
}
GPUPROF_KERNEL(scale_by)

extern "C" __global__ void unscale(float *state, float *__restrict__ g0, float *__restrict__ g1, float *__restrict__ g2,
                                   float *__restrict__ g3, float *__restrict__ g4, int e0, int e1, int e2, int e3, int n) {
  float f = state[INVERSE];
  bool found = false;
  EACH(i, n) {
    float *at = i < e0 ? g0 + i : i < e1 ? g1 + (i - e0) : i < e2 ? g2 + (i - e1) : i < e3 ? g3 + (i - e2) : g4 + (i - e3);
    float g = *at * f;
    *at = g;
    found = found || g - g != 0.0f;  // what is not finite is not 0 off itself
  }
  if (found) state[FOUND] = 1.0f;  // all that write it write the same
}
GPUPROF_KERNEL(unscale)

// One item: the scale of the next step.
extern "C" __global__ void scale_update(float *__restrict__ state, int growth, float weight, int n) {
  if (gp_thread() >= n) return;
  float scale = state[SCALE], good = state[GOOD] + 1.0f;
  if (growth > 0) {
    if (state[FOUND] != 0.0f) {
      scale *= 0.5f;
      good = 0.0f;
    } else if ((int)good == growth) {
      scale *= 2.0f;
      good = 0.0f;
    }
  }
  state[SCALE] = scale;
  state[INVERSE] = 1.0f / scale;
  state[COTANGENT] = scale * weight;
  state[GOOD] = good;
  state[FOUND] = 0.0f;
}
GPUPROF_KERNEL(scale_update)
