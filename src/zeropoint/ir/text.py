"""Programs as text: parse and print. `zeropoint.ir.files` puts them on disk."""

from __future__ import annotations

from io import StringIO

import numpy as np
from xdsl.dialects.builtin import DenseResourceAttr, ModuleOp, UnknownLoc
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.printer import Printer

from zeropoint.ir.context import new_context
from zeropoint.ir.program import Program
from zeropoint.ir.resources import ResourceTable, blob_text
from zeropoint.ir.tensors import Array, element_dtype
from zeropoint.ir.weights import Weights


class _ProgramPrinter(Printer):
    """Prints the locations that are known, and no others."""

    def __init__(self, stream: StringIO, *, locations: bool, generic: bool):
        super().__init__(stream, print_generic_format=generic)
        self._locations = locations

    def print_op(self, op: Operation) -> None:
        super().print_op(op)
        if self._locations and not isinstance(op.location, UnknownLoc):
            self.print_string(" ")
            self.print_attribute(op.location)


def resource_handles(module: ModuleOp) -> list[str]:
    """The handles that a module refers to, each once, in order of first use."""
    handles: dict[str, None] = {}
    for op in module.walk():
        for attribute in (*op.properties.values(), *op.attributes.values()):
            if isinstance(attribute, DenseResourceAttr):
                handles[attribute.resource_handle.data] = None
    return list(handles)


def print_program(
    program: Program, *, locations: bool = False, generic: bool = False, inline_weights: bool = False
) -> str:
    """The text of a program; with `inline_weights` the large constants follow as a resource section."""
    stream = StringIO()
    _ProgramPrinter(stream, locations=locations, generic=generic).print_op(program.module)
    stream.write("\n")
    if inline_weights and (handles := resource_handles(program.module)):
        entries = ",\n".join(f'      {handle}: "{blob_text(program.weights[handle])}"' for handle in handles)
        stream.write(f"\n{{-#\n  dialect_resources: {{\n    builtin: {{\n{entries}\n    }}\n  }}\n#-}}\n")
    return stream.getvalue()


def parse_program(text: str, name: str = "<text>", weights: Weights | None = None) -> Program:
    """The program that `text` holds, verified; blobs of a resource section become weights.

    Raises xdsl.utils.exceptions.ParseError and VerifyException.
    """
    table = ResourceTable()
    module = Parser(new_context(table), text, name).parse_module()
    module.verify()
    weights = Weights() if weights is None else weights
    if table.blobs:
        weights = Weights({**weights, **_typed_blobs(module, table.blobs)})
    return Program(module, weights)


def _typed_blobs(module: ModuleOp, blobs: dict[str, bytes]) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for op in module.walk():
        for attribute in (*op.properties.values(), *op.attributes.values()):
            if isinstance(attribute, DenseResourceAttr) and (handle := attribute.resource_handle.data) in blobs:
                arrays[handle] = np.frombuffer(blobs[handle], element_dtype(attribute.type.get_element_type()))
    return arrays
