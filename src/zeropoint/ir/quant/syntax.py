"""Text of the quantized types, as upstream MLIR prints and parses it.

Source: the "'quant' Dialect" document, the grammars of `!quant.uniform`. Upstream prints the per-channel separator as
`,` with no space, the sub-channel one with a space. It omits a zero point of 0 and storage bounds that span the
storage type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar, cast

from xdsl.dialects.builtin import AnyFloat, IntegerType
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.floats import FORMATS, format_double, round_to
from zeropoint.ir.quant import checks
from zeropoint.ir.quant.parameters import AnyParameters, CalibratedParameters, UniformParameters
from zeropoint.ir.quant.reader import TypeReader
from zeropoint.ir.quant.storage import MAX_WIDTH, Storage, is_storage_type, storage_of, type_width
from zeropoint.numerics.storage import StorageType

_Parameters = TypeVar("_Parameters")


def _checked(
    parser: AttrParser, read: Callable[[TypeReader], _Parameters], check: Callable[[_Parameters], None]
) -> _Parameters:
    """The parameters that `read` parses. If `check` rejects them, raises a parse error at the type's name."""
    reader = TypeReader(parser)
    parameters = read(reader)
    try:
        check(parameters)
    except VerifyException as error:
        reader.type_error(error)
    return parameters


def _read_storage_type(reader: TypeReader) -> Storage:
    position = reader.position
    found = reader.optional_type()
    if found is not None:
        if not is_storage_type(found):
            reader.error("illegal storage type prefix", position)
        if not 1 <= type_width(found) <= MAX_WIDTH:
            reader.error(f"illegal storage type size: {type_width(found)}", position)
        return storage_of(found)
    # `u8` is not an MLIR type, so it lexes as a bare identifier.
    word = reader.keyword()
    if not word.startswith("u"):
        reader.error("illegal storage type prefix", position)
    digits = word[1:]
    if not (digits.isascii() and digits.isdigit()) or int(digits) >> 32:
        reader.error("expected storage type width", position)
    if not 1 <= int(digits) <= MAX_WIDTH:
        reader.error(f"illegal storage type size: {int(digits)}", position)
    storage_type = StorageType(False, int(digits))
    return Storage(storage_type, storage_type.min, storage_type.max)


def _read_storage(reader: TypeReader) -> Storage:
    whole = _read_storage_type(reader)
    if not reader.accept("<"):
        return whole
    minimum_position = reader.position
    minimum = reader.integer(64)
    reader.expect(":")
    maximum_position = reader.position
    maximum = reader.integer(64)
    reader.expect(">")
    if minimum < whole.minimum:
        reader.error(f"illegal storage type minimum: {minimum}", minimum_position)
    if maximum > whole.maximum:
        reader.error(f"illegal storage type maximum: {maximum}", maximum_position)
    return Storage(whole.type, minimum, maximum, whole.spelling)


def _read_expressed(reader: TypeReader) -> AnyFloat:
    position = reader.position
    expressed = reader.type()
    if type(expressed) not in FORMATS:
        reader.error("invalid kind of type specified", position)
    return cast("AnyFloat", expressed)


_SCALE, _ZERO_POINT = r"[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?", r"-?[0-9]{1,18}"
_FLAT_LIST = re.compile(rf"\{{(?:\s*{_SCALE}(?::{_ZERO_POINT})?\s*(?:,|\}}))+(?<=\}})", re.ASCII)
_ENTRY = re.compile(rf"({_SCALE})(?::({_ZERO_POINT}))?", re.ASCII)


@lru_cache(maxsize=256)
def _flat_list(text: str) -> tuple[tuple[float, ...], tuple[int, ...]] | None:
    """The scales and zero points of a list, or None if it is nested or malformed.

    Cached: a type is printed in full at every use, so most lists repeat.
    """
    if _FLAT_LIST.fullmatch(text) is None:
        return None
    entries = _ENTRY.findall(text)
    return tuple(float(scale) for scale, _ in entries), tuple(int(point or 0) for _, point in entries)


@dataclass
class _ScaleList:
    """Collects scales and zero points as they are parsed, and the shape of their list."""

    expressed_type: AnyFloat
    scales: list[float] = field(default_factory=list[float])
    zero_points: list[int] = field(default_factory=list[int])

    def read_flat(self, reader: TypeReader) -> bool:
        """Parse a list without nesting at once; False if it is malformed, so that the slow path reports the error."""
        text = reader.until("}")
        found = _flat_list(text)
        if found is None:
            return False
        scales, zero_points = found
        if not checks.scales_fit(scales, self.expressed_type):
            return False
        reader.skip(len(text))
        self.scales, self.zero_points = list(scales), list(zero_points)
        return True

    def read_one(self, reader: TypeReader) -> None:
        """scale (`:` zero-point)?"""
        scale = reader.floating()
        try:
            checks.check_scale(scale, self.expressed_type)
        except VerifyException as error:
            reader.error(str(error))
        self.scales.append(scale)
        self.zero_points.append(reader.integer(64) if reader.accept(":") else 0)

    def _read_element(self, reader: TypeReader) -> tuple[int, ...]:
        if reader.accept("{"):
            return self.read_rest(reader)
        self.read_one(reader)
        return ()

    def read_rest(self, reader: TypeReader) -> tuple[int, ...]:
        """Parse elements of one shape up to a closing brace. Returns the shape of the whole."""
        shape = self._read_element(reader)
        count = 1
        while reader.accept(","):
            if self._read_element(reader) != shape:
                reader.error("tensor literal is invalid; ranks are not consistent between elements")
            count += 1
        reader.expect("}")
        return (count, *shape)


def _read_blocks(reader: TypeReader) -> tuple[tuple[int, int], ...]:
    """(axis `:` size) pairs up to a closing brace."""
    blocks: list[tuple[int, int]] = []
    if reader.accept("}"):
        return ()
    while not blocks or reader.accept(","):
        axis = reader.integer(32)
        reader.expect(":")
        blocks.append((axis, reader.integer(64)))
    reader.expect("}")
    return tuple(blocks)


def _wrap(zero_point: int, storage: Storage) -> int:
    """Undo upstream's printing of zero points of unsigned sub-channel storage as signed numbers: -1 is 255 in u8."""
    least, greatest = storage.range
    unsigned = storage.is_integer and least == 0
    return zero_point + greatest + 1 if unsigned and -(greatest + 1) // 2 <= zero_point < 0 else zero_point


def _read_uniform(reader: TypeReader) -> UniformParameters:
    reader.expect("<")
    storage = _read_storage(reader)
    reader.expect(":")
    expressed = _read_expressed(reader)
    axis: int | None = None
    blocks: tuple[tuple[int, int], ...] | None = None
    if reader.accept(":"):
        if reader.accept("{"):
            blocks = _read_blocks(reader)
        else:
            axis = reader.integer(32)
    reader.expect(",")
    found = _ScaleList(expressed)
    shape: tuple[int, ...] = ()
    if axis is None and blocks is None:
        found.read_one(reader)
    else:
        if found.read_flat(reader):
            shape = (len(found.scales),)
        else:
            reader.expect("{")
            shape = found.read_rest(reader)
    reader.expect(">")
    points = found.zero_points if blocks is None else [_wrap(point, storage) for point in found.zero_points]
    scales = found.scales if blocks is None else [round_to(scale, expressed) for scale in found.scales]
    shape = () if blocks is None else shape
    return UniformParameters(storage, expressed, tuple(scales), tuple(points), axis, blocks, shape)


def parse_uniform(parser: AttrParser) -> UniformParameters:
    """`<` storage `:` expressed (`:` (axis | `{` blocks `}`))? `,` (scale-zp | `{` scale-zps `}`) `>`."""
    return _checked(parser, _read_uniform, checks.check_uniform)


def _nested(texts: Sequence[str], shape: tuple[int, ...]) -> str:
    """Nest the texts of a tensor's elements in braces."""
    for count in reversed(shape):
        texts = [f"{{{', '.join(texts[i : i + count])}}}" for i in range(0, len(texts), count)]
    return ", ".join(texts)


def _print_storage(printer: Printer, storage: Storage) -> None:
    if storage.spelling is None or isinstance(storage.spelling, IntegerType):
        printer.print_string(str(storage))
        return
    printer.print_attribute(storage.spelling)
    if not storage.is_full_range:
        printer.print_string(f"<{storage.minimum}:{storage.maximum}>")


def print_uniform(printer: Printer, parameters: UniformParameters) -> None:
    """The inverse of `parse_uniform`."""
    texts = parameters.texts
    with printer.in_angle_brackets():
        _print_storage(printer, parameters.storage)
        printer.print_string(":")
        printer.print_attribute(parameters.expressed_type)
        if parameters.blocks is not None:
            blocks = ", ".join(f"{axis}:{size}" for axis, size in parameters.blocks)
            printer.print_string(f":{{{blocks}}}, {_nested(texts, parameters.shape)}")
        elif parameters.axis is not None:
            printer.print_string(f":{parameters.axis}, {{{','.join(texts)}}}")
        else:
            printer.print_string(f", {texts[0]}")


def _read_any(reader: TypeReader) -> AnyParameters:
    reader.expect("<")
    storage = _read_storage(reader)
    expressed = _read_expressed(reader) if reader.accept(":") else None
    reader.expect(">")
    return AnyParameters(storage, expressed)


def parse_any(parser: AttrParser) -> AnyParameters:
    """`<` storage (`:` expressed)? `>`."""
    return _checked(parser, _read_any, checks.check_any)


def print_any(printer: Printer, parameters: AnyParameters) -> None:
    """The inverse of `parse_any`."""
    with printer.in_angle_brackets():
        _print_storage(printer, parameters.storage)
        if parameters.expressed_type is not None:
            printer.print_string(":")
            printer.print_attribute(parameters.expressed_type)


def _read_calibrated(reader: TypeReader) -> CalibratedParameters:
    reader.expect("<")
    expressed = _read_expressed(reader)
    reader.expect("<")
    minimum = reader.floating()
    reader.expect(":")
    maximum = reader.floating()
    reader.expect(">")
    reader.expect(">")
    return CalibratedParameters(expressed, minimum, maximum)


def parse_calibrated(parser: AttrParser) -> CalibratedParameters:
    """`<` expressed `<` minimum `:` maximum `>` `>`."""
    return _checked(parser, _read_calibrated, checks.check_calibrated)


def print_calibrated(printer: Printer, parameters: CalibratedParameters) -> None:
    """The inverse of `parse_calibrated`."""
    with printer.in_angle_brackets():
        printer.print_attribute(parameters.expressed_type)
        printer.print_string(f"<{format_double(parameters.minimum)}:{format_double(parameters.maximum)}>")


def _read_expressed_only(reader: TypeReader) -> AnyFloat:
    reader.expect("<")
    expressed = _read_expressed(reader)
    reader.expect(">")
    return expressed


def parse_none(parser: AttrParser) -> AnyFloat:
    """`<` expressed `>`."""
    return _checked(parser, _read_expressed_only, checks.check_expressed)


def print_none(printer: Printer, expressed_type: AnyFloat) -> None:
    """The inverse of `parse_none`."""
    with printer.in_angle_brackets():
        printer.print_attribute(expressed_type)
