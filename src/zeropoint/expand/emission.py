"""Emits StableHLO ops at one insertion point, with one location."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects.builtin import LocationAttr, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from zeropoint.errors import Error
from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.fxpmath import RequantizeOp, TableOp, WeightedSumOp
from zeropoint.ir.quant import StorageCastOp
from zeropoint.ir.stablehlo import (
    BinaryOp,
    BroadcastInDimOp,
    ClampOp,
    CompareOp,
    ConstantOp,
    ConvertOp,
    SelectOp,
    UnaryOp,
    UniformDequantizeOp,
    UniformQuantizeOp,
)
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of, with_element
from zeropoint.ir.weights import Weights

ELEMENTWISE = (
    BinaryOp, ClampOp, CompareOp, ConstantOp, ConvertOp, RequantizeOp, SelectOp, StorageCastOp, TableOp, UnaryOp,
    UniformDequantizeOp, UniformQuantizeOp, WeightedSumOp,
)  # fmt: skip


class ExpansionError(Error, ValueError):
    """An op that cannot be expanded. The message has its name and the reason; `op` gives its location."""

    def __init__(self, message: str, op: Operation):
        super().__init__(message)
        self.op = op


class Emission:
    """Inserts ops with one location."""

    def __init__(self, builder: Builder, weights: Weights, location: LocationAttr):
        self._builder = builder
        self._weights = weights
        self.location = location

    def add(self, op: Operation) -> SSAValue:
        """Insert an op with one result."""
        return self.several(op)[0]

    def several(self, op: Operation) -> Sequence[SSAValue]:
        """Insert an op with any number of results."""
        op.location = self.location
        return self._builder.insert(op).results

    def array(self, value: SSAValue) -> Array | None:
        """The array of a constant; None for other values."""
        return constant_array(value, self._weights)

    def constant(self, array: Array) -> SSAValue:
        """A constant."""
        return self.add(constant_op(array, self._weights))

    def splat(self, number: float, like: SSAValue) -> SSAValue:
        """A number broadcast to the type of `like`."""
        array = np.asarray(number).astype(element_dtype(element_of(like)))
        return self.spread(self.constant(array), shape_of(like), ())

    def spread(self, value: SSAValue, shape: Sequence[int], dimensions: Sequence[int]) -> SSAValue:
        """A value broadcast to a shape; its dimension i becomes `dimensions[i]`."""
        return self.add(BroadcastInDimOp(value, TensorType(element_of(value), shape), dimensions))

    def converted(self, value: SSAValue, element: Attribute) -> SSAValue:
        """A value converted to an element type."""
        if element_of(value) == element:
            return value
        return self.add(ConvertOp(value, with_element(value, element)))

    def applied(self, body: Block, *operands: SSAValue) -> SSAValue | None:
        """The first result of `all_applied`; None if that is None."""
        found = self.all_applied(body, operands)
        return None if found is None else found[0]

    def all_applied(self, body: Block, operands: Sequence[SSAValue]) -> list[SSAValue] | None:
        """Apply a body on scalars elementwise to tensors of one shape; None if one of its ops is not elementwise."""
        shape = shape_of(operands[0])
        values: dict[SSAValue, SSAValue] = dict(zip(body.args, operands, strict=True))
        *ops, terminator = body.ops
        for op in ops:
            if not isinstance(op, ELEMENTWISE) or len(op.results) != 1 or not self._knows(op, shape, values):
                return None
            values[op.results[0]] = self._on_tensors(op, shape, values)
        return [values[value] for value in terminator.operands] if self._knows(terminator, shape, values) else None

    def _knows(self, op: Operation, shape: Sequence[int], values: dict[SSAValue, SSAValue]) -> bool:
        """Whether all operands are in `values`.

        A constant scalar from outside of the body is broadcast and added to them.
        """
        for operand in op.operands:
            if operand in values:
                continue
            if self.array(operand) is None or shape_of(operand):
                return False
            values[operand] = self.spread(operand, shape, ())
        return True

    def _on_tensors(self, op: Operation, shape: Sequence[int], values: Mapping[SSAValue, SSAValue]) -> SSAValue:
        if isinstance(op, ConstantOp):
            made = self.add(op.clone())
            return made if shape_of(made) else self.spread(made, shape, ())  # tables and multipliers stay
        made = type(op).create(
            operands=[values[operand] for operand in op.operands],
            result_types=[TensorType(element_of(op.results[0]), shape)],
            properties=dict(op.properties),
        )
        return self.add(made)
