"""The bodies of reductions, scatters and sorts: StableHLO ops on rank-0 tensors as arith ops on scalars."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue

from zeropoint.standard.element_types import is_unsigned, scalar_type
from zeropoint.standard.elementwise import ELEMENTWISE, ElementSource, constant_number
from zeropoint.standard.lowering import Standard
from zeropoint.standard.scalars import GenericBody, ScalarArithmetic


def scalar_results(
    std: Standard, op: Operation, block: Block, body: GenericBody, arguments: Sequence[SSAValue]
) -> list[SSAValue]:
    """The results of a block of an op for scalar arguments, computed at the end of `body`.

    Raises LoweringError for ops that are not elementwise, and for captured values that are not constant.
    """
    scalars: dict[SSAValue, SSAValue] = dict(zip(block.args, arguments, strict=True))

    def scalar(value: SSAValue, reader: Operation) -> SSAValue:
        if value in scalars:
            return scalars[value]
        number = constant_number(value, std.weights)
        if number is None:
            found = "an operand from around it" if reader.name.endswith("return") else f"{reader.name} in its body"
            raise std.refuse(op, f"found {found}, expected elementwise ops on its arguments and constants")
        return body.number(number, scalar_type(reader, value))

    *given, last = block.ops
    for inner in given:
        if inner.name == "stablehlo.constant":
            continue
        if type(inner) not in ELEMENTWISE:
            raise std.refuse(op, f"found {inner.name} in its body, expected elementwise ops on its arguments")
        ops = ScalarArithmetic(body, std.constant, unsigned=is_unsigned(inner.operands[0]))
        args = [scalar(value, inner) for value in inner.operands]
        source = ElementSource(std.weights, std.profile, std.value)
        scalars[inner.results[0]] = ELEMENTWISE[type(inner)](ops, inner, args, source)
    return [scalar(value, last) for value in last.operands]
