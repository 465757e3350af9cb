_before, _after = [], []


def register_optimizer_step_pre_hook(hook):
    _before.append(hook)


def register_optimizer_step_post_hook(hook):
    _after.append(hook)


class Optimizer:
    def __init__(self, params, **defaults):
        self.param_groups = [dict(defaults, params=list(params))]
        self.state = {}

    def zero_grad(self, set_to_none=True):
        for p in self.param_groups[0]["params"]:
            p.grad = None

    def step(self):
        for hook in _before:
            hook(self, (), {})
        self.update()
        for hook in _after:
            hook(self, (), {})

    def update(self):
        pass


class Adam(Optimizer):
    def __init__(self, params, foreach=None, fused=None):
        super().__init__(params, foreach=foreach, fused=fused)
        self.used = []

    def update(self):
        group = self.param_groups[0]
        self.used.append((group["foreach"], group["fused"]))
