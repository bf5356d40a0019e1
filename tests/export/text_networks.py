"""Networks in ONNX's text form with random weights, and samples for them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import ModelProto, numpy_helper, parser

from zeropoint.ir.tensors import Array

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'


def text_network(
    ports: str, weights: Mapping[str, tuple[int, ...]], body: str, deviation: float = 0.5
) -> tuple[ModelProto, list[dict[str, Array]]]:
    """A network with normal weights of a standard deviation, and four samples."""
    model, random = parser.parse_model(f"{HEAD} g {ports} {{ {body} }}"), np.random.default_rng(1)
    for held, shape in weights.items():
        array = random.normal(0, deviation, shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, held))
    shapes = {port.name: [dim.dim_value for dim in port.type.tensor_type.shape.dim] for port in model.graph.input}
    return model, [{n: random.normal(0, 1, s).astype(np.float32) for n, s in shapes.items()} for _ in range(4)]
