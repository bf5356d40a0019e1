"""The weights of a program in its object. LLVM compiles a placeholder, which is replaced by the weights afterwards.

As text in a module, large weights would take ten times their size in memory. The code here does not copy them.
"""

from __future__ import annotations

import hashlib
import struct

from zeropoint.codegen.llvm.machine import architecture
from zeropoint.codegen.parameters import ALIGNMENT

WEIGHTS = "@zeropoint_weights"
_EMPTY, _SECTION = b".bss.zeropoint", b".rodata.zpoint"
"""The section of the placeholder, which LLVM gives no bytes because it is a `.bss`, and its name with the weights."""
_MARK = hashlib.sha512(b"zeropoint's weights").digest()
"""The first bytes of a placeholder that has bytes. They are unique, so that it is found in an object."""
_PROGBITS, _WRITE = 1, 1
"""ELF: the type of sections that have bytes in the file, and the flag of writable ones."""


def _is_elf(triple: str) -> bool:
    return not architecture(triple).startswith("wasm")


def placeholder(size: int, triple: str) -> str:
    """The module of the placeholder, which has the alignment of the weights.

    In ELF, it is a section without bytes in the file. WebAssembly has no such sections, so there it is a mark followed
    by zeros.
    """
    size = max(size, len(_MARK))
    if _is_elf(triple):
        kind = f'global [{size} x i8] zeroinitializer, section "{_EMPTY.decode()}"'
    else:
        mark, zeros = "\\" + _MARK.hex("\\"), size - len(_MARK)
        types = f"<{{ [{len(_MARK)} x i8], [{zeros} x i8] }}>"
        kind = f'constant {types} <{{ [{len(_MARK)} x i8] c"{mark}", [{zeros} x i8] zeroinitializer }}>'
    return f"{WEIGHTS} = externally_initialized {kind}, align {ALIGNMENT}\n"


def filled(code: bytes, weights: memoryview, triple: str) -> tuple[memoryview, ...]:
    """The parts of an object, in order, with the weights instead of the placeholder."""
    if _is_elf(triple):
        return _appended(bytearray(code), weights)
    begin, whole = code.index(_MARK), memoryview(code)
    return whole[:begin], weights, whole[begin + len(weights) :]


def _appended(code: bytearray, weights: memoryview) -> tuple[memoryview, ...]:
    """Append the weights to a 64-bit little-endian ELF object, and let their section begin there.

    Source: ELF-64 object file format, version 1.5, sections 3 and 4.
    """
    header, name = _section_header(code)
    code[name : name + len(_SECTION)] = _SECTION
    (flags,) = struct.unpack_from("<Q", code, header + 8)
    padding = -len(code) % ALIGNMENT
    struct.pack_into("<IQ", code, header + 4, _PROGBITS, flags & ~_WRITE)
    struct.pack_into("<Q", code, header + 24, len(code) + padding)
    (size,) = struct.unpack_from("<Q", code, header + 32)
    return memoryview(code), memoryview(bytes(padding)), weights, memoryview(bytes(size - len(weights)))


def _section_header(code: bytearray) -> tuple[int, int]:
    """The offsets of the header of the placeholder's section and of its name."""
    (table,) = struct.unpack_from("<Q", code, 0x28)
    size, count, of_names = struct.unpack_from("<HHH", code, 0x3A)
    (names,) = struct.unpack_from("<Q", code, table + of_names * size + 24)
    for header in range(table, table + count * size, size):
        (name,) = struct.unpack_from("<I", code, header)
        if code.startswith(_EMPTY + b"\0", names + name):
            return header, names + name
    raise ValueError(f"found no section {_EMPTY.decode()} in the object, which is a bug in this package")
