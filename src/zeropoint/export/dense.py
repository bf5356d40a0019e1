"""Elements of constants as MLIR's `dense` attributes."""

from __future__ import annotations

import json

import numpy as np

from zeropoint.ir.tensors import Array


def dense_text(array: Array) -> str:
    """The elements in MLIR's hexadecimal form, little-endian. Booleans are written as a list.

    In hexadecimal form, some versions of MLIR pack eight booleans into a byte and others do not.
    """
    if array.dtype == np.bool_:
        return f"dense<{json.dumps(array.tolist()) if array.size else ''}>"
    return f'dense<"0x{np.ascontiguousarray(array).tobytes().hex().upper()}">'
