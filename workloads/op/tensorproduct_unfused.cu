#include "op.cuh"

// The launches of the unfused product; one item is one edge.

extern "C" __global__ void tp_gather(const float *__restrict__ x, const int *__restrict__ src, float *__restrict__ out,
                                     int count, int dim, int n) {
  op_team t = op_teams(dim);
  int e = (int)blockIdx.x * t.count + t.index;
  if (e >= n) return;
  const float *from = op_row(x, src[e], dim);
  float *to = op_row(out, e, dim);
  if ((dim & 3) == 0 && op_aligned(x) && op_aligned(out)) {
    for (int i = t.rank * 4; i < dim; i += t.size * 4) *(float4 *)(to + i) = __ldg((const float4 *)(from + i));
    return;
  }
  for (int i = t.rank; i < dim; i += t.size) to[i] = __ldg(from + i);
}
GPUPROF_KERNEL(tp_gather)

// EDGES edges a block, so that a narrow product still fills it.
#define EDGES 4
#define TP_CONTRACT_FLOATS 8192 // SharedBytes of its launch

extern "C" __global__ void tp_outer(const float *__restrict__ x, const float *__restrict__ y, float *__restrict__ out, int count,
                                    int in_dim, int sh_dim, int x_at, int y_at, int m1, int m2, int d1, int d2, int xu,
                                    int xi, int yv, int yj, int same, int n) {
  int first = (int)blockIdx.x * EDGES, width = (same ? m1 : m1 * m2) * d1 * d2;
  int total = gp_min(EDGES, n - first) * width;
  float *o = op_row(out, first, width);
  for (int q = (int)threadIdx.x; q < total; q += (int)blockDim.x) {
    int e = q / width, rest = q % width;
    int j = rest % d2, i = rest / d2 % d1, pair = rest / (d1 * d2);
    int u = same ? pair : pair / m2, v = same ? pair : pair % m2;
    o[q] = __ldg(op_row(x, first + e, in_dim) + x_at + u * xu + i * xi) * __ldg(op_row(y, first + e, sh_dim) + y_at + v * yv + j * yj);
  }
}
GPUPROF_KERNEL(tp_outer)

// The pairs of EDGES edges follow each other. A block stages as many of their outer products as its shared memory
// holds, so that memory is read in order; a thread then adds the terms of one pair.
extern "C" __global__ void tp_contract(const float *__restrict__ outer, float *__restrict__ out, const int *__restrict__ terms,
                                       const float *__restrict__ values, int count, int pairs, int d12, int d3, int first,
                                       int number, int n) {
  GPUPROF_SHARED(float, shared);
  int edges = gp_min(EDGES, n - (int)blockIdx.x * EDGES), total = edges * pairs;
  int chunk = gp_min((int)blockDim.x, TP_CONTRACT_FLOATS / (d12 + d3));
  const float *from = outer + (long long)blockIdx.x * EDGES * pairs * d12;
  float *to = out + (long long)blockIdx.x * EDGES * pairs * d3;
  float *o = shared, *z = shared + chunk * d12;
  for (int p0 = 0; p0 < total; p0 += chunk) {
    int here = gp_min(chunk, total - p0);
    for (int i = (int)threadIdx.x; i < here * d12; i += (int)blockDim.x) o[i] = __ldg(from + (long long)p0 * d12 + i);
    __syncthreads();
    if ((int)threadIdx.x < here) {
      float *zp = z + (int)threadIdx.x * d3;
      const float *op = o + (int)threadIdx.x * d12;
      for (int k = 0; k < d3; k++) zp[k] = 0;
      for (int t = first; t < first + number; t++) zp[terms[2 * t + 1]] += values[t] * op[terms[2 * t]];
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < here * d3; i += (int)blockDim.x) to[(long long)p0 * d3 + i] = z[i];
    __syncthreads();
  }
}
GPUPROF_KERNEL(tp_contract)

enum { MODE_UVW, MODE_UVU, MODE_UVV, MODE_UUW, MODE_UUU };

// A thread writes one value of the output and adds the pairs that feed it in order.
extern "C" __global__ void tp_weight(const float *__restrict__ z, const float *__restrict__ w, float *__restrict__ mid,
                                     int count, int numel, int w_at, int out_dim, int o_at, int m1, int m2, int mo, int d3,
                                     int mode, int ou, int ok, int add, int n) {
  bool same = mode == MODE_UUW || mode == MODE_UUU;
  int first = (int)blockIdx.x * EDGES, size = mo * d3, total = gp_min(EDGES, n - first) * size;
  int width = (same ? m1 : m1 * m2) * d3;
  for (int q = (int)threadIdx.x; q < total; q += (int)blockDim.x) {
    int e = q / size, rest = q % size;
    // Neighbouring threads write neighbouring values in either layout.
    int o = ou == 1 ? rest % mo : rest / d3, k = ou == 1 ? rest / mo : rest % d3;
    const float *ze = op_row(z, first + e, width) + k, *we = w_at < 0 ? nullptr : op_row(w, first + e, numel) + w_at;
    float *out = op_row(mid, first + e, out_dim) + o_at + o * ou + k * ok;
    // Output o takes pairs begin, begin+step, ...; pair p's weight is at p * stride + offset.
    int begin = 0, step = 1, pairs = same ? m1 : m1 * m2, stride = 1, offset = 0;
    switch (mode) {
    case MODE_UVW:
    case MODE_UUW:
      stride = mo;
      offset = o;
      break;
    case MODE_UVU:
      begin = o * m2;
      pairs = begin + m2;
      break;
    case MODE_UVV:
      begin = o;
      step = m2;
      break;
    default:
      begin = o;
      pairs = o + 1;
    }
    float sum = add ? *out : 0.0f;
    for (int p = begin; p < pairs; p += step)
      sum += (we ? __ldg(we + (long long)p * stride + offset) : 1.0f) * __ldg(ze + (long long)p * d3);
    *out = sum;
  }
}
GPUPROF_KERNEL(tp_weight)
