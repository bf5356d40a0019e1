"""WHILE: a `stablehlo.while` around the operators of two other graphs, the condition and the body.

`flattened.py` reads the graphs. What is carried from trip to trip are the operands, without variables.
"""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import i1
from xdsl.ir import Block, Region, SSAValue

from zeropoint.frontend.errors import NodeError
from zeropoint.frontend.litert.call import Call
from zeropoint.frontend.litert.graph import LiteRtGraph
from zeropoint.ir.stablehlo import ReturnOp, WhileOp
from zeropoint.ir.tensors import element_of, shape_of


def while_(call: Call) -> tuple[SSAValue, ...]:
    """WHILE."""
    start, build = call.operands(), call.build
    types, outer, location = [value.type for value in start], build.block, build.location

    def converted(graph: LiteRtGraph) -> tuple[Block, list[SSAValue]]:
        build.block = block = Block(arg_types=types)
        call.values.found.update((index, one) for (_, index), one in zip(graph.inputs, block.args, strict=True))
        call.values.convert(graph.operators)
        return block, [call.values.value(index) for _, index in graph.outputs]

    condition, body = call.operator.graphs
    try:
        cond, (again,) = converted(condition)
        cond.add_op(ReturnOp([_checked(again, call, condition)]))
        trip, results = converted(body)
        for old, new in zip(start, results, strict=True):
            if old.type != new.type:
                shapes = list(shape_of(old)), list(shape_of(new))
                raise NodeError(
                    f"found a state of shape {shapes[0]} that becomes {shapes[1]}, expected one shape, because shapes "
                    "are static"
                )
        trip.add_op(ReturnOp(results))
    finally:
        build.block, build.location = outer, location
    op = WhileOp(start, Region(cond), Region(trip))
    build.insert(op)
    return tuple(op.results_)


def _checked(again: SSAValue, call: Call, condition: LiteRtGraph) -> SSAValue:
    """The condition as a number without dimensions."""
    if element_of(again) != i1 or prod(shape_of(again)) != 1:
        kind = condition.tensors[condition.outputs[0][1]].type_name
        raise NodeError(
            f"found a condition of type {kind} and shape {list(shape_of(again))}, expected one element of type BOOL"
        )
    return call.build.reshape(again, ())
