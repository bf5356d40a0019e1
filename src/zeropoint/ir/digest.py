"""A digest of programs and their weights, by which the files that record progress know what they belong to."""

from __future__ import annotations

import hashlib

import numpy as np

from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import ResourceArrays, print_program


def program_digest(program: Program, text: str) -> bytes:
    """The SHA-256 of a program, its weights, and a text that states what else must be equal."""
    digest = hashlib.sha256(f"{text}\n{print_program(program)}".encode())
    for handle in sorted(arrays := ResourceArrays(program)):
        digest.update(handle.encode())
        digest.update(array_bytes(arrays[handle]))
    return digest.digest()


def array_bytes(array: Array) -> memoryview:
    """The bytes of an array, in the order of its elements."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
