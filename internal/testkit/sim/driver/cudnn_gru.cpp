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

// cell makes the next state out of x and h; kept has its rows where there is a reserve.
void cell(const Layer &l, const Floats &x, const Floats &h, const Floats &h_factor, Floats *out, float *kept) {
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
    if (!kept) continue;
    float row[KEPT] = {r, z, fresh, state[2], (*out)[i], NAN, NAN, NAN};
    for (size_t k = 0; k < KEPT; k++) kept[k * n + i] = row[k];
  }
}

// kept is the rows of one entry at one step in the reserve, KEPT of hidden values each.
float *kept(const Gru &g, int layer, int t, int b) {
  size_t cell = ((size_t)layer * (size_t)g.x_desc.steps + (size_t)t) * (size_t)g.x_desc.batch + (size_t)b;
  return g.reserve + cell * KEPT * (size_t)g.rnn.hidden;
}

// before is the state before a step: that kept of the one before it, or h0.
Floats before(const Gru &g, int layer, int t, int b) {
  size_t n = (size_t)g.rnn.hidden;
  Floats h(n, 0.0f);
  if (t > 0) {
    const float *from = kept(g, layer, t - 1, b) + KEPT_H * n;
    return Floats(from, from + n);
  }
  for (size_t i = 0; g.h0 && i < n; i++)
    h[i] = (float)element_load(g.h0, ((size_t)layer * (size_t)g.x_desc.batch + (size_t)b) * n + i, dnn_element(g.rnn.type));
  return h;
}

// gates are the cotangents of a cell's six products, each with its own weights.
void gates(const float *rows, size_t n, bool tf32, Floats out[6]) {
  for (int g = 0; g < 6; g++) {
    out[g].resize(n);
    for (size_t i = 0; i < n; i++) {
      float v = rows[(size_t)(KEPT_DR + g % 3) * n + i] * (g == 5 ? rows[KEPT_R * n + i] : 1.0f);
      out[g][i] = tf32 ? gp_to_tf32(v) : v;
    }
  }
}

} // namespace

size_t dnn_kept(const Object &rnn, const Object &x) {
  return (size_t)rnn.layers * (size_t)x.steps * (size_t)x.batch * KEPT * (size_t)rnn.hidden * sizeof(float);
}

// Every entry is as long as the others: who calls it sees to that.
void Gru::back_data(const void *dy, const void *dhn, void *dx, void *dh0) const {
  Element e = dnn_element(rnn.type);
  bool tf32 = e == Element::F32 && rnn.math != 3;
  size_t n = (size_t)rnn.hidden, steps = (size_t)x_desc.steps, batch = (size_t)x_desc.batch;
  Floats down(steps * batch * n);
  for (size_t i = 0; i < down.size(); i++) down[i] = (float)element_load(dy, i, e);
  for (int layer = rnn.layers - 1; layer >= 0; layer--) {
    Layer w = read_layer(*this, layer, tf32);
    size_t inputs = (size_t)layer_inputs(rnn, layer);
    Floats in(steps * batch * inputs, 0.0f);
    for (size_t b = 0; b < batch; b++) {
      size_t state = ((size_t)layer * batch + b) * n;
      Floats dh(n, 0.0f), d[6];
      for (size_t i = 0; dhn && i < n; i++) dh[i] = (float)element_load(dhn, state + i, e);
      for (size_t t = steps; t-- > 0;) {
        float *k = kept(*this, layer, (int)t, (int)b);
        Floats h = before(*this, layer, (int)t, (int)b);
        for (size_t i = 0; i < n; i++) {
          float c = dh[i] + down[(t * batch + b) * n + i], r = k[KEPT_R * n + i], z = k[KEPT_Z * n + i], m = k[KEPT_N * n + i];
          float dn = c * (1 - z) * (1 - m * m);
          k[KEPT_DR * n + i] = dn * k[KEPT_U * n + i] * r * (1 - r);
          k[KEPT_DZ * n + i] = c * (h[i] - m) * z * (1 - z);
          k[KEPT_DN * n + i] = dn;
          dh[i] = c * z;
        }
        gates(k, n, tf32, d);
        for (size_t g = 0; g < 3; g++)
          for (size_t i = 0; i < n; i++) {
            for (size_t j = 0; j < inputs; j++) in[(t * batch + b) * inputs + j] += d[g][i] * w.matrix[g][i * inputs + j];
            for (size_t j = 0; j < n; j++) dh[j] += d[g + 3][i] * w.matrix[g + 3][i * n + j];
          }
      }
      for (size_t i = 0; dh0 && i < n; i++) element_store(dh0, state + i, e, dh[i]);
    }
    down = in;
  }
  for (size_t i = 0; i < down.size(); i++) element_store(dx, i, e, down[i]);
}

void Gru::back_weights(void *dw) const {
  Element e = dnn_element(rnn.type);
  bool tf32 = e == Element::F32 && rnn.math != 3;
  size_t n = (size_t)rnn.hidden, steps = (size_t)x_desc.steps, batch = (size_t)x_desc.batch;
  for (int layer = 0; layer < rnn.layers; layer++) {
    size_t inputs = (size_t)layer_inputs(rnn, layer);
    Layer sum;
    for (size_t g = 0; g < 6; g++) sum.matrix[g].assign(n * (g < 3 ? inputs : n), 0.0f), sum.bias[g].assign(n, 0.0f);
    for (size_t t = 0; t < steps; t++)
      for (size_t b = 0; b < batch; b++) {
        Floats in(inputs), h = before(*this, layer, (int)t, (int)b), d[6], exact[6];
        for (size_t j = 0; j < inputs; j++)
          in[j] = layer == 0 ? (float)element_load(x, (t * batch + b) * inputs + j, e) : kept(*this, layer - 1, (int)t, (int)b)[KEPT_H * n + j];
        for (size_t j = 0; tf32 && j < inputs; j++) in[j] = gp_to_tf32(in[j]);
        for (size_t j = 0; tf32 && j < n; j++) h[j] = gp_to_tf32(h[j]);
        gates(kept(*this, layer, (int)t, (int)b), n, tf32, d);
        gates(kept(*this, layer, (int)t, (int)b), n, false, exact);
        for (size_t g = 0; g < 6; g++) {
          const Floats &right = g < 3 ? in : h;
          for (size_t i = 0; i < n; i++) {
            sum.bias[g][i] += exact[g][i];
            for (size_t j = 0; j < right.size(); j++) sum.matrix[g][i * right.size() + j] += d[g][i] * right[j];
          }
        }
      }
    for (int g = 0; g < 6; g++) {
      Gate at = dnn_gate(rnn, layer, g);
      auto add = [&](size_t to, const Floats &v) {
        for (size_t k = 0; k < v.size(); k++) element_store(dw, to + k, e, (float)element_load(dw, to + k, e) + v[k]);
      };
      add(at.matrix, sum.matrix[g]);
      if (rnn.bias == 2) add(at.bias, sum.bias[g]);
    }
  }
}

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
        cell(w, factor(slot(t, b)), h, factor(h), &next, reserve ? kept(*this, layer, t, b) : nullptr);
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
