"""Padding between elements, which ONNX's Pad does not have: each element is padded as a row of its own."""

from __future__ import annotations

from collections.abc import Sequence

from zeropoint.export.onnx.emission import OnnxEmission, Tensor


def spread(tensor: Tensor, inside: Sequence[int], fill: Tensor, name: str, emit: OnnxEmission) -> Tensor:
    """The tensor with `inside` times the number `fill` between the elements of each dimension.

    Reshape to [n, 1], Pad to [n, 1 + inside], Reshape, and Slice to remove the numbers after the last element.
    """
    for axis, count in enumerate(inside):
        shape = tensor.shape
        if not count or not shape[axis]:
            continue
        before, size, after = shape[:axis], shape[axis], shape[axis + 1 :]
        rows = emit.reshaped(tensor, (*before, size, 1, *after), name)
        pads = [0] * (2 * len(rows.shape))
        pads[len(rows.shape) + axis + 1] = count
        extra = [emit.integers(pads, "pads"), fill.name]
        padded = emit.apply(
            "Pad", [rows], tensor.kind, (*before, size, 1 + count, *after), f"{name}/spread", None, extra
        )
        flat = emit.reshaped(padded, (*before, size * (1 + count), *after), name)
        limit = size * (1 + count) - count
        bounds = [emit.integers([number], "slice") for number in (0, limit, axis)]
        tensor = emit.apply("Slice", [flat], tensor.kind, (*before, limit, *after), f"{name}/cut", None, bounds)
    return tensor
