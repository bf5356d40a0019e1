"""Rejects attributes that a converter does not read, unless they have no effect.

An attribute has no effect if it has its default value, or if the table below lists it with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnx import defs, helper

from zeropoint.frontend.onnx.node import NodeError, OnnxNode

WITHOUT_EFFECT: Mapping[str, frozenset[str]] = {
    "": frozenset({"consumed_inputs"}),  # before opset 6: inputs whose memory may be reused
    "BatchNormalization": frozenset({"momentum", "is_test"}),  # for training only
    "Cast": frozenset({"round_mode", "saturate"}),  # for 8-bit floats; read when converting to one
    "Dropout": frozenset({"ratio", "seed"}),  # for training only
    "LayerNormalization": frozenset({"stash_type"}),  # the type of intermediate results; here always f32
    "MaxPool": frozenset({"storage_order"}),  # for the second output only
    "QuantizeLinear": frozenset({"axis", "precision", "saturate"}),  # axis: one scale; others: small floats
    "DequantizeLinear": frozenset({"axis", "output_dtype"}),  # axis: one scale; floats are f32
    "Resize": frozenset({"extrapolation_value", "keep_aspect_ratio_policy"}),  # for crops only; for sizes only
}
"""By op (`""` for every op), attributes without effect on inference results if the converter has not read them."""


def check_unread_attributes(node: OnnxNode) -> None:
    """Raise NodeError for an attribute that was not read and may have an effect."""
    harmless = WITHOUT_EFFECT[""] | WITHOUT_EFFECT.get(node.op_type, frozenset())
    for name, value in node.unread_attributes().items():
        if name not in harmless and value != _default(node, name):
            raise NodeError(f"found attribute '{name}' = {_text(value)}, which is not supported")


def _text(value: Any) -> str:
    return repr(value.decode(errors="replace")) if isinstance(value, bytes) else str(value)[:60]


def _default(node: OnnxNode, name: str) -> Any:
    try:
        attribute = defs.get_schema(node.op_type, node.opset).attributes[name]
    except (defs.SchemaError, KeyError):
        return None
    return helper.get_attribute_value(attribute.default_value) if attribute.default_value.type else None
