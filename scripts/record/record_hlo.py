"""Records compiled programs of JAX with the costs that XLA counts: a fixture of internal/trace/read/xla.

    pip install jax==0.10.2 && python scripts/record/record_hlo.py internal/trace/read/xla/testdata/hlo.json

XLA counts FLOPs by element too, gpuprof only those of products and convolutions: programs of one operation have equal
counts, the others have the number that follows from their shapes.
"""
import base64
import json
import sys

import jax
import jax.numpy as jnp

jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")  # paths of the machine


def ones(*shape, dtype=jnp.float32):
    return jnp.ones(shape, dtype)


def product(a, b):
    return jnp.einsum("bij,bjk->bik", a, b)


def convolution(**options):
    return lambda x, w: jax.lax.conv_general_dilated(x, w, dimension_numbers=("NHWC", "HWIO", "NHWC"), **options)


def gradient(x, w):
    return jax.grad(lambda w: jnp.sum(jnp.tanh(x @ w) ** 2))(w)


image, half = ones(2, 32, 30, 8), ones(5, 24, 8, dtype=jnp.bfloat16)
PROGRAMS = {  # the function, its arguments, and FLOPs where XLA counts others too
    "matrices": (jnp.matmul, (ones(64, 128), ones(128, 32)), None),
    "batch": (product, (ones(5, 16, 24), ones(5, 24, 8)), None),
    "bf16": (product, (ones(5, 16, 24, dtype=jnp.bfloat16), half), 2 * 5 * 16 * 24 * 8),
    "two sums": (lambda a, b: jnp.einsum("ijk,jkl->il", a, b), (ones(6, 7, 8), ones(7, 8, 9)), None),
    "padded stride": (convolution(window_strides=(2, 2), padding="SAME"), (image, ones(3, 3, 8, 16)), None),
    "groups": (convolution(window_strides=(1, 1), padding="VALID", feature_group_count=4), (image, ones(3, 3, 2, 16)), None),
    "dilated kernel": (convolution(window_strides=(1, 1), padding="SAME", rhs_dilation=(2, 3)), (image, ones(3, 3, 8, 16)), None),
    "dilated input": (convolution(window_strides=(1, 1), padding=((1, 2), (2, 1)), lhs_dilation=(2, 2)), (image, ones(3, 3, 8, 16)), None),
    "gradient": (gradient, (ones(64, 128), ones(128, 32)), 2 * 2 * 64 * 128 * 32),
    "loop": (lambda a, b: jax.lax.fori_loop(0, 7, lambda i, x: jnp.tanh(x @ b), a), (ones(64, 64), ones(64, 64)), 2 * 64**3),
    "elements": (lambda a, b: jnp.exp(a) * b + a, (ones(64, 128), ones(64, 128)), 0),
    "slice": (lambda a: jax.lax.dynamic_slice(a, (3, 0), (2, 64)) * 2, (ones(512, 64),), 0),
}

rows = []
for name, (function, arguments, flops) in PROGRAMS.items():
    compiled = jax.jit(function).lower(*arguments).compile()
    (module,) = compiled.runtime_executable().hlo_modules()
    counted = compiled.cost_analysis()
    text = base64.b64encode(module.as_serialized_hlo_module_proto()).decode()
    rows.append({"name": name, "flops": counted["flops"] if flops is None else flops, "bytes": counted["bytes accessed"], "module": text})
with open(sys.argv[1], "w") as out:
    json.dump(rows, out, indent=1)
    out.write("\n")
