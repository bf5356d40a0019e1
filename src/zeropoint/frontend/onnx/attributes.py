"""Reject attributes that a converter does not read, unless they have no effect, and integers that ONNX does not define.

An attribute has no effect if it has its default value, or if the table below lists it with the reason.

Attributes with only a few defined integers, such as flags, are checked by name for every node. Otherwise a converter,
the body of an ONNX function or the evaluation of constants would treat an undefined integer as one of the defined ones.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from onnx import AttributeProto, NodeProto, defs, helper

from zeropoint.frontend.onnx.node import NodeError, OnnxNode

WITHOUT_EFFECT: Mapping[str, frozenset[str]] = {
    "": frozenset({"consumed_inputs"}),  # before opset 6: inputs whose memory may be reused
    "BatchNormalization": frozenset({"momentum", "is_test"}),  # for training only
    "Cast": frozenset({"round_mode", "saturate"}),  # for 8-bit floats; read when converting to one
    "Dropout": frozenset({"is_test", "ratio", "seed"}),  # for training only
    **dict.fromkeys(("GRU", "LSTM", "RNN"), frozenset({"output_sequence"})),  # before opset 7: who reads Y has it
    "LayerNormalization": frozenset({"stash_type"}),  # the type of intermediate results; here always f32
    "MaxPool": frozenset({"storage_order"}),  # for the second output only
    "QuantizeLinear": frozenset({"axis", "precision", "saturate"}),  # axis: one scale; others: small floats
    "DequantizeLinear": frozenset({"axis", "output_dtype"}),  # axis: one scale; floats are f32
    "Resize": frozenset({"extrapolation_value"}),  # for crops only
}
"""By op (`""` for every op), attributes without effect on inference results if the converter has not read them."""

FLAGS = frozenset(
    {
        "align_corners",
        "allowzero",
        "antialias",
        "ceil_mode",
        "center_point_box",
        "count_include_pad",
        "detect_negative",
        "detect_positive",
        "exclude_outside",
        "exclusive",
        "fmod",
        "input_forget",
        "interleaved",
        "inverse",
        "is_causal",
        "keepdims",
        "largest",
        "layout",
        "linear_before_reset",
        "noop_with_empty_axes",
        "onesided",
        "output_sequence",
        "periodic",
        "reverse",
        "saturate",
        "select_last_index",
        "sorted",
        "storage_order",
        "transA",
        "transB",
        "upper",
    }
)
"""Integer attributes that are 0 or 1 in every ONNX operator that has them."""
ENUMERATED: Mapping[str, Collection[int]] = {**dict.fromkeys(FLAGS, (0, 1)), "qk_matmul_output_mode": (0, 1, 2, 3)}
"""The integers that ONNX defines for these attributes."""


def check_enumerated(node: NodeProto) -> None:
    """Raise NodeError for an integer attribute with a value that ONNX does not define."""
    for attribute in node.attribute:
        known = ENUMERATED.get(attribute.name)
        if known is not None and attribute.type == AttributeProto.INT and attribute.i not in known:
            *first, last = known
            expected = f"{', '.join(map(str, first))} or {last}"
            raise NodeError(f"found {attribute.name} {attribute.i}, expected {expected}")


def check_unread_attributes(node: OnnxNode) -> None:
    """Raise NodeError for an attribute that the converter has not read and that may have an effect."""
    harmless = WITHOUT_EFFECT[""] | WITHOUT_EFFECT.get(node.op_type, frozenset())
    for name, value in node.unread_attributes().items():
        if name not in harmless and value != _default(node, name):
            default = _default(node, name)
            fix = "leave it out" if default is None else f"expected {_text(default)}"
            raise NodeError(f"found attribute '{name}' = {_text(value)}, which is not supported; {fix}")


def _text(value: Any) -> str:
    return repr(value.decode(errors="replace")) if isinstance(value, bytes) else str(value)[:60]


def _default(node: OnnxNode, name: str) -> Any:
    try:
        attribute = defs.get_schema(node.op_type, node.opset).attributes[name]
    except (defs.SchemaError, KeyError):
        return None
    return helper.get_attribute_value(attribute.default_value) if attribute.default_value.type else None
