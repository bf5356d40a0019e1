"""Stores to positions that are read at run time: `dynamic_update_slice` and `scatter`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from zeropoint.codegen.kernels.access import Access, Elements
from zeropoint.codegen.kernels.elements import Region
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function, Module
from zeropoint.codegen.llvm.types import Value, i64


@dataclass(frozen=True)
class UpdateIndex:
    """A dimension of the result in which positions begin at an index that is read.

    The position advances with `loop` (-1: it does not), by `stride` bytes per step. `limit` is the largest start if
    starts are clamped, or -1 if updates outside of `size` are skipped.
    """

    read: Access
    signed: bool
    loop: int
    size: int
    stride: int
    limit: int


@dataclass(frozen=True)
class Placement:
    """`sizes` are the loops over the updates, in order. The first `apart` loops never write to an address twice.

    Operands are the updates, the indices, and the result, which already contains the operand.
    """

    sizes: tuple[int, ...]
    apart: int
    update: Access
    indices: tuple[UpdateIndex, ...]
    write: Access
    region: Region | None
    """Combines an element of the result with its update. None to store the update itself."""

    def tasks(self, isa: InstructionSet) -> int:
        """The number of iterations of the first `apart` loops."""
        return math.prod(self.sizes[: self.apart])

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        """`void name(updates, indices..., result, begin, end)`."""
        names = ["in", *(f"index{n}" for n in range(len(self.indices))), "out"]
        f = module.kernel(name, *names)
        *pointers, begin, end = f.arguments

        def task(number: Value, _: list[Value]) -> None:
            at: list[Value] = []
            for size in reversed(self.sizes[: self.apart]):
                at.insert(0, f.binary("urem", number, i64(size)))
                number = f.binary("udiv", number, i64(size))
            self._loops(f, isa, pointers, at)

        f.loop(begin, end, 1, task)
        f.ret()

    def _loops(self, f: Function, isa: InstructionSet, pointers: list[Value], at: list[Value]) -> None:
        if len(at) == len(self.sizes):
            return self._write(f, isa, pointers, at)
        f.loop(0, self.sizes[len(at)], 1, lambda i, _: self._loops(f, isa, pointers, [*at, i]))
        return None

    def _write(self, f: Function, isa: InstructionSet, pointers: list[Value], at: list[Value]) -> None:
        accesses = [self.update, *(index.read for index in self.indices), self.write]
        elements = Elements(f, isa, accesses)
        *sources, out = (_moved(f, pointer, access, at) for pointer, access in zip(pointers, accesses, strict=True))
        inside = Value("i1", "true")
        for n, index in enumerate(self.indices):
            position = elements.index(n + 1, sources[n + 1], signed=index.signed)
            if index.limit >= 0:
                least = f.maximum(position, i64(0)) if index.signed else position
                position = f.call("i64", "llvm.umin.i64", least, i64(index.limit))
            if index.loop >= 0:
                position = f.binary("add", position, at[index.loop])
            inside = f.binary("and", inside, f.compare("ult", position, index.size))
            out = f.at(out, f.mul(position, index.stride))

        def write() -> None:
            value = elements.loaded(0, sources[0])
            if self.region is not None:
                (value,) = self.region.computed(f, [elements.loaded(len(accesses) - 1, out), value])
            elements.store(value, self.write, 0, out)

        f.branch(inside, write)


def _moved(f: Function, pointer: Value, access: Access, at: list[Value]) -> Value:
    for loop, index in enumerate(at):
        pointer = access.moved(f, pointer, loop, index)
    return pointer
