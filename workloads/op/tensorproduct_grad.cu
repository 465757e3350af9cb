// A tensor product backwards; see tensorproduct_grad.go for the formulas and the plan, whose numbers have to agree
// with those here. A warp works by itself, its lanes as copies u of a block, 32 at a time, or as cells (i, k) of a
// path's M_ik; what changes from one to the other is in its own part of shared memory.
#include "tensorproduct_grad.cuh"

enum {
  BACK_PATHS,
  BACK_TABLE,
  BACK_CELLS,
  BACK_TERMS,
  BACK_SWAPPED, // for the host
  BACK_STARTS,
  BACK_BY_J,
  BACK_TILES,
  BACK_TILE_OF,
  BACK_TILE_PATHS,
  BACK_ACROSS,
  BACK_IN,
  BACK_SH,
  BACK_NUMEL,
  BACK_OUT,
  BACK_MOST,
  BACK_WIDEST,
};
#define PATH_INTS 16
#define PITCH 33 // rows of 32 copies that do not all begin in one bank
#define GRAD_W 1
#define GRAD_Y 2
#define GRAD_ADD_Y 4
// Of a generated gradient's plan; see tensorproduct_gengrad.cuh.
#define GRAD_STARTS 11
#define GRAD_LISTS 12

// back_contract writes M of a path for an edge's harmonics, a lane a cell.
GP_FN void back_contract(float *m, const int *plan, const float *constants, const int *path, const float *y) {
  const int *cells = plan + plan[BACK_CELLS] + path[7] * 4, *js = plan + plan[BACK_TERMS];
  int count = path[8] - path[7];
  for (int c = gp_lane(); c < count; c += 32) {
    float sum = 0;
    for (int t = cells[c * 4 + 2]; t < cells[c * 4 + 3]; t++) sum = gp_fma(constants[t], __ldg(y + path[1] + js[t]), sum);
    m[c] = sum;
  }
}

// One item is one edge, one warp an edge.
extern "C" __global__ void __launch_bounds__(128)
    tp_grad(const float *__restrict__ x, const float *__restrict__ y, const float *__restrict__ w, const float *__restrict__ dout,
            const int *__restrict__ src, const int *__restrict__ dst, float *dw, float *dy, const int *__restrict__ plan,
            const float *__restrict__ constants, int what, int count, int n) {
  GPUPROF_SHARED(float, shared);
  int e = (int)blockIdx.x * 4 + gp_warp(), lane = gp_lane();
  if (e >= n) return;
  int most = plan[BACK_MOST], sh = plan[BACK_SH], numel = plan[BACK_NUMEL];
  int words = 2 * most + sh + plan[BACK_WIDEST] * PITCH;
  float *m = shared + gp_warp() * words, *t = m + most, *dys = t + most, *rows = dys + sh;
  const float *xe = op_row(x, src[e], plan[BACK_IN]), *ye = op_row(y, e, sh), *we = op_row(w, e, numel);
  const float *ze = op_row(dout, dst[e], plan[BACK_OUT]);
  for (int j = lane; j < sh; j += 32) dys[j] = 0;
  for (int p = 0; p < plan[BACK_PATHS]; p++) {
    const int *path = plan + plan[BACK_TABLE] + p * PATH_INTS;
    const int *cells = plan + plan[BACK_CELLS] + path[7] * 4;
    int mul = path[4], d1 = path[5], d3 = path[6], cell_count = path[8] - path[7];
    float *xs = rows, *zs = xs + d1 * PITCH, *wz = zs + d3 * PITCH;
    back_contract(m, plan, constants, path, ye);
    for (int c = lane; c < cell_count; c += 32) t[c] = 0;
    __syncwarp();
    for (int u0 = 0; u0 < mul; u0 += 32) {
      int u = u0 + lane;
      bool in = u < mul;
      float weight = in ? __ldg(we + path[2] + u) : 0.0f, sum = 0;
      for (int i = 0; i < d1; i++) xs[i * PITCH + lane] = in ? __ldg(xe + path[0] + i * mul + u) : 0.0f;
      for (int k = 0; k < d3; k++) {
        float z = in ? __ldg(ze + path[3] + k * mul + u) : 0.0f;
        zs[k * PITCH + lane] = z;
        wz[k * PITCH + lane] = weight * z;
      }
      if (what & GRAD_W) {
        for (int c = 0; c < cell_count; c++)
          sum = gp_fma(m[c], xs[cells[c * 4] * PITCH + lane] * zs[cells[c * 4 + 1] * PITCH + lane], sum);
        float *to = op_row(dw, e, numel) + path[2] + u;
        if (in) *to = sum;
      }
      __syncwarp();
      if (what & GRAD_Y)
        for (int c = lane; c < cell_count; c += 32) {
          const float *a = xs + cells[c * 4] * PITCH, *b = wz + cells[c * 4 + 1] * PITCH;
          float s = t[c];
          for (int v = 0; v < 32; v++) s = gp_fma(a[v], b[v], s);
          t[c] = s;
        }
      __syncwarp();
    }
    if (what & GRAD_Y) {
      const int *starts = plan + plan[BACK_STARTS] + path[14], *by_j = plan + plan[BACK_BY_J];
      for (int j = lane; j < path[15]; j += 32) {
        float s = dys[path[1] + j];
        for (int q = starts[j]; q < starts[j + 1]; q++) s = gp_fma(__int_as_float(by_j[2 * q + 1]), t[by_j[2 * q]], s);
        dys[path[1] + j] = s;
      }
    }
    __syncwarp();
  }
  if (what & GRAD_Y)
    for (int j = lane; j < sh; j += 32) {
      float *to = op_row(dy, e, sh) + j;
      *to = what & GRAD_ADD_Y ? *to + dys[j] : dys[j];
    }
}
GPUPROF_KERNEL(tp_grad)

// One item is one tile, 32 copies of a block, of one segment of a node's edges; one warp an item.
extern "C" __global__ void __launch_bounds__(128)
    tp_grad_x(const float *__restrict__ y, const float *__restrict__ w, const float *__restrict__ dout, const int *__restrict__ dst,
              const int *__restrict__ colptr, const int *__restrict__ perm, float *__restrict__ partial, const int *__restrict__ plan,
              const float *__restrict__ constants, int count, int nodes, int n) {
  GPUPROF_SHARED(float, shared);
  int item = (int)blockIdx.x * 4 + gp_warp(), lane = gp_lane(), across = plan[BACK_ACROSS];
  if (item >= n) return;
  int s = item / across, tile = item % across, most = plan[BACK_MOST], sh = plan[BACK_SH];
  int words = 2 * most + sh + plan[BACK_WIDEST] * PITCH;
  float *m = shared + gp_warp() * words, *zs = m + 2 * most + sh;
  const int *own = plan + plan[BACK_TILES] + tile * 4, *of = plan + plan[BACK_TILE_OF] + tile;
  const int *list = plan + plan[BACK_TILE_PATHS];
  int mul = own[1], d1 = own[2], u = own[3] + lane;
  bool in = u < mul;
  float *acc = zs; // [d1], then dz [d3]
  for (int i = 0; i < d1; i++) acc[i * PITCH + lane] = 0;
  zs += d1 * PITCH;
  back_range r = back_segment(colptr, nodes, s);
  for (int at = r.from; at < r.to; at++) {
    int e = perm[at];
    const float *ye = op_row(y, e, sh), *we = op_row(w, e, plan[BACK_NUMEL]), *ze = op_row(dout, dst[e], plan[BACK_OUT]);
    for (int q = of[0]; q < of[1]; q++) {
      const int *path = plan + plan[BACK_TABLE] + list[q] * PATH_INTS;
      const int *cells = plan + plan[BACK_CELLS] + path[7] * 4;
      int d3 = path[6], cell_count = path[8] - path[7];
      back_contract(m, plan, constants, path, ye);
      __syncwarp();
      float weight = in ? __ldg(we + path[2] + u) : 0.0f;
      for (int k = 0; k < d3; k++) zs[k * PITCH + lane] = in ? weight * __ldg(ze + path[3] + k * mul + u) : 0.0f;
      for (int c = 0; c < cell_count; c++) {
        float *to = acc + cells[c * 4] * PITCH + lane;
        *to = gp_fma(m[c], zs[cells[c * 4 + 1] * PITCH + lane], *to);
      }
      __syncwarp();
    }
  }
  float *to = op_row(partial, s, plan[BACK_IN]) + own[0] + u;
  if (in)
    for (int i = 0; i < d1; i++) to[i * mul] = acc[i * PITCH + lane];
}
GPUPROF_KERNEL(tp_grad_x)

// One item is one node, one block a node: the sums of its segments, in order.
extern "C" __global__ void tp_grad_sum(const int *__restrict__ colptr, const float *__restrict__ partial, float *__restrict__ dx, int count,
                                       int nodes, int width, int add, int n) {
  int node = (int)blockIdx.x;
  if (node >= n) return;
  int edges = colptr[node + 1] - colptr[node], first = colptr[node] / SEGMENT + node;
  for (int i = (int)threadIdx.x; i < width; i += (int)blockDim.x) {
    float *to = op_row(dx, node, width) + i, sum = add ? *to : 0.0f;
    for (int j = 0; (long long)j * SEGMENT < edges; j++) sum += op_row(partial, first + j, width)[i];
    *to = sum;
  }
}
GPUPROF_KERNEL(tp_grad_sum)

// One item is one value of dy: the columns of a row of partial that the warps of a generated kernel left for it.
extern "C" __global__ void __launch_bounds__(128)
    tp_grad_dy(const float *__restrict__ partial, const int *__restrict__ plan, float *__restrict__ dy, int what, int columns, int sh,
               int count, int n) {
  int i = gp_thread();
  if (i >= n) return;
  int j = i % sh;
  const float *row = op_row(partial, i / sh, columns);
  const int *starts = plan + plan[GRAD_STARTS] + j, *list = plan + plan[GRAD_LISTS];
  float sum = 0;
  for (int q = starts[0]; q < starts[1]; q++) sum += row[list[q]];
  dy[i] = what & GRAD_ADD_Y ? dy[i] + sum : sum;
}
GPUPROF_KERNEL(tp_grad_dy)
