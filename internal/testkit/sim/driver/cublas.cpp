// A simulated cuBLAS: the calls that gpuprof makes, computed plainly in the stream they are given. Inputs are
// rounded as the compute type says, sums are kept in float (double for double), as on tensor cores.
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "library.h"

namespace {

enum { SUCCESS = 0, NOT_INITIALIZED = 1, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };

struct Handle {
  void *stream = nullptr;
  int math = 0;
  void *workspace = nullptr; // the caller's; no two products may use it at once
  size_t workspace_bytes = 0;
};
std::mutex mu;
std::set<Handle *> &handles = *new std::set<Handle *>;

Handle *handle_of(void *h) {
  std::lock_guard<std::mutex> hold(mu);
  return handles.count((Handle *)h) ? (Handle *)h : nullptr;
}

int status(int driver) { return driver == 0 ? SUCCESS : EXECUTION_FAILED; }

// element reads a cudaDataType.
bool element(int type, Element *e) {
  switch (type) {
  case 0:
    *e = Element::F32;
    return true;
  case 1:
    *e = Element::F64;
    return true;
  case 2:
    *e = Element::F16;
    return true;
  case 14:
    *e = Element::BF16;
    return true;
  default:
    return false;
  }
}

// What is done to an input before it is multiplied.
enum class Round { None, TF32, F16, BF16 };

double rounded(double v, Round r) {
  switch (r) {
  case Round::TF32:
    return gp_to_tf32((float)v);
  case Round::F16:
    return gp_from_fp16(gp_to_fp16((float)v));
  case Round::BF16:
    return gp_from_bf16(gp_to_bf16((float)v));
  default:
    return v;
  }
}

struct Matrix {
  const void *p;
  Element type;
  int ld, rows, cols; // as stored, by columns
  bool transposed;
  size_t bytes() const { return rows == 0 || cols == 0 ? 0 : ((size_t)ld * (size_t)(cols - 1) + (size_t)rows) * element_bytes(type); }
};

// unpack writes op(m), rows x cols, by columns and without gaps.
template <typename T>
std::vector<T> unpack(const Matrix &m, Round r) {
  size_t rows = (size_t)(m.transposed ? m.cols : m.rows), cols = (size_t)(m.transposed ? m.rows : m.cols);
  std::vector<T> out(rows * cols);
  for (size_t j = 0; j < cols; j++)
    for (size_t i = 0; i < rows; i++) {
      size_t at = m.transposed ? j + i * (size_t)m.ld : i + j * (size_t)m.ld;
      out[i + j * rows] = (T)rounded(element_load(m.p, at, m.type), r);
    }
  return out;
}

struct Gemm {
  int m, n, k;
  Matrix a, b;
  void *c;
  Element c_type;
  int ldc;
  double alpha, beta;
  Round round;

  template <typename T>
  void run() const {
    std::vector<T> x = unpack<T>(a, round), y = unpack<T>(b, round), sum((size_t)m);
    for (int j = 0; j < n; j++) {
      std::fill(sum.begin(), sum.end(), (T)0);
      for (int l = 0; l < k; l++) {
        const T f = y[(size_t)l + (size_t)j * (size_t)k];
        const T *col = &x[(size_t)l * (size_t)m];
        for (int i = 0; i < m; i++) sum[(size_t)i] += col[i] * f;
      }
      for (int i = 0; i < m; i++) {
        size_t at = (size_t)i + (size_t)j * (size_t)ldc;
        // With beta zero the old content is not read: it may be NaN.
        double old = beta == 0 ? 0 : beta * element_load(c, at, c_type);
        element_store(c, at, c_type, alpha * (double)sum[(size_t)i] + old);
      }
    }
  }
};

// A compute type of cublas_api.h, under the handle's math mode.
bool compute(int type, int math, const Gemm &g, Round *r, bool *wide) {
  *r = Round::None;
  *wide = false;
  bool all32 = g.a.type == Element::F32 && g.b.type == Element::F32 && g.c_type == Element::F32;
  bool any64 = g.a.type == Element::F64 || g.b.type == Element::F64 || g.c_type == Element::F64;
  switch (type) {
  case 64: // 16F
    return g.a.type == Element::F16 && g.b.type == Element::F16 && g.c_type == Element::F16;
  case 68: // 32F
    if (all32 && math == 3) *r = Round::TF32;
    return !any64 && g.a.type == g.b.type;
  case 69: // 32F pedantic
    return !any64 && g.a.type == g.b.type;
  case 70: // 64F
  case 71:
    *wide = true;
    return g.a.type == Element::F64 && g.b.type == Element::F64 && g.c_type == Element::F64;
  case 74:
    *r = Round::F16;
    return all32;
  case 75:
    *r = Round::BF16;
    return all32;
  case 77:
    *r = Round::TF32;
    return all32;
  default:
    return false;
  }
}

bool shape_ok(const Gemm &g, int ta, int tb, int lda, int ldb) {
  if (g.m < 0 || g.n < 0 || g.k < 0 || ta < 0 || ta > 2 || tb < 0 || tb > 2) return false;
  return lda >= std::max(1, ta ? g.k : g.m) && ldb >= std::max(1, tb ? g.n : g.k) && g.ldc >= std::max(1, g.m);
}

int gemm(Handle *h, const char *what, int ta, int tb, Gemm g, int lda, int ldb, int type, const void *alpha, const void *beta) {
  if (!shape_ok(g, ta, tb, lda, ldb) || !alpha || !beta) return INVALID_VALUE;
  bool wide = false;
  if (!compute(type, h->math, g, &g.round, &wide)) return NOT_SUPPORTED;
  if (g.m == 0 || g.n == 0) return SUCCESS;
  Element scalar = wide ? Element::F64 : type == 64 ? Element::F16 : Element::F32;
  g.alpha = element_load(alpha, 0, scalar);
  g.beta = element_load(beta, 0, scalar);
  g.a.ld = lda, g.a.transposed = ta != 0, g.a.rows = ta ? g.k : g.m, g.a.cols = ta ? g.m : g.k;
  g.b.ld = ldb, g.b.transposed = tb != 0, g.b.rows = tb ? g.n : g.k, g.b.cols = tb ? g.k : g.n;
  Matrix c{g.c, g.c_type, g.ldc, g.m, g.n, false};
  gpuprof_sim_range r[] = {{g.a.p, g.a.bytes(), 0}, {g.b.p, g.b.bytes(), 0}, {g.c, c.bytes(), 1}, {h->workspace, h->workspace_bytes, 1}};
  return status(submit(h->stream, what, r, h->workspace ? 4 : 3, [g, wide] {
    if (wide) g.run<double>();
    else g.run<float>();
  }));
}

} // namespace

EXPORT const int gpuprof_simulated;
const int gpuprof_simulated = 1;

EXPORT int cublasCreate_v2(void **out) {
  if (int e = gpuprof_sim_enter("cublasCreate_v2")) return e < 0 ? -e : NOT_INITIALIZED;
  auto *h = new Handle;
  std::lock_guard<std::mutex> hold(mu);
  handles.insert(h);
  *out = h;
  return SUCCESS;
}

EXPORT int cublasDestroy_v2(void *p) {
  std::lock_guard<std::mutex> hold(mu);
  if (!handles.erase((Handle *)p)) return NOT_INITIALIZED;
  delete (Handle *)p;
  return SUCCESS;
}

// gpuprof_sim_cublas_handles is how many handles are alive.
EXPORT int gpuprof_sim_cublas_handles() {
  std::lock_guard<std::mutex> hold(mu);
  return (int)handles.size();
}

EXPORT int cublasGetVersion_v2(void *, int *v) {
  *v = 120800;
  return SUCCESS;
}

EXPORT int cublasGetProperty(int type, int *v) {
  const int parts[] = {12, 8, 0};
  if (type < 0 || type > 2) return INVALID_VALUE;
  *v = parts[type];
  return SUCCESS;
}

EXPORT const char *cublasGetStatusName(int s) {
  switch (s) {
  case 0:
    return "CUBLAS_STATUS_SUCCESS";
  case 1:
    return "CUBLAS_STATUS_NOT_INITIALIZED";
  case 3:
    return "CUBLAS_STATUS_ALLOC_FAILED";
  case 7:
    return "CUBLAS_STATUS_INVALID_VALUE";
  case 8:
    return "CUBLAS_STATUS_ARCH_MISMATCH";
  case 11:
    return "CUBLAS_STATUS_MAPPING_ERROR";
  case 13:
    return "CUBLAS_STATUS_EXECUTION_FAILED";
  case 14:
    return "CUBLAS_STATUS_INTERNAL_ERROR";
  case 15:
    return "CUBLAS_STATUS_NOT_SUPPORTED";
  default:
    return "CUBLAS_STATUS_UNKNOWN";
  }
}

EXPORT const char *cublasGetStatusString(int s) { return cublasGetStatusName(s); }

#define ENTER(function)                       \
  Handle *h = handle_of(handle);              \
  if (!h) return NOT_INITIALIZED;             \
  if (int e = gpuprof_sim_enter(#function)) return e < 0 ? -e : EXECUTION_FAILED

EXPORT int cublasSetStream_v2(void *handle, void *stream) {
  ENTER(cublasSetStream_v2);
  h->stream = stream;
  h->workspace = nullptr; // the library's own again, as its manual says
  return SUCCESS;
}

EXPORT int cublasGetStream_v2(void *handle, void **stream) {
  ENTER(cublasGetStream_v2);
  *stream = h->stream;
  return SUCCESS;
}

EXPORT int cublasSetMathMode(void *handle, int mode) {
  ENTER(cublasSetMathMode);
  if (mode < 0 || (mode & 15) > 3) return INVALID_VALUE; // further bits restrict reductions
  h->math = mode & 15;
  return SUCCESS;
}

EXPORT int cublasGetMathMode(void *handle, int *mode) {
  ENTER(cublasGetMathMode);
  *mode = h->math;
  return SUCCESS;
}

EXPORT int cublasSetPointerMode_v2(void *handle, int mode) {
  ENTER(cublasSetPointerMode_v2);
  return mode == 0 ? SUCCESS : NOT_SUPPORTED;
}

EXPORT int cublasSetWorkspace_v2(void *handle, void *p, size_t bytes) {
  ENTER(cublasSetWorkspace_v2);
  if ((bytes > 0 && !p) || ((uintptr_t)p & 255) != 0) return INVALID_VALUE;
  h->workspace = bytes ? p : nullptr;
  h->workspace_bytes = bytes;
  return SUCCESS;
}

EXPORT int cublasGemmEx(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int a_type, int lda, const void *b,
                        int b_type, int ldb, const void *beta, void *c, int c_type, int ldc, int type, int) {
  ENTER(cublasGemmEx);
  Gemm g{};
  g.m = m, g.n = n, g.k = k, g.c = c, g.ldc = ldc, g.a.p = a, g.b.p = b;
  if (!element(a_type, &g.a.type) || !element(b_type, &g.b.type) || !element(c_type, &g.c_type)) return NOT_SUPPORTED;
  return gemm(h, "cublasGemmEx", ta, tb, g, lda, ldb, type, alpha, beta);
}

EXPORT int cublasSgemm_v2(void *handle, int ta, int tb, int m, int n, int k, const float *alpha, const float *a, int lda, const float *b, int ldb,
                          const float *beta, float *c, int ldc) {
  ENTER(cublasSgemm_v2);
  Gemm g{};
  g.m = m, g.n = n, g.k = k, g.c = c, g.ldc = ldc, g.a.p = a, g.b.p = b;
  return gemm(h, "cublasSgemm", ta, tb, g, lda, ldb, 68, alpha, beta);
}

EXPORT int cublasGemmStridedBatchedEx(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int a_type, int lda,
                                      long long stride_a, const void *b, int b_type, int ldb, long long stride_b, const void *beta, void *c,
                                      int c_type, int ldc, long long stride_c, int count, int type, int) {
  ENTER(cublasGemmStridedBatchedEx);
  Gemm g{};
  g.m = m, g.n = n, g.k = k, g.ldc = ldc;
  if (!element(a_type, &g.a.type) || !element(b_type, &g.b.type) || !element(c_type, &g.c_type)) return NOT_SUPPORTED;
  for (long long i = 0; i < count; i++) {
    g.a.p = (const char *)a + i * stride_a * (long long)element_bytes(g.a.type);
    g.b.p = (const char *)b + i * stride_b * (long long)element_bytes(g.b.type);
    g.c = (char *)c + i * stride_c * (long long)element_bytes(g.c_type);
    if (int e = gemm(h, "cublasGemmStridedBatchedEx", ta, tb, g, lda, ldb, type, alpha, beta)) return e;
  }
  return SUCCESS;
}
