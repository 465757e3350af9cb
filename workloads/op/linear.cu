#include "op.cuh"

// Linear in ir_mul: of every output block a product [rows * d, K] x [K, copies], all components of a row together. K
// passes over the input blocks of the same irrep, one after the other, in slices that lie in one block each.
//
// One item is one tile. 128 threads make 8 x 4 values each, and as many of them lie beside each other as the copies
// need (at most 16 times 4): a tile of 64 copies has 64 rows, one of 11 has 336. All loads of the next slice are on
// their way while the present one, in shared memory, is multiplied.
#define THREADS 128
#define DEEP 8
#define TALL 384 // rows of a tile at most, rounded up to 128

// The plan (see linear.go): of every slice four integers: offset in x of component 0, mul_in, offset in w, length; of
// every item two: its kind and which tile of that kind it is; of every kind twelve: where its values start in out,
// copies, first and last+1 slice, components, copies of the whole block, first copy, threads beside each other, below
// each other, shape, coefficient as bits, whether weights are read by fours.

// linear_shape is what the compiler knows of a tile, so that places in shared memory are operands: features that a
// thread reads of a slice, values of a slice at most, threads beside each other at most.
template <int EACH, int LENGTH, int BESIDE>
struct linear_shape {
  enum {
    each = EACH,
    length = LENGTH,
    step = THREADS / LENGTH, // rows between two features of a thread
    pitch = EACH * step + 4, // an odd multiple of 4: 8 threads that store a row's values meet in no bank
    wide = BESIDE * 4,
    together = EACH < 32 ? 4 : 2, // values along K in one go: four would be too many operands beside 32 features
    fours = (LENGTH * BESIDE + THREADS - 1) / THREADS, // weights that a thread reads of a slice, in fours
  };
};

// linear_tile is where a tile is: its first row, its weights from its first copy on and its slices. In shared memory are two
// integers for each row, where it starts in x and its component, where its values of a source start, and the slice.
struct linear_tile {
  const float *x, *w;
  const int4 *slices;
  int first, last, beside, deep, copies, stride;
  bool fours;
  const int2 *places;
  int *offsets;
  float *slice;
};

// linear_turn makes the offsets of rows in a source with so many copies.
GP_FN void linear_turn(const linear_tile &t, int copies) {
#pragma unroll
  for (int i = 0; i < TALL / THREADS; i++) {
    int m = (int)threadIdx.x + i * THREADS;
    t.offsets[m] = t.places[m].x + t.places[m].y * copies;
  }
}

// linear_value adds what one value along K gives: two times four rows, the second half rows on, and four copies.
GP_FN void linear_value(float (&sum)[DEEP][4], const float *a, int half, const float *b) {
  float4 a0 = *(const float4 *)a, a1 = *(const float4 *)(a + half), b0 = *(const float4 *)b;
  float m[DEEP] = {a0.x, a0.y, a0.z, a0.w, a1.x, a1.y, a1.z, a1.w}, n[4] = {b0.x, b0.y, b0.z, b0.w};
#pragma unroll
  for (int i = 0; i < DEEP; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) sum[i][j] = gp_fma(m[i], n[j], sum[i][j]);
}

// linear_sums multiplies the slices of a tile.
template <typename S>
GP_FN void linear_sums(float (&sum)[DEEP][4], const linear_tile &t) {
  int tid = (int)threadIdx.x, kx = tid % S::length;
  const int *offsets = t.offsets + tid / S::length;
  float *to = t.slice + kx * S::pitch + tid / S::length, *ws = t.slice + S::length * S::pitch;
  int row[S::fours], copy[S::fours];
#pragma unroll
  for (int j = 0; j < S::fours; j++) {
    int four = gp_min(tid + j * THREADS, S::length * t.beside - 1);
    row[j] = four / t.beside;
    copy[j] = four % t.beside * 4;
  }
  if (t.first == t.last) return;
  int4 next = t.slices[t.first];
  linear_turn(t, next.y);
  __syncthreads();
  int length = 0;
#pragma unroll 1
  for (int s = t.first;; s++) {
    float u[S::each];
    float4 v[S::fours];
    int4 slice = next;
    // A shorter slice repeats its last value: nobody reads the copies.
    if (s < t.last) {
      const float *x = t.x + slice.x + gp_min(kx, slice.w - 1);
#pragma unroll
      for (int i = 0; i < S::each; i++) u[i] = __ldg(x + offsets[i * S::step]);
#pragma unroll
      for (int j = 0; j < S::fours; j++) {
        const float *w = t.w + slice.z + gp_min(row[j], slice.w - 1) * t.stride + copy[j];
        if (t.fours) {
          v[j] = __ldg((const float4 *)w);
        } else {
          v[j].x = __ldg(w);
          v[j].y = copy[j] + 1 < t.copies ? __ldg(w + 1) : 0.0f;
          v[j].z = copy[j] + 2 < t.copies ? __ldg(w + 2) : 0.0f;
          v[j].w = copy[j] + 3 < t.copies ? __ldg(w + 3) : 0.0f;
        }
      }
      next = t.slices[gp_min(s + 1, t.last - 1)];
    }
    if (tid < t.deep * t.beside) {
      const float *a = t.slice + tid / t.beside * 4, *b = ws + tid % t.beside * 4;
      for (; length >= S::together; length -= S::together, a += S::together * S::pitch, b += S::together * S::wide) {
#pragma unroll
        for (int k = 0; k < S::together; k++) linear_value(sum, a + k * S::pitch, t.deep * 4, b + k * S::wide);
      }
      for (; length > 0; length--, a += S::pitch, b += S::wide) linear_value(sum, a, t.deep * 4, b);
    }
    if (s == t.last) return;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < S::each; i++) to[i * S::step] = u[i];
#pragma unroll
    for (int j = 0; j < S::fours; j++) *(float4 *)(ws + row[j] * S::wide + copy[j]) = v[j];
    if (next.y != slice.y) linear_turn(t, next.y);
    length = slice.w;
    __syncthreads();
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 4)
    linear(const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ out, const int *__restrict__ table,
           const float *__restrict__ coefficients, const int *__restrict__ plan, int rows, int in_dim, int out_dim, int pairs,
           int add, int slices, int n) {
  GPUPROF_SHARED(float, shared);
  int item = (int)blockIdx.x, tid = (int)threadIdx.x;
  if (item >= n) return;
  const int *tiles = plan + 4 * slices, *kind = tiles + 2 * n + tiles[2 * item] * 12;
  int o_at = kind[0], copies = kind[1], first = kind[2], last = kind[3], d = kind[4], block = kind[5], beside = kind[7], deep = kind[8];
  int total = rows * d, m0 = tiles[2 * item + 1] * deep * DEEP, r0 = m0 / d;
  int2 *places = (int2 *)shared;
  int *lines = (int *)(places + TALL), *offsets = lines + TALL; // lines: where rows start in out, -1 where there is none
  for (int m = tid; m < TALL; m += THREADS) {
    int at = gp_min(m0 + m, total - 1), r = at / d - r0, i = at % d;
    places[m] = {r * in_dim, i};
    lines[m] = m0 + m < total ? r * out_dim + i * block : -1;
  }
  __syncthreads();
  float sum[DEEP][4] = {};
  bool fours = kind[11] != 0 && op_aligned(w);
  linear_tile t = {op_row(x, r0, in_dim), w + kind[6], (const int4 *)plan, first, last, beside, deep, copies, block, fours, places,
                   offsets, (float *)(offsets + TALL)};
  switch (kind[9]) { // see linearShapes
  case 0:
    linear_sums<linear_shape<9, 16, 16>>(sum, t);
    break;
  case 1:
    linear_sums<linear_shape<16, 16, 12>>(sum, t);
    break;
  case 2:
    linear_sums<linear_shape<25, 16, 7>>(sum, t);
    break;
  case 3:
    linear_sums<linear_shape<32, 16, 4>>(sum, t);
    break;
  default:
    linear_sums<linear_shape<21, 8, 3>>(sum, t);
  }
  int tx = tid % beside, ty = tid / beside, left = copies - tx * 4;
  if (ty >= deep) return;
  float factor = __int_as_float(kind[10]);
  float *to = op_row(out, r0, out_dim) + o_at + tx * 4;
#pragma unroll
  for (int i = 0; i < DEEP; i++) {
    int m = ty * 4 + (i & 3) + (i >> 2) * deep * 4;
    if (lines[m] < 0) break;
    float *o = to + lines[m];
    float v[4] = {factor * sum[i][0], factor * sum[i][1], factor * sum[i][2], factor * sum[i][3]};
    if (left >= 4 && op_aligned(o) && !add) {
      *(float4 *)o = {v[0], v[1], v[2], v[3]};
      continue;
    }
#pragma unroll
    for (int j = 0; j < 4; j++)
      if (j < left) o[j] = add ? o[j] + v[j] : v[j];
  }
}
GPUPROF_KERNEL(linear)
