"""The padding that counts in the means of an average pool, for every exporter."""

from __future__ import annotations

import numpy as np

from zeropoint.export.errors import ExportError
from zeropoint.export.kernels import ExportKernel
from zeropoint.ir.stablehlo import DivideOp, MultiplyOp, ReduceWindowOp
from zeropoint.materialize.counted_padding import CountedPadding, counted_padding


def counted_padding_of(kernel: ExportKernel) -> CountedPadding:
    """The part of the padding that counts. Raises ExportError if the divisors are not those of a pool."""
    division = next((op for op in kernel.ops if isinstance(op, DivideOp | MultiplyOp)), None)
    if division is None:
        raise ExportError("found sums over windows, expected means", kernel.region)
    numbers = kernel.array(division.operands[1])
    if numbers is None:
        raise ExportError("found a computed divisor of an average, expected a constant", kernel.region)
    real = numbers.astype(np.float64)
    found = counted_padding(kernel.first(ReduceWindowOp), real if isinstance(division, DivideOp) else 1 / real)
    if found is None:
        raise ExportError(
            "found other divisors, expected the number of elements in each window, with or without padding",
            kernel.region,
        )
    return found
