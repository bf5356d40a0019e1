"""Inline every call, so that each call site has its own ops.

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

from collections.abc import Mapping

from xdsl.dialects.builtin import LocationAttr, SymbolRefAttr
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter

from zeropoint.ir.inlining import check_calls, copy_body
from zeropoint.ir.locations import location_text, name_location
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import CompositeOp

Functions = Mapping[str, FuncOp]


def _named_under(call: Operation, op: Operation) -> LocationAttr:
    """The location of an inlined op: its name, prefixed by the call's name."""
    caller, own = location_text(call.location), location_text(op.location)
    if caller is None or own is None:
        return op.location if caller is None else call.location
    return name_location(f"{caller}/{own}")


def _inline(call: CallOp, functions: Functions) -> None:
    """Replace a call by the ops of the function, and inline the calls among them."""
    name = call.callee.string_value()
    copies, results = copy_body(functions[name].body.block, call.arguments, call)
    for op in copies:
        op.location = _named_under(call, op)
        if isinstance(op, QuantizeRegionOp):
            for inner in op.body.block.ops:
                inner.location = _named_under(call, inner)
    Rewriter.replace_op(call, [], results)
    for op in copies:
        if isinstance(op, CallOp):
            _inline(op, functions)


def _named_functions(program: Program) -> set[str]:
    """The names of the functions that ops of the program refer to."""
    return {
        part.string_value()
        for op in program.module.walk()
        for part in (*op.properties.values(), *op.attributes.values())
        if isinstance(part, SymbolRefAttr)
    }


def _with_decompositions(program: Program) -> list[FuncOp]:
    """The entry function, the decompositions of its composites, and those of the composites in them."""
    functions = {op.sym_name.data: op for op in program.module.ops if isinstance(op, FuncOp)}
    found = [program.main]
    for function in found:
        for op in function.walk():
            name = op.decomposition.root_reference.data if isinstance(op, CompositeOp) else ""
            if name in functions and functions[name] not in found:
                found.append(functions[name])
    return found


def _calls(function: FuncOp) -> list[CallOp]:
    return [op for block in function.body.blocks for op in block.ops if isinstance(op, CallOp)]


def inline_calls(program: Program) -> Program:
    """A program whose entry function has no calls, and no decomposition of a composite either.

    Raises RecursionInProgram, a ValueError, for a function that calls itself; LimitExceeded if there are too many ops.
    """
    if not any(map(_calls, _with_decompositions(program))):
        return program
    check_calls(program)
    program = program.clone()
    main = program.main
    functions = {op.sym_name.data: op for op in program.module.ops if isinstance(op, FuncOp)}
    for function in _with_decompositions(program):
        for call in _calls(function):
            _inline(call, functions)
    while True:
        named = _named_functions(program)
        private = [op for op in functions.values() if op.parent is not None and _is_private(op)]
        unused = [op for op in private if op is not main and op.sym_name.data not in named]
        if not unused:
            return program
        for op in unused:
            Rewriter.erase_op(op)


def _is_private(function: FuncOp) -> bool:
    return function.sym_visibility is not None and function.sym_visibility.data == "private"
