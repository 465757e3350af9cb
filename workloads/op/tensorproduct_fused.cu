#include "tensorproduct.cuh"

// tp_runs adds the edges [e, end) of the batch that begins at first. Edges in a row of one destination are added up
// before they leave, row -1 is none yet.
template <int D1, int D3, int V>
GP_FN void tp_runs(tp_held &h, const tp_walk &t, tp_stream &feed, const tp_lane &l, const int *lane, float *out, int out_dim,
                   int &row, int window, const float *m, int stride, int first, int end) {
#pragma unroll 1
  for (int e = first; e < end;) {
    int next = __shfl_sync(0xffffffffu, window, e - first);
    unsigned others = __ballot_sync(0xffffffffu, gp_lane() > e - first && gp_lane() < end - first && window != next);
    int to = others != 0 ? first + __builtin_ctz(others) : end;
    if (row >= 0 && next != row) tp_each<D3, V>(h, lane, op_row(out, row, out_dim), [](float *p, float sum) { atomicAdd(p, sum); });
    row = next;
    tp_edges<D1, D3, V>(h, t, feed, l, m, stride, e, to);
    m += (to - e) * stride;
    e = to;
  }
  if (end == t.stop) tp_each<D3, V>(h, lane, op_row(out, row, out_dim), [](float *p, float sum) { atomicAdd(p, sum); });
}

// One pass of a warp over the edges [first, stop); as tp_csr_pass, but what leaves is added by atomics.
GP_FN void tp_fused_pass(const float *x, const float *y, const float *w, const int *src, const int *dst, float *out, int *share,
                         const int *plan, const int *lane, int first, int stop) {
  if (share[TP_D3] == 0) return;
  float *m = (float *)(share + TP_WARP_INTS);
  tp_lane l = tp_load_lane(lane);
  tp_held h = {};
  tp_stream feed = {op_row(w, first, plan[TP_NUMEL]) + lane[4], plan[TP_NUMEL], 0};
  tp_walk t = tp_begin(x, src, plan[TP_IN], first, stop);
  int row = -1;
  tp_clear(m, share[TP_STRIDE] * share[TP_BATCH]);
#pragma unroll 1
  for (int e = first; e < stop;) {
    int end = gp_min(e + share[TP_BATCH], stop), window = __ldg(dst + gp_min(e + gp_lane(), stop - 1));
    tp_batch(t, m, plan, share, y, e, end);
#define BATCH(D1, D3, V)                                                                                               \
  {                                                                                                                    \
    if (e == first) tp_start<D1, V>(h, t, feed, l);                                                                    \
    tp_runs<D1, D3, V>(h, t, feed, l, lane, out, tp_read(plan + TP_OUT), row, window, m + l.m, share[TP_STRIDE], e, end); \
  }
    TP_SWITCH(share, BATCH)
    e = end;
  }
  __syncwarp(); // the next pass clears M
}

// One item is one tile of one chunk of edges. What a chunk adds to a row leaves by atomics.
extern "C" __global__ void __launch_bounds__(256, 2)
    tp_fused(const float *__restrict__ x, const float *__restrict__ y, const float *__restrict__ w, const int *__restrict__ src,
             const int *__restrict__ dst, float *__restrict__ out, const int *__restrict__ table,
             const float *__restrict__ constants, const int *__restrict__ plan, int edges, int chunk, int n) {
  GPUPROF_SHARED(float, shared);
  int item = (int)blockIdx.x, runs = n / plan[TP_TILES];
  if (item >= n) return;
  int first = item % runs * chunk, stop = (int)gp_min((long long)first + chunk, (long long)edges);
  int *share = (int *)(shared + gp_warp() * plan[TP_REGION]);
#pragma unroll 1
  for (int pass = 0; pass < tp_read(plan + TP_PASSES); pass++) {
    tp_share(share, plan, item / runs, pass);
    __syncwarp();
    tp_fused_pass(x, y, w, src, dst, out, share, plan, tp_lane_at(plan, item / runs, pass), first, stop);
  }
}
GPUPROF_KERNEL(tp_fused)
