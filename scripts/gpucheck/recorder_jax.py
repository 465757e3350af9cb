#!/usr/bin/env python3
"""A small program of JAX that does a step as often as it is told: what one recording has more than another of fewer
steps is what the steps launched.

    gpuprof run --cuda -- python3 recorder_jax.py --steps 100
    python3 recorder_jax.py --ask        whether this python can do it: a reason and exit code 1
"""
import argparse
import os
import sys


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--steps", type=int, default=100, help="how often the step is done")
    ap.add_argument("--ask", action="store_true", help="say whether there is a JAX that sees a GPU")
    args = ap.parse_args()
    # Autotuning launches kernels as often as it likes; memory is shared with other programs of the check.
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_gpu_autotune_level=0"
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    try:
        import jax
        import jax.numpy as jnp
    except ImportError as e:
        sys.exit(f"has no JAX ({e})")
    try:
        device = jax.devices("gpu")[0]
    except RuntimeError:
        sys.exit("has a JAX that sees no GPU")
    if args.ask:
        return

    @jax.jit
    def step(weights, x):
        def loss(weights):
            h = x
            for w in weights:
                h = jnp.tanh(h @ w)
            return (h * h).mean()
        return [w - 1e-3 * d for w, d in zip(weights, jax.grad(loss)(weights))]

    with jax.default_device(device):
        key = jax.random.PRNGKey(0)
        weights = [jax.random.normal(jax.random.fold_in(key, i), (512, 512)) * 0.05 for i in range(4)]
        x = jax.random.normal(key, (1024, 512))
        for _ in range(args.steps):
            weights = step(weights, x)
        jax.block_until_ready(weights)


if __name__ == "__main__":
    main()
