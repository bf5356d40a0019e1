"""Contractions whose accumulators a runtime converts to i8 in floats, and sums of two i8 in floats."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from xdsl.dialects.builtin import f32, f64, i8, i32
from xdsl.ir import Attribute, SSAValue

from codegen.exactness import HERE, assert_native_is_exact
from codegen.runtime_sums import RuntimeBuilder
from zeropoint.codegen.kernels.computed import ComputedEpilogue
from zeropoint.codegen.kernels.contraction import Contraction
from zeropoint.codegen.kernels.depthwise import Depthwise
from zeropoint.codegen.kernels.finite import Within
from zeropoint.codegen.kernels.integer_arithmetic import Integers
from zeropoint.codegen.kernels.known_scalars import Magnitude, known_of
from zeropoint.codegen.kernels.loops import Nest
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.lowering import steps_of
from zeropoint.ir.fxpmath import RequantizeOp
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import (
    AddOp,
    ConvolutionLayout,
    ConvolutionOp,
    DotDimensions,
    DotGeneralOp,
    MultiplyOp,
    RoundNearestEvenOp,
)
from zeropoint.ir.tensors import Array, shape_of, with_element, with_shape


@dataclass(frozen=True)
class Runtime:
    """The arithmetic after the accumulators: fma(fl(acc * 2^scale) + bias, factor, shift), clamped, rounded."""

    scale: float = -9.0
    shift: float = 0.0
    bounds: tuple[float, float] | None = (0.0, 255.0)
    storage: tuple[int, int] = (-128, 127)
    zero_point: int = -128


class Floats(RuntimeBuilder):
    """A program with float arithmetic of a runtime."""

    def stored(self, real: SSAValue, by: Runtime) -> SSAValue:
        whole = self.to(self.insert(RoundNearestEvenOp(real)), i32)
        one = self.constant(np.ones(1, np.float32))
        op = RequantizeOp(
            whole, one, None, with_element(whole, i8), behaviour="float32-rne", zero_point=by.zero_point,
            storage_min=by.storage[0], storage_max=by.storage[1], axis=None,
        )  # fmt: skip
        return self.insert(op)

    def computed(self, sums: SSAValue, axis: int, by: Runtime, other: SSAValue | None) -> SSAValue:
        channels = shape_of(sums)[axis]
        scales = (2.0 ** (by.scale + self.random.uniform(-1, 1, channels))).astype(np.float32)
        biases = self.random.normal(0, 3, channels).astype(np.float32)
        real = self.to(sums, f32)
        real = self.insert(MultiplyOp(real, self.filled(real, scales, axis)))
        real = self.insert(AddOp(real, self.filled(real, biases, axis)))
        if by.shift:
            real = self.fused(real, 2.7, by.shift)
        if by.bounds is not None:
            real = self.clamped(real, *by.bounds)
        if other is not None:
            real = self.insert(AddOp(real, self.to(self.to(other, i32), f32)))
        return self.stored(real, by)


def rows(channels: int, terms: int, by: Runtime, *, adds: bool = False, count: int = 7) -> Program:
    net = Floats([(count, terms), *([(count, channels)] if adds else [])], channels)
    weights = net.constant(net.random.integers(-127, 128, (terms, channels)).astype(np.int8))
    kind = with_element(with_shape(net.values[0], (count, channels)), i32)
    sums = net.insert(DotGeneralOp(net.values[0], weights, kind, DotDimensions((), (), (1,), (0,))))
    return net.finish(net.computed(sums, 1, by, net.values[1] if adds else None))


def epilogue_of(program: Program, isa: InstructionSet) -> object:
    """The epilogue of the only contraction. Other kernels copy."""
    (kernel,) = (step.kernel for step in steps_of(program, isa).steps if isinstance(step.kernel, Contraction))
    assert isinstance(kernel.arithmetic, Integers)
    return kernel.arithmetic.epilogue


def inputs(program: Program) -> dict[str, Array]:
    random = np.random.default_rng(0)
    return {p.name: random.integers(-128, 128, shape_of(p.type)).astype(np.int8) for p in program.inputs}


RUNTIMES = {
    "a scale": Runtime(),
    "a scale and a shift": Runtime(shift=119.99999),
    "narrow storage": Runtime(shift=12.5, storage=(-100, 90)),
    "a clamp inside the storage": Runtime(bounds=(3.5, 200.0)),
    "sums beyond 2^22": Runtime(scale=12.0, shift=3.0),
    "no clamp": Runtime(bounds=None, zero_point=3),
    "no clamp, sums beyond 2^31": Runtime(scale=22.0, bounds=None, zero_point=3),
}


@pytest.mark.parametrize("isa", HERE, ids=lambda row: row.name)
@pytest.mark.parametrize("name", RUNTIMES)
def test_accumulators_are_converted_by_the_floats_of_a_runtime(isa: InstructionSet, name: str) -> None:
    # Portable code takes seconds to compile if there is much of it.
    for channels, adds in [(5, True), (24, False), (70, True)] if isa.fused else [(5, True)]:
        program = rows(channels, 36, RUNTIMES[name], adds=adds, count=7 if isa.fused else 2)
        assert isinstance(epilogue_of(program, isa), ComputedEpilogue)
        assert_native_is_exact(program, [inputs(program)], isa)


@pytest.mark.parametrize("isa", HERE[:2], ids=lambda row: row.name)
@pytest.mark.parametrize(("groups", "channels"), [(1, 20), (4, 40), (40, 40), (130, 130)])
def test_convolutions_are_converted_by_the_floats_of_a_runtime(isa: InstructionSet, groups: int, channels: int) -> None:
    net = Floats([(2, channels, 6, 7)], 0)
    weights = net.random.integers(-127, 128, (channels, channels // groups, 3, 3)).astype(np.int8)
    layout = ConvolutionLayout(0, 1, (2, 3), 1, 0, (2, 3), 0, 1, (2, 3))
    kind = with_element(with_shape(net.values[0], (2, channels, 4, 5)), i32)
    sums = net.insert(ConvolutionOp(net.values[0], net.constant(weights), kind, layout, feature_group_count=groups))
    program = net.finish(net.computed(sums, 1, Runtime(shift=100.0), None))
    kernels = [step.kernel for step in steps_of(program, isa).steps]
    assert any(isinstance(kernel, Contraction | Depthwise) for kernel in kernels)
    assert not any(isinstance(kernel, Nest) and len(kernel.body) > 3 for kernel in kernels)  # only copies
    assert_native_is_exact(program, [inputs(program)], isa, threads=(1, 2))


def test_an_accumulator_that_another_op_reads_stays_apart() -> None:
    net = Floats([(7, 36)], 0)
    weights = net.constant(net.random.integers(-127, 128, (36, 24)).astype(np.int8))
    kind = with_element(with_shape(net.values[0], (7, 24)), i32)
    sums = net.insert(DotGeneralOp(net.values[0], weights, kind, DotDimensions((), (), (1,), (0,))))
    program = net.finish(net.computed(sums, 1, Runtime(), None), sums)
    assert not any(isinstance(step.kernel, Contraction) for step in steps_of(program, HERE[0]).steps)
    assert_native_is_exact(program, [inputs(program)], HERE[0])


def test_bytes_that_wrap_around_before_they_are_added_stay_apart() -> None:
    """An epilogue has the added value in 32 bits. It added sums of bytes that had not wrapped around."""
    net = Floats([(7, 36), (7, 24)], 0)
    weights = net.constant(net.random.integers(-127, 128, (36, 24)).astype(np.int8))
    kind = with_element(with_shape(net.values[0], (7, 24)), i32)
    sums = net.insert(DotGeneralOp(net.values[0], weights, kind, DotDimensions((), (), (1,), (0,))))
    twice = net.insert(AddOp(net.values[1], net.values[1]))
    program = net.finish(net.computed(sums, 1, Runtime(), twice))
    assert_native_is_exact(program, [inputs(program)], HERE[0])


EVERY = np.arange(-128, 128).astype(np.int8)
PAIRS = {"x0": np.repeat(EVERY, 256), "x1": np.tile(EVERY, 256)}


def sum_of_bytes(factors: tuple[float, float], addend: float, *, clamped: bool = False) -> Program:
    net = Floats([(1 << 16,), (1 << 16,)], 0)
    first, second = (net.to(value, i32) for value in net.values)
    partial = net.fused(second, factors[1], addend)
    real = net.fused(first, factors[0], partial)
    real = net.clamped(real, 0.0, 100.0) if clamped else real
    return net.finish(net.stored(real, Runtime(zero_point=5)))


@pytest.mark.parametrize("isa", HERE, ids=lambda row: row.name)
@pytest.mark.parametrize(
    ("factors", "addend", "clamped"),
    [
        ((0.7727555, 0.9061409), -70.876862, False),
        ((0.7727555, 0.9061409), -70.876862, True),
        ((0.5, 0.25), 0.0, False),  # ties
        ((0.5, 0.5), 1e-30, False),  # no exact sum in f64
        ((1e-20, 3e4), 0.3, False),  # neither
        ((1e5, 1.0), 0.3, False),  # beyond 2^22
        ((-0.0, 0.5), -0.0, True),
    ],
)
def test_every_sum_of_two_bytes_in_floats_is_exact(
    isa: InstructionSet, factors: tuple[float, float], addend: float, *, clamped: bool
) -> None:
    assert_native_is_exact(sum_of_bytes(factors, addend, clamped=clamped), [PAIRS], isa)


@pytest.mark.parametrize("isa", HERE, ids=lambda row: row.name)
@pytest.mark.parametrize("real", [f32, f64], ids=str)
@pytest.mark.parametrize(("zero_point", "storage"), [(-128, (-128, 127)), (5, (-20, 90)), (100, (-128, -1))])
def test_floats_of_any_size_are_rounded_within_the_storage(
    isa: InstructionSet, real: Attribute, zero_point: int, storage: tuple[int, int]
) -> None:
    net = Floats([(4107,)], 0, real)
    program = net.finish(net.stored(net.values[0], Runtime(zero_point=zero_point, storage=storage)))
    ties = np.arange(-1000, 1048) / 2
    far = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 2.0**31, -(2.0**31) - 1, 0.49999997, 2.0**22 + 0.5]
    dtype = np.float32 if real == f32 else np.float64
    x = np.concatenate([ties, np.nextafter(ties, 1e9, dtype=np.float64), far]).astype(dtype)
    assert_native_is_exact(program, [{"x0": x}], isa)


def test_what_is_known_of_numbers_is_their_greatest_magnitude_and_lowest_bit() -> None:
    assert Magnitude.of(np.array([6.0, -8.5, 0.0])) == Magnitude(8.5, -1)
    assert Magnitude.of(np.array([136.0])) == Magnitude(136.0, 0)
    assert Magnitude.of(np.array([2.0**-149])) == Magnitude(2.0**-149, -149)
    assert Magnitude.of(np.array([np.float32(0.1)])) == Magnitude(float(np.float32(0.1)), -27)
    assert Magnitude.of(np.array([1.0, np.inf])) is None


@pytest.mark.parametrize("isa", HERE[:1], ids=lambda row: row.name)
def test_what_is_known_of_scalars_holds_for_every_pair(isa: InstructionSet) -> None:
    (kernel,) = (step.kernel for step in steps_of(sum_of_bytes((0.7727555, 0.9061409), -70.876862), isa).steps)
    assert isinstance(kernel, Nest)
    known = known_of(kernel.body, isa, {})
    floats = [k for k, i in zip(known, kernel.body, strict=True) if i.type == "float" and i.name == "convert"]
    assert all(k is not None and 100 < k.most < 400 and k.step >= -48 for k in floats)


@pytest.mark.parametrize(("bounds", "kept"), [((0.0, 255.0), False), ((1.0, 255.0), True), ((-9.0, 254.0), True)])
def test_the_epilogue_keeps_a_clamp_that_the_storage_does_not_imply(bounds: tuple[float, float], *, kept: bool) -> None:
    program = rows(24, 36, Runtime(bounds=bounds))
    epilogue = epilogue_of(program, HERE[0])
    assert isinstance(epilogue, ComputedEpilogue)
    assert any(isinstance(i.what, Within) for i in epilogue.body) == kept
    assert_native_is_exact(program, [inputs(program)], HERE[0])
