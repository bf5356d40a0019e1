"""The text of `dense_resource` blobs: `{-# dialect_resources: { builtin: { w1: "0x04000000..." } } #-}`.

A blob is "0x", the alignment as four little-endian bytes, then the elements, as C++ MLIR reads it.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface

from zeropoint.ir.tensors import Array

_ALIGNMENT_BYTES = 4


def blob_text(array: Array) -> str:
    """The hexadecimal text of a blob: the alignment, then the array's elements."""
    alignment = max(array.dtype.itemsize, 1)
    return f"0x{alignment.to_bytes(_ALIGNMENT_BYTES, 'little').hex().upper()}{array.tobytes().hex().upper()}"


def blob_bytes(text: str) -> bytes:
    """The elements of a blob.

    Raises ValueError for text that is not a blob.
    """
    if not text.startswith("0x"):
        raise ValueError(f'found "{text[:12]}...", expected hexadecimal text that starts with "0x"')
    return bytes.fromhex(text[2 + 2 * _ALIGNMENT_BYTES :])


class ResourceTable(OpAsmDialectInterface):
    """The blobs of one parse. Handles are not renamed."""

    def __init__(self) -> None:
        super().__init__()
        self.blobs: dict[str, bytes] = {}

    def declare_resource(self, key: str) -> str:
        """Return the handle unchanged, so that all its uses refer to one blob."""
        return key

    def parse_resource(self, key: str, val: str) -> None:
        """Store the blob of a handle."""
        self.blobs[key] = blob_bytes(val)

    def build_resources(self, keys: Iterable[str]) -> dict[str, str]:
        """Return nothing: `zeropoint.ir.text` prints resources from a program's weights."""
        return {}
