#include "tensorproduct.cuh"

// What tp_csr gets.
struct tp_csr_args {
  const float *x, *y, *w;
  const int *src, *dst, *rowptr;
  float *out, *partial;
  const int *plan;
  int edges, segment;
};

// One pass of a tile over its edges. The M of the next batch is built while other warps still add the present one:
// one barrier a batch.
template <int D3, int V>
GP_FN void tp_csr_pass(const tp_csr_args &a, float *shared, int *head, const int *lane, int part, int item, bool add) {
  int size = a.plan[TP_BATCH] * a.plan[TP_STRIDE], in_dim = a.plan[TP_IN], out_dim = a.plan[TP_OUT];
  tp_rows rows = tp_item(item, a.dst, a.rowptr, a.out, a.partial, a.edges, a.segment, out_dim);
  if (rows.first >= rows.stop) return; // the whole block
  tp_head(head, a.plan, part);
  tp_lane l = tp_load_lane(lane);
  float acc[D3][V], xn[V];
  tp_stream<V> feed;
  tp_zero(acc);
  tp_start<V>(feed, xn, l, a.w + lane[4], a.src, a.x, in_dim, rows.first, rows.stop, a.plan[TP_NUMEL]);
  tp_clear(shared, 2 * size);
  // The first round has a batch to build and none to add.
  int e = rows.first, even = 0;
#pragma unroll 1
  for (int end = e; e < rows.stop; even ^= 1) {
    __syncthreads();
    int next = gp_min(end + head[TP_BATCH], rows.stop);
    if (end < rows.stop) tp_build(shared + even * size, a.plan, head, a.y, end, next);
    const float *m = shared + (even ^ 1) * size + l.m;
#pragma unroll 1
    while (e < end) {
      int to = gp_min(rows.cut, end);
      if (l.d1 > 0) tp_edges<D3, V>(acc, l, feed, xn, a.x, head[TP_IN], m, head[TP_STRIDE], e, to, rows.stop);
      m += (to - e) * head[TP_STRIDE];
      e = to;
      if (e < rows.cut) break;
      tp_store<D3, V>(acc, lane, rows.row, add);
      tp_next(rows, a.dst, a.rowptr, a.out, a.segment, head[TP_OUT]);
    }
    end = next;
  }
  __syncthreads(); // the next pass clears M
}

// One item is one tile of one segment; see tensorproduct_csr.go for which edges a segment adds and where to.
extern "C" __global__ void __launch_bounds__(256, 2)
    tp_csr(const float *__restrict__ x, const float *__restrict__ y, const float *__restrict__ w, const int *__restrict__ src,
           const int *__restrict__ dst, const int *__restrict__ rowptr, float *__restrict__ out, float *__restrict__ partial,
           const int *__restrict__ table, const float *__restrict__ constants, const int *__restrict__ plan, int edges,
           int segment, int n) {
  GPUPROF_SHARED(float, shared);
  __shared__ int head[TP_HEAD];
  int item = (int)blockIdx.x, tiles = plan[TP_TILES];
  if (item >= n) return;
#pragma unroll 1
  for (int pass = 0; pass < tp_read(plan + TP_PASSES); pass++) {
    tp_csr_args a = {x, y, w, src, dst, rowptr, out, partial, tp_again(plan), edges, segment};
    int part = item % tiles * tp_read(plan + TP_PASSES) + pass;
    const int *lane = tp_lane_at(a.plan, part);
#define PASS(D3, V) tp_csr_pass<D3, V>(a, shared, head, lane, part, item / tiles, pass > 0)
    TP_SWITCH(lane, PASS)
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
