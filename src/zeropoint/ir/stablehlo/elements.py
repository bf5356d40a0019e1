"""The element types that operands and results may have, and which element types and shapes go together.

Source: upstream StableHLO's type constraints and its `isCompatibleForHloTypeInference`; the sentences are upstream's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import cast

from xdsl.dialects import builtin
from xdsl.dialects.builtin import DYNAMIC_INDEX, ComplexType, IntegerType, Signedness, TensorType
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.tensors import element_of, shape_of


class ElementKind(Enum):
    """A group of element types, by the words that upstream has for it."""

    FLOAT = "4/6/8/16/32/64-bit float"
    BOOL = "bool"
    INTEGER = "2/4/8/16/32/64-bit integer"
    SIGNLESS_INTEGER = "2/4/8/16/32/64-bit signless integer"
    COMPLEX = "complex type with 32/64-bit float elements"
    PER_TENSOR = "per-tensor integer quantized"
    PER_AXIS = "per-axis integer quantized"


@dataclass(frozen=True)
class TensorConstraint:
    """Tensors whose elements are of one of `kinds`; `container` is what upstream calls the tensor."""

    kinds: tuple[ElementKind, ...]
    container: str = "ranked tensor"
    rank: int | None = None
    is_static: bool = False

    def check(self, found: Attribute, position: str) -> None:
        """Check the type of an operand or result; `position` is `operand #0`.

        Raises VerifyException.
        """
        if type(found) is TensorType and self._fits(found.get_shape()):
            kind = _kind_of(found)
            if kind in self.kinds or (kind is ElementKind.SIGNLESS_INTEGER and ElementKind.INTEGER in self.kinds):
                return
        kinds = " or ".join(kind.value for kind in self.kinds)
        raise VerifyException(f"{position} must be {self.container} of {kinds} values, but got '{found}'")

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
    return ElementKind.COMPLEX if element_class is ComplexType else None


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
    """A quantized element type, None where it is of another kind."""
    return value if isinstance(value, UniformQuantizedType) else None


def same_storage_type(first: UniformQuantizedType, second: UniformQuantizedType) -> bool:
    """Whether two quantized types have storage of one width; upstream's storage types have no sign."""
    return first.storage.type.width == second.storage.type.width


def compatible_elements(first: Attribute, second: Attribute) -> bool:
    """Equal, or quantized alike but for scales, zero points and the axis."""
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
    """Equal but for dynamic dimensions."""
    if first == second:
        return True
    return len(first) == len(second) and all(compatible_sizes(a, b) for a, b in zip(first, second, strict=True))


def compatible_sizes(first: int, second: int) -> bool:
    """Equal, or one of them dynamic."""
    return first == second or DYNAMIC_INDEX in (first, second)


def check_inferred(inferred: Sequence[tuple[Sequence[int], Attribute]], found: Sequence[Attribute]) -> None:
    """Check result types against the (shape, element type) pairs that were inferred for them.

    Raises VerifyException.
    """
    matches = len(inferred) == len(found) and all(
        compatible_shapes(tuple(shape), shape_of(actual)) and compatible_elements(element, element_of(actual))
        for (shape, element), actual in zip(inferred, found, strict=True)
    )
    if not matches:
        expected = types_text(TensorType(element, shape) for shape, element in inferred)
        raise VerifyException(
            f"inferred type(s) {expected} are incompatible with return type(s) of operation {types_text(found)}"
        )


def types_text(types: Iterable[Attribute]) -> str:
    """`'tensor<2xf32>', 'tensor<f32>'`."""
    return ", ".join(f"'{found}'" for found in types)
