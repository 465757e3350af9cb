#include "op.cuh"

// Reductions over the rows of x [rows,C]. A block takes chunk rows: w threads lie along the columns, the others take
// every h-th row; their results are put together in a fixed tree.
#define REDUCE 256

enum { REDUCE_SUM, REDUCE_MAX };

// A NaN wins over every number and stays.
GP_FN float reduce_two(int op, float a, float b) {
  if (op == REDUCE_SUM) return a + b;
  return b > a || b != b ? b : a;
}

GP_FN float reduce_none(int op) { return op == REDUCE_SUM ? 0.0f : __uint_as_float(0xff800000u); }

GP_FN void reduce_max_atomic(float *p, float v) {
  int *q = (int *)p, old = __float_as_int(*p), seen;
  do {
    seen = old;
    float was = __int_as_float(seen);
    if (!(v > was || (v != v && was == was))) return;
    old = atomicCAS(q, seen, __float_as_int(v));
  } while (old != seen);
}

// reduce_chunk gives the result of column c to put(c, value), from one thread a column.
template <typename F>
GP_FN void reduce_chunk(float *tree, const float *x, int rows, int C, int op, int chunk, F put) {
  int tid = (int)threadIdx.x, w = 1;
  while (w < C && w < REDUCE) w *= 2;
  int h = REDUCE / w;
  long long first = (long long)blockIdx.x * chunk, last = gp_min(first + chunk, (long long)rows);
  for (int c0 = 0; c0 < C; c0 += w) {
    int c = c0 + tid % w;
    float v = reduce_none(op);
    if (c < C)
      for (long long r = first + tid / w; r < last; r += h) v = reduce_two(op, v, __ldg(x + r * C + c));
    tree[tid] = v;
    __syncthreads();
    for (int d = h / 2; d > 0; d /= 2) {
      if (tid < d * w) tree[tid] = reduce_two(op, tree[tid], tree[tid + d * w]);
      __syncthreads();
    }
    if (tid < w && c < C) put(c, tree[tid]);
    __syncthreads();
  }
}

// One item is chunk rows, which give one row of out, times factor.
extern "C" __global__ void __launch_bounds__(REDUCE)
    reduce(const float *__restrict__ x, float *__restrict__ out, int rows, int C, int op, int chunk, float factor, int n) {
  __shared__ float tree[REDUCE];
  if ((int)blockIdx.x >= n) return;
  float *row = op_row(out, (int)blockIdx.x, C);
  reduce_chunk(tree, x, rows, C, op, chunk, [=](int c, float v) { row[c] = factor * v; });
}
GPUPROF_KERNEL(reduce)

// One item is chunk rows, which are added to the one row of out whenever they are done.
extern "C" __global__ void __launch_bounds__(REDUCE)
    reduce_atomic(const float *__restrict__ x, float *__restrict__ out, int rows, int C, int op, int chunk, int n) {
  __shared__ float tree[REDUCE];
  if ((int)blockIdx.x >= n) return;
  reduce_chunk(tree, x, rows, C, op, chunk, [=](int c, float v) {
    if (op == REDUCE_SUM)
      atomicAdd(out + c, v);
    else
      reduce_max_atomic(out + c, v);
  });
}
GPUPROF_KERNEL(reduce_atomic)
