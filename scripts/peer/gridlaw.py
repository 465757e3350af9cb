"""The law of the workload gridsim in PyTorch, for the scripts beside this file."""
import torch

TAU, TINY = 0.1, 1e-8


def law(psi, w1, b1, w2, b2):
    """One step: psi [C,N,N], w1 [H,2C], b1 [H], w2 [C,H], b2 [C]; the operations are those of gridsim's impl=split."""
    c, n, _ = psi.shape
    wide = torch.nn.functional.pad(psi[None], (1, 1, 1, 1), mode="circular")[0]
    k = sum(wide[:, y:y + n, x:x + n] for y in range(3) for x in range(3) if (y, x) != (1, 1)) / 8
    p = torch.cat([psi, k]).reshape(2 * c, n * n)
    h = torch.nn.functional.elu(torch.addmm(b1[:, None], w1, p))
    u = psi.reshape(c, n * n) + TAU * torch.addmm(b2[:, None], w2, h)
    return (u / torch.sqrt((u * u).sum(0) + TINY)).reshape(c, n, n)
