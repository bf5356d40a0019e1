"""OpenVINO's `FakeQuantize` in ONNX files, as NNCF and its quantization-aware training write it: rewritten to casts.

    y = round((x - low) / (high - low) * (levels - 1)) / (levels - 1) * (high - low) + low    for x from low to high

256 levels are u8, and 255 levels i8 from -127 to 127.

Source: OpenVINO's operation set, "FakeQuantize-1".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import NodeProto, helper

from zeropoint.frontend.onnx.integer_rewriting import IntegerRewriting, attributes_of
from zeropoint.ir.tensors import Array

DOMAIN = "org.openvinotoolkit"
LEVELS = (255, 256)
SLACK = 1e-2
"""How far, in steps, the least number may be from a multiple of the step."""


def is_fake_quantize(node: NodeProto) -> bool:
    """Whether a node is OpenVINO's FakeQuantize."""
    return node.domain == DOMAIN and node.op_type == "FakeQuantize"


def fake_quantized(node: NodeProto, run: IntegerRewriting) -> bool:
    """Rewrite a FakeQuantize. Returns False for computed or unequal ranges, other levels, and ranges without 0."""
    bounds = [run.array(name) for name in node.input[1:5]]
    levels = attributes_of(node).get("levels")
    low, high, *results = bounds if len(bounds) == 4 else (None, None)
    if low is None or high is None or levels not in LEVELS or low.shape != high.shape:
        return False
    if not all(
        array is not None and np.array_equal(array, own) for array, own in zip(results, (low, high), strict=True)
    ):
        return False
    scale = (high.astype(np.float64) - low) / (levels - 1)
    wide = [axis for axis, size in enumerate(low.shape) if size > 1]
    if not np.all(scale > 0) or len(wide) > 1:
        return False
    points = -low / scale
    if np.any(np.abs(points - np.rint(points)) > SLACK) or np.any((points < -SLACK) | (points > levels - 1 + SLACK)):
        return False
    _append(node, scale, np.rint(points), wide, run)
    return True


def _append(node: NodeProto, scale: Array, points: Array, wide: list[int], run: IntegerRewriting) -> None:
    name, narrow = node.name or node.output[0], attributes_of(node)["levels"] == LEVELS[0]
    shape = (-1,) if wide else ()
    dtype = np.int8 if narrow else np.uint8
    stored = (points - 127 if narrow else points).astype(dtype)
    parts = [
        run.constant(f"{name}_scale", scale.astype(np.float32).reshape(shape)),
        run.constant(f"{name}_zero_point", stored.reshape(shape)),
    ]
    attributes: dict[str, Any] = {"axis": wide[0]} if wide else {}
    integers = run.unique(f"{name}_quantized")
    run.nodes.append(helper.make_node("QuantizeLinear", [node.input[0], *parts], [integers], integers, **attributes))
    if narrow:
        clipped, whole = run.unique(f"{name}_clipped"), integers
        ends = [
            run.constant(f"{name}_{end}", np.array(number, dtype)) for end, number in (("low", -127), ("high", 127))
        ]
        run.nodes.append(helper.make_node("Clip", [whole, *ends], [clipped], clipped))
        integers = clipped
    run.nodes.append(helper.make_node("DequantizeLinear", [integers, *parts], node.output, name, **attributes))
