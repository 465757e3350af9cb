// What the generated gradients of tensor products share (see package tpgen): the walk of a warp over the edges of its
// segment for dw and dy, the gradients of an edge's weights and harmonics. Nothing is added over edges. dz of a row stays in
// registers while the edges keep their destination; they may come in any order.
//
// A block is one warp, which has one part of the paths to itself and waits for no other. Its sums of dy over the lanes go to
// columns of its own in a row of partial, which tp_grad_dy adds up. The plan is made by tensorproduct_gengrad.go; the
// numbers here and there have to agree.
#pragma once
#include "tensorproduct_gen.cuh"

enum {
  TPD_TILES, // warps
  TPD_IN,
  TPD_SH,
  TPD_NUMEL,
  TPD_OUT,
  TPD_SCALE, // of dz, as bits
  TPD_COLUMNS, // of a row of partial
  TPD_LANE_INTS,
  TPD_PATHS, // of a part, at the most
  TPD_WARPS, // for every warp: its part, and its first column
  TPD_LANES,
  TPD_STARTS, // for tp_grad_dy: where each harmonic's columns begin in TPD_LISTS, and end
  TPD_LISTS,
};

// A lane's integers: where its first copy is in a row of x and its first weight in a row of w, which line of a row of w it
// asks for ahead, a bit for every path whose dw it writes, its first copy in a row of dz for every path, -1 where it has
// none, and, where blocks are merged, its weights of every path.
enum { TPD_X, TPD_W, TPD_LINE, TPD_WRITES, TPD_PLACES };

#define TPD_GRAD_W 1
#define TPD_GRAD_Y 2

// Of all copies: t = -x w; s + sum of w g; s - sum of w g.
template <int V>
GP_FN void tpd_minus(float *t, const float *x, const float *w) {
#pragma unroll
  for (int v = 0; v < V; v++) t[v] = -x[v] * w[v];
}
template <int V>
GP_FN float tpd_dot(float s, const float *w, const float *g) {
#pragma unroll
  for (int v = 0; v < V; v++) s = gp_fma(w[v], g[v], s);
  return s;
}
template <int V>
GP_FN float tpd_less(float s, const float *w, const float *g) {
#pragma unroll
  for (int v = 0; v < V; v++) s = gp_fma(-w[v], g[v], s);
  return s;
}

template <int V>
GP_FN void tpd_write(float *to, const float *d) {
  if (V == 4)
    *(float4 *)to = {d[0], d[V > 1 ? 1 : 0], d[V > 2 ? 2 : 0], d[V > 3 ? 3 : 0]};
  else if (V == 2)
    *(float2 *)to = {d[0], d[V > 1 ? 1 : 0]};
  else
    *to = d[0];
}

// tpd_row reads d components of dz.
template <int V>
GP_FN void tpd_row(float *z, const float *row, int place, int d, int step) {
#pragma unroll
  for (int k = 0; k < d; k++) {
    if (place >= 0)
      tpg_read<V>(z + k * V, row + place + k * step);
    else
#pragma unroll
      for (int v = 0; v < V; v++) z[k * V + v] = 0;
  }
}

// Rows of four harmonics lie in shared memory as [lane, ROWS], those of a lane in an order in which neither eight lanes that
// write one row at once nor eight that read rows of fewer lanes meet in a bank. tpd_lane_rows is where a lane's rows are
// but for the number of the row, which is added by exclusive or.
template <int ROWS>
GP_FN int tpd_lane_rows(int lane) { return lane * ROWS + (lane / (8 / ROWS) & (ROWS - 1)); }

template <int ROWS>
GP_FN void tpd_put(float4 *dy, int row, float a, float b, float c, float d) {
  dy[tpd_lane_rows<ROWS>(tpg_lane()) ^ row] = {a, b, c, d};
}

// tpd_fold adds the lanes' rows: a lane first adds one row of ROWS lanes, then the warp halves what each has left.
template <int ROWS>
GP_FN float tpd_fold(const float4 *dy) {
  int lane = tpg_lane(), row = lane & (ROWS - 1), group = lane / ROWS;
  float4 s = dy[tpd_lane_rows<ROWS>(group) ^ row];
#pragma unroll
  for (int i = 1; i < ROWS; i++) {
    float4 t = dy[tpd_lane_rows<ROWS>(group + i * (32 / ROWS)) ^ row];
    s.x += t.x;
    s.y += t.y;
    s.z += t.z;
    s.w += t.w;
  }
  bool high = (lane & 16) != 0, next = (lane & 8) != 0;
  float a = high ? s.z : s.x, b = high ? s.w : s.y;
  a += __shfl_xor_sync(0xffffffffu, high ? s.x : s.z, 16);
  b += __shfl_xor_sync(0xffffffffu, high ? s.y : s.w, 16);
  float c = next ? b : a;
  c += __shfl_xor_sync(0xffffffffu, next ? a : b, 8);
#pragma unroll
  for (int d = 4; d >= ROWS; d /= 2) c += __shfl_xor_sync(0xffffffffu, c, d);
  return c;
}

// tpd_column is which of a part's harmonics tpd_fold leaves with the calling lane, -1 where another lane has it too.
template <int ROWS>
GP_FN int tpd_column() {
  int lane = tpg_lane();
  return lane & 7 & ~(ROWS - 1) ? -1 : (lane & (ROWS - 1)) * 4 + ((lane & 16) >> 3) + ((lane & 8) >> 3);
}

// What a kernel was given, for its parts.
struct tpd_args {
  const float *x, *y, *w, *dout;
  const int *src, *dst;
  float *dw, *partial;
  const int *plan;
  int what;
};

// tpd_walk makes dw and dy of the edges [first, stop) with part P. Harmonics of a batch lie in shared memory, a row an edge;
// x of the next edge is asked for before this one is computed, its weights as soon as this one's are used, and its source
// and destination an edge earlier; weights are called into the second-level cache TP_FAR edges ahead. After the last edge
// its own rows are read again.
template <typename P>
GP_FN void tpd_walk(const tpd_args &g, int first, int stop, int own, int column, float *shared) {
  float z[P::SUMS * P::COPIES], x[P::D1 * P::COPIES], w[P::PATHS * P::COPIES];
  float4 *dy = (float4 *)shared;
  float *ys = shared + 32 * 4 * P::ROWS;
  int *at = (int *)(ys + 32 * P::STRIDE) + tpg_lane();
  const int *plan = g.plan, *lane = plan + plan[TPD_LANES] + (own * 32 + tpg_lane()) * plan[TPD_LANE_INTS];
  const int in_dim = plan[TPD_IN], numel = plan[TPD_NUMEL], columns = plan[TPD_COLUMNS], mine = tpd_column<P::ROWS>();
  const unsigned writes = g.what & TPD_GRAD_W ? (unsigned)lane[TPD_WRITES] : 0u;
  if (P::MERGED) {
#pragma unroll 1
    for (int i = 0; i < P::PATHS; i++) at[i * 32] = lane[TPD_PLACES + plan[TPD_PATHS] + i];
  }
  const int base = P::MERGED ? 0 : lane[TPD_W];
  const float *wp = op_row(g.w, first, numel) + base, *xp = g.x + lane[TPD_X];
  float *to = op_row(g.dw, first, numel) + base, *sums = op_row(g.partial, first, columns) + column + mine;
  const int line = lane[TPD_LINE] - base + TP_FAR * numel;
  const float *x0 = op_row(xp, __ldg(g.src + first), in_dim);
  P::first(w, wp, at);
#pragma unroll
  for (int i = 0; i < P::D1; i++) tpg_read<P::COPIES>(x + i * P::COPIES, x0 + i * P::STEP);
  int row = -1, next_row = __ldg(g.dst + first), source = __ldg(g.src + gp_min(first + 1, stop - 1));
#pragma unroll 1
  for (int e = first; e < stop;) {
    const int end = gp_min(e + 32, stop);
    if (e + 32 + tpg_lane() < stop) gp_prefetch(op_row(g.y, e + 32 + tpg_lane(), P::SH));
    if (e + tpg_lane() < end) P::stage(ys + tpg_lane() * P::STRIDE, op_row(g.y, e + tpg_lane(), P::SH));
    const float *y = ys;
    __syncwarp();
#pragma unroll 1
    while (e < end) {
      if (next_row != row) {
        row = next_row;
        // All that is asked for is asked for at once; see tpg_walk.
        int places[P::PATHS];
#pragma unroll
        for (int i = 0; i < P::PATHS; i++) places[i] = tp_read(lane + TPD_PLACES + i);
        const float scale = __int_as_float(tp_read(plan + TPD_SCALE));
        P::rows(z, op_row(g.dout, row, tp_read(plan + TPD_OUT)), places);
#pragma unroll
        for (int i = 0; i < P::SUMS * P::COPIES; i++) z[i] *= scale;
      }
#pragma unroll 1
      do {
        float xs[P::D1 * P::COPIES];
        const float *xn = op_row(xp, source, in_dim);
#pragma unroll
        for (int i = 0; i < P::D1; i++) tpg_read<P::COPIES>(xs + i * P::COPIES, xn + i * P::STEP);
        source = __ldg(g.src + gp_min(e + 2, stop - 1));
        next_row = __ldg(g.dst + gp_min(e + 1, stop - 1));
        if (e + TP_FAR < stop) gp_prefetch(wp + line);
        const float *wn = wp + (e + 1 < stop ? numel : 0);
        P::edge(z, x, w, y, dy, wn, to, writes, at, numel);
        wp = wn;
        to += numel;
        y += P::STRIDE;
        __syncwarp();
        if (g.what & TPD_GRAD_Y) {
          float s = tpd_fold<P::ROWS>(dy);
          if (mine >= 0 && mine < P::COLUMNS) *sums = s;
        }
        sums += columns;
        __syncwarp(); // all lanes have read the rows, and after a batch its harmonics
#pragma unroll
        for (int i = 0; i < P::D1 * P::COPIES; i++) x[i] = xs[i];
        e++;
      } while (e < end && next_row == row);
    }
  }
}

// The kernel of a family. One item is one warp's part of one segment; dy, table and constants are for the host.
#define TPD_CASE(N) case N: tpd_walk<tpd_part##N>(g, first, gp_min(first + segment, edges), own, column, shared); break;
#define TPD_KERNEL(NAME, CASES)                                                                                           \
  extern "C" __global__ void __launch_bounds__(32, 16)                                                                    \
      NAME(const float *__restrict__ x, const float *__restrict__ y, const float *__restrict__ w,                         \
           const float *__restrict__ dout, const int *__restrict__ src, const int *__restrict__ dst,                      \
           float *__restrict__ dw, float *__restrict__ dy, const int *__restrict__ table,                                 \
           const float *__restrict__ constants, int what, const int *__restrict__ plan, float *__restrict__ partial,      \
           int edges, int segment, int n) {                                                                               \
    GPUPROF_SHARED(float, shared);                                                                                        \
    (void)dy, (void)table, (void)constants;                                                                               \
    int item = (int)blockIdx.x, runs = n / plan[TPD_TILES], own = item / runs;                                            \
    if (item >= n) return;                                                                                                \
    int first = item % runs * segment, column = plan[plan[TPD_WARPS] + 2 * own + 1];                                      \
    tpd_args g = {x, y, w, dout, src, dst, dw, partial, plan, what};                                                      \
    switch (plan[plan[TPD_WARPS] + 2 * own]) {                                                                            \
      CASES                                                                                                               \
    }                                                                                                                     \
  }
