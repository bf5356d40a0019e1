"""Verification with errors that name the op; xDSL's error prints the whole module."""

from __future__ import annotations

import re
from collections.abc import Iterator

from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import VerifyException

from zeropoint.errors import Error
from zeropoint.ir.annotations import check_annotations
from zeropoint.ir.calls import symbol_tables
from zeropoint.ir.contractions import check_dot_form
from zeropoint.ir.dominance import misplaced_uses
from zeropoint.ir.fxpmath import RequantizeOp
from zeropoint.ir.locations import describe, op_name
from zeropoint.ir.quant.containers import check_holder
from zeropoint.ir.tensors import UnheldType
from zeropoint.ir.weights import Weights

# xDSL's message for a wrong operand or result count. C++ MLIR's wording differs.
_COUNT = re.compile(r"Expected (?P<expected>\d+) (?P<kind>operand|result)s?, but got (?P<found>\d+)")
_VerifierError = VerifyException | UnheldType
"""Verifiers raise UnheldType when they read the shape or element type of a value that is not a tensor."""
_ISOLATION_NOTE = "required by region isolation constraints"


class InvalidProgram(Error, VerifyException):
    """A program breaks a rule of its dialects.

    `op` is the op at fault. `note` is a remark about another op. `others` are the first errors of later functions.
    """

    def __init__(self, message: str, op: Operation, note: tuple[Operation, str] | None = None):
        super().__init__(message)
        self.op = op
        self.note = note
        self.others: tuple[InvalidProgram, ...] = ()


def verify(module: ModuleOp) -> None:
    """Verify every op of the module.

    Raises InvalidProgram, whose message names the op and its position, then gives the verifier's message.
    """
    try:
        with symbol_tables():
            module.verify()
    except (VerifyException, UnheldType) as error:
        with symbol_tables():
            found = [invalid for op in module.ops if (invalid := _first_error(op)) is not None]
        first, *others = found or [_invalid(module, error)]
        first.others = tuple(others)
        raise first from error
    for op in module.walk():
        try:
            _verify_types(op)
            check_annotations(op)
            check_dot_form(op)
        except VerifyException as error:
            raise InvalidProgram(f"{describe(op)}: {error}", op) from error
    _verify_dominance(module)


def verify_stored(module: ModuleOp, weights: Weights) -> None:
    """Verify the numbers that ops read from the weights. Raises InvalidProgram."""
    for op in module.walk():
        if isinstance(op, RequantizeOp):
            try:
                op.verify_stored(weights)
            except VerifyException as error:
                raise InvalidProgram(f"{describe(op)}: {error}", op) from error


def _verify_dominance(module: ModuleOp) -> None:
    """Check that definitions dominate their uses. As in C++ MLIR, the first wrong use in each function is reported."""
    found: dict[Operation, InvalidProgram] = {}
    for op, number in misplaced_uses(module):
        function = next(above for above in _ancestors(op) if above.parent_op() in (None, module))
        if function not in found:
            sentence = f"operand #{number} does not dominate this use"
            found[function] = InvalidProgram(f"{describe(op)}: {sentence}", op, _definition(op.operands[number], op))
    if found:
        first, *others = found.values()
        first.others = tuple(others)
        raise first


def _ancestors(op: Operation | None) -> Iterator[Operation]:
    """An op and the ops that contain it, from the inside out."""
    while op is not None:
        yield op
        op = op.parent_op()


def _definition(value: SSAValue, use: Operation) -> tuple[Operation, str] | None:
    """The note about the definition of a value that does not dominate its use, in C++ MLIR's words."""
    block = value.owner if isinstance(value.owner, Block) else value.owner.parent
    if block is None or block.parent is None or use.parent is None:
        return None
    region, inner = block.parent, use.parent.parent
    if region is inner:
        where = "in the same region"
    elif region.parent in tuple(_ancestors(use)):
        where = "in a parent region"
    else:
        where = "in a child region"
    if isinstance(value.owner, Block):
        number = next(index for index, found in enumerate(region.blocks) if found is block)
        around = region.parent
        return around and (around, f"operand defined as a block argument (block #{number} {where})")
    return value.owner, f"operand defined here (op {'in the same block' if block is use.parent else where})"


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

    As in C++ MLIR, an op is verified before the ops in its regions. A function's own error, however, is reported only
    if its body has none.
    """
    found: tuple[Operation, _VerifierError] | None = None
    for op in root.walk():
        if found is not None and not (isinstance(found[0], FuncOp) and found[0].is_ancestor(op)):
            break
        if (error := _own_error(op)) is not None:
            found = op, error
    return None if found is None else _invalid(*found)


def _own_error(op: Operation) -> _VerifierError | None:
    """The error of an op, apart from those of the ops in its regions.

    If `verify_` raises inside of xDSL's `verify`, xDSL prints the whole module into a note. A module with many errors
    would take quadratic time, so `verify_` is first called alone.
    """
    try:
        op.verify_()
        op.verify(verify_nested_ops=False)
    except (VerifyException, UnheldType) as error:
        return error
    return None


def _invalid(op: Operation, error: _VerifierError) -> InvalidProgram:
    intruder = _intruder(op) if op.has_trait(IsolatedFromAbove) else None
    if intruder is None:
        return InvalidProgram(f"{describe(op)}: {_sentence(error, op)}", op)
    sentence = f"'{op_name(intruder)}' op using value defined outside the region"
    return InvalidProgram(f"{describe(intruder)}: {sentence}", intruder, (op, _ISOLATION_NOTE))


def _intruder(isolated: Operation) -> Operation | None:
    """The first op inside an isolated op that uses a value from outside it."""
    for op in isolated.walk():
        if op is not isolated and any(
            not isolated.is_ancestor(operand.owner) or operand.owner is isolated for operand in op.operands
        ):
            return op
    return None


def _sentence(error: _VerifierError, op: Operation) -> str:
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
