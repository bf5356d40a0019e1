"""`if`, `case`, `while`: bodies that run or do not run. `map`: a body on every element. `custom_call`: a name.

Source: the StableHLO specification, "if", "case", "while", "map", "custom_call".
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, BoolAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute, BlockArgument, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure

from zeropoint.ir.stablehlo.arrays import I64_ARRAY, i64_array
from zeropoint.ir.stablehlo.assembly import parse_operands
from zeropoint.ir.stablehlo.control_checks import check_branches, check_map, check_while
from zeropoint.ir.stablehlo.signatures import check_signature


@irdl_op_definition
class IfOp(IRDLOperation):
    """The results of the first region where `pred` is true, of the second one where it is false."""

    name = "stablehlo.if"
    pred = operand_def()
    results_ = var_result_def()
    true_branch = region_def("single_block")
    false_branch = region_def("single_block")

    def __init__(self, pred: SSAValue, result_types: Sequence[Attribute], true_branch: Region, false_branch: Region):
        super().__init__(operands=[pred], result_types=[result_types], regions=[true_branch, false_branch])

    def verify_(self) -> None:
        """Check the constraints of `if`."""
        check_signature(self)
        check_branches(self, self.pred)


@irdl_op_definition
class CaseOp(IRDLOperation):
    """The results of the region that `index` counts to; of the last one where there is no such region."""

    name = "stablehlo.case"
    index = operand_def()
    results_ = var_result_def()
    branches = var_region_def("single_block")

    def __init__(self, index: SSAValue, result_types: Sequence[Attribute], branches: Sequence[Region]):
        super().__init__(operands=[index], result_types=[result_types], regions=[list(branches)])

    def verify_(self) -> None:
        """Check the constraints of `case`."""
        check_signature(self)
        check_branches(self, self.index)


@irdl_op_definition
class WhileOp(IRDLOperation):
    """The operands, replaced by what `body` makes of them for as long as `cond` says true of them.

    ```mlir
    %0:2 = stablehlo.while(%iterArg = %x, %iterArg_0 = %n) : tensor<2xf32>, tensor<i64>
    cond {
      stablehlo.return %again : tensor<i1>
    } do {
      stablehlo.return %iterArg, %next : tensor<2xf32>, tensor<i64>
    }
    ```
    """

    name = "stablehlo.while"
    inputs = var_operand_def()
    results_ = var_result_def()
    cond = region_def("single_block")
    body = region_def("single_block")

    def __init__(self, inputs: Sequence[SSAValue], cond: Region, body: Region):
        types = [value.type for value in inputs]
        super().__init__(operands=[inputs], result_types=[types], regions=[cond, body])

    @classmethod
    def parse(cls, parser: Parser) -> WhileOp:
        """Parse `(%a = %x) : type cond {...} do {...}`."""
        pairs = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: (parser.parse_argument(expect_type=False), _value_after_equals(parser))
        )
        types: list[Attribute] = []
        position = parser.pos
        if pairs:
            parser.parse_punctuation(":")
            position = parser.pos
            types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        if len(types) != len(pairs):
            parser.raise_error(f"expected {len(pairs)} types, found {len(types)}", position)
        values = parser.resolve_operands([value for _, value in pairs], types, position)
        arguments = [argument.resolve(found) for (argument, _), found in zip(pairs, types, strict=True)]
        attributes = parser.parse_optional_attr_dict_with_keyword()
        parser.parse_keyword("cond")
        cond = parser.parse_region(arguments)
        parser.parse_keyword("do")
        body = parser.parse_region(arguments)
        return cls.create(
            operands=values,
            result_types=types,
            regions=[cond, body],
            attributes={} if attributes is None else dict(attributes.data),
        )

    def print(self, printer: Printer) -> None:
        """Print `(%a = %x) : type cond {...} do {...}`; both regions call their arguments the same."""
        with printer.in_parens():
            printer.print_list(
                zip(self.body.block.args, self.inputs, strict=True), lambda pair: _print_pair(printer, pair)
            )
        if self.inputs:
            printer.print_string(" : ")
            printer.print_list(self.operand_types, printer.print_attribute)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        names = printer._ssa_values  # pyright: ignore[reportPrivateUsage] (no other way to give a name twice)
        names.update(zip(self.cond.block.args, (names[argument] for argument in self.body.block.args), strict=True))
        for keyword, region in (("cond", self.cond), ("do", self.body)):
            printer.print_string(f"\n {keyword} " if region is self.cond else f" {keyword} ")
            printer.print_region(region, print_entry_block_args=False)

    def verify_(self) -> None:
        """Check the constraints of `while`."""
        check_signature(self)
        check_while(self)


def _value_after_equals(parser: Parser) -> UnresolvedOperand:
    parser.parse_punctuation("=")
    return parser.parse_unresolved_operand()


def _print_pair(printer: Printer, pair: tuple[BlockArgument, SSAValue]) -> None:
    argument, value = pair
    printer.print_block_argument(argument, print_type=False)
    printer.print_string(" = ")
    printer.print_operand(value)


@irdl_op_definition
class MapOp(IRDLOperation):
    """The body on the elements that stand at one place in all the inputs, for every place."""

    name = "stablehlo.map"
    inputs = var_operand_def()
    result = result_def()
    dimensions = prop_def(I64_ARRAY)
    computation = region_def("single_block")
    traits = traits_def(Pure())

    def __init__(self, inputs: Sequence[SSAValue], result_type: Attribute, dimensions: Sequence[int], body: Region):
        super().__init__(
            operands=[inputs],
            result_types=[result_type],
            properties={"dimensions": i64_array(dimensions)},
            regions=[body],
        )

    def verify_(self) -> None:
        """Check the constraints of `map`."""
        check_signature(self)
        check_map(self)


@irdl_op_definition
class CustomCallOp(IRDLOperation):
    """A call of something that only its name says.

    ```mlir
    %0 = stablehlo.custom_call @check.eq(%x, %y) : (tensor<2xf32>, tensor<2xf32>) -> tensor<i1>
    ```
    """

    name = "stablehlo.custom_call"
    inputs = var_operand_def()
    results_ = var_result_def()
    call_target_name = prop_def(StringAttr)
    has_side_effect = opt_prop_def(BoolAttr)
    backend_config = opt_prop_def()
    api_version = opt_prop_def(IntegerAttr)
    called_computations = opt_prop_def(ArrayAttr)
    operand_layouts = opt_prop_def(ArrayAttr)
    result_layouts = opt_prop_def(ArrayAttr)
    output_operand_aliases = opt_prop_def(ArrayAttr)

    def __init__(self, inputs: Sequence[SSAValue], result_types: Sequence[Attribute], target: str):
        super().__init__(
            operands=[inputs], result_types=[result_types], properties={"call_target_name": StringAttr(target)}
        )

    @classmethod
    def parse(cls, parser: Parser) -> CustomCallOp:
        """Parse `@name(%a, %b) {...} : (types) -> types`."""
        target = parser.parse_symbol_name()
        with parser.in_parens():
            operands = parse_operands(parser)
        found = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        position = parser.pos
        signature = parser.parse_function_type()
        values = parser.resolve_operands(operands, signature.inputs.data, position)
        properties = {name: found.pop(name) for name in list(found) if name in cls.get_irdl_definition().properties}
        return cls.create(
            operands=values,
            result_types=signature.outputs.data,
            properties={"call_target_name": target, **properties},
            attributes=found,
        )

    def print(self, printer: Printer) -> None:
        """Print `@name(%a, %b) {...} : (types) -> types`."""
        printer.print_string(" ")
        printer.print_symbol_name(self.call_target_name.data)
        with printer.in_parens():
            printer.print_list(self.inputs, printer.print_operand)
        shown = {name: found for name, found in self.properties.items() if name != "call_target_name"}
        printer.print_op_attributes({**shown, **self.attributes})
        printer.print_string(" : ")
        printer.print_operation_type(self)
