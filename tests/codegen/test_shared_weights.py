"""Products of one row with the same weights and other multipliers, as the steps of a recurrence, share the weights."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, i32
from xdsl.ir import SSAValue

from codegen.contractions import Builder, Output
from codegen.exactness import assert_native_is_exact
from codegen.machines import runs_here
from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS, InstructionSet
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import DotDimensions, DotGeneralOp

TERMS, CHANNELS = 256, 200
OUTPUT = Output("fixed16", True, (-14.0, -11.0), 3, (-128, 127), 1000)
HERE = [isa for name, isa in INSTRUCTION_SETS.items() if runs_here(name)]


def steps(count: int, rows: int = 1) -> Program:
    """Products of one input with equal weights, each with biases and multipliers of its own."""
    net = Builder([(rows, TERMS)], 7)
    weights = net.random.integers(-127, 128, (TERMS, CHANNELS)).astype(np.int8)

    def step() -> SSAValue:
        result = TensorType(i32, (rows, CHANNELS))
        dims = DotDimensions((), (), (1,), (0,))
        product = net.insert(DotGeneralOp(net.values[0], net.constant(weights), result, dims))
        return net.requantized(product, OUTPUT, 1)

    return net.finish(*(step() for _ in range(count)))


@pytest.mark.parametrize("isa", HERE, ids=lambda row: row.name)
@pytest.mark.parametrize("rows", [1, 3])
def test_the_results_are_those_of_the_interpreter(isa: InstructionSet, rows: int) -> None:
    program = steps(3, rows)
    x = np.random.default_rng(1).integers(-128, 128, (rows, TERMS)).astype(np.int8)
    assert_native_is_exact(program, [{program.inputs[0].name: x}], isa)


def test_the_weights_are_stored_once() -> None:
    """A step in time had its parameters beside a copy of the weights: 34.9 MB for 40 steps of three LSTMs."""
    one, many = (len(NativeProgram(steps(count)).graph.weights) for count in (1, 9))
    assert many < 1.6 * one
