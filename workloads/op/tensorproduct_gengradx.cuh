// What the generated kernels of dx share (see package tpgen), the gradient of a tensor product's features: the walk of a
// warp over a segment of one source's edges, whose sum it writes once. The sums of a source's segments are tp_grad_sum's.
//
// A block is one warp, which has one block of features, or 32 lanes of it, to itself. The plan is made by
// tensorproduct_gengradx.go; the numbers here and there have to agree.
#pragma once
#include "tensorproduct_grad.cuh"
#include "tensorproduct_gen.cuh"

enum {
  TPX_TILES, // warps
  TPX_IN,
  TPX_NUMEL,
  TPX_OUT,
  TPX_SCALE, // of M, as bits
  TPX_WARPS, // the part of every warp
  TPX_LANES,
};

// A lane's integers: where its first copy is in a row of x, its first weight in one of w and its first dz, and whether it writes dx.
enum { TPX_X, TPX_W, TPX_Z, TPX_WRITES, TPX_LANE_INTS };

#define TPX_EDGES 68 // floats before M: 33 edges with their destinations, and room to the next 16 bytes

struct tpx_args {
  const float *y, *w, *dout;
  const int *dst, *perm;
  const int *plan;
};

// tpx_walk adds the edges perm[first, stop) with part P and writes their sum to row to. Numbers, destinations and M of a batch
// lie in shared memory; dz and weights of an edge are asked for as soon as those of the one before are used, weights
// and harmonics of the next batch are called into the second-level cache. After the last edge its own rows are read again.
template <typename P>
GP_FN void tpx_walk(const tpx_args &g, int first, int stop, int own, float *to, float *shared) {
  float a[P::D1 * P::COPIES] = {}, z[P::SUMS * P::COPIES], w[P::PATHS * P::COPIES], *m = shared + TPX_EDGES;
  int2 *edges = (int2 *)shared;
  const int *plan = g.plan, *lane = plan + plan[TPX_LANES] + (own * 32 + tpg_lane()) * TPX_LANE_INTS;
  const int numel = plan[TPX_NUMEL], out = plan[TPX_OUT];
  const float *wp = g.w + lane[TPX_W], *zp = g.dout + lane[TPX_Z], *line = g.w + plan[plan[TPX_LANES] + own * 32 * TPX_LANE_INTS + TPX_W];
#pragma unroll 1
  for (int at = first; at < stop; at += P::BATCH) {
    const int count = gp_min(P::BATCH, stop - at);
    __syncwarp(); // all lanes have added the batch before
    if (tpg_lane() <= P::BATCH) {
      int e = __ldg(g.perm + gp_min(at + tpg_lane(), stop - 1));
      edges[tpg_lane()] = {e, __ldg(g.dst + e)};
      if (tpg_lane() < count) P::build(m + tpg_lane() * P::STRIDE, op_row(g.y, e, P::SH), __int_as_float(tp_read(plan + TPX_SCALE)));
    }
    if (P::BATCH == 32 && tpg_lane() == 0) { // the one after the batch
      int e = __ldg(g.perm + gp_min(at + 32, stop - 1));
      edges[32] = {e, __ldg(g.dst + e)};
    }
    if (tpg_lane() < P::BATCH && at + P::BATCH + tpg_lane() < stop) {
      int e = __ldg(g.perm + at + P::BATCH + tpg_lane());
      gp_prefetch(op_row(g.y, e, P::SH));
      P::ahead(op_row(line, e, numel));
    }
    __syncwarp();
    if (at == first) P::first(z, w, op_row(zp, edges[0].y, out), op_row(wp, edges[0].x, numel));
    const float *cells = m;
#pragma unroll 1
    for (int i = 1; i <= count; i++, cells += P::STRIDE) {
      const int2 next = edges[i];
      P::edge(a, z, w, cells, op_row(zp, next.y, out), op_row(wp, next.x, numel), numel);
    }
  }
  if (tp_read(lane + TPX_WRITES)) tpg_write<P::COPIES, P::COPIES>(a, to, tp_read(lane + TPX_X), P::D1, P::STEP);
}

// The kernel of a family. One item is one warp's part of one segment; table and constants are for the host.
#define TPX_CASE(N) case N: tpx_walk<tpx_part##N>(g, r.from, r.to, own, row, shared); break;
#define TPX_KERNEL(NAME, CASES)                                                                                            \
  extern "C" __global__ void __launch_bounds__(32, 16)                                                                     \
      NAME(const float *__restrict__ y, const float *__restrict__ w, const float *__restrict__ dout,                       \
           const int *__restrict__ dst, const int *__restrict__ colptr, const int *__restrict__ perm,                      \
           float *__restrict__ partial, const int *__restrict__ table, const float *__restrict__ constants, int count,     \
           int nodes, const int *__restrict__ plan, int n) {                                                               \
    GPUPROF_SHARED(float, shared);                                                                                         \
    (void)table, (void)constants, (void)count;                                                                             \
    int item = (int)blockIdx.x, runs = n / plan[TPX_TILES], own = item / runs;                                             \
    if (item >= n) return;                                                                                                 \
    back_range r = back_segment(colptr, nodes, item % runs);                                                               \
    if (r.from >= r.to) return;                                                                                            \
    float *row = op_row(partial, item % runs, plan[TPX_IN]);                                                               \
    tpx_args g = {y, w, dout, dst, perm, plan};                                                                            \
    switch (plan[plan[TPX_WARPS] + own]) {                                                                                 \
      CASES                                                                                                                \
    }                                                                                                                      \
  }
