"""ONNX: `.onnx` files, as QDQ or with QOperators."""
