"""`fxpmath.table` of values that lie alike."""

from __future__ import annotations

import numpy as np

from zeropoint.codegen.kernels.table import Table
from zeropoint.codegen.select.selection import NoKernel, Selection
from zeropoint.codegen.select.values import rows_alike
from zeropoint.ir.fxpmath import TableOp
from zeropoint.ir.locations import describe
from zeropoint.ir.tensors import element_dtype, element_of


def select_table(selection: Selection, op: TableOp) -> None:
    """A look-up from bytes to bytes. Raises NoKernel where a table or its values are of another form."""
    entries = selection.constant(op.table)
    bytes_ = all(element_dtype(element_of(value)) == np.int8 for value in (op.operand, op.result))
    if entries is None or not bytes_ or entries.dtype != np.int8:
        raise NoKernel
    source = selection.fitting(op, op.operand)
    target = selection.bytes_for(op, op.result)
    found = rows_alike([source, target])
    if found is None or not selection.fits(op.result, target):
        raise NoKernel
    rows, length, (in_row, out_row) = found
    kernel = Table(rows, length, in_row, out_row)
    parameters = selection.graph.parameters(Table.pack(selection.isa, entries.astype(np.int64)))
    selection.graph.call(describe(op), kernel, [source], [target], parameters, elementwise=[source])
