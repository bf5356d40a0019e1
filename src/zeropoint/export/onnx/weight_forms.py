"""The storage in which constant 8-bit weights are written: i8, or the same integers plus 128 in u8.

Both represent the same real values, and onnxruntime has a kernel for each (`docs/export.md`). The kernel of u8 x i8 is
faster. On x64 without VNNI, it adds the products of two adjacent terms in 16 bits, which saturate. The kernel of
u8 x u8 does not saturate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from zeropoint.export.onnx.origins import OPENVINO, WHOLE_RANGE
from zeropoint.ir.quant import UniformQuantizedType, stored_array
from zeropoint.ir.tensors import Array
from zeropoint.numerics.dot_forms import PAIR_LIMIT, greatest_pairs
from zeropoint.targets import EitherSign

WEIGHT_FORMS = ("auto", "exact", "i8", "u8")
"""`exact`: i8 for weights of which no sum of adjacent products can saturate, u8 for others. `auto`: `exact` for target
onnxruntime; i8 for target openvino, whose integer kernels support only i8 weights, and for targets whose processors do
not saturate."""
BYTE = 8


def chosen_form(form: str, target: object) -> str:
    """The form of weights for a target: `form`, or what `auto` means for it."""
    if form != "auto":
        return form
    return "i8" if target in (*OPENVINO, *WHOLE_RANGE) else "exact"


def written_type(
    weight: Array, kind: UniformQuantizedType, given: object, form: str, order: Sequence[int] | None
) -> UniformQuantizedType:
    """The type in which a real weight is written: `kind`, or the type of the other sign with the same real values.

    `given` is the type of the activations. Only kernels of 8-bit weights and u8 activations allow both signs. `order`
    lists the weight's dimensions: the output channel, then the terms in the order in which the kernel adds them. None
    for a kernel that does not add products in pairs.
    """
    if not isinstance(given, UniformQuantizedType) or given.storage.type.signed or kind.blocks is not None:
        return kind
    if {given.storage.type.width, kind.storage.type.width} != {BYTE}:
        return kind
    other = _other_sign(kind)
    signed, unsigned = (kind, other) if kind.storage.type.signed else (other, kind)
    if form == "u8" or (form == "exact" and order is not None and saturates(stored_array(weight, signed), order)):
        return unsigned
    return signed


def saturates(stored: Array, order: Sequence[int]) -> bool:
    """Whether the sum of two adjacent products of i8 weights and u8 activations can exceed 16 bits."""
    turned = stored.astype(np.int64).transpose(order)
    return bool((greatest_pairs(turned.reshape(len(turned), -1)) > PAIR_LIMIT).any())


def _other_sign(kind: UniformQuantizedType) -> UniformQuantizedType:
    """The type of the same real values whose storage has the other sign."""
    storage = EitherSign(kind.storage).other
    points = tuple(point + storage.minimum - kind.storage.minimum for point in kind.data.zero_points)
    return UniformQuantizedType(replace(kind.data, storage=storage, zero_points=points))
