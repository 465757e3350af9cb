// What the generated tensor products share (see package tpgen): the walk of a warp over the edges of its segment. Which
// edges those are and where their sums go is tensorproduct_csr.go's rule, as for tp_csr; so is the launch after it.
//
// A block is one warp, which has one part of the output to itself and waits for no other. The plan is made by
// tensorproduct_gen.go; the numbers here and there have to agree.
#pragma once
#include "tensorproduct.cuh"

// The header is that of tp_csr's plan; these places of it have another meaning.
enum {
  TPG_SCALE = TP_PASSES, // of the result, as bits
  TPG_LANE_INTS = TP_CELLS,
};

// A lane's integers: where its first copy is in a row of x and its first weight in a row of w, which line of a row of w
// it asks for ahead, and where its first copy is in a row of the output for every path, -1 where it has none. Lanes
// beyond the last channel read what the last one does.
enum { TPG_X, TPG_W, TPG_LINE, TPG_PLACES };

// A block is one warp. The place in it is a special register, which the compiler reads anew rather than keep it.
GP_FN int tpg_lane() { return (int)threadIdx.x; }

template <int V>
GP_FN void tpg_read(float *to, const float *p) {
  if (V == 4) {
    float4 v = __ldg((const float4 *)p);
    to[0] = v.x;
    to[V > 1 ? 1 : 0] = v.y;
    to[V > 2 ? 2 : 0] = v.z;
    to[V > 3 ? 3 : 0] = v.w;
  } else if (V == 2) {
    float2 v = __ldg((const float2 *)p);
    to[0] = v.x;
    to[V > 1 ? 1 : 0] = v.y;
  } else {
    to[0] = __ldg(p);
  }
}

GP_FN void tpg_put(float *m, float a, float b, float c, float d) { *(float4 *)m = {a, b, c, d}; }

// Of all copies: t = x w, t = m w, a += m t, a += t w, a -= t w.
template <int V>
GP_FN void tpg_mul(float *t, const float *x, const float *w) {
#pragma unroll
  for (int v = 0; v < V; v++) t[v] = x[v] * w[v];
}
template <int V>
GP_FN void tpg_cell(float *t, float m, const float *w) {
#pragma unroll
  for (int v = 0; v < V; v++) t[v] = m * w[v];
}
template <int V>
GP_FN void tpg_add(float *a, float m, const float *t) {
#pragma unroll
  for (int v = 0; v < V; v++) a[v] = gp_fma(m, t[v], a[v]);
}
template <int V>
GP_FN void tpg_fma(float *a, const float *t, const float *w) {
#pragma unroll
  for (int v = 0; v < V; v++) a[v] = gp_fma(t[v], w[v], a[v]);
}
template <int V>
GP_FN void tpg_sub(float *a, const float *t, const float *w) {
#pragma unroll
  for (int v = 0; v < V; v++) a[v] = gp_fma(-t[v], w[v], a[v]);
}

// tpg_write stores d components of V copies, as vectors of N where the output is aligned, and clears them.
template <int V, int N>
GP_FN void tpg_write(float *a, float *row, int place, int d, int step) {
  if (place >= 0) {
    float *p = row + place;
#pragma unroll
    for (int k = 0; k < d; k++)
#pragma unroll
      for (int v = 0; v < V; v += N) {
        if (N == 4)
          *(float4 *)(p + k * step) = {a[k * V], a[k * V + (V > 1 ? 1 : 0)], a[k * V + (V > 2 ? 2 : 0)], a[k * V + (V > 3 ? 3 : 0)]};
        else if (N == 2)
          *(float2 *)(p + k * step + v) = {a[k * V + v], a[k * V + (V > 1 ? v + 1 : 0)]};
        else
          p[k * step + v] = a[k * V + v];
      }
  }
#pragma unroll
  for (int i = 0; i < d * V; i++) a[i] = 0;
}

// What a warp needs once a row lies in shared memory, before its M: registers are for sums. One lane writes it.
struct tpg_head {
  float *row; // where the sums of the edges before cut go
  int cut, lanes; // lanes: where those of the warp are in the plan
  int lane_ints, out_dim; // of the plan's header
  int unused[2];
};

// What a kernel was given, for its parts.
struct tpg_args {
  const float *x, *y, *w;
  const int *src, *dst, *rowptr;
  float *out;
  const int *plan;
  int segment;
};

// tpg_next goes to the row that begins where the last one was cut and returns where the sums of that one go.
GP_FN float *tpg_next(tpg_head *h, const tpg_args &g, int stop, int lane) {
  float *row = h->row;
  __syncwarp(); // all lanes have read it
  if (lane == 0) {
    tp_rows rows = {0, stop, h->cut, row};
    tp_next(rows, g.dst, g.rowptr, g.out, g.segment, h->out_dim);
    h->row = rows.row;
    h->cut = rows.cut;
  }
  __syncwarp();
  return row;
}

// tpg_walk adds the edges [first, stop) with part P. M of a batch lies in shared memory, a row an edge; x and the first
// weights of an edge are asked for one edge ahead, weights are called into the second-level cache TP_FAR edges ahead and
// harmonics a batch. The source of the next edge is read as it comes: its line is in the first-level cache, and a window
// of sources that the lanes share would take registers that there are none of. After the last edge x of some row is read.
template <typename P>
GP_FN void tpg_walk(const tpg_args &g, int first, int stop, tpg_head *h) {
  float a[P::SUMS * P::COPIES] = {}, x[P::D1 * P::COPIES], w[P::PATHS * P::COPIES], *m = (float *)(h + 1);
  const int in_dim = g.plan[TP_IN], numel = g.plan[TP_NUMEL];
  const int *lane = g.plan + h->lanes + tpg_lane() * g.plan[TPG_LANE_INTS];
  const float *wp = op_row(g.w, first, numel) + lane[TPG_W];
  const unsigned at = (unsigned)lane[TPG_X];
  const int line = lane[TPG_LINE] - lane[TPG_W] + TP_FAR * numel;
  P::first(x, w, g.x + ((unsigned long long)(unsigned)__ldg(g.src + first) * (unsigned)in_dim + at), wp);
#pragma unroll 1
  for (int e = first; e < stop;) {
    const int end = gp_min(e + P::BATCH, stop);
    if (e + P::BATCH + tpg_lane() < stop) gp_prefetch(op_row(g.y, e + P::BATCH + tpg_lane(), P::SH));
    __syncwarp(); // all lanes have added the batch before
    if (tpg_lane() < end - e)
      P::build(m + tpg_lane() * P::STRIDE, op_row(g.y, e + tpg_lane(), P::SH), __int_as_float(tp_read(g.plan + TPG_SCALE)));
    __syncwarp();
    const float *cells = m;
#pragma unroll 1
    while (e < end) {
      const int to = gp_min(h->cut, end);
#pragma unroll 1
      for (; e < to; e++, cells += P::STRIDE) {
        const unsigned source = (unsigned)(e + 1 < stop ? __ldg(g.src + e + 1) : 0);
        const float *wn = wp + (e + 1 < stop ? numel : 0);
        if (e + TP_FAR < stop) gp_prefetch(wp + line);
        P::edge(a, x, w, cells, wp, g.x + ((unsigned long long)source * (unsigned)in_dim + at), wn, numel);
        wp = wn;
      }
      if (e < h->cut) break;
      // The places are asked for before the next row is, and all at once: one after the other, each would cost a row
      // the latency of a load.
      int places[P::PATHS];
      const int *at = g.plan + h->lanes + tpg_lane() * h->lane_ints + TPG_PLACES;
#pragma unroll
      for (int i = 0; i < P::PATHS; i++) places[i] = tp_read(at + i);
      P::out(a, tpg_next(h, g, stop, tpg_lane()), places);
    }
  }
}

// The kernel of a family. One item is one warp's part of one segment; the parameters are those of tp_csr, of which it
// does not read table and constants. 16 blocks of a warp leave a lane 128 registers.
#define TPG_CASE(N) case N: tpg_walk<tpg_part##N>(g, rows.first, rows.stop, head); break;
#define TPG_KERNEL(NAME, CASES)                                                                                           \
  extern "C" __global__ void __launch_bounds__(32, 16)                                                                    \
      NAME(const float *__restrict__ x, const float *__restrict__ y, const float *__restrict__ w,                         \
           const int *__restrict__ src, const int *__restrict__ dst, const int *__restrict__ rowptr,                      \
           float *__restrict__ out, float *__restrict__ partial, const int *__restrict__ table,                           \
           const float *__restrict__ constants, const int *__restrict__ plan, int edges, int segment, int n) {            \
    GPUPROF_SHARED(float, shared);                                                                                        \
    (void)table, (void)constants;                                                                                         \
    int item = (int)blockIdx.x, runs = n / plan[TP_TILES], warp = item / runs;                                            \
    if (item >= n) return;                                                                                                \
    tp_rows rows = tp_item(item % runs, dst, rowptr, out, partial, edges, segment, plan[TP_OUT]);                         \
    if (rows.first >= rows.stop) return;                                                                                  \
    tpg_args g = {x, y, w, src, dst, rowptr, out, plan, segment};                                                         \
    tpg_head *head = (tpg_head *)shared;                                                                                  \
    if (tpg_lane() == 0) *head = {rows.row, rows.cut, plan[TP_LANES] + warp * 32 * plan[TPG_LANE_INTS],                    \
                                  plan[TPG_LANE_INTS], plan[TP_OUT], {}};                                                 \
    __syncwarp();                                                                                                         \
    switch (plan[plan[TP_WARPS] + warp]) {                                                                                \
      CASES                                                                                                               \
    }                                                                                                                     \
  }
