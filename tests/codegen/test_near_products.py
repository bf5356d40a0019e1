"""The epilogues of contractions that multiply in floats: float32-rne and float64-away.

Under float32-rne, products within 2^22 are rounded by a sum, others by a conversion.
"""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import i16, i32

from codegen.contractions import Builder, Output
from codegen.exactness import HERE, assert_native_is_exact
from zeropoint.codegen.kernels.contraction import Contraction
from zeropoint.codegen.kernels.integer_arithmetic import Integers
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.lowering import steps_of
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import ConvertOp, DotDimensions, DotGeneralOp
from zeropoint.ir.tensors import with_element, with_shape

EVERY = np.arange(-(1 << 15), 1 << 15).astype(np.int16)


def _products(
    terms: int, power: float, zero: int, bounds: tuple[int, int], bits: int, behaviour: str = "float32-rne"
) -> Program:
    """Every i16 times weights of 127, -127, 1 and -1, and a multiplier 2^power."""
    net = Builder([(len(EVERY), terms)], 0, i16)
    stored = net.constant(np.tile(np.array([127, -127, 1, -1], np.int8), (terms, 1)))
    right = net.insert(ConvertOp(stored, with_element(stored, i16)))
    kind = with_element(with_shape(net.values[0], (len(EVERY), 4)), i32)
    sums = net.insert(DotGeneralOp(net.values[0], right, kind, DotDimensions((), (), (1,), (0,))))
    return net.finish(net.requantized(sums, Output(behaviour, False, (power, power), zero, bounds, 0, bits=bits), 1))


@pytest.mark.parametrize("isa", HERE, ids=lambda row: row.name)
@pytest.mark.parametrize(
    ("terms", "power", "zero", "bounds", "bits", "near"),
    [
        (1, -1.0, 0, (-128, 127), 8, True),  # ties
        (1, -10.0, -128, (-128, 127), 8, True),
        (1, 0.0, 5, (-100, 100), 8, True),  # up to 2^15 * 127, just below 2^22
        (2, 0.0, 5, (-128, 127), 8, False),
        (1, 12.0, 5, (-128, 127), 8, False),
        (1, -3.0, -7, (-32768, 32767), 16, True),
        (1, -6.5, 100, (-4096, 4095), 16, True),
    ],
)
def test_products_of_accumulators_and_floats_are_rounded_to_even(
    isa: InstructionSet, terms: int, power: float, zero: int, bounds: tuple[int, int], bits: int, *, near: bool
) -> None:
    program = _products(terms, power, zero, bounds, bits)
    (kernel,) = [step.kernel for step in steps_of(program, isa).steps if isinstance(step.kernel, Contraction)]
    assert isinstance(kernel.arithmetic, Integers)
    assert kernel.arithmetic.epilogue.near == near
    assert_native_is_exact(program, [{"x0": np.repeat(EVERY[:, None], terms, axis=1)}], isa)


@pytest.mark.parametrize("isa", HERE, ids=lambda row: row.name)
@pytest.mark.parametrize(
    ("power", "zero", "bounds", "bits"),
    [(-1.0, 0, (-128, 127), 8), (-13.3, 5, (-100, 100), 8), (40.0, 5, (-128, 127), 8), (-3.0, -7, (-32768, 32767), 16)],
)
def test_products_of_accumulators_and_doubles_are_rounded_away_from_zero(
    isa: InstructionSet, power: float, zero: int, bounds: tuple[int, int], bits: int
) -> None:
    program = _products(1, power, zero, bounds, bits, "float64-away")
    assert any(isinstance(step.kernel, Contraction) for step in steps_of(program, isa).steps)
    assert_native_is_exact(program, [{"x0": EVERY[:, None]}], isa)
