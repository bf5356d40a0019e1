"""`func.call`, and the look-up of the functions that ops refer to.

xDSL finds the callee of each call by a linear search of the module, so verification takes quadratic time in the number
of functions. Inside `symbol_tables()`, the symbols of a module are collected once. `func.call` is redefined here to use
them, with xDSL's syntax and messages.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from xdsl.dialects.builtin import FlatSymbolRefAttrConstr, StringAttr, SymbolRefAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def, traits_def, var_operand_def, var_result_def
from xdsl.traits import SymbolTable, SymbolUserOpInterface
from xdsl.utils.exceptions import VerifyException

_TABLES: ContextVar[dict[Operation, dict[str, Operation]] | None] = ContextVar("tables", default=None)


@contextmanager
def symbol_tables() -> Generator[None]:
    """A context in which `referenced_function` collects the symbols of a module once. It must not change there."""
    token = _TABLES.set({})
    try:
        yield
    finally:
        _TABLES.reset(token)


def referenced_function(op: Operation, name: str) -> FuncOp | None:
    """The function `name` of the closest symbol table around an op; None if it has none, or another op of this name."""
    around: Operation | None = op
    while around is not None and not around.has_trait(SymbolTable):
        around = around.parent_op()
    if around is None:
        return None
    tables = _TABLES.get()
    found = None if tables is None else tables.get(around)
    if found is None:
        found = _symbols(around)
        if tables is not None:
            tables[around] = found
    function = found.get(name)
    return function if isinstance(function, FuncOp) else None


def _symbols(table: Operation) -> dict[str, Operation]:
    """Maps names to the ops of a symbol table. If several ops share a name, the first one counts."""
    found: dict[str, Operation] = {}
    for op in table.regions[0].block.ops:
        name = op.get_attr_or_prop("sym_name")
        if isinstance(name, StringAttr):
            found.setdefault(name.data, op)
    return found


class _CallsFunction(SymbolUserOpInterface):
    """Verifies that the callee is a function with the op's operand and result types."""

    def verify(self, op: Operation) -> None:
        assert isinstance(op, CallOp)
        function = referenced_function(op, op.callee.root_reference.data)
        if function is None:
            raise VerifyException(f"'{op.callee}' does not reference a valid function")
        signature = function.function_type
        _check_types("operand", op.operand_types, signature.inputs.data)
        _check_types("result", op.result_types, signature.outputs.data)


def _check_types(kind: str, found: Sequence[Attribute], expected: Sequence[Attribute]) -> None:
    if len(found) != len(expected):
        raise VerifyException(f"incorrect number of {kind}s for callee")
    for index, (actual, declared) in enumerate(zip(found, expected, strict=True)):
        if actual != declared:
            raise VerifyException(
                f"{kind} type mismatch: expected {kind} type {declared}, "
                f"but provided {actual} for {kind} number {index}"
            )


@irdl_op_definition
class CallOp(IRDLOperation):
    """`func.call @f(%x) : (...) -> ...`."""

    name = "func.call"
    arguments = var_operand_def()
    callee = prop_def(FlatSymbolRefAttrConstr)
    res = var_result_def()
    traits = traits_def(_CallsFunction())
    assembly_format = "$callee `(` $arguments `)` attr-dict `:` functional-type($arguments, $res)"

    def __init__(self, callee: str | SymbolRefAttr, arguments: Sequence[SSAValue], result_types: Sequence[Attribute]):
        name = SymbolRefAttr(callee) if isinstance(callee, str) else callee
        super().__init__(operands=[arguments], result_types=[result_types], properties={"callee": name})


Func = Dialect("func", [FuncOp, CallOp, ReturnOp], [])
