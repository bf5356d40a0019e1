"""Arithmetic on tensors, as StableHLO ops."""

from __future__ import annotations

from typing import cast

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.constants import constant_op
from zeropoint.ir.stablehlo import (
    AddOp,
    AndOp,
    BroadcastInDimOp,
    ClampOp,
    CompareOp,
    ComparisonDirection,
    ConvertOp,
    DivideOp,
    GatherDimensions,
    GatherOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    OrOp,
    PowerOp,
    RoundNearestAfzOp,
    RoundNearestEvenOp,
    SelectOp,
    ShiftLeftOp,
    ShiftRightArithmeticOp,
    SubtractOp,
    XorOp,
)
from zeropoint.ir.tensors import element_dtype, element_of, shape_of, with_element
from zeropoint.ir.weights import Weights
from zeropoint.standard.arithmetic import (
    ArithmeticOperand,
    BinaryKind,
    ComparisonKind,
    Element,
    ElementwiseArithmetic,
    Parameter,
)

_OPS: dict[BinaryKind, type[Operation]] = {
    "add": AddOp,
    "and": AndOp,
    "divide": DivideOp,
    "maximum": MaximumOp,
    "minimum": MinimumOp,
    "multiply": MultiplyOp,
    "or": OrOp,
    "power": PowerOp,
    "round_away": RoundNearestAfzOp,
    "round_even": RoundNearestEvenOp,
    "shift_left": ShiftLeftOp,
    "shift_right": ShiftRightArithmeticOp,
    "subtract": SubtractOp,
    "xor": XorOp,
}


class TensorArithmetic(ElementwiseArithmetic):
    """Inserts StableHLO ops with one location. Parameters per channel are broadcast along `axis`."""

    def __init__(self, builder: Builder, weights: Weights, location: LocationAttr, axis: int | None = None):
        self._builder = builder
        self._weights = weights
        self._location = location
        self._axis = axis

    def _value(self, op: Operation) -> SSAValue:
        op.location = self._location
        return self._builder.insert(op).results[0]

    def _constant(self, value: Parameter, element: Element) -> SSAValue:
        return self._value(constant_op(np.asarray(value).astype(element_dtype(element)), self._weights))

    def element(self, x: SSAValue) -> Element:
        return cast("Element", element_of(x))

    def parameter(self, value: Parameter, element: Element, like: SSAValue) -> SSAValue:
        constant = self._constant(value, element)
        dimensions = [] if np.ndim(value) == 0 else [cast("int", self._axis)]
        if shape_of(constant) == shape_of(like):
            return constant
        return self._value(BroadcastInDimOp(constant, with_element(like, element), dimensions))

    def emit(self, kind: BinaryKind, *operands: SSAValue) -> SSAValue:
        return self._value(_OPS[kind](*operands))

    def compare(self, relation: ComparisonKind, x: SSAValue, y: ArithmeticOperand) -> SSAValue:
        return self._value(CompareOp(x, self.of(y, x), ComparisonDirection[relation.upper()]))

    def select(self, condition: SSAValue, x: SSAValue, y: SSAValue) -> SSAValue:
        return self._value(SelectOp(condition, x, y))

    def converted(self, x: SSAValue, element: Element) -> SSAValue:
        if element_of(x) == element:
            return x
        return self._value(ConvertOp(x, with_element(x, element)))

    def clamp(self, x: SSAValue, low: float, high: float) -> SSAValue:
        bounds = [self._constant(bound, self.element(x)) for bound in (low, high)]
        return self._value(ClampOp(bounds[0], x, bounds[1]))

    def looked_up(self, table: SSAValue, index: SSAValue) -> SSAValue:
        # `index_vector_dim` is the rank of the indices, so that every element is an index of its own.
        dimensions = GatherDimensions((), (0,), (), (), (0,), len(shape_of(index)))
        return self._value(GatherOp(table, index, dimensions, [1]))
