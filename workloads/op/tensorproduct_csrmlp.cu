#include "tensorproduct.cuh"

#define TP_MLP_BATCH 8

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

// What tp_csr_mlp makes weights from.
struct tp_mlp {
  const float *h, *w2;
  int hidden;
  float scale;
};

// One pass of a tile over its edges: the block reads the hidden layer of a few edges, then every warp makes its weights
// of them and adds them as tp_csr does.
GP_FN void tp_mlp_pass(const float *x, const float *y, const tp_mlp &mlp, const int *src, const tp_graph &g, tp_rows rows,
                       float *rows_of_h, int *share, const int *plan, const int *lane, bool add) {
  int tid = (int)threadIdx.x;
  float *m = (float *)(share + TP_WARP_INTS), *weights = rows_of_h + TP_MLP_BATCH * mlp.hidden + tid;
  tp_lane l = tp_load_lane(lane);
  tp_held h = {};
  tp_walk t = tp_begin(x, src, plan[TP_IN], rows.first, rows.stop);
  tp_clear(m, share[TP_STRIDE] * share[TP_BATCH]);
#pragma unroll 1
  for (int e = rows.first, first = e; e < rows.stop;) {
    int begin = e, stop = gp_min(e + TP_MLP_BATCH, rows.stop);
    __syncthreads(); // the weights before are used
#pragma unroll 1
    for (int i = tid; i < TP_MLP_BATCH * mlp.hidden; i += (int)blockDim.x) {
      int b = i / mlp.hidden, k = i % mlp.hidden;
      rows_of_h[k * TP_MLP_BATCH + b] = b < stop - e ? __ldg(op_row(mlp.h, e, mlp.hidden) + i) : 0.0f;
    }
    __syncthreads();
    const float *w2 = mlp.w2 + tp_read(lane + 4);
    int numel = plan[TP_NUMEL];
    float factor = mlp.scale * l.factor;
    if (l.d1 > 0) switch (share[TP_EACH]) {
      case 1: tp_make_weights<1>(weights, l, rows_of_h, w2, mlp.hidden, numel, factor); break;
      case 2: tp_make_weights<2>(weights, l, rows_of_h, w2, mlp.hidden, numel, factor); break;
      case 3: tp_make_weights<3>(weights, l, rows_of_h, w2, mlp.hidden, numel, factor); break;
      case 4: tp_make_weights<4>(weights, l, rows_of_h, w2, mlp.hidden, numel, factor); break;
      }
    tp_local feed = {weights, begin};
#pragma unroll 1
    while (e < stop) {
      int end = share[TP_D3] > 0 ? gp_min(e + share[TP_BATCH], stop) : stop;
      tp_batch(t, m, plan, share, y, e, end);
#define BATCH(D1, D3, V)                                                                                      \
  {                                                                                                           \
    if (e == first) tp_start<D1, V>(h, t, feed, l);                                                           \
    tp_rows_of<D1, D3, V>(h, t, feed, l, g, rows, plan, lane, m + l.m, share[TP_STRIDE], e, end, add);        \
  }
      TP_SWITCH(share, BATCH)
      e = end;
    }
  }
  __syncthreads(); // the next pass clears M and makes its own weights
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
  int item = (int)blockIdx.x, runs = n / plan[TP_TILES], region = plan[TP_REGION];
  if (item >= n) return;
  tp_rows rows = tp_item(item % runs, dst, rowptr, out, partial, edges, segment, plan[TP_OUT]);
  if (rows.first >= rows.stop) return;
  int *share = (int *)(shared + gp_warp() * region);
  float *rows_of_h = shared + ((int)blockDim.x >> 5) * region;
#pragma unroll 1
  for (int pass = 0; pass < tp_read(plan + TP_PASSES); pass++) {
    tp_share(share, plan, item / runs, pass);
    __syncwarp();
    tp_mlp_pass(x, y, {h, w2, hidden, w_scale}, src, {dst, rowptr, out, segment}, rows, rows_of_h, share, plan,
                tp_lane_at(plan, item / runs, pass), pass > 0);
  }
}
GPUPROF_KERNEL(tp_csr_mlp)
