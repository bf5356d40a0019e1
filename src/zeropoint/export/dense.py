"""Elements of constants as MLIR's `dense` attributes."""

from __future__ import annotations

import numpy as np

from zeropoint.ir.tensors import Array


def dense_hex(array: Array) -> str:
    """The elements in MLIR's hexadecimal form: little-endian, booleans packed eight to a byte."""
    data = np.packbits(array.reshape(-1), bitorder="little") if array.dtype == np.bool_ else np.ascontiguousarray(array)
    return f'dense<"0x{data.tobytes().hex().upper()}">'
