// What the kernels of this folder share. A kernel's parameters are those of its Sig in the .go file beside it, then
// the number of items once more.
#pragma once
#include "../../workloads/device/cuda/include/device.cuh"

// The precisions, numbered as in fused.go.
enum { GRID_FP32, GRID_TF32, GRID_BF16, GRID_FP16 };

// grid_round is the value that a product reads.
GP_FN float grid_round(int precision, float v) {
  if (precision == GRID_TF32) {
    unsigned u = __float_as_uint(v);
    if ((u & 0x7f800000u) == 0x7f800000u) return v;
    return __uint_as_float((u + 0xfffu + ((u >> 13) & 1u)) & 0xffffe000u);
  }
  if (precision == GRID_BF16) return gp_from_bf16(gp_to_bf16(v));
  if (precision == GRID_FP16) return gp_from_fp16(gp_to_fp16(v));
  return v;
}

GP_FN float grid_elu(float v) { return v > 0.0f ? v : gp_exp(v) - 1.0f; }

// grid_where is channel c of cell i in an array of channels values a cell whose channels are cs apart.
GP_FN long long grid_where(int c, int i, int cs, int channels, int hwc) {
  return hwc ? (long long)i * channels + c : (long long)c * cs + i;
}

// grid_at reads channel c of the cell in row y and column x, which may lie outside the grid by one.
GP_FN float grid_at(const float *psi, int c, int y, int x, int N, int C, int hwc, int zero) {
  if (y < 0 || y >= N || x < 0 || x >= N) {
    if (zero) return 0.0f;
    y = y < 0 ? y + N : (y >= N ? y - N : y);
    x = x < 0 ? x + N : (x >= N ? x - N : x);
  }
  return psi[grid_where(c, y * N + x, N * N, C, hwc)];
}

// grid_mean is the mean of the eight neighbours, added row by row from the left.
GP_FN float grid_mean(const float *psi, int c, int y, int x, int N, int C, int hwc, int zero) {
  float s = grid_at(psi, c, y - 1, x - 1, N, C, hwc, zero) + grid_at(psi, c, y - 1, x, N, C, hwc, zero);
  s += grid_at(psi, c, y - 1, x + 1, N, C, hwc, zero);
  s += grid_at(psi, c, y, x - 1, N, C, hwc, zero);
  s += grid_at(psi, c, y, x + 1, N, C, hwc, zero);
  s += grid_at(psi, c, y + 1, x - 1, N, C, hwc, zero);
  s += grid_at(psi, c, y + 1, x, N, C, hwc, zero);
  s += grid_at(psi, c, y + 1, x + 1, N, C, hwc, zero);
  return s * 0.125f;
}
