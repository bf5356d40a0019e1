"""Import LiteRT files (.tflite) as programs."""

from zeropoint.frontend.litert.load import load_litert

__all__ = ["load_litert"]
