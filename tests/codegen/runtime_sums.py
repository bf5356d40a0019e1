"""Sums and functions of requantized accumulators, as runtimes compute them: in floats, or rescaled to a common step."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness, TensorType, f32, f64, i8, i32
from xdsl.ir import Attribute, SSAValue

from codegen.contractions import Builder, Output
from zeropoint.ir.fxpmath import RequantizeOp
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ClampOp,
    ConvertOp,
    ConvolutionLayout,
    ConvolutionOp,
    DotDimensions,
    DotGeneralOp,
    MultiplyOp,
    RoundNearestEvenOp,
)
from zeropoint.ir.tensors import Array, shape_of, with_element
from zeropoint.lower.context import multiplier_arrays
from zeropoint.numerics import Multiplier, RequantizeBehaviour

FULL = (-128, 127)


@dataclass(frozen=True)
class Rounding:
    """A rounding to storage: round(x * real) + zero_point, clamped."""

    behaviour: str
    real: float
    zero_point: int = 0
    bounds: tuple[int, int] = FULL


class RuntimeBuilder(Builder):
    """A program with the arithmetic of a runtime."""

    def to(self, value: SSAValue, element: Attribute) -> SSAValue:
        return self.insert(ConvertOp(value, with_element(value, element)))

    def filled(self, like: SSAValue, number: Array, axis: int | None = None) -> SSAValue:
        return self.insert(BroadcastInDimOp(self.constant(number), like.type, [] if axis is None else [axis]))

    def fused(self, value: SSAValue, factor: float, addend: SSAValue | float) -> SSAValue:
        """fma(value, factor, addend) as lowering has it: in f64, then rounded to f32."""
        wide = self.to(value, f64)
        product = self.insert(MultiplyOp(wide, self.filled(wide, np.float64(np.float32(factor)))))
        if isinstance(addend, SSAValue):
            return self.to(self.insert(AddOp(product, self.to(addend, f64))), f32)
        return self.to(self.insert(AddOp(product, self.filled(wide, np.float64(np.float32(addend))))), f32)

    def clamped(self, value: SSAValue, low: float, high: float) -> SSAValue:
        bounds = [self.constant(np.array(bound, np.float32)) for bound in (low, high)]
        return self.insert(ClampOp(bounds[0], value, bounds[1]))

    def rounded(self, value: SSAValue, by: Rounding, element: Attribute = i8) -> SSAValue:
        """i32 requantized by one multiplier."""
        behaviour = RequantizeBehaviour(by.behaviour)
        arrays = multiplier_arrays(Multiplier.of(np.array([by.real]), behaviour, 8 if element == i8 else 32))
        constants = [self.constant(array) for array in arrays]
        low, high = by.bounds if element == i8 else (-(1 << 31), (1 << 31) - 1)
        op = RequantizeOp(
            value, constants[0], constants[1] if len(constants) > 1 else None, with_element(value, element),
            behaviour=behaviour.value, zero_point=by.zero_point, storage_min=low, storage_max=high, axis=None,
        )  # fmt: skip
        return self.insert(op)

    def to_nearest(self, real: SSAValue, by: Rounding) -> SSAValue:
        """A float rounded to even, with the zero point, clamped."""
        whole = self.to(self.insert(RoundNearestEvenOp(real)), i32)
        return self.rounded(whole, replace(by, behaviour="float32-rne", real=1.0))

    def sum_in_floats(self, first: SSAValue, second: SSAValue, reals: tuple[float, float], by: Rounding) -> SSAValue:
        """onnxruntime's sum of two i8: two fused multiply-adds."""
        wide = [self.centred(value, zero) for value, zero in ((first, 11), (second, -7))]
        partial = self.fused(wide[1], reals[1], -70.876862)
        return self.to_nearest(self.fused(wide[0], reals[0], partial), by)

    def sum_of_rescaled(self, first: SSAValue, second: SSAValue, reals: tuple[float, float], by: Rounding) -> SSAValue:
        """LiteRT's and TOSA's sum of two i8: both with 20 more bits, rescaled, added and rescaled."""
        wide: list[SSAValue] = []
        for value, real, zero in ((first, reals[0], 11), (second, reals[1], -7)):
            centred = self.centred(value, zero)
            raised = self.insert(MultiplyOp(centred, self.filled(centred, np.array(1 << 20, np.int32))))
            wide.append(self.rounded(raised, Rounding(by.behaviour, real), i32))
        total = self.insert(AddOp(*wide))
        return self.rounded(total, replace(by, real=by.real * 2.0**-20))

    def gated(self, value: SSAValue, by: Rounding) -> SSAValue:
        """x min(max(x + 3, 0), 6) / 6 in floats, which reads x twice."""
        return self.of_gate(self.to(self.centred(value, 11), f32), by)

    def gated_as_unsigned(self, value: SSAValue, by: Rounding) -> SSAValue:
        """The same of x in 32 bits without a sign, where negative numbers are great."""
        real = self.to(self.to(value, IntegerType(32, Signedness.UNSIGNED)), f32)
        return self.of_gate(self.insert(MultiplyOp(real, self.filled(real, np.array(2.0**-25, np.float32)))), by)

    def of_gate(self, real: SSAValue, by: Rounding) -> SSAValue:
        real = self.insert(MultiplyOp(real, self.filled(real, np.array(0.08, np.float32))))
        moved = self.insert(AddOp(real, self.filled(real, np.array(3, np.float32))))
        product = self.insert(MultiplyOp(real, self.clamped(moved, 0.0, 6.0)))
        return self.to_nearest(self.insert(MultiplyOp(product, self.filled(real, np.array(2.1, np.float32)))), by)


@dataclass(frozen=True)
class Tail:
    """What follows requantized accumulators: a sum in "floats", with the other value "doubled" before, "rescaled", a
    "gate", or an "unsigned gate". `by` is the last rounding, whose `real` counts for rescaled sums only."""

    kind: str
    by: Rounding
    reals: tuple[float, float] = (0.7727555, 0.9061409)
    turned: bool = False
    """Whether the other value is the first operand."""

    @property
    def adds(self) -> bool:
        return "gate" not in self.kind

    def of(self, net: RuntimeBuilder, value: SSAValue, other: SSAValue | None) -> SSAValue:
        if other is None:
            return net.gated(value, self.by) if self.kind == "gate" else net.gated_as_unsigned(value, self.by)
        if self.kind == "doubled":
            other = net.insert(AddOp(other, other))
        first, second = (other, value) if self.turned else (value, other)
        make = net.sum_of_rescaled if self.kind == "rescaled" else net.sum_in_floats
        return make(first, second, self.reals, self.by)


def product(tail: Tail, output: Output, channels: int, terms: int = 36, count: int = 7) -> Program:
    """Rows times a matrix, requantized, and the tail."""
    net = RuntimeBuilder([(count, terms), *([(count, channels)] if tail.adds else [])], channels)
    weights = net.constant(net.random.integers(-127, 128, (terms, channels)).astype(np.int8))
    kind = TensorType(i32, (count, channels))
    sums = net.insert(DotGeneralOp(net.values[0], weights, kind, DotDimensions((), (), (1,), (0,))))
    value = net.requantized(sums, output, 1)
    return net.finish(tail.of(net, value, net.values[1] if tail.adds else None))


def convolution(
    tail: Tail, output: Output, channels: int, groups: int = 1, *, images: int = 1, kernel: int = 1, read: bool = False
) -> Program:
    """A convolution, requantized, and the tail. With `read`, the requantized value is a result, too."""
    shape = (images, channels, 5, 6)
    net = RuntimeBuilder([shape, *([shape] if tail.adds else [])], channels)
    weights = net.random.integers(-127, 128, (channels, channels // groups, kernel, kernel)).astype(np.int8)
    made = ConvolutionOp(
        net.values[0], net.constant(weights), TensorType(i32, shape), ConvolutionLayout.channels_first(2),
        padding=[(kernel // 2, kernel // 2)] * 2, feature_group_count=groups,
    )  # fmt: skip
    value = net.requantized(net.insert(made), output, 1)
    result = tail.of(net, value, net.values[1] if tail.adds else None)
    return net.finish(result, *([value] if read else []))


def bytes_for(program: Program) -> list[dict[str, Array]]:
    """Any i8, and the least and the greatest."""
    random = np.random.default_rng(0)
    shapes = {port.name: shape_of(port.type) for port in program.inputs}
    samples = [{name: random.integers(-128, 128, shape).astype(np.int8) for name, shape in shapes.items()}]
    return samples + [{name: np.full(shape, end, np.int8) for name, shape in shapes.items()} for end in FULL]
