"""Constraints of `if`, `case`, `while` and `map`.

Source: the StableHLO specification, "if" (C1 to C3), "case" (C1 to C4), "while" (C1 to C3), "map" (C1 to C4); the
sentences are upstream's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import TensorType, i1
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.stablehlo.elements import check_inferred, compatible_types, types_text
from zeropoint.ir.tensors import element_of, shape_of

if TYPE_CHECKING:
    from zeropoint.ir.stablehlo.control import MapOp, WhileOp


def returned_types(block: Block) -> list[Attribute]:
    """The types of what the block's terminator hands out."""
    return [] if block.last_op is None else list(block.last_op.operand_types)


def check_branches(op: Operation, selector: SSAValue) -> None:
    """Check `if` and `case`: a scalar selects, branches have no arguments and return what the op does.

    Raises VerifyException.
    """
    if shape_of(selector):
        raise VerifyException(f"operand should be rank 0 tensor but got rank {len(shape_of(selector))}")
    if not op.regions:
        raise VerifyException("expect at least one branch")
    first = returned_types(op.regions[0].block)
    for index, region in enumerate(op.regions):
        if region.block.args:
            raise VerifyException(f"branch {index} must have 0 arguments, but found {len(region.block.args)}")
        found = returned_types(region.block)
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


def check_while(op: WhileOp) -> None:
    """Check `while`: operands, arguments of both regions, what the body returns and the results have the same types.

    Raises VerifyException.
    """
    operands = list(op.operand_types)
    for found, what in (
        ([argument.type for argument in op.cond.block.args], "condition block arguments"),
        ([argument.type for argument in op.body.block.args], "body block arguments"),
        (returned_types(op.body.block), "body block return types"),
    ):
        if not compatible_types(operands, found):
            raise VerifyException(
                f"expect operands to be compatible with {what} but got {types_text(operands)} vs {types_text(found)}"
            )
    condition = returned_types(op.cond.block)
    if len(condition) != 1:
        raise VerifyException(f"expect condition body returns a single value but got {len(condition)}")
    if not _is_predicate(condition[0]):
        raise VerifyException(f"expect condition block return a zero-ranked tensor of i1 but got '{condition[0]}'")
    _check_results(operands, op)


def check_map(op: MapOp) -> None:
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
    element = _check_map_result(returned_types(op.computation.block))
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
