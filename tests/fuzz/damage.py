"""Bytes that a disk or a transfer got wrong."""

from __future__ import annotations

import random
import struct


def damaged(data: bytes, choose: random.Random, most: int | None = None) -> bytes:
    """Bytes that are changed, cut or repeated in a few places."""
    found = bytearray(data)
    for _ in range(choose.choice((1, 1, 2, 5, 20))):
        at = choose.randrange(max(1, min(len(found), most or len(found))))
        match choose.randrange(5):
            case 0:
                found[at : at + 1] = bytes([choose.randrange(256)])
            case 1:
                found[at : at + 4] = struct.pack("<I", choose.choice((0, 1, 0x7FFFFFFF, 0xFFFFFFFF)))
            case 2:
                del found[at : at + choose.randrange(8)]
            case 3:
                found[at:at] = found[at : at + choose.randrange(16)]
            case _:
                del found[max(at, len(found) - choose.randrange(1, 40)) :]
    return bytes(found)
