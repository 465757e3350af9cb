// What the kernels of this folder share. A kernel's parameters are those of its Sig in the .go file beside it, then
// the number of items once more.
#pragma once
#include "../../workloads/device/cuda/include/device.cuh"

// The precisions, numbered as in round.go.
enum { GRU_FP32, GRU_TF32, GRU_BF16, GRU_FP16 };

// gru_tf32 rounds to a significand of 10 bits, to nearest, ties to even.
GP_FN float gru_tf32(float v) {
  unsigned u = __float_as_uint(v);
  if ((u & 0x7f800000u) == 0x7f800000u) return v;
  return __uint_as_float((u + 0xfffu + ((u >> 13) & 1u)) & 0xffffe000u);
}

// gru_round is the value a product sees.
GP_FN float gru_round(int precision, float v) {
  switch (precision) {
  case GRU_TF32:
    return gru_tf32(v);
  case GRU_BF16:
    return gp_from_bf16(gp_to_bf16(v));
  case GRU_FP16:
    return gp_from_fp16(gp_to_fp16(v));
  }
  return v;
}

// gru_load reads element i of a rounded operand: float32, or 16 bits wide.
GP_FN float gru_load(int precision, const float *p, long long i) {
  if (precision == GRU_BF16) return gp_from_bf16(((const unsigned short *)p)[i]);
  if (precision == GRU_FP16) return gp_from_fp16(((const unsigned short *)p)[i]);
  return p[i];
}

// gru_unit is the new state of one unit from the sums of its gates.
GP_FN float gru_unit(float xr, float xz, float xn, float hr, float hz, float hn, float h) {
  float r = gp_sigmoid(xr + hr), z = gp_sigmoid(xz + hz), n = gp_tanh(gp_fma(r, hn, xn));
  return gp_fma(z, h - n, n);
}
