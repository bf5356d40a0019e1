"""Integer arithmetic: emits plain StableHLO ops on i32 and i64 values for a kernel. Operands may be numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import IntegerType, i32
from xdsl.ir import Operation, SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.quant import StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo.bodies import binary_body
from zeropoint.ir.tensors import element_dtype, element_of, shape_of, with_element, with_shape
from zeropoint.materialize.kernel import MaterializedKernel
from zeropoint.materialize.storage import repeated
from zeropoint.numerics.arrays import IntArray

WordOperand = SSAValue | int


@dataclass(frozen=True)
class Words:
    """Emits integer ops before a kernel's region. A Python integer as an operand is broadcast to the other's shape."""

    kernel: MaterializedKernel

    def insert(self, op: Operation) -> SSAValue:
        """Insert an op and return its only result."""
        return self.kernel.insert(op, self.kernel.region).results[0]

    def stored(self, argument: SSAValue, element: IntegerType = i32) -> SSAValue:
        """The storage integers of the quantized value of a block argument, converted to `element`."""
        value = self.kernel.values[argument]
        kind = element_of(value)
        assert isinstance(kind, UniformQuantizedType)
        integers = self.insert(StorageCastOp(value, with_element(value, IntegerType(kind.storage.type.width))))
        return self.converted(integers, element)

    def quantized(self, integers: SSAValue) -> SSAValue:
        """The kernel's result from storage integers in a wider type, which must be in range."""
        kind = self.kernel.output_type
        narrow = self.converted(integers, IntegerType(kind.storage.type.width))
        return self.insert(StorageCastOp(narrow, with_element(narrow, kind)))

    def converted(self, value: SSAValue, element: IntegerType) -> SSAValue:
        """The same integers, converted to another type."""
        if element_of(value) == element:
            return value
        return self.insert(hlo.ConvertOp(value, with_element(value, element)))

    def _binary(self, op: type[Operation], left: WordOperand, right: WordOperand) -> SSAValue:
        like = left if isinstance(left, SSAValue) else right
        assert isinstance(like, SSAValue)
        sides = [side if isinstance(side, SSAValue) else repeated(self.kernel, side, like) for side in (left, right)]
        return self.insert(op(*sides))  # pyright: ignore[reportCallIssue] (every binary op takes two operands)

    def add(self, left: WordOperand, right: WordOperand) -> SSAValue:
        """left + right."""
        return self._binary(hlo.AddOp, left, right)

    def subtract(self, left: WordOperand, right: WordOperand) -> SSAValue:
        """left - right."""
        return self._binary(hlo.SubtractOp, left, right)

    def multiply(self, left: WordOperand, right: WordOperand) -> SSAValue:
        """left * right."""
        return self._binary(hlo.MultiplyOp, left, right)

    def divide(self, left: WordOperand, right: WordOperand) -> SSAValue:
        """left / right, rounded towards zero."""
        return self._binary(hlo.DivideOp, left, right)

    def minimum(self, left: WordOperand, right: WordOperand) -> SSAValue:
        """The lesser number."""
        return self._binary(hlo.MinimumOp, left, right)

    def maximum(self, left: WordOperand, right: WordOperand) -> SSAValue:
        """The greater number."""
        return self._binary(hlo.MaximumOp, left, right)

    def masked(self, value: SSAValue, bits: int) -> SSAValue:
        """The low `bits` bits."""
        return self.both(value, (1 << bits) - 1)

    def both(self, left: SSAValue, right: WordOperand) -> SSAValue:
        """The bitwise and."""
        return self._binary(hlo.AndOp, left, right)

    def shifted(self, value: SSAValue, amount: WordOperand) -> SSAValue:
        """value >> amount, filled with the sign."""
        return value if amount == 0 else self._binary(hlo.ShiftRightArithmeticOp, value, amount)

    def raised(self, value: WordOperand, amount: SSAValue) -> SSAValue:
        """value << amount."""
        return self._binary(hlo.ShiftLeftOp, value, amount)

    def leading_zeros(self, value: SSAValue) -> SSAValue:
        """The number of zero bits above the highest set bit."""
        return self.insert(hlo.CountLeadingZerosOp(value))

    def clamped(self, value: SSAValue, low: int, high: int) -> SSAValue:
        """The number clamped to low..high."""
        dtype = element_dtype(element_of(value))
        bounds = [self.kernel.constant(np.array(bound, dtype)) for bound in (low, high)]
        return self.insert(hlo.ClampOp(bounds[0], value, bounds[1]))

    def channels(self, numbers: IntArray, like: SSAValue, axis: int) -> SSAValue:
        """One i32 number for each index of dimension `axis`, broadcast to the shape of `like`."""
        array = self.kernel.constant(numbers.astype(np.int32))
        return self.insert(hlo.BroadcastInDimOp(array, with_element(like, i32), [axis]))

    def rounded(self, value: SSAValue, amount: int) -> SSAValue:
        """(value + 2^(amount - 1)) >> amount: half up."""
        return value if amount == 0 else self.shifted(self.add(value, 1 << amount >> 1), amount)

    def reduced(self, op: type[hlo.AddOp] | type[hlo.MaximumOp], value: SSAValue, axis: int) -> SSAValue:
        """The sum or the maximum along a dimension."""
        kind, shape = element_of(value), shape_of(value)
        dtype = element_dtype(kind)
        start = self.kernel.constant(np.array(0 if op is hlo.AddOp else np.iinfo(dtype).min, dtype))
        kept = [d for d in range(len(shape)) if d != axis]
        result = with_shape(value, [shape[d] for d in kept])
        return self.insert(hlo.ReduceOp([value], [start], [result], [axis], binary_body(op, kind)))

    def along(self, number: SSAValue, like: SSAValue, axis: int) -> SSAValue:
        """One number per row, broadcast along dimension `axis` to the shape of `like`."""
        kept = [d for d in range(len(shape_of(like))) if d != axis]
        return self.insert(hlo.BroadcastInDimOp(number, with_element(like, element_of(number)), kept))
