// What the fused tensor products share: one block adds one tile of the output for a run of edges.
//
// A tile is a set of lanes, one a thread. A lane owns up to four copies u of one output block and holds their d3
// components in registers over all edges of a row, so that a row is written once and by one thread. For a batch of
// edges the block first builds M_ik = sum_j C_ijk y_j of the products its lanes need, each (l1, l2, l3) once, in
// shared memory; then every lane adds (w_u x_iu) M_ik edge by edge. x and w are read along u. Several paths into
// one output block are several passes over the edges; the lane stays the same, so its order of additions does.
//
// The plan is made by tensorproduct_plan.go; the numbers here and there have to agree.
#pragma once
#include "op.cuh"

// The header of a plan.
enum {
  TP_TILES,
  TP_PASSES,
  TP_STRIDE, // floats of M an edge
  TP_BATCH,  // edges of a batch
  TP_IN,
  TP_SH,
  TP_NUMEL,
  TP_OUT,
  TP_PARTS, // where the parts start, in integers; then cells, terms, lanes
  TP_CELLS,
  TP_TERMS,
  TP_LANES,
  TP_ZERO = 15,
};
#define TP_LANE_INTS 16
#define TP_COPIES 4 // the most copies of a lane

// tp_read reads a number of the plan where it is needed. The registers are for sums: what is used once a row must not
// sit in one in between, and the compiler would keep an ordinary read. It comes from the second-level cache, so what
// is used once a batch is in shared memory instead (tp_head), which barriers make the compiler read again.
GP_FN int tp_read(const int *p) { return *(const volatile int *)p; }

// tp_again is the plan itself, but the compiler cannot know: what a pass computes from it stays in the pass, instead
// of all degrees' constants being made ahead and kept.
GP_FN const int *tp_again(const int *plan) { return plan + tp_read(plan + TP_ZERO); }

// tp_head is the plan's header in shared memory, then first and last+1 cell of the part at hand; a barrier has to
// follow.
#define TP_HEAD 18
GP_FN void tp_head(int *head, const int *plan, int part) {
  for (int i = (int)threadIdx.x; i < TP_HEAD; i += (int)blockDim.x)
    head[i] = plan[i < 16 ? i : plan[TP_PARTS] + 4 * part + i - 16];
}

// A lane is a thread's share, 16 integers of the plan: where its first copy is in a row of x, the step to the next
// copy and to the next component, d1; where its weights are in a row of w and the step, the path's coefficient, where
// its M starts; where it writes, the steps of copies and of components, d3; and whether it writes none (0), the last
// (1) or all (2) of its copies. The lanes of a block whose multiplicity they do not divide overlap, so that every
// copy can be read; those that another lane has too are written by that one. tp_lane is what every edge needs.
struct tp_lane {
  int x, d1, m;
  long long xv, xi, wv;
  float factor;
};

GP_FN tp_lane tp_load_lane(const int *p) {
  return {p[0], p[3], p[7], p[1], p[2], p[5], __int_as_float(p[6])};
}

// tp_build writes M of the edges [first, stop), at most a batch of them: a warp two edges, whose loads overlap, a
// lane a cell. Cells that are not in the table stay the zeros that tp_clear wrote.
GP_FN void tp_build(float *m, const int *plan, const int *head, const float *y, int first, int stop) {
  int stride = head[TP_STRIDE], sh = head[TP_SH], from = head[16], to = head[17];
  const int4 *cells = (const int4 *)(plan + head[TP_CELLS]);
  const int2 *terms = (const int2 *)(plan + head[TP_TERMS]);
#pragma unroll 1
  for (int e = first + gp_warp() * 2; e < stop; e += (int)blockDim.x >> 4) {
    bool two = e + 1 < stop;
    const float *row = op_row(y, e, sh), *row2 = two ? row + sh : row;
    float *out = m + (e - first) * stride;
#pragma unroll 1
    for (int c = from + gp_lane(); c < to; c += 32) {
      int4 cell = cells[c];
      float sum = 0, sum2 = 0;
#pragma unroll 1
      for (int t = cell.y; t < cell.z; t++) {
        int2 term = terms[t];
        float factor = __int_as_float(term.y);
        sum = gp_fma(factor, __ldg(row + term.x), sum);
        sum2 = gp_fma(factor, __ldg(row2 + term.x), sum2);
      }
      out[cell.x] = sum;
      if (two) out[stride + cell.x] = sum2;
    }
  }
}

GP_FN void tp_clear(float *m, int floats) {
#pragma unroll 1
  for (int i = (int)threadIdx.x; i < floats; i += (int)blockDim.x) m[i] = 0;
}

// tp_copies reads a value for each copy of a lane.
template <int V>
GP_FN void tp_copies(float (&to)[V], const float *p, long long step) {
#pragma unroll
  for (int v = 0; v < V; v++, p += step) to[v] = __ldg(p);
}

// tp_stream gives a lane the weights and the source of one edge after the other, from memory and two edges ahead,
// since each is used once and comes from far away.
template <int V>
struct tp_stream {
  const float *w; // the lane's, of the edge two ahead
  const int *src;
  int numel;
  float q[2][V];
  int s[2];
};

// tp_fetch puts edge e, if it is before stop, in a slot.
template <int V>
GP_FN void tp_fetch(tp_stream<V> &f, const tp_lane &l, int slot, int e, int stop) {
  if (e < stop) {
    tp_copies<V>(f.q[slot], f.w, l.wv);
    f.s[slot] = __ldg(f.src + e);
  }
  f.w += f.numel;
}

// tp_start begins with edge first; a lane without a path has none. Everything gets a value on every way through: a
// register that may be undefined would have to be kept through all that other degrees do.
template <int V>
GP_FN void tp_start(tp_stream<V> &f, float (&xn)[V], const tp_lane &l, const float *w, const int *src, const float *x,
                    int in_dim, int first, int stop, int numel) {
  f.w = op_row(w, first, numel);
  f.src = src;
  f.numel = numel;
  f.s[0] = f.s[1] = 0;
#pragma unroll
  for (int v = 0; v < V; v++) xn[v] = f.q[0][v] = f.q[1][v] = 0;
  if (l.d1 == 0) return;
  tp_fetch(f, l, 0, first, stop);
  f.s[1] = f.s[0];
  tp_fetch(f, l, 1, first + 1, stop);
  tp_copies<V>(xn, op_row(x, f.s[0], in_dim) + l.x, l.xv);
}

// tp_take gives the weights of edge e, its source and that of the edge after it (any valid one after the last).
template <int V>
GP_FN int tp_take(tp_stream<V> &f, const tp_lane &l, int e, int stop, float (&w)[V], int *after) {
  int source = f.s[0];
#pragma unroll
  for (int v = 0; v < V; v++) {
    w[v] = f.q[0][v] * l.factor;
    f.q[0][v] = f.q[1][v];
  }
  f.s[0] = *after = f.s[1];
  tp_fetch(f, l, 1, e + 2, stop);
  return source;
}

// tp_local gives a lane the weights it has computed itself and left in shared memory, [edge, copy, lane].
struct tp_local {
  const float *w; // the lane's own, of edge first
  const int *src;
  int first;
};

template <int V>
GP_FN int tp_take(tp_local &f, const tp_lane &, int e, int stop, float (&w)[V], int *after) {
#pragma unroll
  for (int v = 0; v < V; v++) w[v] = f.w[((e - f.first) * TP_COPIES + v) * (int)blockDim.x];
  *after = __ldg(f.src + gp_min(e + 1, stop - 1));
  return __ldg(f.src + e);
}

// tp_component adds the component of x in xn and puts the next one, from next, in its place.
template <int D3, int V>
GP_FN void tp_component(float (&acc)[D3][V], const tp_lane &l, float (&xn)[V], const float *next, const float *m,
                        const float (&w)[V]) {
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
    for (int v = 0; v < V; v++) acc[k][v] = gp_fma(xw[v], row[k], acc[k][v]);
}

// tp_edges adds the edges [e, to) of an item that ends at stop. M of the first is at m, its first component of x in
// xn. The number of components is odd: pairs, then the last, which brings the first of the next edge.
template <int D3, int V, typename Feed>
GP_FN void tp_edges(float (&acc)[D3][V], const tp_lane &l, Feed &feed, float (&xn)[V], const float *x, int in_dim,
                    const float *m, int stride, int e, int to, int stop) {
  const int pitch = (D3 + 3) / 4 * 4;
#pragma unroll 1
  for (; e < to; e++, m += stride) {
    float w[V];
    int after, source = tp_take(feed, l, e, stop, w, &after);
    const float *here = op_row(x, source, in_dim) + l.x, *row = m;
#pragma unroll 1
    for (int i = 1; i < l.d1; i += 2) {
      here += l.xi;
      tp_component<D3, V>(acc, l, xn, here, row, w);
      here += l.xi;
      tp_component<D3, V>(acc, l, xn, here, row + pitch, w);
      row += 2 * pitch;
    }
    tp_component<D3, V>(acc, l, xn, op_row(x, after, in_dim) + l.x, row, w);
  }
}

template <int D3, int V>
GP_FN void tp_zero(float (&acc)[D3][V]) {
#pragma unroll
  for (int k = 0; k < D3; k++)
#pragma unroll
    for (int v = 0; v < V; v++) acc[k][v] = 0;
}

// tp_each does f(address, sum) for every value that a lane writes in a row.
template <int D3, int V, typename F>
GP_FN void tp_each(float (&acc)[D3][V], const int *lane, float *row, F f) {
  int ov = tp_read(lane + 9), ok = tp_read(lane + 10), own = tp_read(lane + 12);
  row += tp_read(lane + 8);
  if (own == 0) return;
#pragma unroll
  for (int k = 0; k < D3; k++, row += ok) {
    float *p = row;
#pragma unroll
    for (int v = 0; v < V; v++, p += ov)
      if (v == V - 1 || own == 2) f(p, acc[k][v]);
  }
}

// tp_store writes a row's sums, or adds them in passes after the first, and starts again from zero.
template <int D3, int V>
GP_FN void tp_store(float (&acc)[D3][V], const int *lane, float *row, bool add) {
  if (add)
    tp_each(acc, lane, row, [](float *p, float sum) { *p += sum; });
  else
    tp_each(acc, lane, row, [](float *p, float sum) { *p = sum; });
  tp_zero(acc);
}

// TP_SWITCH(lane, F) does F(d3, copies) for the degree of the lane at p; copiesOf in tensorproduct_plan.go is the
// same table. All lanes of a warp have one degree, so a warp takes one case, and barriers inside it are met by whole
// warps: what bar.sync counts is warps, not places in the code.
#define TP_SWITCH(p, F)   \
  switch ((p)[11]) {      \
  case 1: F(1, 4); break; \
  case 3: F(3, 4); break; \
  case 5: F(5, 4); break; \
  case 7: F(7, 4); break; \
  case 9: F(9, 3); break; \
  case 11: F(11, 2); break; \
  case 13: F(13, 2); break; \
  case 15: F(15, 1); break; \
  case 17: F(17, 1); break; \
  }

// tp_rows walks the rows of one item of the deterministic products (see tensorproduct_csr.go): edges [first, stop),
// which follow each other; the sums of [.., cut) go to row, those after it to the next.
struct tp_rows {
  int first, stop, cut;
  float *row;
};

// tp_lane_at is the thread's lane in a part, which is a tile in a pass.
GP_FN const int *tp_lane_at(const int *plan, int part) {
  return plan + plan[TP_LANES] + (part * (int)blockDim.x + (int)threadIdx.x) * TP_LANE_INTS;
}

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
