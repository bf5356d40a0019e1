"""The printer of programs: xDSL's, with constants, dictionaries and locations as C++ MLIR prints them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from io import StringIO
from typing import IO, Any, cast

import numpy as np
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    LocationAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation, Region, SSAValue
from xdsl.printer import Printer

from zeropoint.ir.floats import FORMATS, format_float
from zeropoint.ir.locations import is_given
from zeropoint.ir.tensors import Array, real_element
from zeropoint.ir.value_names import Names, identifier_of, named_values
from zeropoint.ir.weights import inline_array

# Constants with at least this many elements are printed as one hexadecimal string, as in C++ MLIR.
_HEXADECIMAL_ELEMENTS = 101
_ESCAPED = ["\\\\" if byte == 0x5C else chr(byte) if 0x20 <= byte <= 0x7E else f"\\{byte:02X}" for byte in range(256)]
_ESCAPED[ord('"')] = "\\22"


class ProgramPrinter(Printer):
    """Prints only known locations, floats in full, and dictionaries in alphabetical order.

    With `handles`, values are named as in the original model, and handles as the mapping says (`value_names.py`).
    """

    def __init__(
        self,
        stream: IO[str],
        *,
        locations: bool = False,
        generic: bool = False,
        handles: Mapping[str, str] | None = None,
    ):
        super().__init__(stream, print_generic_format=generic)
        self._locations = locations
        self._handles = handles
        self._names = Names()
        self._types: dict[Attribute, str] = {}
        """The texts of tensor types. Most are those of several values."""

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        """Print a text. xDSL counts lines and columns, which only its messages on errors of parsers show."""
        if self.stream is None or "\n" in text:
            super().print_string(text, indent=indent)
        else:
            self.stream.write(text)

    def print_ssa_value(self, value: SSAValue) -> str:
        """Print the name of a value. The name is chosen at the first use."""
        if self._handles is not None and value not in self._ssa_values:
            wanted = identifier_of(value)
            if wanted is not None:
                self._ssa_values[value] = self._names.free(wanted)
        return super().print_ssa_value(value)

    def name_values(self, arguments: Iterable[BlockArgument], ops: Iterable[Operation]) -> None:
        """Choose which of several values with the same name keeps it, before any of them is printed."""
        if self._handles is not None:
            for name, value in named_values(arguments, ops).items():
                self._ssa_values[value] = self._names.free(name)

    def print_resource_handle(self, dialect: str, handle: str) -> None:
        """Print a handle by its name."""
        super().print_resource_handle(dialect, (self._handles or {}).get(handle, handle))

    def print_op(self, op: Operation) -> None:
        """Print an op, then its location."""
        if isinstance(op, FuncOp):
            blocks = list(op.body.blocks)
            self.name_values(
                (arg for block in blocks for arg in block.args), (op for block in blocks for op in block.ops)
            )
        # xDSL prints locations of function arguments, after their attributes, only in this mode.
        self.print_debuginfo = isinstance(op, FuncOp) and self._locations and _has_argument_locations(op)
        super().print_op(op)
        self.print_debuginfo = False
        self._print_location(op.location)

    def print_region(
        self,
        region: Region,
        print_entry_block_args: bool = True,
        print_empty_block: bool = True,
        print_block_terminators: bool = True,
    ) -> None:
        """Print a region. A function's arguments are printed before it, not as block arguments."""
        self.print_debuginfo = False
        super().print_region(region, print_entry_block_args, print_empty_block, print_block_terminators)

    def print_block_argument(self, arg: BlockArgument, print_type: bool = True) -> None:
        """Print a block argument, then its location."""
        super().print_block_argument(arg, print_type)
        if print_type and not self.print_debuginfo:
            self._print_location(arg.location)

    def _print_location(self, location: LocationAttr) -> None:
        if self._locations and is_given(location):
            self.print_string(" ")
            self.print_attribute(location)

    def print_bytes_literal(self, bytestring: bytes) -> None:
        """Print a string in quotes at once: xDSL prints every character by itself."""
        self.print_string(f'"{"".join(map(_ESCAPED.__getitem__, bytestring))}"')

    def print_attr_dict(self, attr_dict: Mapping[str, Attribute]) -> None:
        """Print a dictionary with its keys in alphabetical order."""
        super().print_attr_dict(dict(sorted(attr_dict.items())))

    def print_float(self, value: float, type: AnyFloat) -> None:
        """Print a float so that it reads back as the same value."""
        self.print_string(format_float(value, type))

    def print_attribute(self, attribute: Attribute) -> None:
        """Print an attribute."""
        if type(attribute) is TensorType:
            self.print_string(self._type_text(attribute))
            return
        if type(attribute) is DenseIntOrFPElementsAttr:
            dense = cast("DenseIntOrFPElementsAttr[Any]", attribute)
            part = real_element(dense.get_element_type())
            if type(part) in FORMATS and FORMATS[type(part)].dtype is not None:
                self._print_dense_floats(dense, cast("AnyFloat", part))
                return
        super().print_attribute(attribute)

    def _type_text(self, type_: Attribute) -> str:
        text = self._types.get(type_)
        if text is None:
            whole, self.stream = self.stream, StringIO()
            try:
                super().print_attribute(type_)
                text = self._types[type_] = self.stream.getvalue()
            finally:
                self.stream = whole
        return text

    def _print_dense_floats(self, attribute: DenseIntOrFPElementsAttr[Any], element_type: AnyFloat) -> None:
        # xDSL detects splats by comparing values, so it confuses -0.0 with 0.0 and finds no splat of NaN.
        array = inline_array(attribute)
        element = attribute.data.data[: array.dtype.itemsize]
        if array.size > 0 and attribute.data.data == element * array.size:
            array = np.asarray(array.reshape(-1)[0])
        if array.size == 0:
            text = ""
        elif array.size >= _HEXADECIMAL_ELEMENTS:
            text = f'"0x{array.tobytes().hex().upper()}"'
        else:
            text = _nested_text(array, element_type)
        self.print_string(f"dense<{text}> : ")
        self.print_attribute(attribute.get_type())


def _has_argument_locations(function: FuncOp) -> bool:
    entry = function.body.blocks.first
    return entry is not None and any(is_given(argument.location) for argument in entry.args)


def _nested_text(array: Array, element_type: AnyFloat) -> str:
    if array.ndim == 0 and array.dtype.kind == "c":
        real, imaginary = (_nested_text(part, element_type) for part in (np.real(array), np.imag(array)))
        return f"({real},{imaginary})"
    if array.ndim == 0:
        value = float(array)
        if math.isnan(value):  # a Python float loses the bits of some NaNs
            return f"0x{int.from_bytes(array.tobytes(), 'little'):X}"
        return format_float(value, element_type)
    return f"[{', '.join(_nested_text(part, element_type) for part in array)}]"
