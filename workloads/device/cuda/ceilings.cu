// The arithmetic ceiling without a vendor library: a float32 matrix product of
// 128 x 128 tiles, 8 x 8 sums a thread in registers, tiles of both factors in
// shared memory, read ahead of their use.
#include "include/device.cuh"

#define TILE 128
#define DEPTH 8

// Four floats that the compiler loads and stores as one, as long as nothing takes them apart one by one.
typedef float quad __attribute__((vector_size(16)));
GP_FN quad load(const float *p) { return *(const quad *)p; }
GP_FN void store(float *p, quad v) { *(quad *)p = v; }

// c = a b for square row-major matrices of side size, a multiple of 128; n tiles.
extern "C" __global__ void __launch_bounds__(256) ceiling_product(float *__restrict__ c, const float *__restrict__ a, const float *__restrict__ b, int size, int n) {
  __shared__ __attribute__((aligned(16))) float left[2][DEPTH][TILE + 4];
  __shared__ __attribute__((aligned(16))) float right[2][DEPTH][TILE + 4];
  int tile = (int)blockIdx.x;
  if (tile >= n) return;
  int across = size / TILE, t = (int)threadIdx.x;
  int row0 = tile / across * TILE, col0 = tile % across * TILE;
  int tr = t / 16 * 8, tc = t % 16 * 4;  // columns tc..tc+3 and tc+64..tc+67: no two lanes of a quarter on one bank
  int ar = t / 2, ak = t % 2 * 4;        // the four of a that this thread fetches
  int bk = t / 32, bc = t % 32 * 4;      // and of b
  const quad *fromA = (const quad *)(a + (long long)(row0 + ar) * size + ak);
  const quad *fromB = (const quad *)(b + (long long)bk * size + col0 + bc);
  quad sum[8][2];
#pragma unroll
  for (int i = 0; i < 8; i++) sum[i][0] = sum[i][1] = quad{0.0f, 0.0f, 0.0f, 0.0f};

  quad nextA = fromA[0], nextB = fromB[0];
  int at = 0;
  left[at][ak][ar] = nextA[0];
  left[at][ak + 1][ar] = nextA[1];
  left[at][ak + 2][ar] = nextA[2];
  left[at][ak + 3][ar] = nextA[3];
  store(&right[at][bk][bc], nextB);
  __syncthreads();
  for (int k0 = 0; k0 < size; k0 += DEPTH) {
    bool more = k0 + DEPTH < size;
    if (more) {
      nextA = fromA[(k0 + DEPTH) / 4];
      nextB = *(const quad *)((const float *)fromB + (long long)(k0 + DEPTH) * size);
    }
#pragma unroll
    for (int k = 0; k < DEPTH; k++) {
      quad a0 = load(&left[at][k][tr]), a1 = load(&left[at][k][tr + 4]);
      quad b0 = load(&right[at][k][tc]), b1 = load(&right[at][k][tc + 64]);
#define ROW(I, A, J)                                           \
  sum[I][0] += __builtin_shufflevector(A, A, J, J, J, J) * b0; \
  sum[I][1] += __builtin_shufflevector(A, A, J, J, J, J) * b1;
      ROW(0, a0, 0) ROW(1, a0, 1) ROW(2, a0, 2) ROW(3, a0, 3)
      ROW(4, a1, 0) ROW(5, a1, 1) ROW(6, a1, 2) ROW(7, a1, 3)
#undef ROW
    }
    if (more) {
      at ^= 1;
      left[at][ak][ar] = nextA[0];
      left[at][ak + 1][ar] = nextA[1];
      left[at][ak + 2][ar] = nextA[2];
      left[at][ak + 3][ar] = nextA[3];
      store(&right[at][bk][bc], nextB);
      __syncthreads();
    }
  }
#pragma unroll
  for (int i = 0; i < 8; i++) {
    float *to = c + (long long)(row0 + tr + i) * size + col0 + tc;
    store(to, sum[i][0]);
    store(to + 64, sum[i][1]);
  }
}
GPUPROF_KERNEL(ceiling_product)

// y = x for n groups of four floats: what a kernel reaches, where cuMemcpy takes
// another way.
extern "C" __global__ void ceiling_copy(quad *__restrict__ y, const quad *__restrict__ x, int n) {
  for (long long i = gp_thread(); i < n; i += gp_threads()) y[i] = x[i];
}
GPUPROF_KERNEL(ceiling_copy)

// Random words that are ordinary numbers read as float, bfloat16 or half: signs
// free, magnitudes from 0.5 to 2. Products and copies of zeros draw less power.
extern "C" __global__ void ceiling_random(unsigned int *to, int seed, int n) {
  for (long long i = gp_thread(); i < n; i += gp_threads()) {
    unsigned int x = ((unsigned int)i + 1u) * 2654435769u ^ (unsigned int)seed;
    x ^= x >> 16;
    x *= 2246822507u;
    x ^= x >> 13;
    x *= 3266489909u;
    x ^= x >> 16;
    to[i] = (x & 0x80ff80ffu) | 0x3f003f00u;
  }
}
GPUPROF_KERNEL(ceiling_random)

// float64 multiply-adds in registers, 8 chains a thread; the sum reaches memory
// only where it is a value that these numbers cannot give.
extern "C" __global__ void ceiling_fma64(double *sink, int steps, int n) {
  if (gp_thread() >= n) return;
  double start = (double)(gp_thread() % 1021) * 0.001;
  double x[8];
#pragma unroll
  for (int k = 0; k < 8; k++) x[k] = start + k;
  for (int i = 0; i < steps; i++) {
#pragma unroll
    for (int k = 0; k < 8; k++) x[k] = __builtin_fma(x[k], 0.999, 0.001);
  }
  double sum = 0;
#pragma unroll
  for (int k = 0; k < 8; k++) sum += x[k];
  if (sum < 0) *sink = sum;
}
GPUPROF_KERNEL(ceiling_fma64)
