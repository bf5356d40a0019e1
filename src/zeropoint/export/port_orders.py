"""The order of the dimensions of inputs and outputs, recorded as `zeropoint.order` on the argument or result."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DictionaryAttr, FunctionType
from xdsl.dialects.func import ReturnOp as FunctionReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.export.permuted import Permuted, inverse, permuted_type
from zeropoint.export.reshaped_orders import DimensionOrder
from zeropoint.export.wanted_orders import permutation
from zeropoint.ir.annotations import OF_PORT, ORDER
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import TransposeOp
from zeropoint.ir.stablehlo.arrays import array_values, i64_array


def _with_orders(
    attributes: ArrayAttr[DictionaryAttr] | None, orders: Sequence[DimensionOrder | None]
) -> ArrayAttr[DictionaryAttr]:
    known = [DictionaryAttr({})] * len(orders) if attributes is None else attributes.data
    return ArrayAttr(
        [
            entry if order is None else DictionaryAttr({**entry.data, ORDER: i64_array(order)})
            for entry, order in zip(known, orders, strict=True)
        ]
    )


def reorder_arguments(program: Program, made: Collection[Operation]) -> None:
    """Reorder arguments that only transposes of the layout pass, `made`, read, all with the same permutation.

    The transposes of an imported file's inputs (`OF_PORT`) count as transposes of the pass.
    """
    function, block = program.main, program.entry
    orders: list[DimensionOrder | None] = []
    for argument in block.args:
        users = [use.operation for use in argument.uses]
        # An input that the model itself transposes keeps its order: batch and time of an LSTM, for example.
        found = {permutation(user) if user in made or _is_of_port(user) else None for user in users}
        # If readers want different orders, the input keeps the model's order and the transposes stay.
        order = found.pop() if len(found) == 1 else None
        orders.append(order)
        if order is not None:
            moved = Rewriter.replace_value_with_new_type(argument, permuted_type(argument, order))
            for user in users:
                user.results[0].replace_all_uses_with(moved)
                Rewriter.erase_op(user)
    function.properties["arg_attrs"] = _with_orders(function.arg_attrs, orders)
    _retype(program)


def _is_of_port(op: Operation) -> bool:
    """Whether an op is a transpose, or a kernel of one, that an imported file has for an input or output."""
    inside = op.body.block.ops if isinstance(op, QuantizeRegionOp) else (op,)
    return any(isinstance(each, TransposeOp) and OF_PORT in each.attributes for each in inside)


def _of_port(value: SSAValue, natural: Mapping[SSAValue, Permuted]) -> Permuted | None:
    """The operand of a transpose that an imported file has for an output; None for other values."""
    op = value.owner
    if not isinstance(op, Operation) or not _is_of_port(op) or (order := permutation(op)) is None:
        return None
    return None if op.operands[0] in natural else Permuted(op.operands[0], inverse(order))


def reorder_results(program: Program, natural: Mapping[SSAValue, Permuted]) -> None:
    """Return values of rank 3 and more in the order in which they are computed, that of `natural`."""
    function, terminator = program.main, program.entry.last_op
    assert isinstance(terminator, FunctionReturnOp)
    found = [natural.get(value) or _of_port(value, natural) for value in terminator.operands]
    for index, value in enumerate(found):
        if value is not None:
            terminator.operands[index] = value.value
    orders = [None if value is None else value.order for value in found]
    function.properties["res_attrs"] = _with_orders(function.res_attrs, orders)


def _retype(program: Program) -> None:
    terminator = program.entry.last_op
    assert isinstance(terminator, FunctionReturnOp)
    program.main.function_type = FunctionType.from_lists(
        [argument.type for argument in program.entry.args], [value.type for value in terminator.operands]
    )


def port_orders(program: Program) -> Mapping[str, Mapping[str, list[int]]]:
    """The order of every input and output that the pass moved, by name."""
    function = program.main
    return {
        kind: {
            port.name: list(array_values(cast("DenseArrayBase[Any]", entry.data[ORDER])))
            for port, entry in zip(ports, listed.data, strict=True)
            if ORDER in entry.data
        }
        for kind, ports, listed in (
            ("inputs", program.inputs, function.arg_attrs),
            ("outputs", program.outputs, function.res_attrs),
        )
        if isinstance(listed, ArrayAttr)
    }
