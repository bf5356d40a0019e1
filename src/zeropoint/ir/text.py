"""Programs as text: parse and print. `zeropoint.ir.files` reads and writes files."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from typing import cast

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, DenseResourceAttr, ModuleOp
from xdsl.ir import Attribute, Operation

from zeropoint.errors import Error, reading
from zeropoint.ir.context import new_context
from zeropoint.ir.element_types import take_element_types
from zeropoint.ir.parser import ProgramParser
from zeropoint.ir.printer import ProgramPrinter
from zeropoint.ir.program import Program
from zeropoint.ir.resources import ResourceTable, blob_text
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.ir.tensors import Array, element_dtype, element_of
from zeropoint.ir.value_names import handle_names
from zeropoint.ir.verification import verify, verify_stored
from zeropoint.ir.weights import INLINE_ELEMENTS, Weights, inline_array

SEPARATOR = re.compile(r"^// -----.*$", re.MULTILINE)
"""The line that separates two programs in one file."""


class BlobError(Error, ValueError):
    """A resource section does not match its use in the program."""


def resource_handles(module: ModuleOp) -> dict[str, tuple[int, ...]]:
    """The handles that a module refers to, in order of first use, with the shape of that use."""
    handles: dict[str, tuple[int, ...]] = {}
    for op in module.walk():
        for attribute in (*op.properties.values(), *op.attributes.values()):
            if isinstance(attribute, DenseResourceAttr):
                handles.setdefault(attribute.resource_handle.data, attribute.type.get_shape())
    return handles


class ResourceArrays(Mapping[str, Array]):
    """The arrays behind the handles that a program refers to, in order of first use, in the shape of that use.

    An array is read when it is looked up. Some arrays are computed, and all together would take more memory than the
    program. Raises MissingWeights for a handle without an array.
    """

    def __init__(self, program: Program):
        self._weights, self._shapes = program.weights, resource_handles(program.module)
        for handle in self._shapes:
            if handle not in self._weights:
                raise self._weights.missing(handle)

    def __getitem__(self, handle: str) -> Array:
        shape, array = self._shapes[handle], self._weights[handle]
        return array.reshape(shape) if array.size == math.prod(shape) else array

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)


def print_program(
    program: Program,
    *,
    locations: bool = False,
    generic: bool = False,
    inline_weights: bool = False,
    names: bool | Mapping[str, str] = False,
) -> str:
    """The text of a program; with `inline_weights` the large constants follow as a resource section.

    `locations` prints the location of each op and argument. `generic` prints every op in MLIR's generic form. With
    `names`, values and handles are named as in the original model (`value_names.py`); a mapping gives the names of
    handles.
    """
    stream = StringIO()
    handles = names if isinstance(names, Mapping) else handle_names(program.module.walk()) if names else None
    ProgramPrinter(stream, locations=locations, generic=generic, handles=handles).print_op(program.module)
    stream.write("\n")
    if inline_weights and (arrays := ResourceArrays(program)):
        named = {(handles or {}).get(handle, handle): array for handle, array in arrays.items()}
        entries = ",\n".join(f'      {handle}: "{blob_text(array)}"' for handle, array in named.items())
        stream.write(f"\n{{-#\n  dialect_resources: {{\n    builtin: {{\n{entries}\n    }}\n  }}\n#-}}\n")
    return stream.getvalue()


def print_ops(ops: Sequence[Operation], *, names: bool = False) -> str:
    """The text of some ops, one per line, with consistent value names and without locations.

    `names` names values and weights as in the original model.
    """
    stream = StringIO()
    printer = ProgramPrinter(stream, handles=handle_names(ops) if names else None)
    printer.name_values((), ops)
    for op in ops:
        printer.print_op(op)
        stream.write("\n")
    return stream.getvalue()


def split_input(text: str, split: bool) -> list[str]:
    """The programs of a file, separated by `// -----` lines. Each keeps its line numbers in the file."""
    if not split:
        return [text]
    starts = [0, *(match.end() for match in SEPARATOR.finditer(text))]
    ends = [*(match.start() for match in SEPARATOR.finditer(text)), len(text)]
    return ["\n" * text.count("\n", 0, start) + text[start:end] for start, end in zip(starts, ends, strict=True)]


def parse_program(
    text: str,
    name: str = "<text>",
    weights: Weights | None = None,
    *,
    allow_unregistered: bool = False,
    annotated: bool = False,
) -> Program:
    """Parse and verify a program. Blobs of a resource section and large inline constants become weights.

    With `allow_unregistered`, ops of unknown dialects are accepted in the generic form. With `annotated`, element types
    of float ops that are model constraints become casts (`element_types.py`).

    Raises InvalidText (a ParseError), InvalidAttribute and InvalidProgram (VerifyExceptions), BlobError, and
    UnreadableFile for any other failure of the parser.
    """
    table = ResourceTable()
    with reading(name):
        module = ProgramParser(new_context(table, allow_unregistered=allow_unregistered), text, name).parse_program()
        if annotated:
            take_element_types(module)
        verify(module)
        beside = Weights() if weights is None else weights
        weights = Weights({**beside, **_typed_blobs(module, table.blobs)}, beside.file)
        for op in module.walk():
            if isinstance(op, ConstantOp) and isinstance(op.value, DenseIntOrFPElementsAttr):
                _move_out(op, op.value, weights)
        verify_stored(module, weights)
        return Program(module, weights)


def _typed_blobs(module: ModuleOp, blobs: dict[str, bytes]) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for op in module.walk() if blobs else ():
        for attribute in (*op.properties.values(), *op.attributes.values()):
            if isinstance(attribute, DenseResourceAttr) and (handle := attribute.resource_handle.data) in blobs:
                arrays[handle] = _typed_blob(handle, blobs[handle], attribute)
    return arrays


def _typed_blob(handle: str, blob: bytes, use: DenseResourceAttr) -> Array:
    dtype = element_dtype(element_of(use.type))
    expected = math.prod(use.type.get_shape()) * dtype.itemsize
    if len(blob) != expected:
        raise BlobError(
            f"found {len(blob)} bytes in the blob {handle}, expected {expected} for its use as {use.type}; "
            f"write the resource section again"
        )
    return np.frombuffer(blob, dtype)


def _move_out(op: ConstantOp, value: DenseIntOrFPElementsAttr, weights: Weights) -> None:
    """Move the elements of a large constant to `weights` and refer to them by a handle."""
    if math.prod(value.get_shape()) > INLINE_ELEMENTS:
        op.value = weights.attribute(inline_array(value), cast("Attribute", value.get_element_type()))
