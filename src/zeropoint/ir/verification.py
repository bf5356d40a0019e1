"""Verification with errors that name the op; xDSL's error prints the whole module."""

from __future__ import annotations

import re

from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import VerifyException

from zeropoint.errors import Error
from zeropoint.ir.locations import describe, op_name
from zeropoint.ir.quant.containers import check_holder

# xDSL's message for a wrong operand or result count. C++ MLIR's wording differs.
_COUNT = re.compile(r"Expected (?P<expected>\d+) (?P<kind>operand|result)s?, but got (?P<found>\d+)")
ISOLATION_NOTE = "required by region isolation constraints"


class InvalidProgram(Error, VerifyException):
    """A program breaks a rule of its dialects.

    `op` is the op at fault. `isolated` is the enclosing isolated op, if the fault is the use of a value from outside
    it. `others` are the first errors of the functions after this one.
    """

    def __init__(self, message: str, op: Operation, isolated: Operation | None = None):
        super().__init__(message)
        self.op = op
        self.isolated = isolated
        self.others: tuple[InvalidProgram, ...] = ()


def verify(module: ModuleOp) -> None:
    """Verify every op of the module.

    Raises InvalidProgram: the op with its place, then the verifier's message.
    """
    try:
        module.verify()
    except VerifyException as error:
        found = [invalid for op in module.ops if (invalid := _first_error(op)) is not None]
        first, *others = found or [_invalid(module, error)]
        first.others = tuple(others)
        raise first from error
    for op in module.walk():
        try:
            _verify_types(op)
        except VerifyException as error:
            raise InvalidProgram(f"{describe(op)}: {error}", op) from error


def _verify_types(op: Operation) -> None:
    """Check types that xDSL accepts and C++ MLIR rejects."""
    for result in op.results:
        check_holder(result.type)
    for region in op.regions:
        for block in region.blocks:
            for argument in block.args:
                check_holder(argument.type)
    signature = op.properties.get("function_type")
    if isinstance(signature, FunctionType):
        for found in (*signature.inputs, *signature.outputs):
            check_holder(found)


def _first_error(root: Operation) -> InvalidProgram | None:
    """The error of the first op that fails to verify; for a function, of the first such op in its body.

    As in C++ MLIR, an op is verified before the ops in its regions. But a function's own error is reported only if its
    body has none.
    """
    found: tuple[Operation, VerifyException] | None = None
    for op in root.walk():
        if found is not None and not (isinstance(found[0], FuncOp) and found[0].is_ancestor(op)):
            break
        try:
            op.verify(verify_nested_ops=False)
        except VerifyException as error:
            found = op, error
    return None if found is None else _invalid(*found)


def _invalid(op: Operation, error: VerifyException) -> InvalidProgram:
    intruder = _intruder(op) if op.has_trait(IsolatedFromAbove) else None
    if intruder is None:
        return InvalidProgram(f"{describe(op)}: {_sentence(error, op)}", op)
    sentence = f"'{op_name(intruder)}' op using value defined outside the region"
    return InvalidProgram(f"{describe(intruder)}: {sentence}", intruder, op)


def _intruder(isolated: Operation) -> Operation | None:
    """The first op inside an isolated op that uses a value from outside it."""
    for op in isolated.walk():
        if op is not isolated and any(
            not isolated.is_ancestor(operand.owner) or operand.owner is isolated for operand in op.operands
        ):
            return op
    return None


def _sentence(error: VerifyException, op: Operation) -> str:
    text = str(error.args[0]) if error.args else str(error)
    text = text.removeprefix("Operation does not verify: ").strip()
    count = _COUNT.fullmatch(text)
    if count is None:
        return text
    kind, expected = count["kind"], int(count["expected"])
    if expected > 1:
        found = f", but found {count['found']}" if kind == "operand" else ""
        return f"'{op_name(op)}' op expected {expected} {kind}s{found}"
    numeral = "zero" if expected == 0 else "a single" if kind == "operand" else "one"
    return f"'{op_name(op)}' op requires {numeral} {kind}{'s' * (expected == 0)}"
