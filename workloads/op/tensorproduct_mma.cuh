// csr with the second layer of the radial MLP inside, on the tensor cores: w = scale * h w2, h [edges,hidden],
// w2 [hidden,weights]. The parts are those of package tpgen (mma.go), each with all its paths for 32 channels.
//
// A block has one part, and its columns of w2 in shared memory for as long as it runs. Each of its warps has one segment
// of edges. For 16 edges at a time a warp multiplies their rows of h, in fragments that each lane keeps for itself, by
// those columns; it leaves the weights in shared memory, a row an edge, and adds the edges as tpg_walk does. So the sums
// have the order of tp_csr's, and which edges a segment has is tensorproduct_csr.go's rule.
//
// Blocks go through all parts before they go on to the next edges, whose h is then in the second-level cache: a
// multiprocessor has one block, so that the code of one part fills its instruction cache.
//
// The plan is made by tensorproduct_mma.go; the numbers here and there have to agree.
#pragma once
#include "tensorproduct_gen.cuh"
#include "../../workloads/device/cuda/include/device_mma.cuh"

// A part's integers in the plan, TPM_WARP_INTS of them, and a lane's: where its channel is in a row of x, then its columns
// of w2 (-1: none) and its places in a row of the output (-1: none), one for each path and TPM_PATHS of both.
enum { TPM_NUMBER, TPM_PARTS_PATHS, TPM_PAIRS, TPM_UNION, TPM_WARP_INTS };
enum { TPM_X, TPM_COLUMNS };
#define TPM_PATHS TP_PASSES // these places of the header have another meaning than tp_csr's
#define TPM_SCALE TP_CELLS
#define TPM_BATCH 16

GP_FN int tpm_lane() { return (int)threadIdx.x & 31; }

// What a block multiplies by what. w2 lies there as fragments: for every step of 8 values of h and every pair of 8
// columns, four values a lane. Pairs are those of the part's active lanes, two or one a path; a row of weights has 32 for
// each path.
struct tpm_layer {
  const float *h, *w2;
  int hidden, steps, pairs, each; // pairs in all and of a path
  float scale;
  bool split;
};

GP_FN void tpm_columns(float4 *to, const tpm_layer &l, const int *plan, const int *lanes) {
  const int numel = plan[TP_NUMEL], ints = TPM_COLUMNS + 2 * plan[TPM_PATHS];
#pragma unroll 1
  for (int i = (int)threadIdx.x; i < l.steps * l.pairs * 32; i += (int)blockDim.x) {
    int pair = (i >> 5) % l.pairs, k = (i >> 5) / l.pairs * 8 + (i & 3) * 2;
    int path = pair / l.each, column = pair % l.each * 16 + ((i >> 2) & 7);
    float v[4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
      int c = lanes[(column + j / 2 * 8) * ints + TPM_COLUMNS + path], row = k + j % 2;
      v[j] = c >= 0 && row < l.hidden ? __ldg(l.w2 + ((long long)row * numel + c)) : 0.0f;
      if (!l.split) v[j] = gp_round_tf32(v[j]);
    }
    to[i] = {v[0], v[1], v[2], v[3]};
  }
}

// tpm_rows leaves the lane's fragments of h for the edges [e, end) in its own places; the last edge stands for those after
// it, whose weights nobody reads. Position t of a step is value 2t, and t + 4 is 2t + 1, as in tpm_columns, so that both
// are read at once.
GP_FN void tpm_rows(float4 *own, const tpm_layer &l, int e, int end) {
  const int row = tpm_lane() / 4, t = tpm_lane() % 4 * 2;
  const float *upper = op_row(l.h, gp_min(e + row, end - 1), l.hidden) + t, *lower = op_row(l.h, gp_min(e + row + 8, end - 1), l.hidden) + t;
#pragma unroll 4
  for (int s = 0; s < l.steps; s++, upper += 8, lower += 8) {
    float2 u = {}, v = {};
    if (8 * s + t < l.hidden) u = __ldg((const float2 *)upper), v = __ldg((const float2 *)lower);
    own[32 * s] = {u.x, v.x, u.y, v.y};
  }
}

// tpm_split is v as the sum of two TF32 numbers: its first 11 bits and what follows them. What is left is below 2^-20 of v.
GP_FN void tpm_split(float v, float *high, float *low) {
  *high = __uint_as_float(__float_as_uint(v) & 0xffffe000u);
  *low = __uint_as_float(__float_as_uint(v - *high) & 0xffffe000u);
}

// tpm_step adds one step of 8 values of h to the sums of N pairs of 8 columns. With SPLIT each product is three: low by
// high, high by low, high by high; low by low is below 2^-20 of it.
template <bool SPLIT, int N>
GP_FN void tpm_step(float (*d)[8], const float4 *own, const float4 *b) {
  float4 f = *own;
  float a[4] = {f.x, f.y, f.z, f.w}, low[4];
#pragma unroll
  for (int i = 0; i < 4; i++)
    if (SPLIT)
      tpm_split(a[i], a + i, low + i);
    else
      a[i] = gp_round_tf32(a[i]);
#pragma unroll
  for (int p = 0; p < N; p++) {
    float4 c = b[32 * p];
    float right[4] = {c.x, c.y, c.z, c.w}, rest[4];
    if (SPLIT) {
#pragma unroll
      for (int i = 0; i < 4; i++) tpm_split(right[i], right + i, rest + i);
      gp_mma_tf32(d[p], low, right);
      gp_mma_tf32(d[p] + 4, low, right + 2);
      gp_mma_tf32(d[p], a, rest);
      gp_mma_tf32(d[p] + 4, a, rest + 2);
    }
    gp_mma_tf32(d[p], a, right);
    gp_mma_tf32(d[p] + 4, a, right + 2);
  }
}

// tpm_group makes the weights of 16 edges for N pairs of 8 columns, from `pair` on, whose sums are in registers at once. Of
// four, the second of two steps can be read while the first is computed.
template <bool SPLIT, int N>
GP_FN void tpm_group(float *at, int width, const float4 *own, const float4 *w2, const tpm_layer &l, int pair) {
  float d[N][8] = {};
  const float4 *b = w2 + pair * 32;
  const int step = l.pairs * 32;
  int s = 0;
#pragma unroll 1
  for (; N == 4 && s + 1 < l.steps; s += 2, b += 2 * step) {
    tpm_step<SPLIT, N>(d, own + 32 * s, b);
    tpm_step<SPLIT, N>(d, own + 32 * s + 32, b + step);
  }
#pragma unroll 1
  for (; s < l.steps; s++, b += step) tpm_step<SPLIT, N>(d, own + 32 * s, b);
  float *to = at + pair * (32 / l.each);
#pragma unroll
  for (int p = 0; p < N; p++, to += 32 / l.each)
#pragma unroll
    for (int i = 0; i < 8; i += 2) // rows g and g + 8 of the first 8 columns, then of the others
      *(float2 *)(to + i / 2 % 2 * 8 * width + i / 4 * 8) = {l.scale * d[p][i], l.scale * d[p][i + 1]};
}

// tpm_weights makes all weights of 16 edges, a row of `width` floats each.
template <bool SPLIT>
GP_FN void tpm_weights(float *rows, int width, const float4 *own, const float4 *w2, const tpm_layer &l) {
  float *at = rows + tpm_lane() / 4 * width + tpm_lane() % 4 * 2;
  w2 += tpm_lane();
  int pair = 0;
#pragma unroll 1
  for (; pair + 4 <= l.pairs; pair += 4) tpm_group<SPLIT, 4>(at, width, own, w2, l, pair);
  if (l.pairs & 2) tpm_group<SPLIT, 2>(at, width, own, w2, l, pair), pair += 2;
  if (l.pairs & 1) tpm_group<SPLIT, 1>(at, width, own, w2, l, pair);
}

// What a lane holds from one batch to the next.
template <int SUMS, int D1>
struct tpm_held {
  float a[SUMS], x[D1];
};

// tpm_add adds the edges [e, end) of a batch with part P; x of the first is there but for the first edge of all. M takes
// the place of the fragments of h.
template <typename P>
GP_FN void tpm_add(float *a, float *x, const tpg_args &g, tpg_head *h, float *m, const float *weights, int e, int end, int stop, bool begins) {
  float w[P::PATHS];
  const int *lane = g.plan + h->lanes + tpm_lane() * h->lane_ints;
  const int in_dim = g.plan[TP_IN], width = 32 * P::PATHS + 8;
  const unsigned at = (unsigned)lane[TPM_X];
  if (begins) P::first(x, w, g.x + ((unsigned long long)(unsigned)__ldg(g.src + e) * (unsigned)in_dim + at), weights);
  if (tpm_lane() < end - e) P::build(m + tpm_lane() * P::STRIDE, op_row(g.y, e + tpm_lane(), P::SH), __int_as_float(tp_read(g.plan + TPM_SCALE)));
  __syncwarp();
  const float *cells = m, *wp = weights + tpm_lane();
#pragma unroll 1
  while (e < end) {
    const int to = gp_min(h->cut, end);
#pragma unroll 1
    for (; e < to; e++, cells += P::STRIDE, wp += width) {
      const unsigned source = (unsigned)(e + 1 < stop ? __ldg(g.src + e + 1) : 0);
      P::edge(a, x, w, cells, wp, g.x + ((unsigned long long)source * (unsigned)in_dim + at), wp, in_dim);
    }
    if (e < h->cut) break;
    int places[P::PATHS]; // all at once; see tpg_walk
    const int *first = lane + (TPM_COLUMNS + h->lane_ints) / 2; // behind the columns of every path
#pragma unroll
    for (int i = 0; i < P::PATHS; i++) places[i] = tp_read(first + i);
    P::out(a, tpg_next(h, g, stop, tpm_lane()), places);
  }
}

// The kernel of a family. One item is one part of as many segments as a block has warps. Shared memory: the fragments of
// w2, then for each warp its head, the weights of a batch and, one after the other in the same place, h and M.
#define TPM_CASE(N) case N: tpm_add<tpg_part##N>(held.a, held.x, g, head, m, weights, e, end, rows.stop, e == rows.first); break;
#define TPM_KERNEL(NAME, SUMS, D1, CASES)                                                                                 \
  extern "C" __global__ void __launch_bounds__(256, 1)                                                                    \
      NAME(const float *__restrict__ x, const float *__restrict__ y, const float *__restrict__ h,                         \
           const float *__restrict__ w2, const int *__restrict__ src, const int *__restrict__ dst,                        \
           const int *__restrict__ rowptr, float *__restrict__ out, float *__restrict__ partial,                          \
           const int *__restrict__ table, const float *__restrict__ constants, const int *__restrict__ plan, int edges,   \
           int segment, int hidden, float scale, int split, int n) {                                                      \
    GPUPROF_SHARED(float, shared);                                                                                        \
    (void)table, (void)constants;                                                                                         \
    int item = (int)blockIdx.x, tiles = plan[TP_TILES], tile = item % tiles;                                              \
    if (item >= n) return;                                                                                                \
    const int *part = plan + plan[TP_WARPS] + tile * TPM_WARP_INTS;                                                       \
    int lanes = plan[TP_LANES] + tile * 32 * (TPM_COLUMNS + 2 * plan[TPM_PATHS]), each = part[TPM_PAIRS];                 \
    const int number = part[TPM_NUMBER], width = 32 * part[TPM_PARTS_PATHS] + 8;                                          \
    tpm_layer l = {h, w2, hidden, (hidden + 7) / 8, part[TPM_PARTS_PATHS] * each, each, scale, split != 0};               \
    tpm_columns((float4 *)shared, l, plan, plan + lanes);                                                                 \
    __syncthreads();                                                                                                      \
    int warp = (int)threadIdx.x >> 5, c = item / tiles * ((int)blockDim.x >> 5) + warp;                                   \
    if ((long long)c * segment >= edges) return;                                                                          \
    tp_rows rows = tp_item(c, dst, rowptr, out, partial, edges, segment, plan[TP_OUT]);                                   \
    if (rows.first >= rows.stop) return;                                                                                  \
    tpg_args g = {x, y, nullptr, src, dst, rowptr, out, plan, segment};                                                   \
    tpg_head *head = (tpg_head *)(shared + l.steps * l.pairs * 128 + warp * (8 + TPM_BATCH * width + part[TPM_UNION]));   \
    float *weights = (float *)(head + 1), *m = weights + TPM_BATCH * width;                                               \
    if (tpm_lane() == 0) *head = {rows.row, rows.cut, lanes, TPM_COLUMNS + 2 * plan[TPM_PATHS], plan[TP_OUT], {}};       \
    tpm_held<SUMS, D1> held = {};                                                                                         \
    _Pragma("unroll 1") for (int e = rows.first; e < rows.stop; e += TPM_BATCH) {                                         \
      const int end = gp_min(e + TPM_BATCH, rows.stop);                                                                   \
      __syncwarp(); /* all lanes have added the batch before */                                                           \
      float4 *own = (float4 *)m + tpm_lane();                                                                             \
      tpm_rows(own, l, e, end);                                                                                           \
      if (l.split)                                                                                                        \
        tpm_weights<true>(weights, width, own, (const float4 *)shared, l);                                                \
      else                                                                                                                \
        tpm_weights<false>(weights, width, own, (const float4 *)shared, l);                                               \
      __syncwarp(); /* the weights are there, and nobody needs h */                                                       \
      switch (number) {                                                                                                   \
        CASES                                                                                                             \
      }                                                                                                                   \
    }                                                                                                                     \
  }
