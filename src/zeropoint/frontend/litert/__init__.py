"""LiteRT files (.tflite) to programs."""

from zeropoint.frontend.litert.load import load_litert

__all__ = ["load_litert"]
