"""Kernels: frozen dataclasses that describe shapes and generate LLVM code for them."""
