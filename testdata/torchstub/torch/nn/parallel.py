"""Data-parallel training: every bucket of gradients is summed over the ranks as soon as it is there."""

from .modules.module import Module

BUCKETS, SIZE = 2, 256  # gradients a bucket


class DistributedDataParallel(Module):
    def __init__(self, module, bucket_cap_mb=25):
        super().__init__()
        self.module = module

    def parameters(self):
        return self.module.parameters()

    def forward(self, x):
        from .. import Tensor

        self.module(x)
        return Tensor(backward=self.reduce)

    @staticmethod
    def reduce():
        import torch
        from torch import distributed

        group, sums = distributed._group, []
        for _ in range(BUCKETS):
            torch.op("aten::mm", 0.0005)
            values = [group.rank + 1.0] * SIZE
            sums.append((values, group.all_reduce(values)))
        for values, done in sums:
            done.wait()
            torch.op("aten::copy_")
            if values != [group.world * (group.world + 1) / 2] * SIZE:
                raise ArithmeticError("the sum over the ranks is %r" % values[0])
