"""A contraction whose 16-bit results are added to 8-bit activations: one kernel, on every instruction set here."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, i8, i32
from xdsl.ir import SSAValue

from codegen.contractions import Builder, Case, Output, samples_of
from codegen.exactness import HERE, assert_native_is_exact
from zeropoint.codegen.kernels.contraction import Contraction
from zeropoint.codegen.kernels.integer_arithmetic import Integers
from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS, InstructionSet
from zeropoint.codegen.llvm.machine import assembly
from zeropoint.codegen.lowering import steps_of
from zeropoint.codegen.modules import kernels_of
from zeropoint.ir.fxpmath import WeightedSumOp
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import ConvolutionLayout, ConvolutionOp
from zeropoint.ir.tensors import with_element
from zeropoint.numerics import CommonScaleSum

WORDS = Output("fixed32", True, (-9.0, -3.0), 0, (-(1 << 14), (1 << 14) - 1), 1 << 15, bits=16)
FULL = Output("fixed32", False, (-8.0, -2.0), -77, (-(1 << 15), (1 << 15) - 1), 0, bits=16)
FLOATS = Output("float32-rne", True, (-8.0, -2.0), 5, (-(1 << 15), (1 << 15) - 1), 1 << 15, bits=16)
NARROW = CommonScaleSum((256, 15000), (0, -5), 14, 2, -128, 127)
WIDE = CommonScaleSum((-3000, 1 << 17), (0, 100), 20, -128, -128, 100)
CHANNELS = (1, 24, 40, 72, 200)
FEW = (24, 72)
"""A partial vector, and a partial group: what an output or factors change is the same in other groups."""


def projection(channels: int, output: Output, total: CommonScaleSum, *, residual_first: bool) -> Case:
    """A 1x1 convolution to 16 bits, and its sum with other activations."""
    shapes = [(1, 37, 3, 11), (1, channels, 3, 11)]
    net = Builder(shapes, channels)
    weights = net.random.integers(-127, 128, (channels, 37, 1, 1)).astype(np.int8)
    layout = ConvolutionLayout.channels_first(2)
    sums = net.insert(ConvolutionOp(net.values[0], net.constant(weights), TensorType(i32, shapes[1]), layout))
    made: list[SSAValue] = [net.requantized(sums, output, 1), net.values[1]]
    if residual_first:
        made.reverse()
        factors, zeros = total.multipliers[::-1], total.zero_points[::-1]
        ends = total.storage_min, total.storage_max
        total = CommonScaleSum(factors, zeros, total.shift, total.zero_point, *ends)
    return Case(net.finish(net.insert(WeightedSumOp(made, with_element(sums, i8), total))), samples_of(net, shapes))


def kernels(program: Program, isa: InstructionSet) -> list[object]:
    return [step.kernel for step in steps_of(program, isa).steps if isinstance(step.kernel, Contraction)]


@pytest.mark.parametrize("isa", HERE, ids=lambda row: row.name)
@pytest.mark.parametrize("total", [NARROW, WIDE], ids=["factors of 16 bits", "factors of more"])
@pytest.mark.parametrize("output", [WORDS, FULL, FLOATS], ids=["15 bits", "16 bits", "floats"])
def test_words_are_added_before_they_are_rounded_to_bytes(
    isa: InstructionSet, output: Output, total: CommonScaleSum
) -> None:
    for channels in CHANNELS if (output, total) == (WORDS, NARROW) else FEW:
        case = projection(channels, output, total, residual_first=channels % 16 == 8)
        (kernel,) = kernels(case.program, isa)
        assert isinstance(kernel, Contraction)
        assert isinstance(kernel.arithmetic, Integers)
        assert kernel.arithmetic.residual is not None
        assert kernel.arithmetic.channel_bytes == 1
        assert_native_is_exact(case.program, case.samples, isa, threads=(1,))


@pytest.mark.parametrize("isa", INSTRUCTION_SETS.values(), ids=lambda row: row.name)
def test_every_instruction_set_has_the_kernel(isa: InstructionSet) -> None:
    program = projection(40, WORDS, NARROW, residual_first=True).program
    assert len(kernels(program, isa)) == 1
    assert all(assembly(text, isa) for text in kernels_of(steps_of(program, isa)).texts.values())
