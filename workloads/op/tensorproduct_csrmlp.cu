#include "tensorproduct.cuh"

#define TP_MLP_BATCH 8

// What tp_csr_mlp gets.
struct tp_mlp_args {
  const float *x, *y, *h, *w2;
  const int *src, *dst, *rowptr;
  float *out, *partial;
  const int *plan;
  int edges, segment, hidden;
  float w_scale;
};

// tp_make_weights multiplies the rows of h, in shared memory as [hidden, edge], by the columns of w2 that are the
// lane's copies'.
template <int V>
GP_FN void tp_make_weights(float *weights, const tp_lane &l, const float *rows, const float *w2, int hidden, int numel,
                           float factor) {
  float sum[TP_MLP_BATCH][V], wk[V];
#pragma unroll
  for (int b = 0; b < TP_MLP_BATCH; b++)
#pragma unroll
    for (int v = 0; v < V; v++) sum[b][v] = 0;
#pragma unroll 2
  for (int k = 0; k < hidden; k++, w2 += numel) {
    float4 lo = *(const float4 *)(rows + k * TP_MLP_BATCH), hi = *(const float4 *)(rows + k * TP_MLP_BATCH + 4);
    float hk[TP_MLP_BATCH] = {lo.x, lo.y, lo.z, lo.w, hi.x, hi.y, hi.z, hi.w};
    tp_copies<V>(wk, w2, l.wv);
#pragma unroll
    for (int b = 0; b < TP_MLP_BATCH; b++)
#pragma unroll
      for (int v = 0; v < V; v++) sum[b][v] = gp_fma(hk[b], wk[v], sum[b][v]);
  }
#pragma unroll
  for (int b = 0; b < TP_MLP_BATCH; b++)
#pragma unroll
    for (int v = 0; v < V; v++) weights[(b * TP_COPIES + v) * (int)blockDim.x] = factor * sum[b][v];
}

// One pass of a tile over its edges.
template <int D3, int V>
GP_FN void tp_mlp_pass(const tp_mlp_args &a, float *shared, int *head, const int *lane, int part, int item, bool add) {
  int stride = a.plan[TP_STRIDE], in_dim = a.plan[TP_IN], tid = (int)threadIdx.x;
  float *rows_of_h = shared + TP_MLP_BATCH * stride, *weights = rows_of_h + TP_MLP_BATCH * a.hidden + tid;
  tp_rows rows = tp_item(item, a.dst, a.rowptr, a.out, a.partial, a.edges, a.segment, a.plan[TP_OUT]);
  if (rows.first >= rows.stop) return; // the whole block
  tp_head(head, a.plan, part);
  tp_lane l = tp_load_lane(lane);
  float acc[D3][V], xn[V] = {};
  tp_zero(acc);
  if (l.d1 > 0) tp_copies<V>(xn, op_row(a.x, a.src[rows.first], in_dim) + l.x, l.xv);
  tp_clear(shared, TP_MLP_BATCH * stride);
#pragma unroll 1
  for (int e = rows.first; e < rows.stop;) {
    int first = e, end = gp_min(e + TP_MLP_BATCH, rows.stop);
    __syncthreads();
    tp_build(shared, a.plan, head, a.y, e, end);
#pragma unroll 1
    for (int i = tid; i < TP_MLP_BATCH * a.hidden; i += (int)blockDim.x) {
      int b = i / a.hidden, k = i % a.hidden;
      rows_of_h[k * TP_MLP_BATCH + b] = b < end - e ? __ldg(op_row(a.h, e, a.hidden) + i) : 0.0f;
    }
    __syncthreads();
    if (l.d1 > 0)
      tp_make_weights<V>(weights, l, rows_of_h, a.w2 + tp_read(lane + 4), a.hidden, head[TP_NUMEL], a.w_scale * l.factor);
    tp_local feed = {weights, a.src, first};
    const float *m = shared + l.m;
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
  }
  __syncthreads(); // the next pass clears M
}

// tp_csr with the weights made on the way: w = scale * h w2, h [edges,hidden], w2 [hidden,weights]. They stay in the
// lane's own corner of shared memory and never reach the device's.
extern "C" __global__ void __launch_bounds__(128, 3)
    tp_csr_mlp(const float *__restrict__ x, const float *__restrict__ y, const float *__restrict__ h,
               const float *__restrict__ w2, const int *__restrict__ src, const int *__restrict__ dst,
               const int *__restrict__ rowptr, float *__restrict__ out, float *__restrict__ partial,
               const int *__restrict__ table, const float *__restrict__ constants, const int *__restrict__ plan,
               const float *__restrict__ work, int edges, int segment, int hidden, float w_scale, int n) {
  GPUPROF_SHARED(float, shared);
  __shared__ int head[TP_HEAD];
  int item = (int)blockIdx.x, tiles = plan[TP_TILES], passes = plan[TP_PASSES];
  if (item >= n) return;
#pragma unroll 1
  for (int pass = 0; pass < passes; pass++) {
    tp_mlp_args a = {x, y, h, w2, src, dst, rowptr, out, partial, tp_again(plan), edges, segment, hidden, w_scale};
    int part = item % tiles * passes + pass;
    const int *lane = tp_lane_at(a.plan, part);
#define PASS(D3, V) tp_mlp_pass<D3, V>(a, shared, head, lane, part, item / tiles, pass > 0)
    TP_SWITCH(lane, PASS)
  }
}
GPUPROF_KERNEL(tp_csr_mlp)
