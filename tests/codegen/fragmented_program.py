"""A process whose free address space is one page near the top, then nothing for 8 GB; native code is loaded in it."""

import ctypes
import mmap

from zeropoint.codegen.llvm.machine import Loaded, combined_object, compile_bitcode, host

SIZE = 40000
TEXT = f"""
@table = internal constant [{SIZE} x i8] c"{"A" * SIZE}"
define i32 @f(i64 %i) {{
  %p = getelementptr inbounds [{SIZE} x i8], ptr @table, i64 0, i64 %i
  %v = load i8, ptr %p
  %w = sext i8 %v to i32
  ret i32 %w
}}
"""
"""The code takes one page, the table ten."""
GIGABYTE = 1 << 30
RESERVED = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # MAP_NORESERVE, which Python 3.11 has no name for


def fragment() -> None:
    """Reserve 8 GB and every hole above it; then free one page of it."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

    def reserve(size: int) -> int:
        return libc.mmap(None, size, 0, RESERVED, -1, 0)

    base = reserve(8 * GIGABYTE)
    size = GIGABYTE
    while size >= mmap.PAGESIZE:
        at = reserve(size)
        if at < base:
            libc.munmap(at, size)
            size //= 2
    libc.munmap(base + 8 * GIGABYTE - (1 << 20), mmap.PAGESIZE)


if __name__ == "__main__":
    isa = host()
    data = combined_object([compile_bitcode(TEXT, isa)], isa, {"f"})
    fragment()
    loaded = Loaded([data], isa)
    print(ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64)(loaded.address("f"))(SIZE - 1))
