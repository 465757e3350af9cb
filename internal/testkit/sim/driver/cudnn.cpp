// A simulated cuDNN 9: its objects, and the calls that a GRU's inference needs.
#include <algorithm>
#include <mutex>
#include <set>
#include <string>

#include "cudnn.h"

namespace {

std::mutex mu;
std::set<Object *> &objects = *new std::set<Object *>;

Object *get(void *p, Object::Kind kind, bool need_set = true) {
  std::lock_guard<std::mutex> hold(mu);
  Object *o = (Object *)p;
  return objects.count(o) && o->kind == kind && (o->set || !need_set) ? o : nullptr;
}

int create(void **out, Object::Kind kind) {
  if (!out) return DNN_BAD_PARAM;
  Object *o = new Object{};
  o->kind = kind;
  std::lock_guard<std::mutex> hold(mu);
  objects.insert(o);
  *out = o;
  return DNN_OK;
}

int destroy(void *p, Object::Kind kind) {
  std::lock_guard<std::mutex> hold(mu);
  Object *o = (Object *)p;
  if (!objects.count(o) || o->kind != kind) return DNN_BAD_PARAM;
  objects.erase(o);
  delete o;
  return DNN_OK;
}

bool known(int type) { return type == 0 || type == 2 || type == 9; }

} // namespace

Object *dnn_get(void *p, Object::Kind kind, bool need_set) { return get(p, kind, need_set); }
int dnn_create(void **out, Object::Kind kind) { return create(out, kind); }
int dnn_destroy(void *p, Object::Kind kind) { return destroy(p, kind); }

static thread_local std::string last_error;
int dnn_says(int status, const char *text) {
  last_error = text;
  return status;
}

EXPORT void cudnnGetLastErrorString(char *text, size_t most) {
  if (!text || most == 0) return;
  size_t n = std::min(most - 1, last_error.size());
  memcpy(text, last_error.data(), n);
  text[n] = 0;
  last_error.clear();
}

EXPORT const int gpuprof_simulated;
const int gpuprof_simulated = 1;

// gpuprof_sim_cudnn_objects is how many handles and descriptors are alive.
EXPORT int gpuprof_sim_cudnn_objects() {
  std::lock_guard<std::mutex> hold(mu);
  return (int)objects.size();
}

EXPORT size_t cudnnGetVersion() { return 90200; }

EXPORT const char *cudnnGetErrorString(int status) {
  switch (status) {
  case DNN_OK:
    return "CUDNN_STATUS_SUCCESS";
  case DNN_NOT_INITIALIZED:
    return "CUDNN_STATUS_NOT_INITIALIZED";
  case DNN_BAD_PARAM:
    return "CUDNN_STATUS_BAD_PARAM";
  case DNN_NOT_SUPPORTED:
    return "CUDNN_STATUS_NOT_SUPPORTED";
  case DNN_DEVICE_ALLOCATION_FAILED:
    return "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED";
  case DNN_EXECUTION_FAILED:
    return "CUDNN_STATUS_EXECUTION_FAILED";
  default:
    return "CUDNN_STATUS_UNKNOWN";
  }
}

EXPORT int cudnnCreate(void **h) {
  if (int e = gpuprof_sim_enter("cudnnCreate")) return e < 0 ? -e : DNN_NOT_INITIALIZED;
  int s = create(h, Object::Handle);
  if (s == DNN_OK) ((Object *)*h)->set = true;
  return s;
}
EXPORT int cudnnDestroy(void *h) { return destroy(h, Object::Handle); }

EXPORT int cudnnSetStream(void *h, void *stream) {
  Object *o = get(h, Object::Handle);
  if (!o) return DNN_BAD_PARAM;
  o->stream = stream;
  return DNN_OK;
}

EXPORT int cudnnCreateTensorDescriptor(void **d) { return create(d, Object::Tensor); }
EXPORT int cudnnDestroyTensorDescriptor(void *d) { return destroy(d, Object::Tensor); }
EXPORT int cudnnCreateDropoutDescriptor(void **d) { return create(d, Object::Dropout); }
EXPORT int cudnnDestroyDropoutDescriptor(void *d) { return destroy(d, Object::Dropout); }
EXPORT int cudnnCreateRNNDescriptor(void **d) { return create(d, Object::Rnn); }
EXPORT int cudnnDestroyRNNDescriptor(void *d) { return destroy(d, Object::Rnn); }
EXPORT int cudnnCreateRNNDataDescriptor(void **d) { return create(d, Object::Data); }
EXPORT int cudnnDestroyRNNDataDescriptor(void *d) { return destroy(d, Object::Data); }

// The order of dims is n, c, h, w whatever the format is.
EXPORT int cudnnSetTensor4dDescriptor(void *d, int format, int type, int n, int c, int h, int w) {
  Object *o = get(d, Object::Tensor, false);
  if (!o || n < 1 || c < 1 || h < 1 || w < 1) return DNN_BAD_PARAM;
  if (!known(type) || format < 0 || format > 1) return DNN_NOT_SUPPORTED;
  o->type = type;
  o->format = format;
  o->dims = {n, c, h, w};
  o->strides = format == 0 ? std::vector<int>{c * h * w, h * w, w, 1} : std::vector<int>{c * h * w, 1, w * c, c};
  o->set = true;
  return DNN_OK;
}

EXPORT int cudnnSetTensorNdDescriptor(void *d, int type, int n, const int *dims, const int *strides) {
  Object *o = get(d, Object::Tensor, false);
  if (!o || n < 3 || n > 8 || !dims || !strides) return DNN_BAD_PARAM;
  if (!known(type)) return DNN_NOT_SUPPORTED;
  for (int i = 0; i < n; i++)
    if (dims[i] < 1 || strides[i] < 1) return DNN_BAD_PARAM;
  o->type = type;
  o->dims.assign(dims, dims + n);
  o->strides.assign(strides, strides + n);
  o->set = true;
  return DNN_OK;
}

EXPORT int cudnnGetTensorNdDescriptor(void *d, int want, int *type, int *n, int *dims, int *strides) {
  Object *o = get(d, Object::Tensor);
  if (!o || want < 0) return DNN_BAD_PARAM;
  *type = o->type;
  *n = (int)o->dims.size();
  for (int i = 0; i < std::min(want, *n); i++) dims[i] = o->dims[(size_t)i], strides[i] = o->strides[(size_t)i];
  return DNN_OK;
}

EXPORT int cudnnDropoutGetStatesSize(void *h, size_t *n) {
  if (!get(h, Object::Handle)) return DNN_BAD_PARAM;
  *n = 64 << 10;
  return DNN_OK;
}

EXPORT int cudnnSetDropoutDescriptor(void *d, void *h, float rate, void *states, size_t bytes, unsigned long long) {
  Object *o = get(d, Object::Dropout, false);
  if (!o || !get(h, Object::Handle) || !(rate >= 0 && rate < 1)) return DNN_BAD_PARAM;
  if (rate > 0 && (!states || bytes < 64 << 10)) return DNN_BAD_PARAM;
  o->rate = rate;
  o->set = true;
  return DNN_OK;
}

EXPORT int cudnnSetRNNDescriptor_v8(void *d, int algo, int cell, int bias, int direction, int input_mode, int type, int precision, int math,
                                    int input, int hidden, int projection, int layers, void *dropout, unsigned) {
  Object *o = get(d, Object::Rnn, false), *drop = dropout ? get(dropout, Object::Dropout) : nullptr;
  if (!o || (dropout && !drop) || input < 1 || hidden < 1 || layers < 1 || bias < 0 || bias > 3 || algo < 0 || algo > 3 || math < 0 || math > 3)
    return DNN_BAD_PARAM;
  if (cell != 3 || direction != 0 || input_mode != 0 || projection != hidden || !known(type) || precision != 0) return DNN_NOT_SUPPORTED;
  o->type = type;
  o->bias = bias;
  o->math = math;
  o->input = input;
  o->hidden = hidden;
  o->layers = layers;
  o->rate = drop ? drop->rate : 0;
  o->set = true;
  return DNN_OK;
}

EXPORT int cudnnSetRNNDataDescriptor(void *d, int type, int layout, int steps, int batch, int width, const int *lengths, void *) {
  Object *o = get(d, Object::Data, false);
  if (!o || steps < 1 || batch < 1 || width < 1 || layout < 0 || layout > 2 || !lengths) return DNN_BAD_PARAM;
  if (!known(type)) return DNN_NOT_SUPPORTED;
  for (int b = 0; b < batch; b++) {
    if (lengths[b] < 0 || lengths[b] > steps) return DNN_BAD_PARAM;
    // Packed sequences are sorted, longest first.
    if (layout == 1 && b > 0 && lengths[b] > lengths[b - 1]) return DNN_BAD_PARAM;
  }
  o->type = type;
  o->layout = layout;
  o->steps = steps;
  o->batch = batch;
  o->width = width;
  o->lengths.assign(lengths, lengths + batch);
  o->set = true;
  return DNN_OK;
}

// Only the persistent dynamic algorithm is compiled for a batch; here none is.
EXPORT int cudnnBuildRNNDynamic(void *h, void *r, int batch) {
  return get(h, Object::Handle) && get(r, Object::Rnn) && batch > 0 ? DNN_OK : DNN_BAD_PARAM;
}

EXPORT int cudnnGetRNNWeightSpaceSize(void *h, void *r, size_t *bytes) {
  Object *rnn = get(r, Object::Rnn);
  if (!get(h, Object::Handle) || !rnn) return DNN_BAD_PARAM;
  *bytes = dnn_weight_elements(*rnn) * element_bytes(dnn_element(rnn->type));
  return DNN_OK;
}

EXPORT int cudnnGetRNNWeightParams(void *h, void *r, int layer, size_t bytes, const void *space, int id, void *m_desc, void **m, void *b_desc,
                                   void **b) {
  Object *rnn = get(r, Object::Rnn), *md = get(m_desc, Object::Tensor, false), *bd = get(b_desc, Object::Tensor, false);
  if (!get(h, Object::Handle) || !rnn || !md || !bd || layer < 0 || layer >= rnn->layers || id < 0 || id > 5) return DNN_BAD_PARAM;
  size_t size = element_bytes(dnn_element(rnn->type));
  if (bytes < dnn_weight_elements(*rnn) * size || !space) return DNN_BAD_PARAM;
  Gate g = dnn_gate(*rnn, layer, id);
  int rows = (int)g.rows, cols = (int)g.cols;
  md->type = bd->type = rnn->type;
  md->set = bd->set = true;
  md->dims = {1, rows, cols};
  md->strides = {rows * cols, cols, 1};
  bd->dims = {1, rows, 1};
  bd->strides = {rows, 1, 1};
  *m = (char *)space + g.matrix * size;
  bool has = rnn->bias == 2 || (rnn->bias == 1 && id < 3) || (rnn->bias == 3 && id >= 3);
  *b = has ? (char *)space + g.bias * size : nullptr;
  return DNN_OK;
}

static size_t work_bytes(const Object &rnn, const Object &x) {
  return (size_t)x.steps * (size_t)x.batch * 4 * (size_t)rnn.hidden * sizeof(float);
}

EXPORT int cudnnGetRNNTempSpaceSizes(void *h, void *r, int mode, void *xd, size_t *work, size_t *reserve) {
  Object *rnn = get(r, Object::Rnn), *x = get(xd, Object::Data);
  if (!get(h, Object::Handle) || !rnn || !x || mode != 0) return DNN_BAD_PARAM;
  if (work) *work = work_bytes(*rnn, *x);
  if (reserve) *reserve = 0;
  return DNN_OK;
}

static size_t data_bytes(const Object &d) {
  size_t rows = 0;
  for (int len : d.lengths) rows += (size_t)len;
  if (d.layout != 1) rows = (size_t)d.steps * (size_t)d.batch;
  return rows * (size_t)d.width * element_bytes(dnn_element(d.type));
}

static bool agree(const Object &rnn, const Object &x, const Object &y, const Object &hd) {
  return x.type == rnn.type && y.type == rnn.type && hd.type == rnn.type && x.width == rnn.input && y.width == rnn.hidden &&
         x.batch == y.batch && x.steps == y.steps && x.lengths == y.lengths && x.layout == y.layout &&
         hd.dims == std::vector<int>{rnn.layers, x.batch, rnn.hidden};
}

EXPORT int cudnnRNNForward(void *h, void *r, int mode, const int *lengths, void *xd, const void *x, void *yd, void *y, void *hd, const void *hx,
                           void *hy, void *, const void *, void *, size_t weight_bytes, const void *weights, size_t work_size, void *work,
                           size_t, void *) {
  if (int e = gpuprof_sim_enter("cudnnRNNForward")) return e < 0 ? -e : DNN_EXECUTION_FAILED;
  Object *handle = get(h, Object::Handle), *rnn = get(r, Object::Rnn), *xo = get(xd, Object::Data), *yo = get(yd, Object::Data),
         *ho = get(hd, Object::Tensor);
  if (!handle || !rnn || !xo || !yo || !ho || !x || !y || !weights || mode != 0) return DNN_BAD_PARAM;
  size_t size = element_bytes(dnn_element(rnn->type)), need = dnn_weight_elements(*rnn) * size;
  if (!agree(*rnn, *xo, *yo, *ho) || weight_bytes < need || work_size < work_bytes(*rnn, *xo) || !work) return DNN_BAD_PARAM;
  size_t state = (size_t)rnn->layers * (size_t)xo->batch * (size_t)rnn->hidden * size;
  std::vector<gpuprof_sim_range> ranges = {{x, data_bytes(*xo), 0}, {y, data_bytes(*yo), 1}, {weights, need, 0}, {work, work_bytes(*rnn, *xo), 1}};
  if (hx) ranges.push_back({hx, state, 0});
  if (hy) ranges.push_back({hy, state, 1});
  if (lengths) ranges.push_back({lengths, (size_t)xo->batch * sizeof(int), 0});
  Gru g{*rnn, *xo, *yo, x, hx, weights, y, hy};
  size_t scratch = work_bytes(*rnn, *xo);
  int e = submit(handle->stream, "cudnnRNNForward", ranges.data(), (int)ranges.size(), [g, work, scratch] {
    memset(work, 0xff, scratch); // it is cuDNN's now
    g.run();
  });
  return e ? DNN_EXECUTION_FAILED : DNN_OK;
}
