"""Sums of products of f32 in native code, for interpreted programs, with the bits of `numerics.products`.

One function computes the products of all shapes, so that it is compiled once. NumPy has no fused multiply-add and takes
forty times as long to find the same sums.
"""

from __future__ import annotations

import ctypes
import math

import numpy as np

from zeropoint.codegen.cache import cache_folder
from zeropoint.codegen.llvm.machine import CodegenError, Loaded, host
from zeropoint.codegen.llvm.text import Function, Module
from zeropoint.codegen.llvm.types import Value, constant, i64, vector
from zeropoint.codegen.modules import ModuleSource
from zeropoint.codegen.objects import objects_of
from zeropoint.ir.tensors import Array

ROWS, VECTORS = 4, 3
"""The sums that are computed at a time."""
_NAME = "zeropoint_products"


class NativeProducts:
    """`sums_of_products` of f32. Calls are thread-safe. Raises CodegenError without an instruction for multiply-add."""

    def __init__(self) -> None:
        isa = host()
        if not isa.fused:
            raise CodegenError(f"found {isa.name}, expected instructions for float multiply-add")
        text = products_text(isa.width)
        # LLVM's passes over the text take four times as long and gain nothing.
        objects = objects_of({_NAME: ModuleSource(text, lambda: text)}, isa, cache=cache_folder(), form="light")
        self._code = Loaded(objects.values(), isa)
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        self._run = ctypes.CFUNCTYPE(None, *[pointer] * 3, *[number] * 6)(self._code.address(_NAME))

    def __call__(self, a: Array, b: Array) -> Array:
        """The matrix product of a[..., m, k] and b[..., k, n], both f32."""
        m, n = a.shape[-2], b.shape[-1]
        # Vectors hold sums of a row. One row of sums is computed as a column if the other matrix would be transposed.
        if n < m or (m == 1 and not b.flags.c_contiguous):
            return np.ascontiguousarray(self._product(b.swapaxes(-2, -1), a.swapaxes(-2, -1)).swapaxes(-2, -1))
        return self._product(a, b)

    def _product(self, a: Array, b: Array) -> Array:
        (m, terms), n = a.shape[-2:], b.shape[-1]
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        (left, left_step), (right, right_step) = (_in_order(each, batch) for each in (a, b))
        found = np.empty((*batch, m, n), np.float32)
        addresses = (array.ctypes.data for array in (left, right, found))
        self._run(*addresses, math.prod(batch), m, n, terms, left_step, right_step)
        return found


def _in_order(array: Array, batch: tuple[int, ...]) -> tuple[Array, int]:
    """The matrices in memory order, and the bytes from one to the next; 0 if there is one for the whole batch."""
    if math.prod(array.shape[:-2]) == 1:
        return np.ascontiguousarray(array), 0
    return np.ascontiguousarray(np.broadcast_to(array, (*batch, *array.shape[-2:]))), 4 * math.prod(array.shape[-2:])


def products_text(width: int) -> str:
    """`void products(a, b, sums, count, m, n, k, bytes of an a, bytes of a b)`, on vectors of `width` elements."""
    module = Module()
    pointers = [("ptr noalias", name) for name in ("a", "b", "sums")]
    numbers = [("i64", name) for name in ("count", "m", "n", "k", "left", "right")]
    f = module.function(_NAME, [*pointers, *numbers])
    a, b, sums, count, m, n, k, left, right = f.arguments

    def one(index: Value, _: list[Value]) -> None:
        block = _Matrices(f, f.at(a, f.mul(index, left)), f.at(b, f.mul(index, right)), _moved(f, sums, index, m, n))
        block.write(m, n, k, width)

    f.loop(0, count, 1, one)
    f.ret()
    return str(module)


def _moved(f: Function, sums: Value, index: Value, m: Value, n: Value) -> Value:
    return f.at(sums, f.mul(f.mul(f.mul(index, m), n), 4))


class _Matrices:
    """Emits the product of two matrices."""

    def __init__(self, f: Function, a: Value, b: Value, sums: Value):
        self.f, self.a, self.b, self.sums = f, a, b, sums

    def write(self, m: Value, n: Value, k: Value, width: int) -> None:
        """All sums: blocks of rows, and in each, blocks of columns, single vectors and single columns."""
        f, kind = self.f, vector(width, "float")
        several = f.mul(f.binary("udiv", m, i64(ROWS)), ROWS)
        wide = f.mul(f.binary("udiv", n, i64(VECTORS * width)), VECTORS * width)
        whole = f.mul(f.binary("udiv", n, i64(width)), width)
        for rows, first, last in ((ROWS, i64(0), several), (1, several, m)):

            def across(row: Value, _: list[Value], rows: int = rows) -> None:
                spans = ((VECTORS, kind, i64(0), wide), (1, kind, wide, whole), (1, "float", whole, n))
                for vectors, type_, begin, end in spans:

                    def block(column: Value, _: list[Value], vectors: int = vectors, type_: str = type_) -> None:
                        self._block(row, column, rows, vectors, type_, (n, k))

                    f.loop(begin, end, vectors * (width if type_ == kind else 1), block)

            f.loop(first, last, rows, across)

    def _block(
        self, row: Value, column: Value, rows: int, vectors: int, type_: str, sizes: tuple[Value, Value]
    ) -> None:
        """The sums of some rows and of some vectors side by side. Each is one chain of fused multiply-adds."""
        f, (n, k) = self.f, sizes
        size = 4 if type_ == "float" else 4 * int(type_[1:].split()[0])
        lefts = [f.at(self.a, f.mul(f.mul(f.add(row, r), k), 4)) for r in range(rows)]
        top = f.at(self.b, f.mul(column, 4))

        def term(index: Value, chains: list[Value]) -> list[Value]:
            here = f.at(top, f.mul(f.mul(index, n), 4))
            read = [f.load(type_, here, size * v, align=4) for v in range(vectors)]
            factors = [f.load("float", f.at(left, f.mul(index, 4)), align=4) for left in lefts]
            if type_ != "float":
                factors = [f.broadcast(factor, size // 4) for factor in factors]
            each = [(factor, value) for factor in factors for value in read]
            return [
                f.intrinsic("fma", factor, value, chain) for (factor, value), chain in zip(each, chains, strict=True)
            ]

        zero = constant(type_, 0.0)
        chains = f.loop(0, k, 1, term, [zero] * (rows * vectors))
        for number, chain in enumerate(chains):
            r, v = divmod(number, vectors)
            place = f.mul(f.add(f.mul(f.add(row, r), n), column), 4)
            # A zero sum is +0.
            f.store(f.binary("fadd", chain, 0.0), f.at(self.sums, place), size * v, align=4)
