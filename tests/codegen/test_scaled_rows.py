"""Products of rows that are rounded to 8 bits: one contraction in native code, with the interpreter's bits."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import i32
from xdsl.ir import Block

from codegen.exactness import HERE, assert_native_is_exact
from row_scaled import HOSTILE, RowProduct
from zeropoint.codegen.group import group
from zeropoint.codegen.kernels.contraction import Contraction
from zeropoint.codegen.kernels.scaled_rows import ScaledRows
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.lowering import steps_of
from zeropoint.codegen.patterns.scaled_rows import RowFactor
from zeropoint.ir.native import KernelOp
from zeropoint.lower import integer_program

PROFILES = ("fixed16", "fixed32", "float32-rne")


@pytest.mark.parametrize("number", range(len(HOSTILE)))
@pytest.mark.parametrize("isa", HERE, ids=lambda isa: isa.name)
def test_native_code_has_the_bits_of_the_interpreter(isa: InstructionSet, number: int) -> None:
    case = HOSTILE[number]
    program = integer_program(case.program(PROFILES[number % len(PROFILES)]))
    assert_native_is_exact(program, [{program.inputs[0].name: case.inputs()}], isa)


@pytest.mark.parametrize("case", [HOSTILE[-1], RowProduct((8,), 32, 48)], ids=str)
def test_the_factor_of_a_row_is_a_part_of_the_contraction(case: RowProduct) -> None:
    program = integer_program(case.program("fixed16", products=2))
    # The integers of rows, their numbers and their middles are results of one kernel.
    grouped = [op.kind.data for op in group(program, isa="portable").entry.ops if isinstance(op, KernelOp)]
    assert grouped[:3] == ["rows", "contraction", "contraction"]
    kernels = [step.kernel for step in steps_of(program, HERE[-1]).steps]
    products = [kernel for kernel in kernels if isinstance(kernel, Contraction)]
    assert [type(kernel.arithmetic) for kernel in products] == [ScaledRows] * 2


@pytest.mark.parametrize(
    ("bounds", "totals", "short"),
    [
        ((-32768, 32767), (-32768, 32767), True),
        ((-32769, 0), (0, 0), False),
        ((0, 32768), (0, 0), False),
        ((0, 0), (-32769, 0), False),
        ((0, 0), (0, 32768), False),
    ],
)
def test_numbers_of_16_bits_are_told_from_wider_ones(bounds: tuple[int, int], totals: tuple[int, int], short: bool):
    (value,) = Block(arg_types=[i32]).args
    factor = RowFactor(value, 1, value, bounds, np.array(totals), (0, 7), np.zeros(2, np.int64))
    assert factor.short == short


def test_sums_of_16_bit_numbers_and_of_wider_ones_are_tried() -> None:
    programs = (integer_program(case.program("fixed32")) for case in HOSTILE)
    kernels = [step.kernel for program in programs for step in steps_of(program, HERE[-1]).steps]
    found = {k.arithmetic.short for k in kernels if isinstance(k, Contraction) and isinstance(k.arithmetic, ScaledRows)}
    assert found == {False, True}
