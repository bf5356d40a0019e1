"""What JAX writes is fused as its author meant it: weights that are constants, functions, idioms, pools."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from zeropoint.frontend import load_model
from zeropoint.fuse import fuse
from zeropoint.interp import Interpreter
from zeropoint.ir.annotations import FUNCTION
from zeropoint.ir.constants import constant_op
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.ir.tensors import shape_of
from zeropoint.simplify import simplify

TEXTS = Path(__file__).parents[1] / "frontend" / "jax" / "texts"


def with_weights(name: str) -> Program:
    """A program of the texts with seeded constants in the place of all arguments but the first."""
    program = load_model(TEXTS / f"{name}.mlir")
    random, first = np.random.default_rng(0), program.entry.first_op
    assert first is not None
    for argument in program.entry.args[1:]:
        constant = constant_op(random.normal(0, 1, shape_of(argument)).astype(np.float32), program.weights)
        program.entry.insert_op_before(constant, first)
        argument.replace_all_uses_with(constant.output)
    return program


def kernels(program: Program) -> list[str]:
    """Kernels, by their functions where those have names, and ops that none covers."""
    found: list[str] = []
    for op in list(program.entry.ops)[:-1]:
        if isinstance(op, QuantizeRegionOp):
            named = op.attributes.get(FUNCTION)
            found.append(op.logical_kernel.data if named is None else named.data)
        elif not isinstance(op, ConstantOp):
            found.append(op.name)
    return found


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("average_pool", ["average_pool"]),
        ("convolutional", ["convolution", "max_pool", "mean", "fully_connected"]),
        ("depthwise", ["depthwise_convolution"]),
        ("gelu", ["gelu"]),
        ("gelu_tanh", ["gelu"]),
        ("layer_norm", ["layer_norm"]),
        ("max_pool", ["max_pool"]),
        ("mlp", ["fully_connected", "fully_connected"]),
        ("softmax", ["softmax"]),
    ],
)
def test_a_function_of_jax_is_so_many_kernels(name: str, expected: list[str]) -> None:
    program = with_weights(name)
    fused = fuse(simplify(program))
    assert kernels(fused) == expected
    inputs = {
        port.name: np.random.default_rng(1).normal(0, 1, port.type.get_shape()).astype(np.float32)
        for port in program.inputs
    }
    found, reference = Interpreter(fused)(inputs), Interpreter(program)(inputs)
    for output, array in reference.items():
        np.testing.assert_allclose(found[output], array, rtol=1e-5, atol=1e-6)
