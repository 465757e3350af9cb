# Tensors, and no step at all.
# needs: torch
# exit: 0
# says: shows no step.*so 200ms of time was recorded
# flags: --window-after 1s --time-window 200ms
import time

import torch

x = torch.ones(64, 64)
end = time.monotonic() + 6
while time.monotonic() < end:
    y = x @ x
print("done")
