from .modules.module import Module  # noqa: F401


class Linear(Module):
    def __init__(self, *_):
        super().__init__()

    def forward(self, x):
        import torch

        torch.op("aten::linear")
        return x


class Sequential(Module):
    def __init__(self, *parts):
        super().__init__()
        self.parts = parts

    def forward(self, x):
        for p in self.parts:
            x = p(x)
        return x
