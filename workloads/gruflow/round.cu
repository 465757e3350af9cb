#include "gru.cuh"

// One item is one value, VALUES of them a block.
#define VALUES 1024

extern "C" __global__ void gru_round(const float *__restrict__ in, float *__restrict__ out, int n, int precision, int inAt,
                                     int items) {
  int end = gp_min((long long)(blockIdx.x + 1) * VALUES, (long long)items);
  for (int i = (int)(blockIdx.x * VALUES + threadIdx.x); i < end; i += (int)blockDim.x) {
    float v = in[inAt + i];
    if (precision == GRU_BF16)
      ((unsigned short *)out)[i] = gp_to_bf16(v);
    else if (precision == GRU_FP16)
      ((unsigned short *)out)[i] = gp_to_fp16(v);
    else
      out[i] = gru_round(precision, v);
  }
}
GPUPROF_KERNEL(gru_round)

extern "C" __global__ void gru_widen(const float *__restrict__ in, float *__restrict__ out, int n, int precision, int inAt,
                                    int items) {
  int end = gp_min((long long)(blockIdx.x + 1) * VALUES, (long long)items);
  for (int i = (int)(blockIdx.x * VALUES + threadIdx.x); i < end; i += (int)blockDim.x) out[i] = gru_load(precision, in, (long long)inAt + i);
}
GPUPROF_KERNEL(gru_widen)
