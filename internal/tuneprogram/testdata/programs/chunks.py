"""Planted: a variable of a program that is not PyTorch, the size of its chunks."""

import os

size = int(os.environ.get("CHUNK", "1"))
with open("numbers.bin", "wb", buffering=0) as f:
    for start in range(0, 300000, size):
        f.write(bytes(min(size, 300000 - start)))
