"""Control flow: `if`, `case`, `while`. `map`: a body applied elementwise. `custom_call`: a call by name.

Source: the StableHLO specification, "if", "case", "while", "map", "custom_call".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

from xdsl.dialects.builtin import ArrayAttr, BoolAttr, IntegerAttr, StringAttr, TensorType, i1
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
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
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.stablehlo.arrays import I64_ARRAY, array_values, i64_array
from zeropoint.ir.stablehlo.assembly import parse_operands
from zeropoint.ir.stablehlo.elements import ElementKind, TensorConstraint, check_inferred, compatible_types, types_text
from zeropoint.ir.stablehlo.signatures import (
    ANY,
    EVERY_KIND,
    INT32,
    PREDICATE,
    VARIADIC,
    OpSignature,
    SignatureOp,
    at_least_one,
    same_shape,
)
from zeropoint.ir.tensors import element_of, shape_of

_MEMREF = f" or memref of {' or '.join(kind.value for kind in (*EVERY_KIND, ElementKind.PER_TENSOR))} values"
_VALUES = TensorConstraint(
    (*EVERY_KIND, ElementKind.PER_TENSOR), "variadic of ranked tensor", or_per_axis=True, or_token=True
)
_LOOPED = TensorConstraint(
    (*EVERY_KIND, ElementKind.PER_TENSOR),
    "variadic of ranked tensor",
    or_per_axis=True,
    or_token=True,
    afterwards=_MEMREF,
)


@irdl_op_definition
class IfOp(SignatureOp):
    """The results of the first region if `pred` is true, otherwise of the second."""

    name = "stablehlo.if"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((PREDICATE,), _VALUES)
    pred = operand_def()
    results_ = var_result_def()
    true_branch = region_def("single_block")
    false_branch = region_def("single_block")

    def __init__(self, pred: SSAValue, result_types: Sequence[Attribute], true_branch: Region, false_branch: Region):
        super().__init__(operands=[pred], result_types=[result_types], regions=[true_branch, false_branch])

    def verify_(self) -> None:
        """Check the constraints of `if`."""
        super().verify_()
        _check_branches(self, self.pred)


@irdl_op_definition
class CaseOp(SignatureOp):
    """The results of region number `index`; of the last region if `index` is out of range."""

    name = "stablehlo.case"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((INT32,), _VALUES)
    index = operand_def()
    results_ = var_result_def()
    branches = var_region_def("single_block")

    def __init__(self, index: SSAValue, result_types: Sequence[Attribute], branches: Sequence[Region]):
        super().__init__(operands=[index], result_types=[result_types], regions=[list(branches)])

    def verify_(self) -> None:
        """Check the constraints of `case`."""
        super().verify_()
        _check_branches(self, self.index)


@irdl_op_definition
class WhileOp(SignatureOp):
    """Applies `body` to the operands repeatedly, as long as `cond` returns true.

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
    SIGNATURE: ClassVar[OpSignature] = OpSignature((_LOOPED,), _LOOPED)
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
        """Print `(%a = %x) : type cond {...} do {...}`; both regions use the same argument names."""
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
        super().verify_()
        _check_while(self)


def _value_after_equals(parser: Parser) -> UnresolvedOperand:
    parser.parse_punctuation("=")
    return parser.parse_unresolved_operand()


def _print_pair(printer: Printer, pair: tuple[BlockArgument, SSAValue]) -> None:
    argument, value = pair
    printer.print_block_argument(argument, print_type=False)
    printer.print_string(" = ")
    printer.print_operand(value)


@irdl_op_definition
class MapOp(SignatureOp):
    """Applies the body elementwise to all inputs."""

    name = "stablehlo.map"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((VARIADIC,), ANY, (at_least_one, same_shape))
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
        super().verify_()
        _check_map(self)


def _parse_any_attributes(parser: Parser) -> dict[str, Attribute]:
    """Parse attributes, also of unknown dialects and kinds, which stay as they are: only the called code knows them."""
    context = parser.ctx
    given = context.allow_unregistered
    context.allow_unregistered = True
    try:
        return parser.parse_optional_attr_dict()
    finally:
        context.allow_unregistered = given


@irdl_op_definition
class CustomCallOp(IRDLOperation):
    """A call of an implementation-defined op by name.

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
        found = _parse_any_attributes(parser)
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


def _returned_types(block: Block) -> list[Attribute]:
    """The operand types of the block's terminator."""
    return [] if block.last_op is None else list(block.last_op.operand_types)


def _check_branches(op: Operation, selector: SSAValue) -> None:
    """Check `if` and `case`: the selector is a scalar, branches have no arguments and return the op's result types.

    Raises VerifyException.
    """
    if shape_of(selector):
        raise VerifyException(f"operand should be rank 0 tensor but got rank {len(shape_of(selector))}")
    if not op.regions:
        raise VerifyException("expect at least one branch")
    first = _returned_types(op.regions[0].block)
    for index, region in enumerate(op.regions):
        if region.block.args:
            raise VerifyException(f"branch {index} must have 0 arguments, but found {len(region.block.args)}")
        found = _returned_types(region.block)
        if not compatible_types(first, found):
            raise VerifyException(
                f"branch 0 and branch {index} have mismatched return types: {types_text(first)} vs {types_text(found)}"
            )
    _check_results(first, op)


def _check_results(inferred: Sequence[Attribute], op: Operation) -> None:
    if not compatible_types(inferred, op.result_types):
        raise VerifyException(
            f"inferred type(s) {types_text(inferred)} are incompatible with return type(s) of operation "
            f"{types_text(op.result_types)}"
        )


def _is_scalar(found: Attribute) -> bool:
    return isinstance(found, TensorType) and not shape_of(cast("Attribute", found))


def _is_predicate(found: Attribute) -> bool:
    return _is_scalar(found) and element_of(found) == i1


def _check_while(op: WhileOp) -> None:
    """Check `while`: operands, arguments of both regions, values returned by the body, and results have equal types.

    Raises VerifyException.
    """
    operands = list(op.operand_types)
    for found, what in (
        ([argument.type for argument in op.cond.block.args], "condition block arguments"),
        ([argument.type for argument in op.body.block.args], "body block arguments"),
        (_returned_types(op.body.block), "body block return types"),
    ):
        if not compatible_types(operands, found):
            raise VerifyException(
                f"expect operands to be compatible with {what} but got {types_text(operands)} vs {types_text(found)}"
            )
    condition = _returned_types(op.cond.block)
    if len(condition) != 1:
        raise VerifyException(f"expect condition body returns a single value but got {len(condition)}")
    if not _is_predicate(condition[0]):
        raise VerifyException(f"expect condition block return a zero-ranked tensor of i1 but got '{condition[0]}'")
    _check_results(operands, op)


def _check_map(op: MapOp) -> None:
    """Check `map`: the computation is a function of scalars, one for each input, over all dimensions.

    Raises VerifyException.
    """
    arguments = [argument.type for argument in op.computation.block.args]
    if len(arguments) != len(op.inputs):
        raise VerifyException(
            f"expects number of operands to match the arity of map computation, but got: {len(op.inputs)} and "
            f"{len(arguments)}"
        )
    for index, (argument, value) in enumerate(zip(arguments, op.inputs, strict=True)):
        if not _is_scalar(argument):
            raise VerifyException(
                f"computation arguments must be 0-rank tensor, but got: arg #{index} of type '{argument}'"
            )
        if element_of(argument) != element_of(value):
            raise VerifyException(
                f"element type of operands and computation arguments must match, but got: '{element_of(value)}' and "
                f"'{element_of(argument)}'"
            )
    element = _check_map_result(_returned_types(op.computation.block))
    dimensions = array_values(op.dimensions)
    if list(dimensions) != list(range(len(dimensions))):
        text = ", ".join(map(str, dimensions))
        raise VerifyException(f"requires monotonically increasing dimension numbers, but got: {text}")
    for value in op.inputs:
        if len(shape_of(value)) != len(dimensions):
            raise VerifyException(
                f"applied to a subset of dimensions currently not supported: operand dimensions = "
                f"{len(shape_of(value))}, requested map dimensions size = {len(dimensions)}"
            )
    check_inferred([(shape_of(op.inputs[-1]), element)], op.result_types)


def _check_map_result(returned: Sequence[Attribute]) -> Attribute:
    if len(returned) != 1:
        raise VerifyException(f"computation must return single output, but got: {len(returned)}")
    if not _is_scalar(returned[0]):
        raise VerifyException(f"computation must return 0-rank tensor, but got: '{returned[0]}'")
    return element_of(returned[0])


OPS = (IfOp, CaseOp, WhileOp, MapOp, CustomCallOp)
