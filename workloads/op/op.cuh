// What the kernels of this folder share. A kernel's parameters are those of its Sig in the .go file beside it,
// then the number of items.
#pragma once
#include "../../workloads/device/cuda/include/device.cuh"

// The activations, numbered as in act.go.
enum { OP_NONE, OP_SILU, OP_SIGMOID, OP_TANH, OP_ABS };

GP_FN float op_activate(int act, float v) {
  switch (act) {
  case OP_SILU:
    return v * gp_sigmoid(v);
  case OP_SIGMOID:
    return gp_sigmoid(v);
  case OP_TANH:
    return gp_tanh(v);
  case OP_ABS:
    return gp_abs(v);
  }
  return v;
}

// op_row is where row r of a matrix starts; rows times width may be beyond 32 bits.
template <typename T>
GP_FN T *op_row(T *p, int r, int width) { return p + (long long)r * width; }

GP_FN bool op_aligned(const void *p) { return ((unsigned long long)p & 15ull) == 0; }

// op_team cuts a block into teams that each take a row of width values: a quarter of the values is a float4 for
// every thread, 32 threads at least. teamsOf in launch.go is the same rule.
struct op_team {
  int size, count, index, rank;
};
GP_FN op_team op_teams(int width) {
  op_team t;
  t.size = 32;
  while (t.size < (int)blockDim.x && t.size * 4 < width) t.size *= 2;
  t.count = (int)blockDim.x / t.size;
  t.index = (int)threadIdx.x / t.size;
  t.rank = (int)threadIdx.x % t.size;
  return t;
}
