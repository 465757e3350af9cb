"""A stand-in for PyTorch: see README.md beside this package."""

import os as _os

__version__ = "2.1.0+stub" if _os.environ.get("TORCHSTUB_OLD") else "2.9.0+stub"

from . import _events
from . import autograd, distributed, nn, optim, profiler, utils  # noqa: F401

_grad = [True]


def is_grad_enabled():
    return _grad[0]


class no_grad:
    def __enter__(self):
        self.was, _grad[0] = _grad[0], False

    def __exit__(self, *_):
        _grad[0] = self.was


from ._cuda import _C, cuda  # noqa: E402, F401


class compiler:
    @staticmethod
    def is_compiling():
        return False


def compile(model=None, **_):
    """The compiled module is a module of its own, as in PyTorch."""
    import sys
    import types

    name = "torch._dynamo.eval_frame"
    if name not in sys.modules:
        frames = types.ModuleType(name)

        class OptimizedModule(nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner

            def __call__(self, *args):
                module = sys.modules["torch.nn.modules.module"]
                if module._global_forward_hooks or module._global_forward_pre_hooks:
                    sys.stderr.write("UserWarning: global hooks on a compiled module\n")
                return super().__call__(*args)

            def forward(self, *args):
                return self.inner.forward(*args)

        frames.OptimizedModule = OptimizedModule
        sys.modules["torch._dynamo"] = types.ModuleType("torch._dynamo")
        sys.modules[name] = frames
    return sys.modules[name].OptimizedModule(model)


class Tensor:
    def __init__(self, backward=None):
        self._backward = backward

    def square(self):
        return self

    def mean(self):
        return self

    def backward(self):
        self._backward()

    def detach(self):
        return 0.0


def randn(*_):
    return Tensor()


def manual_seed(_seed):
    pass


def set_num_threads(_threads):
    pass


def op(name, seconds=0.0002):
    """An operator that takes a while."""
    with _events.span(name, "cpu_op"):
        _events.spin(seconds)
    return Tensor()
