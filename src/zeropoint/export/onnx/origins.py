"""The targets whose programs .onnx files hold, by the runtime that executes them."""

from __future__ import annotations

ONNXRUNTIME = ("onnxruntime", "onnxruntime-vnni")
OPENVINO = ("openvino", "openvino-vnni")
TARGETS = (*ONNXRUNTIME, *OPENVINO)
WHOLE_RANGE = ("onnxruntime-vnni", "openvino-vnni")
"""Targets for processors on which no weights saturate."""
