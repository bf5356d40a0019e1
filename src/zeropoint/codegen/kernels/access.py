"""Load, compute and store elements of operands and results with any strides.

An operand whose stride is its element size is loaded as a vector. One with stride 0 is a broadcast scalar. Any other is
loaded element by element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from zeropoint.codegen.kernels.elements import (
    Argument,
    Gather,
    Interpolate,
    LookUp,
    Number,
    Read,
    Scalar,
    Scalars,
    Total,
    What,
    apply,
)
from zeropoint.codegen.kernels.half_precision import stored, widened
from zeropoint.codegen.kernels.interleaved import every_other, interleaved, pair_product
from zeropoint.codegen.kernels.interpolation import interpolated
from zeropoint.codegen.kernels.pair_sums import pair_sum
from zeropoint.codegen.kernels.quantize import Dequantize, Quantize, dequantized, stored_by
from zeropoint.codegen.kernels.scalars import plus_product
from zeropoint.codegen.kernels.sum import summed
from zeropoint.codegen.kernels.table import indices_of, looked_up, parts_of
from zeropoint.codegen.kernels.word_scalars import (
    EveryOther,
    Interleaved,
    PairProduct,
    PairSum,
    Raised,
    Rebased,
    Saturated,
)
from zeropoint.codegen.kernels.words import raised, rebased, saturated
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import WIDTHS, Value, element, i64, lanes, splat, vector
from zeropoint.numerics import CommonScaleSum
from zeropoint.numerics.storage import half_range


@dataclass(frozen=True)
class Access:
    """The access to an operand or to the output: the LLVM type in memory, and the stride in bytes of every loop.

    `form` is "plain", "activation" (i8 plus the offset of the instruction set), "boolean" (i1 as a byte of 0 or 1),
    "half" or "bfloat" (f16 or bf16 in memory, f32 in registers).
    """

    type: str
    strides: tuple[int, ...]
    form: str = "plain"

    @property
    def size(self) -> int:
        """Size of an element in bytes."""
        return WIDTHS[self.type] // 8

    @property
    def register(self) -> str:
        """The element type in registers."""
        return _REGISTERS.get(self.form, self.type)

    def moved(self, f: Function, pointer: Value, loop: int, index: Value | int) -> Value:
        """The pointer in iteration `index` of a loop."""
        stride = self.strides[loop]
        if isinstance(index, int):
            return f.at(pointer, index * stride)
        return f.at(pointer, f.mul(index, stride)) if stride else pointer


_REGISTERS = {"boolean": "i1", "half": "float", "bfloat": "float"}


def merged(sizes: Sequence[int], accesses: Sequence[Access], loops: Sequence[int]) -> list[tuple[int, tuple[int, ...]]]:
    """Merge adjacent loops if the strides of all accesses allow it. Returns (size, strides) of each loop."""
    result: list[tuple[int, tuple[int, ...]]] = []
    for d in loops:
        size, strides = sizes[d], tuple(access.strides[d] for access in accesses)
        if result and result[-1][1] == tuple(size * stride for stride in strides):
            size *= result.pop()[0]
        result.append((size, strides))
    return result


def arranged(
    accesses: Sequence[Access], loops: Sequence[tuple[int, tuple[int, ...]]]
) -> tuple[tuple[int, ...], list[Access]]:
    """The sizes of the loops that `merged` returned, and the accesses with their strides."""
    moved = [replace(access, strides=tuple(strides[n] for _, strides in loops)) for n, access in enumerate(accesses)]
    return tuple(size for size, _ in loops), moved


def row_addresses(
    f: Function, index: Value, sizes: Sequence[int], strides: Sequence[Sequence[int]], pointers: Sequence[Value]
) -> list[Value]:
    """The address of row `index` for every pointer. `index` counts through the row loops of the given sizes."""
    addresses = list(pointers)
    for loop in range(len(sizes) - 1, -1, -1):
        at = index
        if loop:
            index, at = f.divided(at, sizes[loop])
        for n, steps in enumerate(strides):
            if steps[loop]:
                addresses[n] = f.at(addresses[n], f.mul(at, steps[loop]))
    return addresses


class Elements:
    """Emits the scalars for consecutive elements of a loop."""

    def __init__(self, f: Function, isa: InstructionSet, reads: Sequence[Access]):
        self.f, self.isa, self.reads = f, isa, reads
        self._tables: dict[tuple[int, int], list[Value]] = {}

    def keep_tables(self, body: Scalars, sources: list[Value]) -> None:
        """Load the tables of a body into registers, if the machine has a lookup instruction for vectors of i8."""
        for i in body:
            # A table that an i16 indexes has 65,536 entries and stays in memory.
            if isinstance(i.what, LookUp) and self.isa.look_up is not None and _of_bytes(i, body):
                for isa in (self.isa, self.isa.narrowest):
                    self._tables[i.what.operand, isa.bytes] = parts_of(self.f, isa, sources[i.what.operand])

    def evaluated(
        self,
        body: Scalars,
        count: int,
        along: int,
        sources: list[Value],
        total: Value | None = None,
        arguments: Sequence[Value] = (),
    ) -> Value:
        """The result of `body` for `count` consecutive elements along the loop `along`."""
        values: list[Value] = []
        for i in body:
            if isinstance(i.what, Total):
                assert total is not None
                values.append(total)
            elif isinstance(i.what, Argument):
                values.append(arguments[i.what.index])
            else:
                values.append(self.value(i, body, values, count, along, sources))
        return values[-1]

    def value(
        self,
        i: Scalar,
        body: Scalars,
        values: Sequence[Value] | Mapping[int, Value],
        count: int,
        along: int,
        sources: list[Value],
    ) -> Value:
        """One scalar, given the values of its arguments. Not for `Total` and `Reduce`."""
        what = i.what
        if isinstance(what, Read):
            return self._load(what.operand, count, along, sources)
        if isinstance(what, Number):
            return splat(vector(count, i.type), what.number)
        if isinstance(what, LookUp | Interpolate):
            return self._of_table(what, values[i.arguments[0]], sources)
        if isinstance(what, Gather):
            return self._gathered(what, count, along, sources)
        if i.name == "plus_product":
            return plus_product(self.f, self.isa, *(values[n] for n in i.arguments))
        if isinstance(what, Quantize) and len(i.arguments) == 1:
            return stored_by(self.f, self.isa, what, i.type, values[i.arguments[0]])
        if isinstance(what, Dequantize) and isinstance(body[i.arguments[0]].what, Read):
            return self._dequantized(i.type, what, body[i.arguments[0]], count, along, sources)
        return self._applied(i, count, [body[n] for n in i.arguments], [values[n] for n in i.arguments])

    def looked_up(self, i: Scalar, index: Value, tables: list[Value]) -> Value:
        """The entry of a table. Tables are the first operands."""
        assert isinstance(i.what, LookUp)
        return self._looked_up(index, i.what.operand, tables)

    def loaded(self, operand: int, pointer: Value) -> Value:
        """The element of an operand at `pointer`."""
        access = self.reads[operand]
        return self._register(self.f.load(vector(1, access.type), pointer), access)

    def _dequantized(
        self, type_: str, by: Dequantize, read: Scalar, count: int, along: int, sources: list[Value]
    ) -> Value:
        """Dequantize an element that is read. For 8-bit activations, the offset is subtracted by the zero point."""
        assert isinstance(read.what, Read)
        operand = read.what.operand
        access = self.reads[operand]
        value = self._loaded(sources[operand], access.strides[along], count, access)
        if access.form != "activation" or not self.isa.offset:
            return dequantized(self.f, by, type_, value, signed=read.signed)
        return dequantized(self.f, by, type_, value, signed=False, zero_point=by.zero_point + self.isa.offset)

    def _load(self, operand: int, count: int, along: int, sources: list[Value]) -> Value:
        access = self.reads[operand]
        return self._register(self._loaded(sources[operand], access.strides[along], count, access), access)

    def _loaded(self, pointer: Value, stride: int, count: int, access: Access) -> Value:
        """`count` elements as stored in memory, `stride` bytes apart."""
        f, type_ = self.f, vector(count, access.type)
        if stride == access.size or count == 1:
            value = f.load(type_, pointer)
        elif stride == 0:
            value = f.broadcast(f.load(access.type, pointer), count)
        else:
            value = f.joined(type_, (f.load(access.type, pointer, lane * stride) for lane in range(count)))
        return value

    def _gathered(self, gather: Gather, count: int, along: int, sources: list[Value]) -> Value:
        """Elements whose positions depend on integers read at run time, clamped to the operand."""
        f = self.f
        operand, access = gather.operand, self.reads[gather.operand]

        def lane_address(lane: int) -> Value:
            pointer = f.at(sources[operand], lane * access.strides[along])
            for index in gather.indices:
                of = self.reads[index.operand]
                read = f.load(of.type, sources[index.operand], lane * of.strides[along])
                wide = f.cast("sext" if index.signed else "zext", read, "i64")
                inside = f.minimum(f.maximum(wide, i64(0)), i64(index.most))
                pointer = f.at(pointer, f.mul(inside, index.stride))
            return pointer

        type_ = vector(count, access.type)
        if count == 1 or all(self.reads[index.operand].strides[along] == 0 for index in gather.indices):
            # All lanes have the same indices, so they are read like an ordinary operand that starts there.
            value = self._loaded(lane_address(0), access.strides[along], count, access)
        else:
            value = f.joined(type_, (f.load(access.type, lane_address(lane)) for lane in range(count)))
        return self._register(value, access)

    def _register(self, value: Value, access: Access) -> Value:
        f = self.f
        if access.form == "boolean":
            return f.compare("ne", value, 0)
        if access.form == "activation":
            return self._turned(value)
        return widened(f, value, access.form) if access.form in ("half", "bfloat") else value

    def _turned(self, value: Value) -> Value:
        """Convert storage integers (i8) to 8-bit activations, which have the offset of the instruction set, or back."""
        return self.f.binary("xor", value, -128) if self.isa.offset else value

    def _applied(self, i: Scalar, count: int, operands: list[Scalar], values: list[Value]) -> Value:
        """Apply a scalar to values; weighted sums of whole vectors of i8 use the instruction set's form."""
        if type(i.what) in _WORDS:
            return _WORDS[type(i.what)](self.f, self.isa, i.what, count, values)
        isa = self.isa.of_bytes(lanes(values[0].type)) if isinstance(i.what, CommonScaleSum) else None
        if isa is None or {i.type, *(operand.type for operand in operands)} != {"i8"}:
            return apply(self.f, i, operands, values)
        assert isinstance(i.what, CommonScaleSum)
        return self._turned(summed(self.f, isa, i.what, [self._turned(value) for value in values]))

    def _of_table(self, what: LookUp | Interpolate, value: Value, sources: list[Value]) -> Value:
        if isinstance(what, LookUp):
            return self._looked_up(value, what.operand, sources)
        return interpolated(self.f, self.isa, what, value, sources[what.operand])

    def _looked_up(self, value: Value, operand: int, sources: list[Value]) -> Value:
        """Entries of a table. The index is the stored i8 or i16 minus the minimum of its type."""
        f = self.f
        access = self.reads[operand]
        count = lanes(value.type)
        bits = WIDTHS[element(value.type)]
        biased = f.binary("xor", value, -half_range(bits))
        if (operand, count) in self._tables:
            isa = self.isa.of_bytes(count)
            assert isa is not None
            return looked_up(f, isa, self._tables[operand, count], biased)
        if bits == 16:
            indices = indices_of(f, biased)
        else:
            indices = [f.cast("zext", f.lane(biased, lane), "i64") for lane in range(count)]
        entries = (f.load(access.type, sources[operand], f.mul(index, access.size)) for index in indices)
        return self._register(f.joined(vector(count, access.type), entries), access)

    def store(self, value: Value, access: Access, along: int, pointer: Value) -> None:
        """Store the elements of a vector, which are consecutive along the loop `along`."""
        f, count = self.f, lanes(value.type)
        if access.form == "boolean":
            value = f.cast("zext", value, vector(count, "i8"))
        elif access.form == "activation":
            value = self._turned(value)
        elif access.form in ("half", "bfloat"):
            value = stored(f, value, access.form)
        stride = access.strides[along]
        if count == 1 or stride == access.size:
            return f.store(value, pointer)
        for lane in range(count):
            f.store(f.lane(value, lane), pointer, lane * stride)
        return None

    def index(self, operand: int, pointer: Value, *, signed: bool) -> Value:
        """The integer of an operand at `pointer`, as i64."""
        value = self.f.lane(self.loaded(operand, pointer), 0)
        return self.f.cast("sext" if signed else "zext", value, "i64")


def _of_bytes(look_up: Scalar, body: Scalars) -> bool:
    """Whether a table has i8 entries and an i8 index."""
    return look_up.type == "i8" and body[look_up.arguments[0]].type == "i8"


WordStep = Callable[[Function, InstructionSet, Any, int, list[Value]], Value]
"""The value of a scalar for a number of elements, from those of its arguments."""

_WORDS: dict[type[What], WordStep] = {
    EveryOther: lambda f, isa, by, count, values: every_other(f, values[0], by.first),
    Interleaved: lambda f, isa, by, count, values: interleaved(f, isa, count, *values),
    PairProduct: lambda f, isa, by, count, values: pair_product(f, isa, *values),
    PairSum: lambda f, isa, by, count, values: pair_sum(f, isa, by, values[0]),
    Raised: lambda f, isa, by, count, values: raised(f, isa, *values),
    Rebased: lambda f, isa, by, count, values: rebased(f, *values),
    Saturated: lambda f, isa, by, count, values: saturated(f, isa, values[0]),
}
