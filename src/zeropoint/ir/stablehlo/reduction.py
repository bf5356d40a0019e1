"""`reduce`, `reduce_window` and the `return` that ends their bodies.

Source: the StableHLO specification; the RFC "StableHLO quantization for reduction ops" lets a body compute in a wider
element type than the operands have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    SameVariadicOperandSize,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure

from zeropoint.ir.stablehlo.arrays import I64_ARRAY, i64_array, padding_attribute
from zeropoint.ir.stablehlo.reduce_assembly import parse_reduce, print_reduce
from zeropoint.ir.stablehlo.reduction_checks import check_reduce, check_reduce_window
from zeropoint.ir.stablehlo.signatures import check_signature


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """Ends a region of a StableHLO op."""

    name = "stablehlo.return"
    results_ = var_operand_def()
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "$results_ attr-dict (`:` type($results_)^)?"

    def __init__(self, results: Sequence[SSAValue]):
        super().__init__(operands=[results])


def binary_body(op: Callable[[SSAValue, SSAValue], Operation], element_type: Attribute) -> Region:
    """The body `(a, b) -> op(a, b)` on scalars of `element_type`, e.g. `binary_body(AddOp, f32)`."""
    scalar = TensorType(element_type, [])
    block = Block(arg_types=[scalar, scalar])
    combined = op(block.args[0], block.args[1])
    block.add_ops([combined, ReturnOp(combined.results)])
    return Region(block)


@irdl_op_definition
class ReduceOp(IRDLOperation):
    """Reduce the listed dimensions with the body, starting at the initial values."""

    name = "stablehlo.reduce"
    inputs = var_operand_def()
    init_values = var_operand_def()
    results_ = var_result_def()
    dimensions = prop_def(I64_ARRAY)
    body = region_def("single_block")
    irdl_options = (SameVariadicOperandSize(),)
    traits = traits_def(Pure())

    def __init__(
        self,
        inputs: Sequence[SSAValue],
        init_values: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        dimensions: Sequence[int],
        body: Region,
    ):
        super().__init__(
            operands=[inputs, init_values],
            result_types=[result_types],
            properties={"dimensions": i64_array(dimensions)},
            regions=[body],
        )

    @classmethod
    def parse(cls, parser: Parser) -> ReduceOp:
        """Parse the short form or the one with the body in full."""
        inputs, init_values, result_types, dimensions, body, attributes = parse_reduce(parser)
        op = cls(inputs, init_values, result_types, dimensions, body)
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        """Print the short form where it says the same."""
        print_reduce(self, printer)

    def verify_(self) -> None:
        """Check the constraints of `reduce`."""
        check_signature(self)
        check_reduce(self)


@irdl_op_definition
class ReduceWindowOp(IRDLOperation):
    """Reduce every window with the body, starting at the initial values."""

    name = "stablehlo.reduce_window"
    inputs = var_operand_def()
    init_values = var_operand_def()
    results_ = var_result_def()
    window_dimensions = prop_def(I64_ARRAY)
    window_strides = opt_prop_def(I64_ARRAY)
    base_dilations = opt_prop_def(I64_ARRAY)
    window_dilations = opt_prop_def(I64_ARRAY)
    padding = opt_prop_def(DenseIntOrFPElementsAttr)
    body = region_def("single_block")
    irdl_options = (SameVariadicOperandSize(),)
    traits = traits_def(Pure())

    def __init__(
        self,
        inputs: Sequence[SSAValue],
        init_values: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        window_dimensions: Sequence[int],
        body: Region,
        *,
        window_strides: Sequence[int] | None = None,
        base_dilations: Sequence[int] | None = None,
        window_dilations: Sequence[int] | None = None,
        padding: Sequence[tuple[int, int]] | None = None,
    ):
        super().__init__(
            operands=[inputs, init_values],
            result_types=[result_types],
            properties={
                "window_dimensions": i64_array(window_dimensions),
                "window_strides": i64_array(window_strides),
                "base_dilations": i64_array(base_dilations),
                "window_dilations": i64_array(window_dilations),
                "padding": None if padding is None else padding_attribute(padding),
            },
            regions=[body],
        )

    def verify_(self) -> None:
        """Check the constraints of `reduce_window`."""
        check_signature(self)
        check_reduce_window(self)
