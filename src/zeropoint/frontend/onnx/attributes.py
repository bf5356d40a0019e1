"""Attributes that a converter does not read: refused, unless they say nothing.

An attribute says nothing if it has its default, or where a table here says why it changes no result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnx import defs, helper

from zeropoint.frontend.onnx.node import Node, NodeError

WITHOUT_EFFECT: Mapping[str, frozenset[str]] = {
    "": frozenset({"consumed_inputs"}),  # before opset 6: which inputs' memory may be used again
    "BatchNormalization": frozenset({"momentum", "is_test"}),  # of training
    "Cast": frozenset({"round_mode", "saturate"}),  # of the floats of 8 bits, read where one is made
    "Dropout": frozenset({"ratio", "seed"}),  # of training
    "LayerNormalization": frozenset({"stash_type"}),  # the width of inner floats; a program has f32
    "MaxPool": frozenset({"storage_order"}),  # of the second output
    "QuantizeLinear": frozenset({"axis", "precision", "saturate"}),  # axis: one scale; the rest: of small floats
    "DequantizeLinear": frozenset({"axis", "output_dtype"}),  # axis: one scale; floats are f32
    "Resize": frozenset({"extrapolation_value", "keep_aspect_ratio_policy"}),  # of a crop; of sizes
}
"""By op (`""` for every op), attributes that change no result of inference where the converter has not read them."""


def check_unread_attributes(node: Node) -> None:
    """Raise NodeError for an attribute that was not read and might say something."""
    harmless = WITHOUT_EFFECT[""] | WITHOUT_EFFECT.get(node.op_type, frozenset())
    for name, value in node.unread_attributes().items():
        if name not in harmless and value != _default(node, name):
            raise NodeError(f"found attribute '{name}' = {_text(value)}, which is not supported")


def _text(value: Any) -> str:
    return repr(value.decode(errors="replace")) if isinstance(value, bytes) else str(value)[:60]


def _default(node: Node, name: str) -> Any:
    try:
        attribute = defs.get_schema(node.op_type, node.opset).attributes[name]
    except (defs.SchemaError, KeyError):
        return None
    return helper.get_attribute_value(attribute.default_value) if attribute.default_value.type else None
