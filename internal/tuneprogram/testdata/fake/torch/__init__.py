"""A stand-in for PyTorch: as much of it as the hook touches, in plain Python. Tensors are numbers in a box."""

import sys
import types

_state = {"threads": 4, "anomaly": False, "deterministic": False, "mkldnn": True, "denormal": False, "drawn": 0}


class Tensor:
    def __init__(self, value=0.0, shape=(1,)):
        self.value, self.shape, self.grad, self.is_sparse = value, shape, None, False
        self.device = types.SimpleNamespace(type="cpu")

    def detach(self):
        return self

    def clone(self):
        return Tensor(self.value, self.shape)

    def numel(self):
        n = 1
        for s in self.shape:
            n *= s
        return n

    def item(self):
        return self.value

    def dim(self):
        return len(self.shape)

    def is_floating_point(self):
        return False

    def backward(self):
        autograd.backward(self)


def is_tensor(x):
    return isinstance(x, Tensor)


def get_num_threads():
    return _state["threads"]


def set_num_threads(n):
    _state["threads"] = n


def set_anomaly_enabled(mode, check_nan=True):
    _state["anomaly"] = mode


def is_anomaly_enabled():
    return _state["anomaly"]


def use_deterministic_algorithms(mode, *, warn_only=False):
    _state["deterministic"] = mode


def are_deterministic_algorithms_enabled():
    return _state["deterministic"]


def set_flush_denormal(mode):
    _state["denormal"] = mode
    return True


def get_float32_matmul_precision():
    return "highest"


autograd = types.ModuleType("torch.autograd")
autograd.backward = lambda tensors, *a, **k: None
backends = types.SimpleNamespace(cudnn=types.SimpleNamespace(benchmark=False), mkldnn=types.SimpleNamespace())
_C = types.SimpleNamespace(
    _get_mkldnn_enabled=lambda: _state["mkldnn"], _set_mkldnn_enabled=lambda mode: _state.update(mkldnn=mode))
nn = types.ModuleType("torch.nn")


class Module:
    _compiled_call_impl = None

    def __init__(self):
        self.weight = Tensor(1.0, (4, 4))

    def parameters(self):
        return iter([self.weight])

    def zero_grad(self, set_to_none=True):
        self.weight.grad = None if set_to_none else Tensor()

    def _call_impl(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    def __call__(self, *args, **kwargs):
        return (self._compiled_call_impl or self._call_impl)(*args, **kwargs)


nn.Module = Module
sys.modules["torch.autograd"], sys.modules["torch.nn"] = autograd, nn

from torch import optim, utils  # noqa: E402,F401
import torch.utils.data  # noqa: E402,F401

del optim.optimizer  # as PyTorch does
