"""Import ONNX files as float programs. `load.py` is the entry point, `converters.py` lists all converters."""

from zeropoint.frontend.onnx.load import load_onnx, load_onnx_model

__all__ = ["load_onnx", "load_onnx_model"]
