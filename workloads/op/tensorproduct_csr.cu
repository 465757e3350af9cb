#include "tensorproduct.cuh"

// One pass of a warp over its item's edges.
GP_FN void tp_csr_pass(const float *x, const float *y, const float *w, const int *src, const tp_graph &g, tp_rows rows, int *share,
                       const int *plan, const int *lane, bool add) {
  if (share[TP_D3] == 0) return;
  float *m = (float *)(share + TP_WARP_INTS);
  tp_lane l = tp_load_lane(lane);
  tp_held h = {};
  tp_stream feed = {op_row(w, rows.first, plan[TP_NUMEL]) + lane[4], plan[TP_NUMEL], 0};
  tp_walk t = tp_begin(x, src, plan[TP_IN], rows.first, rows.stop);
  tp_clear(m, share[TP_STRIDE] * share[TP_BATCH]);
#pragma unroll 1
  for (int e = rows.first, first = e; e < rows.stop;) {
    int end = gp_min(e + share[TP_BATCH], rows.stop);
    tp_batch(t, m, plan, share, y, e, end);
#define BATCH(D1, D3, V)                                                                                     \
  {                                                                                                          \
    if (e == first) tp_start<D1, V>(h, t, feed, l);                                                          \
    tp_rows_of<D1, D3, V>(h, t, feed, l, g, rows, plan, lane, m + l.m, share[TP_STRIDE], e, end, add);            \
  }
    TP_SWITCH(share, BATCH)
    e = end;
  }
  __syncwarp(); // the next pass clears M
}

// One item is one tile of one segment; see tensorproduct_csr.go for which edges a segment adds and where to.
extern "C" __global__ void __launch_bounds__(256, 2)
    tp_csr(const float *__restrict__ x, const float *__restrict__ y, const float *__restrict__ w, const int *__restrict__ src,
           const int *__restrict__ dst, const int *__restrict__ rowptr, float *__restrict__ out, float *__restrict__ partial,
           const int *__restrict__ table, const float *__restrict__ constants, const int *__restrict__ plan, int edges,
           int segment, int n) {
  GPUPROF_SHARED(float, shared);
  int item = (int)blockIdx.x, runs = n / plan[TP_TILES];
  if (item >= n) return;
  tp_rows rows = tp_item(item % runs, dst, rowptr, out, partial, edges, segment, plan[TP_OUT]);
  if (rows.first >= rows.stop) return;
  int *share = (int *)(shared + gp_warp() * plan[TP_REGION]);
#pragma unroll 1
  for (int pass = 0; pass < tp_read(plan + TP_PASSES); pass++) {
    tp_share(share, plan, item / runs, pass);
    __syncwarp();
    tp_csr_pass(x, y, w, src, {dst, rowptr, out, segment}, rows, share, plan, tp_lane_at(plan, item / runs, pass), pass > 0);
  }
}
GPUPROF_KERNEL(tp_csr)

// One item is one row, one block a row: zero where there are no edges, and the further segments of a long row, in
// order.
extern "C" __global__ void tp_csr_fixup(const int *__restrict__ rowptr, float *__restrict__ out, const float *__restrict__ partial,
                                        int count, int out_dim, int segment, int n) {
  int r = (int)blockIdx.x;
  if (r >= n) return;
  long long from = rowptr[r], to = rowptr[r + 1];
  if (from < to && from + segment >= to) return;
  float *row = op_row(out, r, out_dim);
  for (int i = (int)threadIdx.x; i < out_dim; i += (int)blockDim.x) {
    float sum = from == to ? 0.0f : row[i];
    for (long long at = from + segment; at < to; at += segment) sum += op_row(partial, (int)(at / segment), out_dim)[i];
    row[i] = sum;
  }
}
GPUPROF_KERNEL(tp_csr_fixup)
