"""Type signatures of the ops: element types of operands and results, and the rules between them.

Source: upstream StableHLO's op definitions (operand and result constraints, traits); error messages are upstream's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.stablehlo.elements import (
    ElementKind,
    TensorConstraint,
    compatible_elements,
    compatible_shapes,
)
from zeropoint.ir.tensors import element_of, shape_of


def _types(op: Operation) -> list[Attribute]:
    return [*op.operand_types, *op.result_types]


def _all_shapes_match(types: list[Attribute]) -> bool:
    first = shape_of(types[0])
    return all(compatible_shapes(first, shape_of(other)) for other in types[1:])


def _all_elements_match(types: list[Attribute]) -> bool:
    first = element_of(types[0])
    return all(compatible_elements(first, element_of(other)) for other in types[1:])


def at_least_one(op: Operation) -> None:
    """Check that there is at least one operand."""
    if not op.operands:
        raise VerifyException("expected 1 or more operands, but found 0")


def same_shape(op: Operation) -> None:
    """Check that all operands and results have the same shape."""
    if not _all_shapes_match(_types(op)):
        raise VerifyException("requires the same shape for all operands and results")


def compatible_types(op: Operation) -> None:
    """Check that all operands and results have the same shape and element type, apart from scales and zero points."""
    types = _types(op)
    if not (_all_shapes_match(types) and _all_elements_match(types)):
        raise VerifyException("requires compatible types for all operands and results")


def compatible_element_types(op: Operation) -> None:
    """Check that all operands and results have the same element type, apart from scales and zero points."""
    if not _all_elements_match(_types(op)):
        raise VerifyException("requires compatible element types for all operands and results")


def compatible_operand_element_types(op: Operation) -> None:
    """Check that all operands have the same element type, apart from scales and zero points."""
    if not _all_elements_match(list(op.operand_types)):
        raise VerifyException("requires compatible element types for all operands")


def same_operand_elements(op: Operation) -> None:
    """Check that all operands have the same element type."""
    if len({element_of(found) for found in op.operand_types}) > 1:
        raise VerifyException("requires the same element type for all operands")


def same_element_type(op: Operation) -> None:
    """Check that all operands and results have the same element type."""
    first, *others = (element_of(found) for found in _types(op))
    if any(other != first for other in others):
        raise VerifyException("requires the same element type for all operands and results")


def same_shape_and_base(op: Operation) -> None:
    """Check that all operands and results are tensors of the same shape."""
    if not _all_shapes_match(_types(op)):
        raise VerifyException("all non-scalar operands/results must have the same shape and base type")


@dataclass(frozen=True)
class OpSignature:
    """One constraint per operand (the last one also holds for all following operands), one for the results, and rules.

    With `middle`, a single operand stands between two operand groups of equal size.
    """

    operands: tuple[TensorConstraint, ...]
    results: TensorConstraint
    rules: tuple[Callable[[Operation], None], ...] = ()
    middle: TensorConstraint | None = None

    def operand(self, index: int, count: int) -> TensorConstraint:
        """The constraint of operand `index` of `count`."""
        if self.middle is not None and index == count // 2:
            return self.middle
        return self.operands[min(index, len(self.operands) - 1)]


EVERY_KIND = (ElementKind.FLOAT, ElementKind.BOOL, ElementKind.INTEGER, ElementKind.COMPLEX)
ANY = TensorConstraint((*EVERY_KIND, ElementKind.PER_TENSOR))
ANY_OR_AXIS = TensorConstraint((*EVERY_KIND, ElementKind.PER_TENSOR, ElementKind.PER_AXIS))
VARIADIC = TensorConstraint((*EVERY_KIND, ElementKind.PER_TENSOR), "variadic of ranked tensor")
SCALAR = TensorConstraint((*EVERY_KIND, ElementKind.PER_TENSOR), "0D tensor", rank=0)
NUMBER = TensorConstraint((ElementKind.INTEGER, ElementKind.FLOAT, ElementKind.COMPLEX, ElementKind.PER_TENSOR))
FUNCTION = TensorConstraint((ElementKind.FLOAT, ElementKind.COMPLEX, ElementKind.PER_TENSOR))
REAL = TensorConstraint((ElementKind.FLOAT, ElementKind.PER_TENSOR))
INTEGERS = TensorConstraint((ElementKind.INTEGER,))
POSITIONS = TensorConstraint((ElementKind.ANY_INTEGER,))
BITS = TensorConstraint((ElementKind.BOOL, ElementKind.INTEGER))
PREDICATE = TensorConstraint((ElementKind.BOOL,))
FREE = TensorConstraint((), is_free=True)
"""No constraint: the op's own verifier checks the type."""
INT32 = TensorConstraint((ElementKind.INT32,))
FLOAT = TensorConstraint((ElementKind.FLOAT,))
FLOAT_OR_COMPLEX = TensorConstraint((ElementKind.FLOAT, ElementKind.COMPLEX))


def elementwise(constraint: TensorConstraint) -> OpSignature:
    """The signature of an elementwise op: all operands and results have the same type, which meets `constraint`."""
    return OpSignature((constraint,), constraint, (compatible_types,))


class SignatureOp(IRDLOperation):
    """An op whose class defines a type signature."""

    SIGNATURE: ClassVar[OpSignature]

    def verify_(self) -> None:
        """Check the op's types against its signature.

        Raises VerifyException.
        """
        signature = self.SIGNATURE
        for index, operand in enumerate(self.operands):
            signature.operand(index, len(self.operands)).check(operand.type, f"operand #{index}")
        for index, result in enumerate(self.results):
            signature.results.check(result.type, f"result #{index}")
        for rule in signature.rules:
            rule(self)
