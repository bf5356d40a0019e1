"""The targets that export to .onnx files, by the runtime that runs the files."""

from __future__ import annotations

ONNXRUNTIME = ("onnxruntime", "onnxruntime-vnni")
OPENVINO = ("openvino", "openvino-vnni")
TARGETS = (*ONNXRUNTIME, *OPENVINO)
WHOLE_RANGE = ("onnxruntime-vnni", "openvino-vnni")
"""Targets for processors whose kernels sum products in 32 bits, so that no weights saturate."""
