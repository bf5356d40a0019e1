"""Run self-contained programs, such as tests with check ops.

The entry is `@main`, or the module's only function. Without either, all functions without arguments that no other
function uses are entries.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from zeropoint.interp.errors import InputError
from zeropoint.interp.plan import plan_of
from zeropoint.ir.arguments import checked_argument
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array


@dataclass(frozen=True)
class Outcome:
    """The values that a function returned, and their types."""

    function: str
    values: tuple[Any, ...]
    types: tuple[Attribute, ...]


def entries(program: Program) -> list[FuncOp]:
    """The entry functions of a program.

    Raises InputError if there is none.
    """
    functions = [op for op in program.module.ops if isinstance(op, FuncOp)]
    main = [function for function in functions if function.sym_name.data == "main"] or functions[: len(functions) == 1]
    if main:
        return main
    used = {name for function in functions for name in _names_in(function)}
    found = [f for f in functions if f.body.blocks and not f.function_type.inputs and f.sym_name.data not in used]
    if functions and not found:
        names = ", ".join(f"@{function.sym_name.data}" for function in functions)
        raise InputError(f"found {names}; expected @main, or a function without arguments that no other one uses")
    return found


def _names_in(function: FuncOp) -> Iterator[str]:
    for op in function.walk():
        if op is not function:
            for attribute in (*op.properties.values(), *op.attributes.values()):
                yield from _symbols(attribute)


def _symbols(attribute: Attribute) -> Iterator[str]:
    if isinstance(attribute, SymbolRefAttr):
        yield attribute.root_reference.data
    for part in getattr(attribute, "data", ()) if type(attribute).__name__ == "ArrayAttr" else ():
        yield from _symbols(part)


def execute(
    program: Program, arguments: Sequence[Array] | None = None, write: Callable[[str], object] = sys.stdout.write
) -> Iterator[Outcome]:
    """Run the entries one after the other, each on the given arguments. `interpreter.print` outputs with `write`.

    Raises CheckFailed if a check fails, ExecutionError if processes deadlock, InputError if arguments do not match,
    UnsupportedError for ops without semantics.
    """
    for function in entries(program):
        if len(function.body.blocks) != 1:
            raise InputError(f"found @{function.sym_name.data} without a body, expected a function with one")
        block = function.body.block
        given = [] if arguments is None else list(arguments)
        if len(given) != len(block.args):
            wanted = ", ".join(str(argument.type) for argument in block.args) or "none"
            raise InputError(f"@{function.sym_name.data}: found {len(given)} arguments, expected {wanted}")
        values = [
            checked_argument(value, argument.type, f"argument {argument.index} of @{function.sym_name.data}")
            for value, argument in zip(given, block.args, strict=True)
        ]
        results = plan_of(program, block, write).run(values)
        yield Outcome(function.sym_name.data, results, tuple(function.function_type.outputs))
