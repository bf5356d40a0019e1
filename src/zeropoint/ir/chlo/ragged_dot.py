"""`chlo.ragged_dot`: multiplies each group of rows by a matrix of its own (mixture of experts).

Source: public programs that use it; the names are theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DYNAMIC_INDEX, ArrayAttr
from xdsl.dialects.utils.enum_attribute import EnumAttribute
from xdsl.ir import Attribute, Data, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.stablehlo import syntax
from zeropoint.ir.stablehlo.attributes import Precision
from zeropoint.ir.stablehlo.dimensions import DotDimensions
from zeropoint.ir.tensors import shape_of


@irdl_attr_definition
class PrecisionAttr(EnumAttribute[Precision], SpacedOpaqueSyntaxAttribute):
    """`#chlo<precision DEFAULT>`."""

    name = "chlo.precision"


@dataclass(frozen=True)
class RaggedDotDimensions(DotDimensions):
    """The dimensions of `dot_general`, the ragged dimension of `lhs`, and the group dimension of `rhs`."""

    lhs_ragged_dimensions: tuple[int, ...] = ()
    rhs_group_dimensions: tuple[int, ...] = ()


@irdl_attr_definition
class RaggedDotDimensionNumbersAttr(Data[RaggedDotDimensions]):
    """`#chlo.ragged_dot<lhs_contracting_dimensions = [1], ..., rhs_group_dimensions = [0]>`."""

    name = "chlo.ragged_dot"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> RaggedDotDimensions:
        """Parse `<lhs_contracting_dimensions = [1], ...>`; an omitted list is empty."""
        with parser.in_angle_brackets():
            return syntax.parse_dimensions(parser, RaggedDotDimensions)

    def print_parameter(self, printer: Printer) -> None:
        """Print the lists that are not empty."""
        with printer.in_angle_brackets():
            syntax.print_dimensions(printer, self.data)


@irdl_op_definition
class RaggedDotOp(IRDLOperation):
    """`dot_general` of each group of rows of `lhs` with its slice of `rhs`; rows after the last group are zeros.

    `group_sizes` counts the rows of each group along the ragged dimension of `lhs`. If that is a contracting or batch
    dimension, the op has other semantics; such ops are parsed but not computed.
    """

    name = "chlo.ragged_dot"
    lhs = operand_def()
    rhs = operand_def()
    group_sizes = operand_def()
    result = result_def()
    ragged_dot_dimension_numbers = prop_def(RaggedDotDimensionNumbersAttr)
    precision_config = opt_prop_def(ArrayAttr[PrecisionAttr])
    traits = traits_def(Pure())

    def __init__(
        self,
        operands: Sequence[SSAValue],
        dimensions: RaggedDotDimensions,
        result_type: Attribute,
    ):
        super().__init__(
            operands=list(operands),
            result_types=[result_type],
            properties={"ragged_dot_dimension_numbers": RaggedDotDimensionNumbersAttr(dimensions)},
        )

    def has_groups_of_rows(self) -> bool:
        """Whether the ragged dimension is a free dimension of `lhs` and `group_sizes` has one number per group."""
        dims = self.ragged_dot_dimension_numbers.data
        taken = {*dims.lhs_batching_dimensions, *dims.lhs_contracting_dimensions}
        return not taken & set(dims.lhs_ragged_dimensions) and len(shape_of(self.group_sizes)) == 1

    def verify_(self) -> None:
        """Check that dimensions are in range, unique and matching, and the result's shape for groups of rows."""
        dims = self.ragged_dot_dimension_numbers.data
        lhs, rhs = shape_of(self.lhs), shape_of(self.rhs)
        if len(dims.lhs_ragged_dimensions) != 1:
            raise VerifyException("There should be exactly one ragged dimension in the lhs.")
        if len(dims.rhs_group_dimensions) > 1:
            raise VerifyException("There should be zero or one group dimension in the rhs.")
        _check_in_range("lhs", [*dims.lhs_batching_dimensions, *dims.lhs_contracting_dimensions], lhs)
        _check_in_range("lhs ragged", dims.lhs_ragged_dimensions, lhs)
        taken = [*dims.rhs_batching_dimensions, *dims.rhs_contracting_dimensions, *dims.rhs_group_dimensions]
        _check_in_range("rhs", taken, rhs)
        for left, right in (
            (dims.lhs_batching_dimensions, dims.rhs_batching_dimensions),
            (dims.lhs_contracting_dimensions, dims.rhs_contracting_dimensions),
        ):
            if [lhs[axis] for axis in left] != [rhs[axis] for axis in right]:
                raise VerifyException(
                    f"dimensions {list(left)} of lhs and {list(right)} of rhs must have the same sizes"
                )
        if self.has_groups_of_rows():
            self._check_groups_of_rows(lhs, rhs)

    def _check_groups_of_rows(self, lhs: Sequence[int], rhs: Sequence[int]) -> None:
        dims = self.ragged_dot_dimension_numbers.data
        if not dims.rhs_group_dimensions:
            raise VerifyException("There should be exactly one group dimension in the rhs when the lhs ragged is free.")
        (groups,) = shape_of(self.group_sizes)
        if groups != rhs[dims.rhs_group_dimensions[0]]:
            raise VerifyException(f"found {groups} group sizes; expected {rhs[dims.rhs_group_dimensions[0]]}")
        left = {*dims.lhs_batching_dimensions, *dims.lhs_contracting_dimensions}
        right = {*dims.rhs_batching_dimensions, *dims.rhs_contracting_dimensions, *dims.rhs_group_dimensions}
        expected = [lhs[axis] for axis in dims.lhs_batching_dimensions]
        expected += [size for axis, size in enumerate(lhs) if axis not in left]
        expected += [size for axis, size in enumerate(rhs) if axis not in right]
        found = list(shape_of(self.result))
        if found != expected and DYNAMIC_INDEX not in (*found, *expected):
            raise VerifyException(f"found a result of shape {found}; expected {expected}")


def _check_in_range(side: str, axes: Sequence[int], shape: Sequence[int]) -> None:
    if len(set(axes)) != len(axes):
        raise VerifyException(f"{side} dimensions {list(axes)} have a duplicate")
    for axis in axes:
        if not 0 <= axis < len(shape):
            raise VerifyException(f"{side} dimension {axis} is out of range for rank {len(shape)}")


OPS = (RaggedDotOp,)
