"""Tables of functions of one quantized value, with 2^width entries. They are exact under the profile for any
function."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from zeropoint.numerics.affine import QuantizeBehaviour, dequantize, quantize
from zeropoint.numerics.arrays import AnyArray
from zeropoint.numerics.ranges import AffineParameters
from zeropoint.numerics.storage import StorageType


def table(
    function: Callable[[AnyArray], AnyArray],
    input: AffineParameters,
    output: AffineParameters,
    behaviour: QuantizeBehaviour = QuantizeBehaviour.RNE_AFTER_ZERO_POINT,
    *,
    storage: StorageType | None = None,
    expressed: npt.DTypeLike = np.float32,
    dtype: npt.DTypeLike | None = None,
) -> AnyArray:
    """quantize(function(dequantize(q))) for every q of the input's storage type, in ascending order; shape (2^width,).

    Input and output have per-tensor parameters. `storage` is the input's storage type; it defaults to i8 if the storage
    range goes below 0, else to u8. `function` maps arrays of `expressed` to arrays of `expressed`. `dtype` is the dtype
    of the entries (see `quantize`). Raises ValueError for storage wider than 16 bits.
    """
    storage = StorageType(input.storage_min < 0, 8) if storage is None else storage
    if storage.width > 16:
        raise ValueError(f"found a table of {storage} values; expected storage of at most 16 bits")
    stored = np.arange(storage.min, storage.max + 1, dtype=np.int32)
    reals = dequantize(stored, input.scale, input.zero_point, expressed)
    return quantize(
        function(reals),
        output.scale,
        output.zero_point,
        output.storage_min,
        output.storage_max,
        behaviour=behaviour,
        expressed=expressed,
        dtype=dtype,
    )


def apply_table(entries: AnyArray, q: npt.ArrayLike, storage: StorageType | None = None) -> AnyArray:
    """Look up q: entries[q - minimum of q's storage type]. The storage type defaults to the array's dtype, int8 or
    uint8.

    Raises ValueError if the table does not have one entry per value of the storage type.
    """
    stored = np.asarray(q)
    storage = StorageType(stored.dtype.kind == "i", stored.dtype.itemsize * 8) if storage is None else storage
    if entries.shape != (1 << storage.width,):
        raise ValueError(f"found a table of shape {entries.shape} for {storage}; expected ({1 << storage.width},)")
    return np.take(entries, stored.astype(np.int32) - storage.min)
