"""Kernels: frozen dataclasses of shapes that write their LLVM."""
