"""Count how often each number occurs in the upper 16 bits of 32-bit words: the bins of calibration's histograms.

Neighbouring words are counted in separate tables. In one table, equal words in a row would wait for each other's count.
"""

from __future__ import annotations

import ctypes
from functools import cached_property

import numpy as np

from zeropoint.codegen.cache import cache_folder
from zeropoint.codegen.llvm.machine import Loaded, host
from zeropoint.codegen.llvm.text import Module
from zeropoint.codegen.llvm.types import Value, i64
from zeropoint.codegen.modules import ModuleSource
from zeropoint.codegen.objects import objects_of
from zeropoint.ir.tensors import Array

BINS = 1 << 16
TABLES = 4
MOST_WORDS = 1 << 32
"""With as many words, a count might not fit u32."""
_NAME = "zeropoint_bins"


class NativeBins:
    """Counts in memory of its own, so for one thread at a time."""

    @cached_property
    def _code(self) -> Loaded:
        text = _text()
        objects = objects_of({_NAME: ModuleSource(text, lambda: text)}, host(), cache=cache_folder())
        return Loaded(objects.values(), host())

    @cached_property
    def _tables(self) -> Array:
        return np.zeros((TABLES, BINS), np.uint32)

    def __call__(self, words: Array) -> Array:
        """The counts of the upper halves of contiguous u32 words, up to the last one that occurs."""
        if not 0 < len(words) < MOST_WORDS:
            return np.bincount(words >> np.uint32(16))
        counts = np.empty(BINS, np.uint32)
        pointer = ctypes.c_void_p
        count = ctypes.CFUNCTYPE(ctypes.c_int64, pointer, pointer, pointer, ctypes.c_int64)(self._code.address(_NAME))
        return counts[: count(*(array.ctypes.data for array in (words, self._tables, counts)), len(words))]


def _text() -> str:
    """`i64 bins(words, tables, counts, number)`: adds up the tables and clears them. Returns the number of counts."""
    module = Module()
    arguments = [("ptr noalias", "words"), ("ptr noalias", "tables"), ("ptr noalias", "counts"), ("i64", "number")]
    f = module.function(_NAME, arguments, "i64")
    words, tables, counts, number = f.arguments

    def count(table: int, word: Value, most: Value) -> Value:
        found = f.cast("zext", f.binary("lshr", word, 16), "i64")
        place = f.at(f.at(tables, 4 * BINS * table), f.mul(found, 4))
        f.store(f.add(f.load("i32", place, align=4), 1), place, align=4)
        return f.intrinsic("umax", most, found)

    def several(index: Value, most: list[Value]) -> list[Value]:
        here = f.at(words, f.mul(index, 4))
        read = [f.load("i32", here, 4 * table, align=4) for table in range(TABLES)]
        return [count(table, word, most[table]) for table, word in enumerate(read)]

    def one(index: Value, most: list[Value]) -> list[Value]:
        return [count(0, f.load("i32", f.at(words, f.mul(index, 4)), align=4), most[0])]

    def add(index: Value, _: list[Value]) -> None:
        total = Value("i32", "0")
        for table in range(TABLES):
            here = f.at(f.at(tables, 4 * BINS * table), f.mul(index, 4))
            total = f.add(total, f.load("i32", here, align=4))
            f.store(Value("i32", "0"), here, align=4)
        f.store(total, f.at(counts, f.mul(index, 4)), align=4)

    whole = f.mul(f.binary("udiv", number, i64(TABLES)), TABLES)
    most = f.loop(0, whole, TABLES, several, [i64(0)] * TABLES)
    for other in most[1:]:
        most[0] = f.intrinsic("umax", most[0], other)
    (last,) = f.loop(whole, number, 1, one, most[:1])
    bins = f.add(last, 1)
    f.loop(0, bins, 1, add)
    f.ret(bins)
    return str(module)
