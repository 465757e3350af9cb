// The derivatives of the activations, for the backward pass.
#pragma once
#include "op.cuh"

// op_derive is the derivative of op_activate.
GP_FN float op_derive(int act, float v) {
  float q;
  switch (act) {
  case OP_SILU:
    q = gp_sigmoid(v);
    return q * (1.0f + v * (1.0f - q));
  case OP_SIGMOID:
    q = gp_sigmoid(v);
    return q * (1.0f - q);
  case OP_TANH:
    q = gp_tanh(v);
    return 1.0f - q * q;
  case OP_ABS:
    return v > 0 ? 1.0f : v < 0 ? -1.0f : 0.0f;
  }
  return 1.0f;
}
