"""`chlo.scan`.

Source: public programs that use it; the names are theirs.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import BoolAttr, IntegerAttr, TensorType, i64
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    AttrSizedResultSegments,
    IRDLOperation,
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
from xdsl.traits import RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.stablehlo.assembly import parse_operands
from zeropoint.ir.stablehlo.elements import compatible_types, types_text
from zeropoint.ir.tensors import element_of, shape_of


@irdl_op_definition
class ScanOp(IRDLOperation):
    """Applies the body to successive slices of the inputs along `dimension`, with carried values.

    The body takes the slices, without that dimension, and the carried values. It returns slices of the outputs and the
    next carried values. The results are the outputs and the last carried values.

    ```mlir
    %sums, %sum = chlo.scan(%x) inits(%zero) dimension=0 {
    ^bb0(%element: tensor<i32>, %before: tensor<i32>):
      %now = stablehlo.add %element, %before : tensor<i32>
      stablehlo.return %now, %now : tensor<i32>, tensor<i32>
    } : (tensor<4xi32>, tensor<i32>) -> (tensor<4xi32>, tensor<i32>)
    ```
    """

    name = "chlo.scan"
    inputs = var_operand_def()
    inits = var_operand_def()
    outputs = var_result_def()
    carries = var_result_def()
    dimension = prop_def(IntegerAttr.constr(i64))
    is_reverse = opt_prop_def(BoolAttr)
    body = region_def("single_block")
    irdl_options = (AttrSizedOperandSegments(as_property=True), AttrSizedResultSegments(as_property=True))
    traits = traits_def(RecursiveMemoryEffect())

    def __init__(
        self,
        inputs: Sequence[SSAValue],
        inits: Sequence[SSAValue],
        dimension: int,
        body: Region,
        result_types: Sequence[Attribute],
        is_reverse: bool | None = None,
    ):
        outputs = len(result_types) - len(inits)
        super().__init__(
            operands=[inputs, inits],
            result_types=[result_types[:outputs], result_types[outputs:]],
            properties={
                "dimension": IntegerAttr(dimension, i64),
                "is_reverse": None if is_reverse is None else BoolAttr.from_bool(is_reverse),
            },
            regions=[body],
        )

    @classmethod
    def parse(cls, parser: Parser) -> ScanOp:
        """Parse `(%x) inits(%zero) dimension=0 [attributes {is_reverse = true}] {...} : types`."""
        with parser.in_parens():
            inputs = parse_operands(parser)
        parser.parse_keyword("inits")
        with parser.in_parens():
            inits = parse_operands(parser)
        parser.parse_keyword("dimension")
        parser.parse_punctuation("=")
        dimension = parser.parse_integer(allow_boolean=False)
        found = parser.parse_optional_attr_dict_with_keyword()
        attributes = {} if found is None else dict(found.data)
        reverse = attributes.pop("is_reverse", None)
        body = parser.parse_region()
        parser.parse_punctuation(":")
        position = parser.pos
        types = parser.parse_function_type()
        results = list(types.outputs)
        if len(results) < len(inits):
            parser.raise_error(f"expected at least {len(inits)} results, found {len(results)}", position)
        operands = parser.resolve_operands([*inputs, *inits], list(types.inputs), position)
        op = cls(operands[: len(inputs)], operands[len(inputs) :], dimension, body, results)
        if reverse is not None:
            op.properties["is_reverse"] = reverse
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        """The inverse of `parse`."""
        for word, values in (("", self.inputs), (" inits", self.inits)):
            printer.print_string(word)
            with printer.in_parens():
                printer.print_list(values, printer.print_operand)
        printer.print_string(f" dimension={self.dimension.value.data}")
        attributes = dict(self.attributes)
        if self.is_reverse is not None:
            attributes["is_reverse"] = self.is_reverse
        printer.print_op_attributes(attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body)
        printer.print_string(" : ")
        printer.print_operation_type(self)

    def verify_(self) -> None:
        """Check that inputs and outputs have the same size along `dimension`, and the types of the body."""
        axis = int(self.dimension.value.data)
        scanned = [value.type for value in (*self.inputs, *self.outputs)]
        lengths: set[int] = set()
        for found in scanned:
            shape = shape_of(found)
            if not 0 <= axis < len(shape):
                raise VerifyException(f"dimension {axis} is out of range for rank {len(shape)}")
            lengths.add(shape[axis])
        if not scanned:
            raise VerifyException("expected at least one input or output")
        if len(lengths) != 1:
            raise VerifyException(f"inputs and outputs must have the same size along dimension {axis}")
        carried = [value.type for value in self.inits]
        given = [*(_slice(value.type, axis) for value in self.inputs), *carried]
        made = [*(_slice(value.type, axis) for value in self.outputs), *carried]
        last = self.body.block.last_op
        for what, expected, types in (
            ("arguments", given, [argument.type for argument in self.body.block.args]),
            ("return types", made, [] if last is None else list(last.operand_types)),
        ):
            if not compatible_types(expected, types):
                raise VerifyException(f"body {what} must be {types_text(expected)}, but found {types_text(types)}")
        if not compatible_types(carried, [value.type for value in self.carries]):
            raise VerifyException("inits and the final carried values must have the same types")


def _slice(found: Attribute, axis: int) -> TensorType:
    shape = list(shape_of(found))
    return TensorType(element_of(found), shape[:axis] + shape[axis + 1 :])


OPS = (ScanOp,)
