"""Import LiteRT files (.tflite) as float programs."""

from zeropoint.frontend.litert.load import load_litert

__all__ = ["load_litert"]
