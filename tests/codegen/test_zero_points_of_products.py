"""Products of two i8 activations with zero points on both sides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codegen.contractions import Builder, Output
from codegen.exactness import HERE, assert_native_is_exact
from zeropoint.codegen.kernels.batched import Batched
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.lowering import steps_of
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import DotDimensions, DotGeneralOp
from zeropoint.ir.tensors import with_shape

SHAPES = {
    "terms adjacent in both": (((3, 7, 36), (3, 19, 36)), DotDimensions((0,), (0,), (2,), (2,)), (3, 7, 19)),
    "channels adjacent on the right": (((2, 5, 24), (2, 24, 40)), DotDimensions((0,), (0,), (2,), (1,)), (2, 5, 40)),
}
OUTPUT = Output("float32-rne", False, (-12.0, -10.0), 3, (-128, 127), 0)


def product(case: str, zeros: tuple[int, int], output: Output = OUTPUT) -> Program:
    shapes, dims, result = SHAPES[case]
    net = Builder(list(shapes), 0)
    left, right = (net.centred(value, zero) for value, zero in zip(net.values, zeros, strict=True))
    return net.finish(
        net.requantized(net.insert(DotGeneralOp(left, right, with_shape(left, list(result)), dims)), output, 2)
    )


def is_batched(program: Program, isa: InstructionSet) -> bool:
    return any(isinstance(step.kernel, Batched) for step in steps_of(program, isa).steps)


@pytest.mark.parametrize("isa", HERE[:2], ids=lambda row: row.name)
@pytest.mark.parametrize("case", SHAPES)
@pytest.mark.parametrize("zeros", [(0, 1), (7, -127), (-128, 127), (-128, 0)])
def test_products_of_differences_are_exact(isa: InstructionSet, case: str, zeros: tuple[int, int]) -> None:
    shapes, _, _ = SHAPES[case]
    program, random = product(case, zeros), np.random.default_rng(1)
    ranges = [(-128, 128), (127, 128), (-128, -127)]
    samples = [{f"x{n}": random.integers(*span, shape).astype(np.int8) for n, shape in enumerate(shapes)}
               for span in ranges]  # fmt: skip
    assert is_batched(program, isa)
    assert_native_is_exact(program, samples, isa, threads=(1, 2), guarded=True)


def test_a_difference_that_two_bytes_of_one_sign_do_not_hold_is_a_loop_nest() -> None:
    program = product("terms adjacent in both", (5, -128), replace(OUTPUT, behaviour="fixed32"))
    assert not is_batched(program, HERE[0])
    x = np.random.default_rng(1).integers(-128, 128, (3, 19, 36)).astype(np.int8)
    assert_native_is_exact(program, [{"x0": x[:, :7], "x1": x}], HERE[0])
