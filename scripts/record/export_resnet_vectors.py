#!/usr/bin/env python3
"""Write vectors of a residual network computed by PyTorch, in the format of docs/serving.md.

    python3 -m venv venv && venv/bin/pip install torch
    venv/bin/python scripts/record/export_resnet_vectors.py vectors.json [--resnet18] [--seed 7]

Weights and images are float32, the logits are computed in float64. The cases are small: one and several blocks, sizes that fit no
tile, and the large stem. --resnet18 writes one case of ResNet-18 with two images of 224 pixels, a file of 63 MB.
"""
import argparse
import base64
import json
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "peer"))
from resnet import drawn

# image, width, blocks, classes, images
CASES = [(8, 3, [1], 4, 3), (13, 5, [1, 2], 7, 2), (16, 4, [1, 1, 1], 10, 2), (65, 2, [1, 1], 3, 1)]


def text(t):
    return base64.b64encode(t.detach().float().contiguous().numpy().astype("<f4").tobytes()).decode()


def case(index, seed, image, width, blocks, classes, images):
    net = drawn(image, width, blocks, classes, seed + index)
    x = torch.randn(images, 3, image, image)
    weights = {k: v for k, v in net.state_dict().items() if not k.endswith("num_batches_tracked")}
    c = {"kind": "resnet", "image": image, "width": width, "blocks": blocks, "classes": classes}
    c["weights"] = {k: text(v) for k, v in weights.items()}
    if index == 0:  # numbers are read as well
        c["weights"]["conv1.weight"] = weights["conv1.weight"].tolist()
    with torch.no_grad():
        c["out"] = net.double()(x.double()).tolist()
    c["x"] = text(x)
    return c


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("output")
    ap.add_argument("--seed", type=int, default=7)
    ap.add_argument("--resnet18", action="store_true")
    args = ap.parse_args()
    cases = [(224, 64, [2, 2, 2, 2], 1000, 2)] if args.resnet18 else CASES
    with open(args.output, "w") as f:
        json.dump({"cases": [case(i, args.seed, *c) for i, c in enumerate(cases)]}, f)
        f.write("\n")


if __name__ == "__main__":
    main()
