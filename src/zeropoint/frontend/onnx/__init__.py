"""ONNX files to float programs: `load.py` reads, `converters.py` lists the ops, one file per kind of op has them."""

from zeropoint.frontend.onnx.load import load_onnx, load_onnx_model

__all__ = ["load_onnx", "load_onnx_model"]
