// A product on the tensor cores, for kernels that include this beside device.cuh:
//
//   gp_mma_tf32(d, a, b)   d [16, 8] += a [16, 8] b [8, 8] in TF32 with sums in float32, by all lanes of a warp
//
//   gp_round_tf32(x)       the nearest TF32 number, ties away from zero: gp_to_tf32 in one instruction
//
// They take sm_80: a line `// kernels.sh: sm_80 ptx70` in the .cu file asks for PTX of that age. With g = lane / 4 and
// t = lane % 4 a lane has d[0..3] at (g, 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1), a[0..3] at (g, t), (g+8, t), (g, t+4),
// (g+8, t+4) and b[0..1] at (t, g), (t+4, g): the fragments of mma.m16n8k8 in the PTX manual.
//
// a and b have to be TF32 numbers: a GPU promises nothing about the 13 bits that these have not, and the
// simulator gives NaN. Products are exact. A GPU adds them in float32 in an order of its own and truncates, the simulator
// adds one after the other along k and rounds each sum to nearest, so that their results differ in the last places.
#pragma once
#ifndef GP_FN // NVRTC knows device.cuh by the name under which a source has included it
#include "device.cuh"
#endif

#ifdef GPUPROF_SIM
GP_FN float gp_round_tf32(float x) { return gp_to_tf32(x); }

struct gp_sim_mma {
  float a[4], b[2];
};
GP_FN float gp_sim_tf32(float x) {
  unsigned u = __float_as_uint(x);
  return (u & 0x1fffu) != 0 && (u & 0x7f800000u) != 0x7f800000u ? __uint_as_float(0x7fc00000u) : x;
}
// The lanes of a warp leave their fragments where the others see them; all threads of a block are on one OS thread.
GP_FN void gp_mma_tf32(float *d, const float *a, const float *b) {
  static thread_local gp_sim_mma fragments[1024];
  gp_sim_mma *warp = fragments + gp_warp() * 32, &own = warp[gp_lane()];
  for (int i = 0; i < 4; i++) own.a[i] = gp_sim_tf32(a[i]);
  for (int i = 0; i < 2; i++) own.b[i] = gp_sim_tf32(b[i]);
  __syncwarp();
  int row = gp_lane() / 4, column = gp_lane() % 4 * 2;
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < 8; k++) // (row + 8 (i / 2), k) of a and (k, column + i % 2) of b
      d[i] = gp_fma(warp[row * 4 + k % 4].a[k / 4 * 2 + i / 2], warp[(column + i % 2) * 4 + k % 4].b[k / 4], d[i]);
  __syncwarp();
}
#else
// The compilers' built-ins fix how fragments are loaded, so the instructions are written out; the assembler checks them.
GP_FN float gp_round_tf32(float x) {
  unsigned bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return __uint_as_float(bits);
}
GP_FN void gp_mma_tf32(float *d, const float *a, const float *b) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])), "r"(__float_as_uint(a[3])),
                 "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
}
#endif
