// What the fused tensor products share: a warp adds a share of the output for a run of edges, by itself.
//
// A lane, one a thread, owns up to four copies u of one output block and holds their d3 components in registers over
// all edges of a row, so that a row is written once and by one thread. All lanes of a warp have the same d1 and d3,
// so their loops are unrolled. For a batch of edges the warp first builds M_ik = sum_j C_ijk y_j of the products its
// lanes need, each (l1, l2, l3) once, in its own part of shared memory; then every lane adds (w_u x_iu) M_ik edge by
// edge. x and w are read along u and ahead: x a whole edge, since it lies in the second-level cache, w two, after it was
// asked into that cache four edges earlier. No warp waits for another: while one waits, its neighbours' sums go on.
//
// A block of warps is a tile; warps that read the same block of x are neighbours and share it through the first-level
// cache. Blocks go through all edges tile by tile: warps of many degrees beside each other would empty the instruction
// cache. Several paths into one output block are several passes over the edges; the lane stays the same, so its order
// of additions does.
//
// The plan is made by tensorproduct_plan.go; the numbers here and there have to agree.
#pragma once
#include "op.cuh"

// The header of a plan.
enum {
  TP_TILES,
  TP_PASSES,
  TP_REGION, // floats of M a warp
  TP_IN,
  TP_SH,
  TP_NUMEL,
  TP_OUT,
  TP_WARPS, // where the warps start, in integers; then cells, terms, lanes
  TP_CELLS,
  TP_TERMS,
  TP_LANES,
};
#define TP_WARP_INTS 8
#define TP_LANE_INTS 16
#define TP_COPIES 4 // the most copies of a lane

// tp_read reads a number of the plan where it is needed. The registers are for sums: what is used once a row must not
// sit in one in between, and the compiler would keep an ordinary read.
GP_FN int tp_read(const int *p) { return *(const volatile int *)p; }

// A warp's share in a pass is 8 integers of the plan, which the warp keeps before its M: what is used once a batch must
// not sit in a register in between either.
enum {
  TP_FROM, // first and last+1 cell
  TP_TO,
  TP_STRIDE, // floats of M an edge
  TP_BATCH,  // edges of a batch
  TP_D1,     // 0: nothing is unrolled for it
  TP_D3,     // 0: there is no such warp
  TP_EACH,   // copies a lane
};

// tp_share copies the share of the calling warp; a barrier has to follow.
GP_FN void tp_share(int *share, const int *plan, int tile, int pass) {
  int warps = (int)blockDim.x >> 5;
  if (gp_lane() < TP_WARP_INTS)
    share[gp_lane()] = plan[plan[TP_WARPS] + ((tile * plan[TP_PASSES] + pass) * warps + gp_warp()) * TP_WARP_INTS + gp_lane()];
}

// A lane is a thread's share, 16 integers of the plan: where its first copy is in a row of x, the step to the next
// copy and to the next component, d1; where its weights are in a row of w and the step, the path's coefficient, where
// its M starts; where it writes, the steps of copies and of components, d3; and whether it writes none (0), the last
// (1) or all (2) of its copies. The lanes of a block whose multiplicity they do not divide overlap, so that every
// copy can be read; those that another lane has too are written by that one. tp_lane is what every edge needs.
struct tp_lane {
  int x, d1, m;
  int xv, xi, wv;
  float factor;
};

GP_FN tp_lane tp_load_lane(const int *p) { return {p[0], p[3], p[7], p[1], p[2], p[5], __int_as_float(p[6])}; }

GP_FN const int *tp_lane_at(const int *plan, int tile, int pass) {
  return plan + plan[TP_LANES] + ((tile * plan[TP_PASSES] + pass) * (int)blockDim.x + (int)threadIdx.x) * TP_LANE_INTS;
}

// tp_build writes M of the edges [first, stop), at most a batch of them: a lane one cell of four edges. Cells that are
// not in the table stay the zeros that tp_clear wrote.
GP_FN void tp_build(float *m, const int *plan, const int *share, const float *y, int first, int stop) {
  int sh = plan[TP_SH], count = share[TP_TO] - share[TP_FROM], stride = share[TP_STRIDE];
  const int4 *cells = (const int4 *)(plan + plan[TP_CELLS]) + share[TP_FROM];
  const int2 *terms = (const int2 *)(plan + plan[TP_TERMS]);
  if (count == 0) return;
  int c = gp_lane(), e = first;
#pragma unroll 1
  for (;;) {
    for (; c >= count && e < stop; c -= count) e += 4;
    if (e >= stop) return;
    int4 cell = cells[c];
    const float *row = op_row(y, e, sh);
    int last = stop - 1 - e, at1 = gp_min(1, last) * sh, at2 = gp_min(2, last) * sh, at3 = gp_min(3, last) * sh;
    float sum[4] = {0, 0, 0, 0};
#pragma unroll 1
    for (int t = cell.y; t < cell.z; t++) {
      int2 term = terms[t];
      float factor = __int_as_float(term.y);
      const float *p = row + term.x;
      sum[0] = gp_fma(factor, __ldg(p), sum[0]);
      sum[1] = gp_fma(factor, __ldg(p + at1), sum[1]);
      sum[2] = gp_fma(factor, __ldg(p + at2), sum[2]);
      sum[3] = gp_fma(factor, __ldg(p + at3), sum[3]);
    }
    float *out = m + (e - first) * stride + cell.x;
#pragma unroll
    for (int k = 0; k < 4; k++)
      if (k <= last) out[k * stride] = sum[k];
    c += 32;
  }
}

GP_FN void tp_clear(float *m, int floats) {
#pragma unroll 1
  for (int i = gp_lane(); i < floats; i += 32) m[i] = 0;
}

// What a lane holds in registers: the sums of its row, [component, copy], x of the edge to come, [component, copy], and
// weights of the edges to come. The arrays are as large as any degree needs and all indices are constants.
#define TP_SUMS 28 // the most d3 * copies
#define TP_XS 20   // the most d1 * copies that are unrolled
#define TP_AHEAD 2 // edges between asking for weights and using them
struct tp_held {
  float acc[TP_SUMS], x[TP_XS], q[TP_AHEAD][TP_COPIES];
};

// tp_copies reads a value for each copy of a lane.
template <int V>
GP_FN void tp_copies(float *to, const float *p, int step) {
#pragma unroll
  for (int v = 0; v < V; v++, p += step) to[v] = __ldg(p);
}

// tp_stream gives a lane the weights of one edge after the other, from memory, since each is used once and comes from
// far away.
struct tp_stream {
  const float *w; // the lane's, of the next edge to fetch
  int numel, far;
};

template <int V>
GP_FN void tp_fetch(tp_stream &f, const tp_lane &l, float *to, bool more) {
  if (more) tp_copies<V>(to, f.w, l.wv);
  f.w += f.numel;
}

// TP_FAR edges before they are asked for, weights leave memory for the second-level cache: registers for more edges
// ahead would have to be copied, and a copy waits for its load. A lane sees to one of its copies: its neighbours' lie
// on the same lines.
#define TP_FAR 4

template <int V>
GP_FN void tp_first(tp_stream &f, const tp_lane &l, tp_held &h, int e, int stop) {
  f.far = TP_FAR * f.numel + gp_lane() % V * l.wv;
#pragma unroll
  for (int s = 0; s < TP_AHEAD; s++) tp_fetch<V>(f, l, h.q[s], e + s < stop);
}

// tp_take gives the weights of edge e, edges in turn.
template <int V>
GP_FN void tp_take(tp_stream &f, const tp_lane &l, tp_held &h, int e, int stop, float *w) {
#pragma unroll
  for (int v = 0; v < V; v++) {
    w[v] = h.q[0][v] * l.factor;
#pragma unroll
    for (int s = 1; s < TP_AHEAD; s++) h.q[s - 1][v] = h.q[s][v];
  }
  if (e + TP_AHEAD + TP_FAR < stop) gp_prefetch(f.w + f.far);
  tp_fetch<V>(f, l, h.q[TP_AHEAD - 1], e + TP_AHEAD < stop);
}

// tp_component adds one component of x in xn and puts what is at next in its place.
template <int D3, int V>
GP_FN void tp_component(float *acc, const tp_lane &l, float *xn, const float *next, const float *m, const float *w) {
  float xw[V], row[(D3 + 3) / 4 * 4];
#pragma unroll
  for (int v = 0; v < V; v++) xw[v] = xn[v] * w[v];
  tp_copies<V>(xn, next, l.xv);
#pragma unroll
  for (int k = 0; k < D3; k += 4) {
    float4 four = *(const float4 *)(m + k);
    row[k] = four.x;
    row[k + 1] = four.y;
    row[k + 2] = four.z;
    row[k + 3] = four.w;
  }
#pragma unroll
  for (int k = 0; k < D3; k++)
#pragma unroll
    for (int v = 0; v < V; v++) acc[k * V + v] = gp_fma(xw[v], row[k], acc[k * V + v]);
}

// tp_walk is where a warp is among its edges.
struct tp_walk {
  const float *x; // all of it
  const int *src;
  int in_dim, stop;
  int first, window, ahead; // sources of the edges [first, first+32), one a lane, and of those after the batch
};

GP_FN tp_walk tp_begin(const float *x, const int *src, int in_dim, int first, int stop) {
  return {x, src, in_dim, stop, first, 0, __ldg(src + gp_min(first + gp_lane(), stop - 1))};
}

// tp_turn goes to the batch [first, end), whose sources were asked for a batch ago.
GP_FN void tp_turn(tp_walk &t, int first, int end) {
  t.first = first;
  t.window = t.ahead;
  t.ahead = __ldg(t.src + gp_min(end + gp_lane(), t.stop - 1));
}

// tp_batch makes M of the edges [first, end), once all lanes have added the batch before.
GP_FN void tp_batch(tp_walk &t, float *m, const int *plan, const int *share, const float *y, int first, int end) {
  __syncwarp();
  tp_build(m, plan, share, y, first, end);
  tp_turn(t, first, end);
  __syncwarp();
}

// tp_source is where edge e, of the batch or the one after it, has its x.
GP_FN const float *tp_source(const tp_walk &t, const tp_lane &l, int e) {
  unsigned row = (unsigned)__shfl_sync(0xffffffffu, t.window, e - t.first);
  return t.x + ((unsigned long long)row * (unsigned)t.in_dim + (unsigned)l.x);
}

// tp_start reads the first edge's x: all components, or with D1 = 0, where their number is known at run time only, the
// first; and the first weights.
template <int D1, int V, typename Feed>
GP_FN void tp_start(tp_held &h, const tp_walk &t, Feed &feed, const tp_lane &l) {
  const float *p = tp_source(t, l, t.first);
  if (D1 == 0 && l.d1 == 0) return;
  tp_first<V>(feed, l, h, t.first, t.stop);
#pragma unroll
  for (int i = 0; i < (D1 > 0 ? D1 : 1); i++, p += l.xi) tp_copies<V>(h.x + i * V, p, l.xv);
}

// tp_edges adds the edges [e, to) of the batch. M of the first is at m.
template <int D1, int D3, int V, typename Feed>
GP_FN void tp_edges(tp_held &h, const tp_walk &t, Feed &feed, const tp_lane &l, const float *m, int stride, int e, int to) {
  const int pitch = (D3 + 3) / 4 * 4;
#pragma unroll 1
  for (; e < to; e++, m += stride) {
    const float *next = tp_source(t, l, e + 1);
    float w[V] = {};
    if (D1 > 0 || l.d1 > 0) tp_take<V>(feed, l, h, e, t.stop, w);
    if (D1 > 0) {
#pragma unroll
      for (int i = 0; i < D1; i++, next += l.xi) tp_component<D3, V>(h.acc, l, h.x + i * V, next, m + i * pitch, w);
      continue;
    }
    // The lanes differ: all but the first component are read as they come. A lane without a path has none.
    const float *here = tp_source(t, l, e), *row = m;
#pragma unroll 1
    for (int i = 1; i < l.d1; i++, row += pitch) {
      here += l.xi;
      tp_component<D3, V>(h.acc, l, h.x, here, row, w);
    }
    if (l.d1 > 0) tp_component<D3, V>(h.acc, l, h.x, next, row, w);
  }
}

GP_FN void tp_zero(tp_held &h) {
#pragma unroll
  for (int i = 0; i < TP_SUMS; i++) h.acc[i] = 0;
}

// tp_each does f(address, sum) for every value that a lane writes in a row, and starts again from zero.
template <int D3, int V, typename F>
GP_FN void tp_each(tp_held &h, const int *lane, float *row, F f) {
  int ov = tp_read(lane + 9), ok = tp_read(lane + 10), own = tp_read(lane + 12);
  row += tp_read(lane + 8);
#pragma unroll
  for (int k = 0; k < D3; k++, row += ok) {
    float *p = row;
#pragma unroll
    for (int v = 0; v < V; v++, p += ov) {
      if (own > (v < V - 1)) f(p, h.acc[k * V + v]);
      h.acc[k * V + v] = 0;
    }
  }
}

// TP_SWITCH(share, F) does F(d1, d3, copies) for a warp's degrees; copiesOf and unrolled in tensorproduct_plan.go are
// the same table. d1 = 0 is what nothing is unrolled for: larger degrees, and plans of several passes.
#define TP_UNROLLED(D1, D3) (D1 > 5 || D1 + D3 > 12 ? 2 : D3 == 9 ? 3 : 4)
#define TP_SWITCH_D1(share, F, D3, V)          \
  switch ((share)[TP_D1]) {                    \
  case 0: F(0, D3, V) break;                   \
  case 1: F(1, D3, TP_UNROLLED(1, D3)) break;  \
  case 3: F(3, D3, TP_UNROLLED(3, D3)) break;  \
  case 5: F(5, D3, TP_UNROLLED(5, D3)) break;  \
  case 7: F(7, D3, TP_UNROLLED(7, D3)) break;  \
  case 9: F(9, D3, TP_UNROLLED(9, D3)) break;  \
  }                                            \
  break;
#define TP_SWITCH(share, F)                    \
  switch ((share)[TP_D3]) {                    \
  case 1: TP_SWITCH_D1(share, F, 1, 4)         \
  case 3: TP_SWITCH_D1(share, F, 3, 4)         \
  case 5: TP_SWITCH_D1(share, F, 5, 4)         \
  case 7: TP_SWITCH_D1(share, F, 7, 4)         \
  case 9: TP_SWITCH_D1(share, F, 9, 3)         \
  case 11: F(0, 11, 2) break;                  \
  case 13: F(0, 13, 2) break;                  \
  case 15: F(0, 15, 1) break;                  \
  case 17: F(0, 17, 1) break;                  \
  }

// tp_rows walks the rows of one item of the deterministic products (see tensorproduct_csr.go): edges [first, stop),
// which follow each other; the sums of [.., cut) go to row, those after it to the next.
struct tp_rows {
  int first, stop, cut;
  float *row;
};

GP_FN tp_rows tp_item(int c, const int *dst, const int *rowptr, float *out, float *partial, int edges, int segment, int out_dim) {
  tp_rows t;
  t.first = c * segment;
  int end = (int)gp_min((long long)t.first + segment, (long long)edges);
  int r = dst[t.first], start = rowptr[r], row_end = rowptr[r + 1];
  t.row = op_row(out, r, out_dim);
  t.cut = (int)gp_min((long long)start + segment, (long long)row_end);
  if (start < t.first) {
    // The row began earlier; one of its further segments may start here.
    long long at = start + ((long long)t.first - start + segment - 1) / segment * segment;
    if (at < gp_min(end, row_end)) {
      t.first = (int)at;
      t.cut = (int)gp_min(at + segment, (long long)row_end);
      t.row = op_row(partial, c, out_dim);
    } else {
      t.first = row_end;
      if (row_end < end) {
        r = dst[row_end];
        t.row = op_row(out, r, out_dim);
        t.cut = (int)gp_min((long long)row_end + segment, (long long)rowptr[r + 1]);
      }
    }
  }
  t.stop = t.first;
  if (t.first < end) {
    // The row of the item's last edge ends the run, unless it is the one that began earlier.
    int last = dst[end - 1], last_start = rowptr[last];
    t.stop = last_start < t.first ? t.cut : (int)gp_min((long long)last_start + segment, (long long)rowptr[last + 1]);
  }
  return t;
}

GP_FN void tp_next(tp_rows &t, const int *dst, const int *rowptr, float *out, int segment, int out_dim) {
  if (t.cut >= t.stop) return;
  int r = dst[t.cut];
  t.row = op_row(out, r, out_dim);
  t.cut = (int)gp_min((long long)t.cut + segment, (long long)rowptr[r + 1]);
}

// What the deterministic products walk rows with.
struct tp_graph {
  const int *dst, *rowptr;
  float *out;
  int segment;
};

// tp_rows_of adds the edges [e, end) of the batch and writes each row that ends among them; in passes after the first
// it adds to what is there.
template <int D1, int D3, int V, typename Feed>
GP_FN void tp_rows_of(tp_held &h, const tp_walk &t, Feed &feed, const tp_lane &l, const tp_graph &g, tp_rows &rows, const int *plan,
                      const int *lane, const float *m, int stride, int e, int end, bool add) {
#pragma unroll 1
  while (e < end) {
    int to = gp_min(rows.cut, end);
    tp_edges<D1, D3, V>(h, t, feed, l, m, stride, e, to);
    m += (to - e) * stride;
    e = to;
    if (e < rows.cut) break;
    if (D1 == 0 && add)
      tp_each<D3, V>(h, lane, rows.row, [](float *p, float sum) { *p += sum; });
    else
      tp_each<D3, V>(h, lane, rows.row, [](float *p, float sum) { *p = sum; });
    tp_next(rows, g.dst, g.rowptr, g.out, g.segment, tp_read(plan + TP_OUT));
  }
}
