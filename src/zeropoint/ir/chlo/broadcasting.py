"""StableHLO ops with implicit broadcasting.

`broadcast_dimensions` maps the dimensions of the operand of lower rank to dimensions of the result, by default to the
last ones. Then dimensions of size 1 are repeated. Source: upstream's op definitions of the chlo dialect; operand and
attribute names are upstream's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, ComplexType, i1
from xdsl.dialects.utils.enum_attribute import EnumAttribute
from xdsl.ir import Attribute, Operation, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.chlo.elementwise import NextAfterOp
from zeropoint.ir.stablehlo.arrays import I64_ARRAY, array_values
from zeropoint.ir.stablehlo.attributes import ComparisonDirection, ComparisonType
from zeropoint.ir.stablehlo.bitwise import AndOp, OrOp, ShiftLeftOp, ShiftRightArithmeticOp, ShiftRightLogicalOp, XorOp
from zeropoint.ir.stablehlo.elements import check_inferred
from zeropoint.ir.stablehlo.elementwise import (
    AddOp,
    BinaryOp,
    DivideOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    PowerOp,
    SubtractOp,
)
from zeropoint.ir.stablehlo.real import Atan2Op, RemainderOp
from zeropoint.ir.stablehlo.signatures import compatible_element_types, compatible_operand_element_types
from zeropoint.ir.tensors import element_of, shape_of


@irdl_attr_definition
class ComparisonDirectionAttr(EnumAttribute[ComparisonDirection], SpacedOpaqueSyntaxAttribute):
    """`#chlo<comparison_direction LT>`."""

    name = "chlo.comparison_direction"


@irdl_attr_definition
class ComparisonTypeAttr(EnumAttribute[ComparisonType], SpacedOpaqueSyntaxAttribute):
    """`#chlo<comparison_type FLOAT>`."""

    name = "chlo.comparison_type"


class BroadcastOp(IRDLOperation):
    """`chlo.broadcast_add %a, %b {broadcast_dimensions = array<i64: 0>} : (types) -> type`."""

    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    broadcast_dimensions = opt_prop_def(I64_ARRAY)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$lhs `,` $rhs attr-dict `:` functional-type(operands, results)"

    def __init__(self, lhs: SSAValue, rhs: SSAValue, result_type: Attribute):
        super().__init__(operands=[lhs, rhs], result_types=[result_type])

    def result_element(self) -> Attribute:
        """The element type of the result."""
        return element_of(self.lhs)

    def placements(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """For each operand, the dimensions of the result that its dimensions map to."""
        ranks = len(shape_of(self.lhs)), len(shape_of(self.rhs))
        rank = max(ranks)
        given = array_values(self.broadcast_dimensions) if self.broadcast_dimensions is not None else None
        trailing = [tuple(range(rank - found, rank)) for found in ranks]
        if given is None or ranks[0] == ranks[1]:
            return trailing[0], trailing[1]
        return (given, trailing[1]) if ranks[0] < ranks[1] else (trailing[0], given)

    def verify_(self) -> None:
        """Check the placements, the element types and the shape.

        Upstream verifies broadcast dimensions when it legalizes them.
        """
        is_closed = self.result_element() == element_of(self.lhs)
        (compatible_element_types if is_closed else compatible_operand_element_types)(self)
        shapes = shape_of(self.lhs), shape_of(self.rhs)
        check_inferred([(broadcast_shape(shapes, self.placements()), self.result_element())], self.result_types)


def broadcast_shape(shapes: Sequence[Sequence[int]], placements: Sequence[Sequence[int]]) -> list[int]:
    """The broadcast shape of operands of `shapes`, whose dimensions map to those of the result by `placements`.

    Raises VerifyException if there is none.
    """
    rank = max(len(shape) for shape in shapes)
    common = [1] * rank
    for shape, placement in zip(shapes, placements, strict=True):
        if len(placement) != len(shape) or list(placement) != sorted(set(placement)):
            raise VerifyException(
                f"found broadcast_dimensions {list(placement)} for an operand of shape {list(shape)}; expected one "
                "dimension for each of the operand's, ascending"
            )
        for size, dim in zip(shape, placement, strict=True):
            if not 0 <= dim < rank:
                raise VerifyException(f"found broadcast dimension {dim}, expected one in [0, {rank})")
            if 1 not in (size, common[dim]) and DYNAMIC_INDEX not in (size, common[dim]) and size != common[dim]:
                raise VerifyException(
                    f"found sizes {common[dim]} and {size} of dimension {dim}; expected equal ones, or 1"
                )
            common[dim] = size if common[dim] == 1 or (common[dim] == DYNAMIC_INDEX and size != 1) else common[dim]
    return common


PLAIN_OPS: tuple[type[BinaryOp], ...] = (
    AddOp,
    AndOp,
    Atan2Op,
    DivideOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    NextAfterOp,
    OrOp,
    PowerOp,
    RemainderOp,
    ShiftLeftOp,
    ShiftRightArithmeticOp,
    ShiftRightLogicalOp,
    SubtractOp,
    XorOp,
)


def _broadcasting(plain: type[BinaryOp]) -> type[BroadcastOp]:
    members = {
        "__doc__": f"`{plain.name}` on operands of different shapes.",
        "__module__": __name__,
        "name": f"chlo.broadcast_{plain.name.partition('.')[2]}",
    }
    return irdl_op_definition(type(f"Broadcast{plain.__name__}", (BroadcastOp,), members))


PLAIN: Mapping[type[Operation], type[BinaryOp]] = {_broadcasting(plain): plain for plain in PLAIN_OPS}
"""Maps each broadcasting op to its plain StableHLO op. The classes are generated; only the plain op differs."""


@irdl_op_definition
class BroadcastComplexOp(BroadcastOp):
    """`stablehlo.complex` with implicit broadcasting."""

    name = "chlo.broadcast_complex"

    def result_element(self) -> Attribute:
        """The complex type with the operands' element type."""
        return ComplexType(cast("Any", element_of(self.lhs)))


@irdl_op_definition
class BroadcastCompareOp(BroadcastOp):
    """`stablehlo.compare` with implicit broadcasting."""

    name = "chlo.broadcast_compare"
    comparison_direction = prop_def(ComparisonDirectionAttr)
    compare_type = opt_prop_def(ComparisonTypeAttr)

    def result_element(self) -> Attribute:
        """i1."""
        return i1


@irdl_op_definition
class BroadcastSelectOp(IRDLOperation):
    """`stablehlo.select` with implicit broadcasting: operands of lower rank are aligned to the last dimensions."""

    name = "chlo.broadcast_select"
    pred = operand_def()
    on_true = operand_def()
    on_false = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "operands attr-dict `:` functional-type(operands, results)"

    def __init__(self, pred: SSAValue, on_true: SSAValue, on_false: SSAValue, result_type: Attribute):
        super().__init__(operands=[pred, on_true, on_false], result_types=[result_type])

    def placements(self) -> list[tuple[int, ...]]:
        """For each operand, the dimensions of the result that its dimensions map to."""
        ranks = [len(shape_of(operand)) for operand in self.operands]
        return [tuple(range(max(ranks) - rank, max(ranks))) for rank in ranks]

    def verify_(self) -> None:
        """Check the element types and the shape."""
        if element_of(self.pred) != i1:
            raise VerifyException(f"operand #0 must be ranked tensor of bool values, but got '{self.pred.type}'")
        shape = broadcast_shape([shape_of(operand) for operand in self.operands], self.placements())
        if element_of(self.on_true) != element_of(self.on_false):
            raise VerifyException("requires compatible types for non-predicate operands")
        check_inferred([(shape, element_of(self.on_true))], self.result_types)


OPS = (*PLAIN, BroadcastCompareOp, BroadcastComplexOp, BroadcastSelectOp)
