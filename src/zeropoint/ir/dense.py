"""Elements of `dense<...>` as MLIR reads them: hexadecimal floats are bit patterns, and a NaN keeps its payload.

xDSL 0.74 reads 0x7F800000 as the number 2139095040.0, requires both parts of a complex number in the same notation,
and keeps elements as Python floats, which lose the payload of a NaN.
"""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import AnyFloat, BytesAttr, ComplexType, DenseIntOrFPElementsAttr
from xdsl.parser import AttrParser


class DenseElement(AttrParser._TensorLiteralElement):  # pyright: ignore[reportPrivateUsage] (the parser has no hook for elements)
    """An element as written in the text; for a complex element, `value` is the pair of its parts."""

    def to_type(self, parser: AttrParser, type: Any) -> Any:
        """The number that xDSL keeps. Appends to `parser.dense_bits` the bits given in the text, None if not in hex."""
        bits = self._bits(parser, type)
        cast("Any", parser).dense_bits.append(bits)
        if bits is not None:
            return next(type.iter_unpack(bits))
        if isinstance(type, ComplexType):
            part_type: Any = cast("ComplexType[Any]", type).element_type
            to_type: Any = super().to_type
            return tuple(to_type.__func__(part, parser, part_type) for part in self._parts(parser))
        return super().to_type(parser, type)

    def _bits(self, parser: AttrParser, type: Any) -> bytes | None:
        """The bytes of an element written as bits, or of a complex element with a part written as bits."""
        if isinstance(type, ComplexType):
            part_type: Any = cast("ComplexType[Any]", type).element_type
            parts = self._parts(parser)
            found = [part._bits(parser, part_type) for part in parts]
            if found == [None, None]:
                return None
            numbers = [part_type.pack([part.to_float(parser)]) for part in parts]
            return b"".join(number if bits is None else bits for number, bits in zip(numbers, found, strict=True))
        if not isinstance(type, AnyFloat) or self.span.text[:2] not in ("0x", "0X"):
            return None
        assert isinstance(self.value, int)
        try:
            return self.value.to_bytes(type.compile_time_size, "little")
        except OverflowError:
            parser.raise_error("hexadecimal float constant out of range for type", self.span)

    def _parts(self, parser: AttrParser) -> tuple[DenseElement, DenseElement]:
        if not isinstance(self.value, tuple):
            parser.raise_error("expected '(', because the elements are complex numbers", self.span)
        return cast("tuple[DenseElement, DenseElement]", self.value)


def with_bits(elements: DenseIntOrFPElementsAttr[Any], given: list[bytes | None]) -> DenseIntOrFPElementsAttr[Any]:
    """The elements with the bits that the text gave: one entry per element, or a single entry for a splat."""
    if not any(bits is not None for bits in given):
        return elements
    data = elements.data.data
    size = len(data) // len(given)
    parts = [
        data[index * size : (index + 1) * size] if bits is None else bits * (size // len(bits))
        for index, bits in enumerate(given)
    ]
    return DenseIntOrFPElementsAttr(elements.type, BytesAttr(b"".join(parts)))
