"""Casts with a scale per channel around ops that onnxruntime computes as integers with one scale.

Its optimizer makes one kernel of `DequantizeLinear`, such an op and `QuantizeLinear` without looking at the number of
scales. The kernel then ends the run with an error, or takes the first scale. A `Max` of one operand before the
`QuantizeLinear`, which no optimizer removes, keeps the op in floats.

Source: measured with onnxruntime 1.32.0; `GetScalarInitializerFloat` and the selectors of its QDQ transformer.
"""

from __future__ import annotations

from onnx import NodeProto, helper

from zeropoint.export.onnx.emission import OnnxEmission
from zeropoint.export.onnx.graph import GraphBuilder

FUSED = (
    "AveragePool",
    "Conv",
    "ConvTranspose",
    "GlobalAveragePool",
    "LeakyRelu",
    "Sigmoid",
    "Softmax",
    "Where",
)
"""The ops that become kernels of one scale. Those of sums, products and concatenations are only made for one scale."""
CONDITION = "Where"
"""The op whose first input is no number."""


def keep_floats(emit: OnnxEmission) -> None:
    """Separate these ops from the casts of their results, if a cast has a scale per channel. OpenVINO takes them."""
    builder = emit.builder
    if emit.for_openvino:
        return
    dequantized = {node.output[0]: node for node in builder.nodes if node.op_type == "DequantizeLinear"}
    makers = {node.output[0]: node for node in builder.nodes if node.op_type in FUSED}
    pins: dict[str, NodeProto] = {}
    for node in builder.nodes:
        maker = makers.get(node.input[0]) if node.op_type == "QuantizeLinear" else None
        if maker is None:
            continue
        read = [dequantized.get(name) for name in maker.input[maker.op_type == CONDITION :]]
        casts = [node, *(cast for cast in read if cast is not None and cast.input[0] not in builder.constants)]
        if None not in read and any(attribute.name == "axis" for cast in casts for attribute in cast.attribute):
            pins[node.name] = _pin(node, builder)
    builder.nodes[:] = [made for node in builder.nodes for made in (pins.get(node.name), node) if made is not None]


def _pin(cast: NodeProto, builder: GraphBuilder) -> NodeProto:
    """The op before a cast, which then reads its result."""
    given = cast.input[0]
    name = builder.unique(f"{given}_apart")
    cast.input[0] = name
    return helper.make_node("Max", [given], [name], builder.unique(f"node:{name}")[5:])
