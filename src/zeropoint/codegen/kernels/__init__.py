"""Kernels: frozen dataclasses of shapes that generate their LLVM code."""
