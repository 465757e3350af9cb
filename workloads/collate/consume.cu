#include "../../workloads/device/cuda/include/device.cuh"

// One item is one edge. Offsets count words of block, which holds a whole batch.
#define TERMS 64

extern "C" __global__ void consume(float *__restrict__ out, const int *__restrict__ block, int species, int src,
                                   int vec, int at, int passes, float cutoff, int n) {
  long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (e >= n) return;
  int from = block[src + e];
  float sum = 0.0f;
  if (from >= 0) {
    const float *v = (const float *)block + vec + 3 * e;
    float d = gp_sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    float step = passes > 0 ? cutoff / (float)passes : 0.0f;
    for (int k = 0; k < passes;) {
      int end = gp_min(k + TERMS, passes);
      float part = 0.0f;
      for (; k < end; k++) {
        float t = (d - ((float)k + 0.5f) * step) * 2.0f;
        part += 1.0f / (1.0f + t * t);
      }
      sum += part;
    }
    sum *= 1.0f + (float)(block[species + from] & 255) / 256.0f;
  }
  out[at + e] = sum;
}
GPUPROF_KERNEL(consume)
