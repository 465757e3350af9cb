// How a library's product reads an operand (see pack.go).
#pragma once
#include "op.cuh"

enum { PACK_PLAIN, PACK_SPLIT, PACK_BF16, PACK_FP16 };

// pack_tf32 is the nearest value with 10 bits of mantissa, ties to even.
GP_FN float pack_tf32(float v) {
  unsigned u = __float_as_uint(v);
  if ((u & 0x7f800000u) == 0x7f800000u) return v;
  return __uint_as_float((u + 0xfffu + ((u >> 13) & 1u)) & 0xffffe000u);
}

// pack_low is what pack_tf32 leaves of v, as far as 10 bits hold it. Infinities leave nothing.
GP_FN float pack_low(float v) {
  float high = pack_tf32(v);
  return gp_abs(high) <= 3.4e38f ? pack_tf32(v - high) : 0.0f;
}

GP_FN unsigned short pack_half(int form, float v) { return form == PACK_BF16 ? gp_to_bf16(v) : gp_to_fp16(v); }
