"""Requantization by fixed32-double in kernels: every shift and edge multipliers, at accumulators near every tie."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
import pytest

from codegen.emulation import EVERYWHERE
from codegen.exactness import HERE, assert_native_is_exact
from zeropoint.codegen.kernels.elements import Requantize
from zeropoint.codegen.kernels.high_products import has_form
from zeropoint.codegen.kernels.known_scalars import of_known
from zeropoint.codegen.kernels.loops import Nest
from zeropoint.codegen.kernels.requantize import GROUP, Epilogue, channel_order
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.machine import Loaded, compile_object, host
from zeropoint.codegen.llvm.text import Module
from zeropoint.codegen.llvm.types import Value
from zeropoint.codegen.lowering import steps_of
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program
from zeropoint.numerics import Multiplier, Requantization, RequantizeBehaviour
from zeropoint.numerics.rounding import INT32_MAX
from zeropoint.numerics.storage import signed_range

ALL = pytest.mark.parametrize("isa", EVERYWHERE.values(), ids=lambda row: row.name)
MULTIPLIERS = (0, 1, 2, 3, 1 << 29, 1 << 30, (1 << 30) + 1, 1518500250, INT32_MAX - 1, INT32_MAX)


@dataclass(frozen=True)
class Form:
    """Multipliers and exponents (positive to the left) per channel, the greatest |accumulator|, and the result."""

    multipliers: Array
    exponents: Array
    reach: int
    zero_point: int
    bounds: tuple[int, int]
    bits: int

    @property
    def output(self) -> Requantization:
        multiplier = Multiplier(RequantizeBehaviour.FIXED32_DOUBLE, self.multipliers, self.exponents)
        return Requantization(multiplier, self.zero_point, *self.bounds, axis=1)

    def epilogue(self, isa: InstructionSet) -> Epilogue:
        reach = np.full(len(self.multipliers), self.reach, np.int64)
        return Epilogue.of(self.output, reach, isa, self.bits)


def emitted(form: Form, accumulators: Array, isa: InstructionSet) -> Array:
    """What the machine code of the epilogue gives for accumulators (n, channels), as storage integers."""
    epilogue, width = form.epilogue(isa), isa.width
    count = GROUP if form.bits == 8 else 2
    channels = np.full(-(-accumulators.shape[1] // (count * width)) * count * width, -1)
    channels[: accumulators.shape[1]] = np.arange(accumulators.shape[1])
    groups = channels.reshape(-1, count * width)
    parameters = epilogue.parameters(isa, form.output, groups, count)
    assert parameters.shape[1] == epilogue.size(isa, count)
    places = groups[:, channel_order(count, width)]
    given = np.where(places < 0, 0, accumulators[:, places]).astype(np.int32)
    module = Module()
    f = module.function("run", [("ptr", "sums"), ("ptr", "parameters"), ("ptr", "out"), ("i64", "n")])
    sums, numbers, out, n = f.arguments

    def pixel(index: Value, _: list[Value]) -> None:
        offset = f.mul(index, count * isa.bytes)
        vectors = f.vectors(isa.i32, f.at(sums, offset), count)
        f.store(epilogue.emit(f, isa, vectors, numbers), out, f.mul(index, isa.bytes))

    f.loop(0, n, 1, pixel)
    f.ret()
    code = Loaded([compile_object(str(module), isa if isa.triple else host())], host())
    run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)(code.address("run"))
    found = np.zeros((len(groups), len(given), isa.bytes), np.uint8)
    for group in range(len(groups)):
        sums_of = aligned(np.ascontiguousarray(given[:, group]))
        of = aligned(parameters[group])
        run(sums_of.ctypes.data, of.ctypes.data, found[group].ctypes.data, len(given))
    numbers_of = found.view(np.int16) if form.bits == 16 else found if isa.unsigned else found.view(np.int8)
    kept = numbers_of[..., : count * width].swapaxes(0, 1).reshape(len(given), -1)[:, : accumulators.shape[1]]
    return kept.astype(np.int64) - (isa.offset if form.bits == 8 else 0)


def aligned(array: Array) -> Array:
    """The same array at a multiple of 64 bytes."""
    held = np.empty(array.nbytes + 64, np.uint8)
    start = -held.ctypes.data % 64
    made = held[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


def near_ties(form: Form, count: int = 64) -> Array:
    """Accumulators (n, channels) at the ends and around ties of both roundings, within the reach."""
    random = np.random.default_rng(form.reach & 0xFFFF)
    exponents, factors = form.exponents.astype(np.float64), np.maximum(form.multipliers, 1).astype(np.float64)
    units = np.ldexp(1.0, 31) / factors
    few = np.concatenate([np.arange(-8, 9), random.integers(-200, 200, count)])[:, None]
    halves = np.rint((few + 0.5) * units * np.ldexp(1.0, -exponents.astype(int)))
    lows = np.rint((random.integers(-(1 << 20), 1 << 20, count)[:, None] + 0.5) * units)
    lowest = -form.reach - (form.reach == INT32_MAX)
    ends = np.array([lowest, -form.reach, form.reach, -form.reach + 1, form.reach - 1, -2, -1, 0, 1, 2])[:, None]
    any_ = random.integers(-form.reach, form.reach, (count, 1))
    parts = [np.broadcast_to(part, (len(part), len(factors))) for part in (ends, any_, lows, halves)]
    around = [part + by for part in parts[2:] for by in (-1, 0, 1)]
    found = np.concatenate([*parts[:2], *around])
    return np.clip(found, lowest, form.reach).astype(np.int64)


def every_shift(shifts: range, reach: int, bits: int = 8, zero_point: int = -3, low: int | None = None) -> Form:
    multipliers, exponents = np.meshgrid(np.array(MULTIPLIERS), np.array(shifts), indexing="ij")
    least, most = signed_range(bits)
    bounds = (least if low is None else low, most - 5)
    return Form(multipliers.reshape(-1), exponents.reshape(-1), reach, zero_point, bounds, bits)


FORMS = {
    "to the right": (every_shift(range(-31, 1), (1 << 29) - 1), (2, True, True)),
    "to the right, no room": (every_shift(range(-31, 1), 1 << 29), None),
    "of any number": (every_shift(range(-31, 1), INT32_MAX), None),
    "a few to the left": (every_shift(range(-31, 4), (1 << 26) - 1), (5, True, True)),
    "far to the left": (every_shift(range(-31, 29), 1), (30, True, True)),
    "all, of any number": (every_shift(range(-31, 31), INT32_MAX), None),
    "16 bits": (every_shift(range(-31, 1), (1 << 29) - 1, 16, 0), (2, True, False)),
    "16 bits and a zero point": (every_shift(range(-14, 2), (1 << 28) - 1, 16, -1000), (3, True, False)),
    "no shift": (every_shift(range(1), (1 << 29) - 1), (2, True, False)),
    "small sums": (every_shift(range(-31, 1), 40000), (2, True, True)),
    "a few to the right": (every_shift(range(-14, 1), (1 << 29) - 1), (2, True, False)),
    "a few to the right after a ReLU": (every_shift(range(-14, 1), (1 << 29) - 1, 8, -128), (2, False, False)),
    "after a ReLU": (every_shift(range(-31, 2), (1 << 28) - 1, 8, -20, -20), (3, False, True)),
}
"""Forms, and what `Lifted` they have: the left shift, and whether `below` and `apart` are set."""


@ALL
@pytest.mark.parametrize("name", FORMS)
def test_results_are_those_of_both_roundings(isa: InstructionSet, name: str) -> None:
    form, lifted = FORMS[name]
    found = form.epilogue(isa).double
    if isa.doubling_high is not None:
        assert found is None
    elif isa.unsigned:
        assert (None if found is None else (found.lift, found.below, found.apart)) == lifted
    accumulators = near_ties(form)
    np.testing.assert_array_equal(emitted(form, accumulators, isa), form.output.apply(accumulators))


def rescaled(multiplier: int, exponent: int, power: int, zero_point: int, bounds: tuple[int, int]) -> Program:
    """Every i16 times 2^power, requantized: a loop nest."""
    return parse_program(f"""
    func.func @main(%x: tensor<65536xi16>) -> tensor<65536xi32> {{
      %w = stablehlo.convert %x : (tensor<65536xi16>) -> tensor<65536xi32>
      %p = stablehlo.constant dense<{1 << power}> : tensor<i32>
      %b = stablehlo.broadcast_in_dim %p, dims = [] : (tensor<i32>) -> tensor<65536xi32>
      %a = stablehlo.multiply %w, %b : tensor<65536xi32>
      %m = stablehlo.constant dense<{multiplier}> : tensor<1xi32>
      %e = stablehlo.constant dense<{exponent}> : tensor<1xi32>
      %q = "fxpmath.requantize"(%a, %m, %e) <{{behaviour = "fixed32-double", zero_point = {zero_point} : i64,
        storage_min = {bounds[0]} : i64, storage_max = {bounds[1]} : i64}}>
        : (tensor<65536xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<65536xi32>
      return %q : tensor<65536xi32>
    }}
    """)


EVERY = np.arange(-(1 << 15), 1 << 15).astype(np.int16)
WORD = signed_range(32)


@pytest.mark.parametrize(
    ("multiplier", "exponent", "power", "zero_point", "bounds"),
    [
        (1 << 30, 0, 12, 0, WORD),
        (1 << 30, -3, 0, 0, WORD),  # ties
        (2018297529, -1, 12, 0, WORD),
        (INT32_MAX, -1, 13, 0, WORD),
        (1518500250, -14, 13, -3, (-128, 127)),
        (1518500250, -7, 0, -128, (-128, 127)),
        (1386684850, 2, 9, 7, (-1000, 1000)),
        (3, -31, 13, 5, (-100, 100)),
        (0, 0, 3, 5, WORD),
    ],
)
def test_loop_nests_round_numbers_of_known_magnitude_in_32_bits(
    multiplier: int, exponent: int, power: int, zero_point: int, bounds: tuple[int, int]
) -> None:
    program = rescaled(multiplier, exponent, power, zero_point, bounds)
    for isa in HERE:
        (nest,) = (step.kernel for step in steps_of(program, isa).steps if isinstance(step.kernel, Nest))
        assert any(isinstance(i.what, Requantize) for i in nest.body)
        kept = any(isinstance(i.what, Requantize) for i in of_known(nest.body, isa))
        assert kept == (not has_form(isa))
        assert_native_is_exact(program, [{"arg0": EVERY}], isa)


@pytest.mark.parametrize(
    ("multiplier", "exponent", "power", "zero_point"),
    [(1518500250, -9, 14, 0), (1518500250, 1, 13, 0), (INT32_MAX, 0, 13, INT32_MAX - 100), (1 << 30, 0, 5, -(1 << 31))],
)
def test_numbers_without_room_are_rounded_in_64_bits(
    multiplier: int, exponent: int, power: int, zero_point: int
) -> None:
    """Results saturate. With a zero point of 31 bits, they wrapped."""
    program = rescaled(multiplier, exponent, power, zero_point, WORD)
    (nest,) = (step.kernel for step in steps_of(program, HERE[0]).steps if isinstance(step.kernel, Nest))
    assert any(isinstance(i.what, Requantize) for i in of_known(nest.body, HERE[0]))
    assert_native_is_exact(program, [{"arg0": EVERY}], HERE[0])
