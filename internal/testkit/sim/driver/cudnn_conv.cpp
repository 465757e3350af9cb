// The convolutions of the simulated cuDNN. Algorithm 7 (winograd_nonfused) is listed first and does not support 1x1 when it
// runs, 6 (winograd) is listed as not supported, 5 (fft_tiling) needs more memory than there is: a caller has to pass them over.
#include "cudnn.h"

namespace {

enum { IMPLICIT = 0, PRECOMP = 1, FFT_TILING = 5, WINOGRAD = 6, NONFUSED = 7 };
enum { DEFAULT_MATH = 0, TENSOR_MATH = 1, FMA_MATH = 3 };

struct Perf { // cudnnConvolutionFwdAlgoPerf_t
  int algo, status;
  float ms;
  size_t memory;
  int determinism, math, reserved[3];
};
static_assert(sizeof(Perf) == 48, "the layout of cudnn_cnn.h");

struct Problem {
  Object x, w, y, c;

  // ok says that the four descriptors agree.
  bool ok() const {
    const std::vector<int> &xd = x.dims, &wd = w.dims, &yd = y.dims;
    if (xd.size() != 4 || wd.size() != 4 || yd.size() != 4 || x.type != w.type || x.type != y.type || x.format != w.format || x.format != y.format)
      return false;
    for (size_t i = 2; i < 4; i++)
      if (yd[i] != (xd[i] + 2 * c.pad - wd[i]) / c.stride + 1) return false;
    return xd[0] == yd[0] && xd[1] == wd[1] && wd[0] == yd[1];
  }
  size_t bytes(const Object &t) const {
    size_t n = element_bytes(dnn_element(t.type));
    for (int d : t.dims) n *= (size_t)d;
    return n;
  }
  size_t memory(int algo) const {
    if (algo == IMPLICIT) return 0;
    if (algo == FFT_TILING) return (size_t)1 << 40;
    return 4 * (size_t)x.dims[0] * (size_t)w.dims[2] * (size_t)w.dims[3] + 64;
  }
  static size_t at(const Object &t, int n, int c, int h, int w) {
    const std::vector<int> &d = t.dims;
    if (t.format == 0) return (((size_t)n * (size_t)d[1] + (size_t)c) * (size_t)d[2] + (size_t)h) * (size_t)d[3] + (size_t)w;
    return (((size_t)n * (size_t)d[2] + (size_t)h) * (size_t)d[3] + (size_t)w) * (size_t)d[1] + (size_t)c;
  }
  // Operands are rounded as the math type says, sums are kept in double.
  double operand(const void *p, const Object &t, size_t i) const {
    double v = element_load(p, i, dnn_element(t.type));
    return t.type == 0 && c.math != FMA_MATH ? gp_to_tf32((float)v) : v;
  }
  void run(const void *xp, const void *wp, void *yp) const {
    for (int n = 0; n < y.dims[0]; n++)
      for (int o = 0; o < y.dims[1]; o++)
        for (int i = 0; i < y.dims[2]; i++)
          for (int j = 0; j < y.dims[3]; j++) {
            double sum = 0;
            for (int r = 0; r < w.dims[2]; r++)
              for (int q = 0; q < w.dims[3]; q++) {
                int h = i * c.stride + r - c.pad, v = j * c.stride + q - c.pad;
                if (h < 0 || h >= x.dims[2] || v < 0 || v >= x.dims[3]) continue;
                for (int k = 0; k < x.dims[1]; k++) sum += operand(xp, x, at(x, n, k, h, v)) * operand(wp, w, at(w, o, k, r, q));
              }
            element_store(yp, at(y, n, o, i, j), dnn_element(y.type), sum);
          }
  }
};

bool problem(void *h, void *xd, void *wd, void *cd, void *yd, Problem *p) {
  Object *x = dnn_get(xd, Object::Tensor), *w = dnn_get(wd, Object::Filter), *c = dnn_get(cd, Object::Conv), *y = dnn_get(yd, Object::Tensor);
  if (!dnn_get(h, Object::Handle) || !x || !w || !c || !y) return false;
  *p = Problem{*x, *w, *y, *c};
  return p->ok();
}

} // namespace

EXPORT int cudnnCreateFilterDescriptor(void **d) { return dnn_create(d, Object::Filter); }
EXPORT int cudnnDestroyFilterDescriptor(void *d) { return dnn_destroy(d, Object::Filter); }
EXPORT int cudnnCreateConvolutionDescriptor(void **d) { return dnn_create(d, Object::Conv); }
EXPORT int cudnnDestroyConvolutionDescriptor(void *d) { return dnn_destroy(d, Object::Conv); }

EXPORT int cudnnSetFilter4dDescriptor(void *d, int type, int format, int k, int c, int h, int w) {
  Object *o = dnn_get(d, Object::Filter, false);
  if (!o || k < 1 || c < 1 || h < 1 || w < 1 || format < 0 || format > 1) return DNN_BAD_PARAM;
  if (type != 0 && type != 2 && type != 9) return DNN_NOT_SUPPORTED;
  o->type = type;
  o->format = format;
  o->dims = {k, c, h, w};
  o->set = true;
  return DNN_OK;
}

EXPORT int cudnnSetConvolution2dDescriptor(void *d, int pad_h, int pad_w, int u, int v, int dilation_h, int dilation_w, int mode, int compute) {
  Object *o = dnn_get(d, Object::Conv, false);
  if (!o || pad_h < 0 || u < 1) return DNN_BAD_PARAM;
  if (pad_w != pad_h || v != u || dilation_h != 1 || dilation_w != 1 || mode != 1 || compute != 0) return DNN_NOT_SUPPORTED;
  o->pad = pad_h;
  o->stride = u;
  o->set = true;
  return DNN_OK;
}

EXPORT int cudnnSetConvolutionMathType(void *d, int math) {
  Object *o = dnn_get(d, Object::Conv);
  if (!o || math < 0 || math > 3) return DNN_BAD_PARAM;
  o->math = math;
  return DNN_OK;
}

EXPORT int cudnnGetConvolutionForwardAlgorithm_v7(void *h, void *xd, void *wd, void *cd, void *yd, int most, int *got, Perf *out) {
  if (int e = gpuprof_sim_enter("cudnnGetConvolutionForwardAlgorithm_v7")) return dnn_says(e < 0 ? -e : DNN_EXECUTION_FAILED, "planted");
  Problem p;
  if (!problem(h, xd, wd, cd, yd, &p) || most < 1 || !got || !out) return DNN_BAD_PARAM;
  *got = 0;
  for (int algo : {NONFUSED, WINOGRAD, FFT_TILING, PRECOMP, IMPLICIT})
    if (*got < most)
      out[(*got)++] = Perf{algo, algo == WINOGRAD ? DNN_NOT_SUPPORTED : DNN_OK, -1, p.memory(algo), 1, p.x.type == 0 ? p.c.math : TENSOR_MATH, {}};
  return DNN_OK;
}

EXPORT int cudnnGetConvolutionForwardWorkspaceSize(void *h, void *xd, void *wd, void *cd, void *yd, int algo, size_t *bytes) {
  Problem p;
  if (!problem(h, xd, wd, cd, yd, &p) || !bytes) return DNN_BAD_PARAM;
  if (algo < 0 || algo > NONFUSED || algo == WINOGRAD) return DNN_NOT_SUPPORTED;
  *bytes = p.memory(algo);
  return DNN_OK;
}

EXPORT int cudnnConvolutionForward(void *h, const void *alpha, void *xd, const void *x, void *wd, const void *w, void *cd, int algo, void *work,
                                   size_t work_bytes, const void *beta, void *yd, void *y) {
  if (int e = gpuprof_sim_enter("cudnnConvolutionForward")) return dnn_says(e < 0 ? -e : DNN_EXECUTION_FAILED, "planted");
  Problem p;
  if (!problem(h, xd, wd, cd, yd, &p) || !alpha || !beta || !x || !w || !y) return dnn_says(DNN_BAD_PARAM, "the descriptors do not agree");
  if (*(const float *)alpha != 1 || *(const float *)beta != 0) return dnn_says(DNN_NOT_SUPPORTED, "alpha is 1 and beta 0 here");
  if (algo == WINOGRAD || algo < 0 || algo > NONFUSED) return dnn_says(DNN_NOT_SUPPORTED, "no such algorithm");
  if (algo == NONFUSED && p.w.dims[2] == 1) return dnn_says(DNN_NOT_SUPPORTED, "winograd of 1x1");
  // In 16 bits the algorithm needs the math type it was listed with.
  if (p.x.type != 0 && p.c.math != TENSOR_MATH) return dnn_says(DNN_NOT_SUPPORTED, "16 bits need tensor cores");
  size_t need = p.memory(algo);
  if (work_bytes < need || (need > 0 && !work)) return dnn_says(DNN_BAD_PARAM, "the workspace is too small");
  std::vector<gpuprof_sim_range> ranges = {{x, p.bytes(p.x), 0}, {w, p.bytes(p.w), 0}, {y, p.bytes(p.y), 1}};
  if (need > 0) ranges.push_back({work, need, 1});
  int e = submit(dnn_get(h, Object::Handle)->stream, "cudnnConvolutionForward", ranges.data(), (int)ranges.size(), [p, x, w, y, work, need] {
    if (need > 0) memset(work, 0xff, need); // it is cuDNN's now
    p.run(x, w, y);
  });
  return e ? DNN_EXECUTION_FAILED : DNN_OK;
}
