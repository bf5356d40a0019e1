"""The order of the dimensions of inputs and outputs, recorded as `zeropoint.order` on the argument or result."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DictionaryAttr, FunctionType
from xdsl.dialects.func import ReturnOp as FunctionReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.export.permuted import Permuted, permuted_type
from zeropoint.export.reshaped_orders import DimensionOrder
from zeropoint.export.wanted_orders import permutation
from zeropoint.ir.annotations import ORDER
from zeropoint.ir.program import Program, with_orders
from zeropoint.ir.stablehlo.arrays import array_values


def stated_orders(attributes: ArrayAttr[DictionaryAttr] | None, count: int, name: str) -> list[DimensionOrder | None]:
    """The orders in an attribute of that name on the arguments or results of a function; None where there is none."""
    if attributes is None:
        return [None] * count
    found = [cast("DenseArrayBase[Any] | None", entry.data.get(name)) for entry in attributes]
    return [None if order is None else array_values(order) for order in found]


def _both(first: DimensionOrder | None, second: DimensionOrder | None) -> DimensionOrder | None:
    """The order after two reorderings. The second one is of the dimensions after the first."""
    return second if first is None or second is None else tuple(first[dimension] for dimension in second)


def reorder_arguments(program: Program, made: Collection[Operation]) -> None:
    """Reorder arguments that only transposes of the layout pass, `made`, read, all with the same permutation."""
    function, block = program.main, program.entry
    orders: list[DimensionOrder | None] = []
    earlier = stated_orders(function.arg_attrs, len(block.args), ORDER)
    for argument, before in zip(block.args, earlier, strict=True):
        users = [use.operation for use in argument.uses]
        # An input that the model itself transposes keeps its order: batch and time of an LSTM, for example.
        found = {permutation(user) if user in made else None for user in users}
        # If readers want different orders, the input keeps the model's order and the transposes stay.
        order = found.pop() if len(found) == 1 else None
        orders.append(_both(before, order))
        if order is not None:
            moved = Rewriter.replace_value_with_new_type(argument, permuted_type(argument, order))
            for user in users:
                user.results[0].replace_all_uses_with(moved)
                Rewriter.erase_op(user)
    function.properties["arg_attrs"] = with_orders(function.arg_attrs, ORDER, orders)
    _retype(program)


def reorder_results(program: Program, natural: Mapping[SSAValue, Permuted]) -> None:
    """Return values of rank 3 and more in the order in which they are computed, that of `natural`."""
    terminator = program.entry.last_op
    assert isinstance(terminator, FunctionReturnOp)
    return_reordered(program, [natural.get(value) for value in terminator.operands])


def return_reordered(program: Program, values: Sequence[Permuted | None]) -> None:
    """Return other values, in their orders; None keeps the value that is returned."""
    function, terminator = program.main, program.entry.last_op
    assert isinstance(terminator, FunctionReturnOp)
    for index, value in enumerate(values):
        if value is not None:
            terminator.operands[index] = value.value
    earlier = stated_orders(function.res_attrs, len(values), ORDER)
    orders = [
        None if value is None else _both(before, value.order) for before, value in zip(earlier, values, strict=True)
    ]
    function.properties["res_attrs"] = with_orders(function.res_attrs, ORDER, orders)
    _retype(program)


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
            port.name: list(order)
            for port, order in zip(ports, stated_orders(listed, len(ports), ORDER), strict=True)
            if order is not None
        }
        for kind, ports, listed in (
            ("inputs", program.inputs, function.arg_attrs),
            ("outputs", program.outputs, function.res_attrs),
        )
        if isinstance(listed, ArrayAttr)
    }
