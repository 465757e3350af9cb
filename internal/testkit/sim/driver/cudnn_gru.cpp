// The GRU of cuDNN's manual, gates r (0, 3), z (1, 4), n (2, 5):
//
//   r = sigmoid(W0 x + R3 h + b0 + b3)      z = sigmoid(W1 x + R4 h + b1 + b4)
//   n = tanh(W2 x + b2 + r (R5 h + b5))     h' = (1 - z) n + z h
//
// and with x' = dh'(1 - z)(1 - n^2), the way back
//
//   dn = x'    dr = dn (R5 h + b5) r (1 - r)    dz = dh'(h - n) z (1 - z)    dh = dh' z + R3^T dr + R4^T dz + R5^T dn r
//
// Sums in float, values stored in the layer's type after each step; with TF32 the factors of products are rounded.
#include <algorithm>
#include <cmath>

#include "cudnn.h"

Element dnn_element(int type) {
  switch (type) {
  case 1:
    return Element::F64;
  case 2:
    return Element::F16;
  case 9:
    return Element::BF16;
  default:
    return Element::F32;
  }
}

static size_t block(size_t n) { return (n + 63) / 64 * 64; }

int dnn_biases(int mode) { return mode == 2 ? 6 : mode == 0 ? 0 : 3; }

static int layer_inputs(const Object &rnn, int layer) { return layer == 0 ? rnn.input : rnn.hidden; }

Gate dnn_gate(const Object &rnn, int layer, int g) {
  size_t h = (size_t)rnn.hidden, at = 0;
  size_t biases = (size_t)rnn.layers * 6 * block(h);
  at = biases;
  for (int l = 0; l < layer; l++) at += 3 * block(h * (size_t)layer_inputs(rnn, l)) + 3 * block(h * h);
  size_t in = (size_t)layer_inputs(rnn, layer);
  Gate out{};
  out.rows = h;
  out.cols = g < 3 ? in : h;
  out.matrix = at + (g < 3 ? (size_t)g * block(h * in) : 3 * block(h * in) + (size_t)(g - 3) * block(h * h));
  out.bias = ((size_t)layer * 6 + (size_t)g) * block(h);
  return out;
}

size_t dnn_weight_elements(const Object &rnn) {
  Gate last = dnn_gate(rnn, rnn.layers - 1, 5);
  return last.matrix + block(last.rows * last.cols);
}

namespace {

typedef std::vector<float> Floats;

// at is the element where a batch entry's features at a step begin.
size_t at(const Object &d, const std::vector<size_t> &packed, int step, int entry) {
  size_t row = d.layout == 1 ? packed[(size_t)step] + (size_t)entry
               : d.layout == 0 ? (size_t)step * (size_t)d.batch + (size_t)entry
                               : (size_t)entry * (size_t)d.steps + (size_t)step;
  return row * (size_t)d.width;
}

struct Layer {
  Floats matrix[6], bias[6];
};

Layer read_layer(const Gru &g, int layer, bool tf32) {
  Layer out;
  Element e = dnn_element(g.rnn.type);
  for (int i = 0; i < 6; i++) {
    Gate at = dnn_gate(g.rnn, layer, i);
    out.matrix[i].resize(at.rows * at.cols);
    for (size_t k = 0; k < out.matrix[i].size(); k++) {
      float v = (float)element_load(g.weights, at.matrix + k, e);
      out.matrix[i][k] = tf32 ? gp_to_tf32(v) : v;
    }
    out.bias[i].assign(at.rows, 0.0f);
    bool has = g.rnn.bias == 2 || (g.rnn.bias == 1 && i < 3) || (g.rnn.bias == 3 && i >= 3);
    for (size_t k = 0; has && k < at.rows; k++) out.bias[i][k] = (float)element_load(g.weights, at.bias + k, e);
  }
  return out;
}

float dot(const float *a, const float *b, size_t n) {
  float s = 0;
  for (size_t i = 0; i < n; i++) s += a[i] * b[i];
  return s;
}

float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

// cell makes the next state out of x and h.
void cell(const Layer &l, const Floats &x, const Floats &h, const Floats &h_factor, Floats *out) {
  size_t n = h.size();
  for (size_t i = 0; i < n; i++) {
    float in[3], state[3];
    for (size_t g = 0; g < 3; g++) {
      in[g] = dot(&l.matrix[g][i * x.size()], x.data(), x.size()) + l.bias[g][i];
      state[g] = dot(&l.matrix[g + 3][i * n], h_factor.data(), n) + l.bias[g + 3][i];
    }
    float r = sigmoid(in[0] + state[0]), z = sigmoid(in[1] + state[1]);
    float fresh = std::tanh(in[2] + r * state[2]);
    (*out)[i] = (1.0f - z) * fresh + z * h[i];
  }
}

} // namespace

void Gru::run() const {
  Element e = dnn_element(rnn.type);
  bool tf32 = e == Element::F32 && rnn.math != 3;
  size_t hidden = (size_t)rnn.hidden;
  int steps = x_desc.steps, batch = x_desc.batch;
  // In a packed layout step t holds the entries that are still running, which come first.
  std::vector<size_t> packed((size_t)steps, 0);
  for (int t = 1; t < steps; t++) {
    size_t running = 0;
    for (int len : x_desc.lengths) running += len > t - 1;
    packed[(size_t)t] = packed[(size_t)t - 1] + running;
  }
  std::vector<Floats> seq((size_t)steps * (size_t)batch);
  auto slot = [&](int t, int b) -> Floats & { return seq[(size_t)t * (size_t)batch + (size_t)b]; };
  for (int b = 0; b < batch; b++)
    for (int t = 0; t < x_desc.lengths[(size_t)b]; t++) {
      Floats &v = slot(t, b);
      v.resize((size_t)x_desc.width);
      size_t from = at(x_desc, packed, t, b);
      for (size_t i = 0; i < v.size(); i++) v[i] = (float)element_load(x, from + i, e);
    }
  auto factor = [tf32](Floats v) {
    if (tf32)
      for (float &f : v) f = gp_to_tf32(f);
    return v;
  };
  for (int layer = 0; layer < rnn.layers; layer++) {
    Layer w = read_layer(*this, layer, tf32);
    for (int b = 0; b < batch; b++) {
      size_t state = ((size_t)layer * (size_t)batch + (size_t)b) * hidden;
      Floats h(hidden, 0.0f), next(hidden);
      for (size_t i = 0; h0 && i < hidden; i++) h[i] = (float)element_load(h0, state + i, e);
      for (int t = 0; t < x_desc.lengths[(size_t)b]; t++) {
        cell(w, factor(slot(t, b)), h, factor(h), &next);
        unsigned char stored[8];
        for (size_t i = 0; i < hidden; i++) {
          element_store(stored, 0, e, next[i]);
          h[i] = (float)element_load(stored, 0, e);
        }
        slot(t, b) = h;
      }
      for (size_t i = 0; hn && i < hidden; i++) element_store(hn, state + i, e, h[i]);
    }
  }
  for (int b = 0; b < batch; b++)
    for (int t = 0; t < x_desc.lengths[(size_t)b]; t++) {
      size_t to = at(y_desc, packed, t, b);
      for (size_t i = 0; i < hidden; i++) element_store(y, to + i, e, slot(t, b)[i]);
    }
}
