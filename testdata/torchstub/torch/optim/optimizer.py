from collections import OrderedDict

from .. import _events

_global_optimizer_post_hooks = OrderedDict()


def register_optimizer_step_post_hook(hook):
    key = len(_global_optimizer_post_hooks)
    _global_optimizer_post_hooks[key] = hook

    class Handle:
        def remove(self):
            _global_optimizer_post_hooks.pop(key, None)

    return Handle()


class Optimizer:
    def __init__(self, params, defaults=None, lr=0.001):
        self.params = list(params)

    def zero_grad(self, set_to_none=True):
        pass

    def step(self, closure=None):
        # As in PyTorch the hooks run inside the step's own range, over a
        # dictionary that must not change meanwhile.
        with _events.span("Optimizer.step#%s.step" % type(self).__name__, "user_annotation"):
            self.update()
            for hook in _global_optimizer_post_hooks.values():
                hook(self, (), {})

    def update(self):
        with _events.span("aten::add_", "cpu_op"):
            _events.spin(0.0001)


class SGD(Optimizer):
    pass
