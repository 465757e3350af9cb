#include "tensorproduct.cuh"

// What tp_fused gets.
struct tp_fused_args {
  const float *x, *y, *w;
  const int *src, *dst;
  float *out;
  const int *plan;
};

// One pass of a tile over the edges [first, stop); as tp_csr_pass, but every edge's product leaves at once.
template <int D3, int V>
GP_FN void tp_fused_pass(const tp_fused_args &a, float *shared, int *head, const int *lane, int part, int first, int stop) {
  int stride = a.plan[TP_STRIDE], size = a.plan[TP_BATCH] * stride, in_dim = a.plan[TP_IN];
  tp_head(head, a.plan, part);
  tp_lane l = tp_load_lane(lane);
  float xn[V];
  tp_stream<V> feed;
  tp_start<V>(feed, xn, l, a.w + lane[4], a.src, a.x, in_dim, first, stop, a.plan[TP_NUMEL]);
  tp_clear(shared, 2 * size);
  // The first round has a batch to build and none to add.
  int e = first, even = 0;
#pragma unroll 1
  for (int end = e; e < stop; even ^= 1) {
    __syncthreads();
    int next = gp_min(end + head[TP_BATCH], stop);
    if (end < stop) tp_build(shared + even * size, a.plan, head, a.y, end, next);
    const float *m = shared + (even ^ 1) * size + l.m;
#pragma unroll 1
    for (; e < end; e++, m += stride) {
      if (l.d1 == 0) continue;
      float acc[D3][V];
      tp_zero(acc);
      tp_edges<D3, V>(acc, l, feed, xn, a.x, in_dim, m, stride, e, e + 1, stop);
      tp_each(acc, lane, op_row(a.out, __ldg(a.dst + e), head[TP_OUT]), [](float *p, float sum) { atomicAdd(p, sum); });
    }
    end = next;
  }
  __syncthreads(); // the next pass clears M
}

// One item is one tile of one chunk of edges; every edge's product is added to its row by atomics.
extern "C" __global__ void __launch_bounds__(256, 2)
    tp_fused(const float *__restrict__ x, const float *__restrict__ y, const float *__restrict__ w, const int *__restrict__ src,
             const int *__restrict__ dst, float *__restrict__ out, const int *__restrict__ table,
             const float *__restrict__ constants, const int *__restrict__ plan, int edges, int chunk, int n) {
  GPUPROF_SHARED(float, shared);
  __shared__ int head[TP_HEAD];
  int item = (int)blockIdx.x, tiles = plan[TP_TILES];
  if (item >= n) return;
  int first = item / tiles * chunk, stop = (int)gp_min((long long)first + chunk, (long long)edges);
#pragma unroll 1
  for (int pass = 0; pass < tp_read(plan + TP_PASSES); pass++) {
    tp_fused_args a = {x, y, w, src, dst, out, tp_again(plan)};
    int part = item % tiles * tp_read(plan + TP_PASSES) + pass;
    const int *lane = tp_lane_at(a.plan, part);
#define PASS(D3, V) tp_fused_pass<D3, V>(a, shared, head, lane, part, first, stop)
    TP_SWITCH(lane, PASS)
  }
}
GPUPROF_KERNEL(tp_fused)
