"""Arithmetic on single elements, as arith and math ops in the body of a `linalg.generic`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects import arith, math, tensor
from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType, LocationAttr, i1
from xdsl.dialects.linalg.ops import IndexOp, YieldOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint

from zeropoint.ir.floats import round_to
from zeropoint.ir.standard.arith import FPToSIOp, FPToUIOp, RemFOp, SIToFPOp, UIToFPOp
from zeropoint.ir.tensors import element_of
from zeropoint.numerics.arrays import AnyArray
from zeropoint.numerics.storage import integer_range
from zeropoint.standard.arithmetic import (
    ArithmeticOperand,
    BinaryKind,
    ComparisonKind,
    Element,
    ElementwiseArithmetic,
    Parameter,
)
from zeropoint.standard.element_types import number_attribute

_SIGNED: dict[BinaryKind, type[Operation]] = {
    "add": arith.AddiOp,
    "and": arith.AndIOp,
    "divide": arith.DivSIOp,
    "maximum": arith.MaxSIOp,
    "minimum": arith.MinSIOp,
    "multiply": arith.MuliOp,
    "or": arith.OrIOp,
    "remainder": arith.RemSIOp,
    "shift_left": arith.ShLIOp,
    "shift_right": arith.ShRSIOp,
    "shift_right_logical": arith.ShRUIOp,
    "subtract": arith.SubiOp,
    "xor": arith.XOrIOp,
}
_UNSIGNED: dict[BinaryKind, type[Operation]] = {
    **_SIGNED,
    "divide": arith.DivUIOp,
    "maximum": arith.MaxUIOp,
    "minimum": arith.MinUIOp,
    "remainder": arith.RemUIOp,
}
_BOOLEAN: dict[BinaryKind, type[Operation]] = {**_UNSIGNED, "add": arith.OrIOp}
_FLOAT: dict[BinaryKind, type[Operation]] = {
    "add": arith.AddfOp,
    "divide": arith.DivfOp,
    "maximum": arith.MaximumfOp,
    "minimum": arith.MinimumfOp,
    "multiply": arith.MulfOp,
    "power": math.PowFOp,
    "remainder": RemFOp,
    "round_away": math.RoundOp,
    "round_even": math.RoundEvenOp,
    "subtract": arith.SubfOp,
}
_RELATIONS: dict[ComparisonKind, tuple[str, str, str]] = {
    "eq": ("eq", "eq", "oeq"),
    "ge": ("sge", "uge", "oge"),
    "gt": ("sgt", "ugt", "ogt"),
    "le": ("sle", "ule", "ole"),
    "lt": ("slt", "ult", "olt"),
    "ne": ("ne", "ne", "une"),
}
"""The predicates of cmpi, on signed and on unsigned integers, and of cmpf."""


def extended(x: SSAValue, wanted: IntegerType, *, unsigned: bool) -> Operation:
    """An integer in a wider type."""
    return (arith.ExtUIOp if unsigned else arith.ExtSIOp)(x, wanted)


VectorSource = Callable[[AnyArray, Element], SSAValue]
"""Inserts a constant vector outside of the body."""


@dataclass
class GenericBody:
    """A block that computes one element, and the tensors that it reads, each with its indexing map."""

    rank: int
    location: LocationAttr
    block: Block = field(default_factory=Block)
    inputs: list[SSAValue] = field(default_factory=list[SSAValue])
    maps: list[AffineMap] = field(default_factory=list[AffineMap])
    constants: dict[tuple[Element | IndexType, float], SSAValue] = field(
        default_factory=dict[tuple[Element | IndexType, float], SSAValue]
    )

    def read(self, value: SSAValue, indexing: AffineMap | None = None) -> SSAValue:
        """The element of a tensor at the loops' indices, or at the indices that a map computes from them."""
        indexing = AffineMap.identity(self.rank) if indexing is None else indexing
        for argument, given, found in zip(self.block.args, self.inputs, self.maps, strict=True):
            if given is value and found == indexing:
                return argument
        self.inputs.append(value)
        self.maps.append(indexing)
        return self.block.insert_arg(element_of(value), len(self.block.args))

    def value(self, op: Operation) -> SSAValue:
        """Append an op and return its only result."""
        op.location = self.location
        self.block.add_op(op)
        return op.results[0]

    def end(self, value: SSAValue) -> None:
        """Append `linalg.yield`."""
        op = YieldOp(value)
        op.location = self.location
        self.block.add_op(op)

    def number(self, value: float, element: Element | IndexType) -> SSAValue:
        """A constant. Equal constants are emitted once."""
        attribute = number_attribute(value, element)
        key = (element, attribute.value.data)
        if key not in self.constants:
            op = arith.ConstantOp(attribute)
            op.location = self.location
            last = next(reversed(self.constants.values()), None)
            where = (
                InsertPoint.at_start(self.block) if last is None else InsertPoint.after(cast("Operation", last.owner))
            )
            Builder(where).insert(op)
            self.constants[key] = op.result
        return self.constants[key]

    def index(self, dim: int) -> SSAValue:
        """The index of a loop."""
        return self.value(IndexOp(dim))


class ScalarArithmetic(ElementwiseArithmetic):
    """Appends ops to a body. Parameters per channel are read from a constant vector, at the index of the loop `axis`.

    `unsigned` says whether integer operands are unsigned; operands of i1 always are.
    """

    def __init__(self, body: GenericBody, vector: VectorSource, axis: int | None = None, *, unsigned: bool = False):
        self.body = body
        self._vector = vector
        self._axis = axis
        self.unsigned = unsigned

    def element(self, x: SSAValue) -> Element:
        return cast("Element", x.type)

    def parameter(self, value: Parameter, element: Element, like: SSAValue) -> SSAValue:
        del like
        array = np.asarray(value)
        if array.ndim == 0:
            return self.body.number(array.item(), element)
        axis = AffineExpr.dimension(cast("int", self._axis))
        return self.body.read(self._vector(array, element), AffineMap(self.body.rank, 0, (axis,)))

    def emit(self, kind: BinaryKind, *operands: SSAValue) -> SSAValue:
        found = operands[0].type
        integers = _BOOLEAN if found == i1 else _UNSIGNED if self.unsigned else _SIGNED
        return self.body.value((integers if isinstance(found, IntegerType) else _FLOAT)[kind](*operands))

    def _is_unsigned(self, x: SSAValue) -> bool:
        return self.unsigned or self.element(x) == i1

    def compare(self, relation: ComparisonKind, x: SSAValue, y: ArithmeticOperand) -> SSAValue:
        signed, unsigned, real = _RELATIONS[relation]
        other = self.of(y, x)
        if isinstance(x.type, IntegerType):
            return self.body.value(arith.CmpiOp(x, other, unsigned if self._is_unsigned(x) else signed))
        return self.body.value(arith.CmpfOp(x, other, real))

    def select(self, condition: SSAValue, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.body.value(arith.SelectOp(condition, x, y))

    def clamp(self, x: SSAValue, low: float, high: float) -> SSAValue:
        return self.emit("minimum", self.emit("maximum", x, self.of(low, x)), self.of(high, x))

    def converted(self, x: SSAValue, element: Element) -> SSAValue:
        given = self.element(x)
        if given == element:
            return x
        return self.body.value(self._conversion(x, given, element))

    def _conversion(self, x: SSAValue, given: Element, wanted: Element) -> Operation:
        unsigned = self.unsigned or given == i1
        if isinstance(given, IntegerType) and isinstance(wanted, IntegerType):
            if wanted == i1:
                return arith.CmpiOp(x, self.of(0, x), "ne")
            narrower = wanted.width.data < given.width.data
            return arith.TruncIOp(x, wanted) if narrower else extended(x, wanted, unsigned=unsigned)
        if isinstance(given, IntegerType):
            return (UIToFPOp if unsigned else SIToFPOp)(x, wanted)
        if isinstance(wanted, IntegerType):
            return arith.CmpfOp(x, self.of(0.0, x), "une") if wanted == i1 else FPToSIOp(x, wanted)
        return arith.ExtFOp(x, wanted) if wanted.bitwidth > given.bitwidth else arith.TruncFOp(x, wanted)

    def saturated(self, x: SSAValue, element: IntegerType, *, unsigned: bool) -> SSAValue:
        """A float truncated to an integer type and clamped to its range. NaN becomes 0.

        The result of fptosi is poison for floats out of range, so selects on comparisons replace it.
        """
        width: int = element.width.data
        low, high = integer_range(width, signed=not unsigned)
        found = self.body.value((FPToUIOp if unsigned else FPToSIOp)(x, element))
        real = cast("AnyFloat", x.type)
        below = self.compare("le", x, round_to(float(low), real))
        above = self.compare("ge", x, round_to(float(high + 1), real))
        found = self.select(above, self.of(high, found), self.select(below, self.of(low, found), found))
        return self.select(self.compare("ne", x, x), self.of(0, found), found)

    def looked_up(self, table: SSAValue, index: SSAValue) -> SSAValue:
        position = self.body.value(arith.IndexCastOp(index, IndexType()))
        return self.body.value(tensor.ExtractOp(table, [position], element_of(table)))
