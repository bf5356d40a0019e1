"""Inlining: replaces an op by the ops of its body."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.errors import Error
from zeropoint.ir.locations import describe
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.limits import LimitExceeded

MOST_OPS = 10_000_000
"""Maximum number of ops in a program after all calls are inlined."""
MOST_NESTED = 200
"""Maximum depth of nested calls. Each level takes some frames of Python's stack."""
ValueMap = Callable[[SSAValue, int], SSAValue]


class RecursionInProgram(Error, ValueError):
    """A function calls itself, so its calls cannot be inlined. `op` is such a call."""

    def __init__(self, message: str, op: Operation):
        super().__init__(message)
        self.op = op


class NoBody(Error, ValueError):
    """A function that is called has no body."""


def check_calls(program: Program) -> None:
    """Check that all calls can be inlined.

    Raises RecursionInProgram if a function calls itself, NoBody if one is only declared, LimitExceeded if inlining
    makes more than ten million ops, or if more than `MOST_NESTED` functions are nested.
    """
    functions = {op.sym_name.data: op for op in program.module.ops if isinstance(op, FuncOp)}
    if len(functions) < 2 and not any(_called(op, functions) for op in functions.values()):
        return
    sizes: dict[str, int] = {}
    depths: dict[str, int] = {}
    for name in functions:
        if name not in sizes:
            _count(name, functions, sizes, depths)
    _check_depth(depths)
    if max(sizes.values(), default=0) > MOST_OPS:
        name = max(sizes, key=sizes.__getitem__)
        raise LimitExceeded(f"found @{name}, which has {sizes[name]:,} ops without calls, expected up to {MOST_OPS:,}")


def _check_depth(depths: Mapping[str, int]) -> None:
    """Check how many functions are nested in one. Raises LimitExceeded."""
    name = max(depths, key=depths.__getitem__)
    if depths[name] > MOST_NESTED:
        raise LimitExceeded(
            f"found @{name}, with calls that are nested {depths[name]} deep, expected up to {MOST_NESTED}"
        )


def _called(function: FuncOp, functions: Mapping[str, FuncOp]) -> list[tuple[Operation, str]]:
    """The ops of a function that refer to a function, each with the name of that function."""
    return [
        (op, part.string_value())
        for op in function.walk()
        for part in _symbols((*op.properties.values(), *op.attributes.values()))
        if part.string_value() in functions
    ]


def _symbols(attributes: Iterable[Attribute]) -> Iterator[SymbolRefAttr]:
    """The symbols among attributes, and in nested lists of attributes."""
    for attribute in attributes:
        if isinstance(attribute, SymbolRefAttr):
            yield attribute
        elif isinstance(attribute, ArrayAttr):
            yield from _symbols(cast("ArrayAttr[Attribute]", attribute))


def _count(name: str, functions: Mapping[str, FuncOp], sizes: dict[str, int], depths: dict[str, int]) -> None:
    """For a function and those it calls, count the ops after inlining, and the depth of nested calls.

    Not recursive, because a chain of calls may be longer than Python's stack.
    """
    calls = {name: _called(functions[name], functions)}
    path = {name: iter(calls[name])}  # the stack of callers, each with its remaining calls
    while path:
        name = next(reversed(path))
        for op, called in path[name]:
            if called in path:
                text = " -> ".join(f"@{step}" for step in (*path, called))
                raise RecursionInProgram(
                    f"{describe(op)}: found functions that call themselves ({text}), expected none", op
                )
            if not functions[called].body.blocks:
                raise NoBody(f"{describe(op)}: found @{called} without a body, expected a function with one")
            if called not in sizes:
                calls[called] = _called(functions[called], functions)
                path[called] = iter(calls[called])
                break
        else:
            del path[name]
            own = sum(1 for _ in functions[name].walk())
            sizes[name] = own + sum(sizes[called] for _, called in calls[name])
            depths[name] = 1 + max((depths[called] for _, called in calls[name]), default=0)


def copy_body(block: Block, operands: Sequence[SSAValue], before: Operation) -> tuple[list[Operation], list[SSAValue]]:
    """Copy a block's ops before `before`, with `operands` for its arguments. Returns the copies and yielded values."""
    values: dict[SSAValue, SSAValue] = dict(zip(block.args, operands, strict=True))
    *ops, terminator = block.ops
    copies = [op.clone(values) for op in ops]
    assert before.parent is not None
    before.parent.insert_ops_before(copies, before)
    return copies, [values[value] for value in terminator.operands]


def inline_region(
    region: QuantizeRegionOp, *, operand: ValueMap | None = None, result: ValueMap | None = None
) -> list[Operation]:
    """Replace a region by copies of its ops, and return them.

    `operand` and `result` map input and output number n of the region to the value that replaces it; by default, it is
    the value itself.
    """
    inputs = list(region.inputs) if operand is None else [operand(value, n) for n, value in enumerate(region.inputs)]
    copies, values = copy_body(region.body.block, inputs, region)
    outputs = values if result is None else [result(value, n) for n, value in enumerate(values)]
    Rewriter.replace_op(region, [], outputs)
    return copies
