// bfloat16 and IEEE half to and from float, by integer arithmetic: round to nearest, ties to even, subnormals
// kept, infinities kept, every NaN quiet with its sign and leading payload bits. The bits travel as
// unsigned short, so a buffer of them is `const unsigned short *`.
#pragma once

GP_FN unsigned short gp_to_bf16(float x) {
  unsigned u = __float_as_uint(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (unsigned short)((u >> 16) | 0x40u);
  // Half of the last kept place, less one unless that place is odd; a carry into the exponent is right.
  u += 0x7fffu + ((u >> 16) & 1u);
  return (unsigned short)(u >> 16);
}

GP_FN float gp_from_bf16(unsigned short h) { return __uint_as_float((unsigned)h << 16); }

GP_FN unsigned short gp_to_fp16(float x) {
  unsigned u = __float_as_uint(x), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return (unsigned short)(sign | 0x7e00u | ((a >> 13) & 0x1ffu));
  if (a >= 0x47800000u) return (unsigned short)(sign | 0x7c00u); // 65536 and above
  if (a < 0x38800000u) {                                         // below 2^-14: a multiple of 2^-24
    if (a < 0x33000000u) return (unsigned short)sign;            // below 2^-25: zero
    unsigned shift = 126u - (a >> 23);                           // 14 at 2^-15 … 24 at 2^-25
    unsigned m = (a & 0x7fffffu) | 0x800000u;
    unsigned kept = m >> shift, rest = m & ((1u << shift) - 1u), half = 1u << (shift - 1u);
    kept += (rest > half || (rest == half && (kept & 1u))) ? 1u : 0u;
    return (unsigned short)(sign | kept);
  }
  a += 0xfffu + ((a >> 13) & 1u);                       // may carry up to infinity, as it should
  return (unsigned short)(sign | ((a - 0x38000000u) >> 13)); // exponent bias 127 to 15
}

GP_FN float gp_from_fp16(unsigned short h) {
  unsigned sign = (unsigned)(h & 0x8000u) << 16, e = (h >> 10) & 31u, m = h & 0x3ffu;
  if (e == 31u) return __uint_as_float(sign | 0x7f800000u | (m << 13) | (m ? 0x400000u : 0u));
  if (e != 0u) return __uint_as_float(sign | ((e + 112u) << 23) | (m << 13));
  // A subnormal is m * 2^-24, exact in float.
  float v = (float)m * 5.9604644775390625e-8f;
  return __uint_as_float(__float_as_uint(v) | sign);
}

// gp_to_tf32 rounds to the 10 bits of mantissa that TF32 keeps, to nearest with ties away, as cvt.rna does.
GP_FN float gp_to_tf32(float x) {
  unsigned u = __float_as_uint(x);
  if ((u & 0x7f800000u) == 0x7f800000u) return x;
  return __uint_as_float((u + 0x1000u) & 0xffffe000u);
}
