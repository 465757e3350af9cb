# JAX.
# needs: jax
# exit: 0
# says: no import of torch was seen in the Python process of the program
import jax
import jax.numpy as jnp

f = jax.jit(jax.grad(lambda w: (w * w).sum()))
w = jnp.ones(8)
for _ in range(30):
    w = w - 0.01 * f(w)
print('done')
