"""Float arithmetic on the stored integers of a kernel, for runtimes that compute in this way.

Centred integers (q - z) are i32 at the operand's scale with zero point 0. So u8 needs no special case.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import StringAttr, f32, f64, i32
from xdsl.ir import Attribute, Operation, SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.annotations import FLOAT_REASON, KERNEL
from zeropoint.ir.bounds import Bounds
from zeropoint.ir.definitions import defining_op
from zeropoint.ir.quant import Storage, StorageCastOp, UniformQuantizedType
from zeropoint.ir.tensors import Array, element_dtype, element_of, with_element
from zeropoint.materialize.kernel import MaterializedKernel
from zeropoint.materialize.storage import repeated
from zeropoint.numerics.openvino import PerChannel

WORD = Storage.of("i32")
Numbers = float | np.float32 | Array
"""One number, or one for each index of a dimension."""


@dataclass(frozen=True)
class FloatArithmetic:
    """Emits ops before a kernel's region. `reason` says why they are float.

    Numbers are one each, or one for each index of the dimension `axis`.
    """

    kernel: MaterializedKernel
    reason: str
    axis: int | None = None

    def made(self, op: Operation) -> SSAValue:
        """Insert an op and return its result. A float op gets the reason."""
        if not isinstance(op, hlo.UniformQuantizeOp | StorageCastOp) and element_of(op.results[0]) != i32:
            self.excuse(op.results[0])
        return self.kernel.insert(op, self.kernel.region).results[0]

    def to(self, value: SSAValue, element: Attribute) -> SSAValue:
        """`value` converted to another element type."""
        return self.made(hlo.ConvertOp(value, with_element(value, element)))

    def filled(self, like: SSAValue, number: Numbers) -> SSAValue:
        """A number, or one for each index of the dimension, broadcast to the type of `like`."""
        if np.ndim(number):
            assert self.axis is not None  # the numbers are those of types with this dimension
            numbers = self.kernel.constant(np.asarray(number, element_dtype(element_of(like))))
            return self.made(hlo.BroadcastInDimOp(numbers, like.type, [self.axis]))
        made = repeated(self.kernel, number, like)  # pyright: ignore[reportArgumentType] (of any dtype)
        if isinstance(made.owner, hlo.BroadcastInDimOp) and element_of(made) != i32:
            self.excuse(made)
        return made

    def excuse(self, value: SSAValue) -> None:
        """Attach the reason and the kernel to the op that defines a float value."""
        op = defining_op(value)
        assert op is not None
        op.attributes[FLOAT_REASON] = StringAttr(self.reason)
        op.attributes[KERNEL] = self.kernel.region.logical_kernel

    def plus(self, value: SSAValue, number: Numbers) -> SSAValue:
        """value + number."""
        return self.made(hlo.AddOp(value, self.filled(value, number))) if np.any(number) else value

    def times(self, value: SSAValue, number: Numbers) -> SSAValue:
        """value * number."""
        return self.made(hlo.MultiplyOp(value, self.filled(value, number)))

    def centred(self, value: SSAValue, like: UniformQuantizedType) -> SSAValue:
        """The stored integers of a quantized value minus their zero point, as i32."""
        if like.axis is not None:
            return self.plus(self._whole(value, like), -like.zero_points)
        wide = UniformQuantizedType.per_layer(WORD, like.scale)
        quantized = self.made(hlo.UniformQuantizeOp(value, with_element(value, wide)))
        return self.made(StorageCastOp(quantized, with_element(value, i32)))

    def _whole(self, value: SSAValue, like: UniformQuantizedType) -> SSAValue:
        """The stored integers of a quantized value with a scale per channel: those of one with scale 1."""
        integers = self.made(StorageCastOp(value, with_element(value, like.storage.mlir_type)))
        one = UniformQuantizedType.per_layer(like.storage, 1.0)
        return self.centred(self.made(StorageCastOp(integers, with_element(value, one))), one)

    def stored(self, integers: SSAValue) -> SSAValue:
        """The kernel's result from centred i32 integers, clamped to its storage."""
        kind = self.kernel.output_type
        wide = UniformQuantizedType.per_layer(WORD, kind.scale) if kind.axis is None else _wide_by_channel(kind)
        quantized = self.made(StorageCastOp(integers, with_element(integers, wide)))
        return self.made(hlo.UniformQuantizeOp(quantized, with_element(integers, kind)))

    def clamped(self, value: SSAValue, low: Numbers, high: Numbers) -> SSAValue:
        """value clamped to [low, high]."""
        dtype = element_dtype(element_of(value))
        bounds = [
            self.filled(value, bound) if np.ndim(bound) else self.kernel.constant(np.array(bound, dtype))
            for bound in (low, high)
        ]
        return self.made(hlo.ClampOp(bounds[0], value, bounds[1]))

    def rounded(self, value: SSAValue, zero_point: int = 0) -> SSAValue:
        """The kernel's result from a float that includes `zero_point`.

        It is rounded half to even, then the zero point is subtracted.
        """
        whole = self.to(self.made(hlo.RoundNearestEvenOp(value)), i32)
        return self.stored(self.plus(whole, -zero_point))

    def fused(self, value: SSAValue, factor: PerChannel, addend: SSAValue | PerChannel) -> SSAValue:
        """fma(value, factor, addend) of f32: the product is exact in f64, the sum in f64 is rounded to f32."""
        product = self.times(self.to(value, f64), np.asarray(factor, np.float64))
        if isinstance(addend, SSAValue):
            return self.to(self.made(hlo.AddOp(product, self.to(addend, f64))), f32)
        return self.to(self.plus(product, np.asarray(addend, np.float64)), f32)


def _wide_by_channel(kind: UniformQuantizedType) -> UniformQuantizedType:
    assert kind.axis is not None
    return UniformQuantizedType.per_channel(WORD, kind.axis, kind.scales.tolist())


def is_of_bytes(kernel: MaterializedKernel) -> bool:
    """Whether all operands and the result are 8-bit with one scale."""
    kinds = [element_of(kernel.values[argument]) for argument in kernel.arguments]
    return all(
        isinstance(kind, UniformQuantizedType) and kind.is_per_layer and kind.storage.type.width == 8
        for kind in (*kinds, kernel.output_type)
    )


def operands_of(kernel: MaterializedKernel, op: Operation) -> list[SSAValue]:
    """The emitted operands of an op of the body, broadcast as in the body."""
    for other in kernel.body:
        if isinstance(other, hlo.BroadcastInDimOp) and other.operand in kernel.values:
            kernel.retyped(other, kernel.type_of(other.operand))
    return [kernel.values[operand] for operand in op.operands]


def bounded_floats(run: FloatArithmetic, value: SSAValue) -> SSAValue:
    """Floats clamped to the bounds that the body clamps to."""
    bounds = Bounds()
    for op in run.kernel.body:
        bounds.then(op, run.kernel.weights)
    return value if bounds == Bounds() else run.clamped(value, bounds.low, bounds.high)


def bounded(kernel: MaterializedKernel, value: SSAValue) -> SSAValue:
    """The value clamped to the bounds that the body clamps to."""
    bounds = Bounds()
    for op in kernel.body:
        bounds.then(op, kernel.weights)
    return kernel.bounded(value, bounds, kernel.region)
