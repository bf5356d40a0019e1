"""Emits arith ops on scalars and tensors alike, at one insertion point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from xdsl.builder import Builder
from xdsl.dialects import tensor
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    TensorType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from zeropoint.ir.floats import round_to
from zeropoint.ir.quant.containers import ranked_shape
from zeropoint.ir.standard.arith import FPToSIOp, FPToUIOp, SIToFPOp, UIToFPOp
from zeropoint.ir.weights import ElementsAttr
from zeropoint.numerics.storage import as_signed

OperationT = TypeVar("OperationT", bound=Operation)


class Emitter:
    """Inserts ops at one insertion point, with one location."""

    def __init__(self, builder: Builder, location: LocationAttr):
        self.builder = builder
        self.location = location

    def add(self, op: OperationT) -> OperationT:
        """Insert an op."""
        op.location = self.location
        return self.builder.insert(op)

    def value(self, op: Operation) -> SSAValue:
        """Insert an op and return its only result."""
        return self.add(op).results[0]

    def index(self, value: int) -> SSAValue:
        """`arith.constant value : index`."""
        return self.value(ConstantOp(IntegerAttr(value, IndexType())))

    def integer(self, value: int, integer_type: IntegerType) -> SSAValue:
        """An integer constant. A large unsigned value becomes the signless constant with the same bits."""
        return self.value(ConstantOp(IntegerAttr(as_signed(value, integer_type.width.data), integer_type)))

    def real(self, value: float, float_type: AnyFloat) -> SSAValue:
        """A float constant, rounded to its type."""
        return self.value(ConstantOp(FloatAttr(round_to(value, float_type), float_type)))

    def elements(self, value: ElementsAttr) -> SSAValue:
        """A constant tensor."""
        return self.value(ConstantOp(value))

    def dynamic_sizes(self, value: SSAValue) -> list[SSAValue]:
        """The sizes of the dynamic dimensions of a ranked tensor, in order; empty for a scalar."""
        shape = ranked_shape(value.type) or ()
        return [
            self.value(tensor.DimOp(value, self.index(axis)))
            for axis, size in enumerate(shape)
            if size == DYNAMIC_INDEX
        ]


class ElementwiseEmitter:
    """Arithmetic on values of one shape: scalars if `shape` is None, else tensors of that shape."""

    def __init__(self, emitter: Emitter, shape: tuple[int, ...] | None = None, sizes: Sequence[SSAValue] = ()):
        self.emitter = emitter
        self._shape = shape
        self._sizes = sizes

    def type(self, element_type: Attribute) -> Attribute:
        """The type of a value with elements of `element_type`."""
        return element_type if self._shape is None else TensorType(element_type, self._shape)

    def splat(self, scalar: SSAValue) -> SSAValue:
        """A scalar as a splat of the shape."""
        if self._shape is None:
            return scalar
        return self.emitter.value(tensor.SplatOp(scalar, self._sizes, TensorType(scalar.type, self._shape)))

    def to_float(self, value: SSAValue, float_type: AnyFloat, signed: bool) -> SSAValue:
        """Convert integers to floats, rounded to nearest even."""
        cast = SIToFPOp if signed else UIToFPOp
        return self.emitter.value(cast(value, self.type(float_type)))

    def to_integer(self, value: SSAValue, integer_type: Attribute, signed: bool) -> SSAValue:
        """Convert floats to integers, truncated towards 0. The result is poison for numbers out of range."""
        cast = FPToSIOp if signed else FPToUIOp
        return self.emitter.value(cast(value, self.type(integer_type)))
