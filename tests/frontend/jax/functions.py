"""The functions whose programs are in `texts/`, with seeded inputs. Imports jax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Example = tuple[Callable[..., Any], tuple[Any, ...]]
NHWC = ("NHWC", "HWIO", "NHWC")


def _max_pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def _average_pool(x):
    total = lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    return total / lax.reduce_window(jnp.ones_like(x), 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")


def _mlp(x, w1, b1, w2, b2):
    return jax.nn.relu(x @ w1 + b1) @ w2 + b2


def _convolutional(x, w, b, dense):
    y = jax.nn.relu(lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=NHWC) + b)
    return _max_pool(y).mean((1, 2)) @ dense


def _depthwise(x, w):
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=NHWC, feature_group_count=x.shape[-1])


def _batch_norm(x, scale, offset):
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    return (x - mean) / jnp.sqrt(variance + 1e-5) * scale + offset


def _recurrent(x, w):
    def step(state, now):
        state = jnp.tanh(state @ w + now)
        return state, state

    return lax.scan(step, jnp.zeros(w.shape[0]), x)


def _doubled(x):
    return lax.while_loop(lambda state: state[1] < 100.0, lambda state: (state[0] + 1, state[1] * 2), (0, x))


def _moved(x, at):
    return lax.dynamic_update_slice(x, lax.dynamic_slice(x, (at, 0), (1, 3)) * 2, (at + 1, 0))


def _mixed_precision(x, y):
    narrow = (x.astype(jnp.bfloat16), y.astype(jnp.bfloat16))
    return jnp.einsum("bij,bjk->bik", *narrow, preferred_element_type=jnp.float32)


def _normal():
    return jax.random.normal(jax.random.key(0), (4,))


def examples() -> dict[str, Example]:
    """Each function with its arguments, by the name of its files."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    tokens = np.array([[1, 9], [3, 1]], np.int32)
    return {
        "mlp": (_mlp, (normal(4, 8), normal(8, 16), normal(16), normal(16, 3), normal(3))),
        "convolutional": (_convolutional, (normal(2, 9, 9, 3), normal(3, 3, 3, 4), normal(4), normal(4, 2))),
        "convolution_gradient": (
            jax.grad(lambda w, x: (lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=NHWC) ** 2).sum()),
            (normal(3, 3, 2, 4), normal(1, 7, 7, 2)),
        ),
        "depthwise": (_depthwise, (normal(1, 5, 5, 3), normal(3, 3, 1, 3))),
        "softmax": (lambda x: jax.nn.softmax(x, -1), (normal(3, 5),)),
        "log_sum_exp": (lambda x: jax.nn.logsumexp(x, -1), (normal(3, 4),)),
        "layer_norm": (lambda x, g, b: jax.nn.standardize(x) * g + b, (normal(3, 5), normal(5), normal(5))),
        "gelu": (lambda x: jax.nn.gelu(x, approximate=False), (normal(3, 5),)),
        "gelu_tanh": (lambda x: jax.nn.gelu(x, approximate=True), (normal(3, 5),)),
        "attention": (
            lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True),
            (normal(2, 5, 2, 4), normal(2, 5, 2, 4), normal(2, 5, 2, 4)),
        ),
        "max_pool": (_max_pool, (normal(1, 5, 5, 2),)),
        "max_pool_gradient": (jax.grad(lambda x: (_max_pool(x) ** 2).sum()), (normal(1, 4, 4, 2),)),
        "average_pool": (_average_pool, (normal(1, 5, 5, 2),)),
        "average_pool_gradient": (jax.grad(lambda x: (_average_pool(x) ** 2).sum()), (normal(1, 5, 5, 2),)),
        "batch_norm": (_batch_norm, (normal(2, 3, 3, 4), normal(4), normal(4))),
        "cumulative_sum": (lambda x: jnp.cumsum(x, 1), (normal(3, 7),)),
        "sort": (lambda x: (jnp.sort(x), jnp.argsort(x)), (normal(3, 7),)),
        "top_k": (lambda x: lax.top_k(x, 3), (normal(3, 7),)),
        "argmax": (lambda x: jnp.argmax(x, -1), (normal(3, 4),)),
        "embedding": (lambda table, rows: table[rows], (normal(10, 4), tokens)),
        "embedding_gradient": (jax.grad(lambda table, rows: (table[rows] ** 2).sum()), (normal(10, 4), tokens)),
        "scan": (_recurrent, (normal(5, 4), normal(4, 4))),
        "while": (_doubled, (np.float32(3),)),
        "cond": (lambda x, p: lax.cond(p, lambda x: x + 1, lambda x: x * 2, x), (normal(3), np.bool_(True))),
        "dynamic_slices": (_moved, (normal(4, 3), np.int32(1))),
        "one_hot": (lambda rows: jax.nn.one_hot(rows, 5), (np.array([1, 4, 0], np.int32),)),
        "mixed_precision": (_mixed_precision, (normal(2, 3, 4), normal(2, 4, 3))),
        "integer_product": (
            lambda x, w: lax.dot_general(x, w, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32),
            (rng.integers(-128, 128, (2, 3)).astype(np.int8), rng.integers(-128, 128, (3, 2)).astype(np.int8)),
        ),
        "random": (_normal, ()),
    }
