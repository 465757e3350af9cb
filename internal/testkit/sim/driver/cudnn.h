// Descriptors of the simulated cuDNN, and its GRU.
#pragma once

#include <stdint.h>

#include <memory>
#include <vector>

#include "library.h"

enum DnnStatus { DNN_OK = 0, DNN_NOT_INITIALIZED = 1001, DNN_BAD_PARAM = 2000, DNN_NOT_SUPPORTED = 3000, DNN_DEVICE_ALLOCATION_FAILED = 4004, DNN_EXECUTION_FAILED = 5000 };

struct Object {
  enum Kind { Handle, Tensor, Dropout, Rnn, Data, Filter, Conv } kind;
  bool set = false;
  void *stream = nullptr; // of a handle
  // Tensor, Filter
  int type = 0, format = 0;
  std::vector<int> dims, strides;
  // Dropout
  float rate = 0;
  // Rnn
  int bias = 0, math = 0, input = 0, hidden = 0, layers = 0;
  // Conv, with math
  int pad = 0, stride = 0;
  // Data
  int layout = 0, steps = 0, batch = 0, width = 0;
  std::vector<int> lengths;
};

Element dnn_element(int type);

// What the library's files share of its objects. get returns null for what is none of this kind, or was never set.
Object *dnn_get(void *p, Object::Kind kind, bool need_set = true);
int dnn_create(void **out, Object::Kind kind);
int dnn_destroy(void *p, Object::Kind kind);
// dnn_says keeps status and what cudnnGetLastErrorString is to say about it.
int dnn_says(int status, const char *text);

// Where gate g (0..5) of a layer lies in the weight space, in elements. Biases come first and every block starts at
// a multiple of 64 elements: whoever does not ask where gets it wrong.
struct Gate {
  size_t matrix, bias, rows, cols;
};
size_t dnn_weight_elements(const Object &rnn);
Gate dnn_gate(const Object &rnn, int layer, int g);
int dnn_biases(int mode); // how many of the six bias vectors there are

struct Gru {
  Object rnn, x_desc, y_desc;
  const void *x, *h0, *weights;
  void *y, *hn;
  void run() const;
};
