"""Element type constraints on operands and results, and compatibility of element types and shapes.

Source: upstream StableHLO's type constraints and its `isCompatibleForHloTypeInference`; the messages are upstream's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import cast

from xdsl.dialects import builtin
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ComplexType,
    IndexType,
    IntegerType,
    Signedness,
    TensorType,
    TupleType,
    i32,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.tensors import element_of, shape_of


class ElementKind(Enum):
    """A group of element types; the value is upstream's description."""

    FLOAT = "4/6/8/16/32/64-bit float"
    BOOL = "bool"
    INTEGER = "2/4/8/16/32/64-bit integer"
    SIGNLESS_INTEGER = "2/4/8/16/32/64-bit signless integer"
    ANY_INTEGER = "integer or index"
    INT32 = "32-bit signless integer"
    PART = "32/64-bit float"
    COMPLEX = "complex type with 32/64-bit float elements"
    PER_TENSOR = "per-tensor integer quantized"
    PER_AXIS = "per-axis integer quantized"


@dataclass(frozen=True)
class TensorConstraint:
    """Tensors whose elements are of one of `kinds`; `container` is upstream's word for the tensor."""

    kinds: tuple[ElementKind, ...]
    container: str = "ranked tensor"
    rank: int | None = None
    is_static: bool = False
    is_free: bool = False
    or_per_axis: bool = False
    or_token: bool = False
    afterwards: str = ""
    """The end of upstream's message: types that do not occur here."""

    def check(self, found: Attribute, position: str) -> None:
        """Check the type of an operand or result; `position` is `operand #0`.

        Raises VerifyException.
        """
        if self.is_free:
            return
        if type(found) is TensorType and self._fits(found.get_shape()):
            kind = _kind_of(found)
            if kind in self.kinds or (kind is ElementKind.SIGNLESS_INTEGER and ElementKind.INTEGER in self.kinds):
                return
            if kind is ElementKind.PER_AXIS and self.or_per_axis:
                return
            if ElementKind.PART in self.kinds and element_of(found) in _PARTS:
                return
            if ElementKind.ANY_INTEGER in self.kinds and isinstance(element_of(found), IntegerType | IndexType):
                return
            if ElementKind.INT32 in self.kinds and element_of(found) == i32:
                return
        if self.or_token and found.name == "stablehlo.token":
            return
        raise VerifyException(f"{position} must be {self.text()}, but got '{found}'")

    def text(self) -> str:
        """Upstream's description of the constraint."""
        kinds = " or ".join(kind.value for kind in self.kinds)
        per_axis = " or ranked tensor of per-axis integer quantized values" if self.or_per_axis else ""
        return f"{self.container} of {kinds} values{per_axis}{' or token' if self.or_token else ''}{self.afterwards}"

    def _fits(self, shape: Sequence[int]) -> bool:
        if self.rank is not None and len(shape) != self.rank:
            return False
        return not (self.is_static and DYNAMIC_INDEX in shape)


_FLOATS: frozenset[type[Attribute]] = frozenset(
    (
        builtin.Float4E2M1FNType,
        builtin.Float6E2M3FNType,
        builtin.Float6E3M2FNType,
        builtin.Float8E3M4Type,
        builtin.Float8E4M3B11FNUZType,
        builtin.Float8E4M3FNType,
        builtin.Float8E4M3FNUZType,
        builtin.Float8E4M3Type,
        builtin.Float8E5M2FNUZType,
        builtin.Float8E5M2Type,
        builtin.Float8E8M0FNUType,
        builtin.BFloat16Type,
        builtin.Float16Type,
        builtin.Float32Type,
        builtin.Float64Type,
    )
)
_PARTS = frozenset((builtin.f32, builtin.f64))
_COMPLEX = frozenset(map(ComplexType, _PARTS))
_INTEGER_WIDTHS = frozenset((2, 4, 8, 16, 32, 64))
_STORAGE_WIDTHS = frozenset((2, 4, 8, 16, 32))


def _kind_of(tensor: Attribute) -> ElementKind | None:
    element = element_of(tensor)
    element_class = type(element)
    if element_class in _FLOATS:
        return ElementKind.FLOAT
    if isinstance(element, IntegerType):
        return _integer_kind(cast("IntegerType", element))
    if isinstance(element, UniformQuantizedType):
        return _quantized_kind(element, shape_of(tensor))
    return ElementKind.COMPLEX if element in _COMPLEX else None


def _integer_kind(element: IntegerType) -> ElementKind | None:
    width, signedness = element.width.data, element.signedness.data
    if signedness is Signedness.SIGNLESS:
        if width == 1:
            return ElementKind.BOOL
        return ElementKind.SIGNLESS_INTEGER if width in _INTEGER_WIDTHS else None
    return ElementKind.INTEGER if signedness is Signedness.UNSIGNED and width in _INTEGER_WIDTHS else None


def _quantized_kind(element: UniformQuantizedType, shape: Sequence[int]) -> ElementKind | None:
    spelling = element.storage.spelling
    if isinstance(spelling, IntegerType):
        if cast("IntegerType", spelling).signedness.data is not Signedness.UNSIGNED:
            return None
    elif spelling is not None:
        return None
    if element.storage.type.width not in _STORAGE_WIDTHS or element.is_sub_channel:
        return None
    axis = element.axis
    if axis is None:
        return ElementKind.PER_TENSOR
    fits = axis < len(shape) and shape[axis] in (DYNAMIC_INDEX, len(element.data.scales))
    return ElementKind.PER_AXIS if fits else None


def quantized(value: Attribute) -> UniformQuantizedType | None:
    """The element type if it is quantized, else None."""
    return value if isinstance(value, UniformQuantizedType) else None


def same_storage_type(first: UniformQuantizedType, second: UniformQuantizedType) -> bool:
    """Whether two quantized types have storage of the same width; upstream's storage types are signless."""
    return first.storage.type.width == second.storage.type.width


def compatible_elements(first: Attribute, second: Attribute) -> bool:
    """Whether two types are equal, or quantized types that differ only in scales, zero points and axis."""
    if first is second or first == second:
        return True
    if not isinstance(first, UniformQuantizedType) or not isinstance(second, UniformQuantizedType):
        return False
    return (
        first.storage == second.storage
        and first.expressed_type == second.expressed_type
        and first.is_per_channel == second.is_per_channel
    )


def compatible_shapes(first: Sequence[int], second: Sequence[int]) -> bool:
    """Whether two shapes are equal; a dynamic dimension matches any size."""
    if first == second:
        return True
    return len(first) == len(second) and all(compatible_sizes(a, b) for a, b in zip(first, second, strict=True))


def compatible_sizes(first: int, second: int) -> bool:
    """Whether two sizes are equal or one is dynamic."""
    return first == second or DYNAMIC_INDEX in (first, second)


def inferred_fits(inferred: Sequence[tuple[Sequence[int], Attribute]], found: Sequence[Attribute]) -> bool:
    """Whether types match the inferred ones, apart from dynamic sizes, scales and zero points."""
    return len(inferred) == len(found) and all(
        compatible_shapes(tuple(shape), shape_of(actual)) and compatible_elements(element, element_of(actual))
        for (shape, element), actual in zip(inferred, found, strict=True)
    )


def check_inferred(inferred: Sequence[tuple[Sequence[int], Attribute]], found: Sequence[Attribute]) -> None:
    """Check result types against the (shape, element type) pairs that were inferred for them.

    Raises VerifyException.
    """
    if not inferred_fits(inferred, found):
        expected = types_text(TensorType(element, shape) for shape, element in inferred)
        raise VerifyException(
            f"inferred type(s) {expected} are incompatible with return type(s) of operation {types_text(found)}"
        )


def types_text(types: Iterable[Attribute]) -> str:
    """`'tensor<2xf32>', 'tensor<f32>'`."""
    return ", ".join(f"'{found}'" for found in types)


def compatible_types(first: Sequence[Attribute], second: Sequence[Attribute]) -> bool:
    """Whether two lists of types are compatible: tensors by shape and element, tuples by entry, others if equal."""
    return len(first) == len(second) and all(_compatible(a, b) for a, b in zip(first, second, strict=True))


def _compatible(first: Attribute, second: Attribute) -> bool:
    if type(first) is TensorType and type(second) is TensorType:
        shapes, elements = (
            [shape_of(found) for found in (first, second)],
            [element_of(found) for found in (first, second)],
        )
        return compatible_shapes(*shapes) and compatible_elements(*elements)
    if isinstance(first, TupleType) and isinstance(second, TupleType):
        return compatible_types(tuple(first.types), tuple(second.types))
    return first == second
