"""Inline calls and composites, so that each call site has its own ops.

```mlir
func.func private @block(%a: tensor<4xf32>) -> tensor<4xf32> { ... }
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = func.call @block(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("first")
  %1 = func.call @block(%0) : (tensor<4xf32>) -> tensor<4xf32> loc("second")
```
becomes `@main` with the ops of `@block` twice, named `first/...` and `second/...`. Private functions without uses are
removed.

Source: the RFC on quantization transformations, section "Propagation pass": functions are inlined or duplicated, as
different call sites may use different parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import LocationAttr, SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter

from zeropoint.ir.calls import CallOp
from zeropoint.ir.inlining import check_calls, copy_body
from zeropoint.ir.locations import location_text, name_location
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import CompositeOp

Functions = Mapping[str, FuncOp]
Reference = type[CallOp] | type[CompositeOp]
"""An op that stands for the ops of a function."""


def inline_calls(program: Program) -> Program:
    """A program without calls in the entry function, in its loops and branches, and in decompositions of composites.

    Raises RecursionInProgram, a ValueError, for a function that calls itself; LimitExceeded if there are too many ops.
    """
    return _inlined(program, _with_decompositions(program), (CallOp,))


def inline_functions(program: Program) -> Program:
    """A program in whose entry function calls and composites are replaced by the ops of their functions.

    Raises RecursionInProgram, a ValueError, for a function that calls itself; LimitExceeded if there are too many ops.
    """
    return _inlined(program, [program.main], (CallOp, CompositeOp))


def _inlined(program: Program, inside: Sequence[FuncOp], kinds: tuple[Reference, ...]) -> Program:
    """The program with the ops of `kinds` inlined in some functions; the same program if there are none."""
    if not any(isinstance(op, kinds) for function in inside for op in function.walk()):
        return program
    check_calls(program)
    names = {function.sym_name.data for function in inside}
    program = program.for_change()
    functions = {op.sym_name.data: op for op in program.module.ops if isinstance(op, FuncOp)}
    for name in names:
        for op in [op for op in functions[name].walk() if isinstance(op, kinds)]:
            _inline(op, functions, kinds)
    _remove_unused(program)
    return program


def _inline(call: Operation, functions: Functions, kinds: tuple[Reference, ...]) -> None:
    """Replace a call or composite by the ops of its function, recursively."""
    left = [call]
    while left:
        call = left.pop()
        copies, results = copy_body(functions[_function_of(call)].body.block, call.operands, call)
        made = [op for copy in copies for op in copy.walk()]
        for op in made:
            op.location = _named_under(call, op)
        Rewriter.replace_op(call, [], results)
        left += [op for op in made if isinstance(op, kinds)]


def _function_of(call: Operation) -> str:
    """The name of the function that a call or a composite stands for."""
    if isinstance(call, CallOp):
        return call.callee.string_value()
    assert isinstance(call, CompositeOp)
    return call.decomposition.root_reference.data


def _named_under(call: Operation, op: Operation) -> LocationAttr:
    """The location of an inlined op: its name, prefixed by the call's name."""
    caller, own = location_text(call.location), location_text(op.location)
    if caller is None or own is None:
        return op.location if caller is None else call.location
    return name_location(f"{caller}/{own}")


def _with_decompositions(program: Program) -> list[FuncOp]:
    """The entry function, the decompositions of its composites, and those of the composites in them."""
    functions = {op.sym_name.data: op for op in program.module.ops if isinstance(op, FuncOp)}
    found = [program.main]
    seen = {program.main}
    for function in found:
        for op in function.walk():
            name = op.decomposition.root_reference.data if isinstance(op, CompositeOp) else ""
            if name in functions and functions[name] not in seen:
                found.append(functions[name])
                seen.add(functions[name])
    return found


def _remove_unused(program: Program) -> None:
    """Remove the private functions that no op refers to."""
    functions, main = [op for op in program.module.ops if isinstance(op, FuncOp)], program.main
    while True:
        named = _named_functions(program)
        private = [op for op in functions if op.parent is not None and _is_private(op)]
        unused = [op for op in private if op is not main and op.sym_name.data not in named]
        if not unused:
            return
        for op in unused:
            Rewriter.erase_op(op)


def _named_functions(program: Program) -> set[str]:
    """The names of the functions that ops of the program refer to."""
    return {
        part.string_value()
        for op in program.module.walk()
        for part in (*op.properties.values(), *op.attributes.values())
        if isinstance(part, SymbolRefAttr)
    }


def _is_private(function: FuncOp) -> bool:
    return function.sym_visibility is not None and function.sym_visibility.data == "private"
