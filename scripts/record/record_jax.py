"""Records the fixtures of internal/trace/read/xla: eight training steps of JAX on the CPU,
in the two forms that its profiler writes.

    pip install jax==0.10.2 && python scripts/record/record_jax.py internal/trace/read/xla/testdata
"""
import glob
import shutil
import sys
import tempfile

import jax
import jax.numpy as jnp


@jax.jit
def train_step(w, x):
    loss = lambda w: jnp.sum(jnp.tanh(x @ w) ** 2)
    return w - 1e-3 * jax.grad(loss)(w)


w, x = jnp.ones((256, 256)), jnp.ones((512, 256))
w = train_step(w, x).block_until_ready()
options = jax.profiler.ProfileOptions()
options.python_tracer_level = 0  # frames hold paths of the machine, and lengthen the steps
with tempfile.TemporaryDirectory() as folder:
    jax.profiler.start_trace(folder, profiler_options=options)
    for step in range(8):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            w = train_step(w, x).block_until_ready()
    jax.profiler.stop_trace()
    for form in ("xplane.pb", "trace.json.gz"):
        (file,) = glob.glob(f"{folder}/plugins/profile/*/*.{form}")
        shutil.copyfile(file, f"{sys.argv[1]}/jax-cpu.{form}")
