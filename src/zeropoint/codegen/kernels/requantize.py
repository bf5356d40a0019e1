"""The epilogue of a kernel: requantize accumulators to 8 or 16 bits, as in `zeropoint.numerics.requantize`.

Accumulators come in groups of n <= 4 vectors. Element 4 l + i of vector q is channel 4 n l + 4 q + i of the group
(`channel_order`). Packing to i16 and then to bytes, lane by lane, then puts the channels in order, so that the kernel
permutes no data. Weights and parameters are packed in this order.

Parameters of a group, each a vector of the instruction set:

| behaviour | |
|---|---|
| fixed16 | right shifts (i32) x n, left ones x n if `left`, M (i16) x ceil(n/2), zp (i16) if `offset`, bounds x 2 |
| fixed32 with `lifted` | multipliers (i32) x n, rounding terms (i32) x n, shifts (i32) x n, zp (i32), bounds x 2 |
| fixed32-double with `double` | those of `Lifted` (i32), bounds x 2 |
| float32-rne | m (f32) x n, zp (i32; less `MAGIC_BITS` if `near`), bounds x 2 |
| float64-away | m (f64, two vectors each) x n, zp (i32), bounds x 2 |
| others | multipliers (i32) x n, shifts (i32) x n, zp (i32), bounds x 2 |

Bounds exist if `clamped`, and have the type of the results. 16-bit results are signed on every instruction set.
Accumulators start at the biases plus fixed16's rounding terms.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from zeropoint.codegen.kernels import double_rounding
from zeropoint.codegen.kernels.double_rounding import Lifted
from zeropoint.codegen.kernels.high_products import upper_half
from zeropoint.codegen.kernels.quantize import MAGIC, MAGIC_BITS, NEAR
from zeropoint.codegen.kernels.rounding import requantized
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import WIDTHS, Value, bytes_of, constant, lanes, vector
from zeropoint.numerics import Multiplier, Requantization, RequantizeBehaviour
from zeropoint.numerics.arrays import AnyArray, IntArray
from zeropoint.numerics.rounding import INT32_MAX
from zeropoint.numerics.storage import signed_range

_FLOATS = {RequantizeBehaviour.FLOAT32_RNE: "float", RequantizeBehaviour.FLOAT64_AWAY: "double"}
"""The types of multipliers that are floats."""
GROUP = 4
"""The number of vectors of accumulators that become one vector of bytes."""


@functools.cache
def channel_order(count: int, width: int) -> IntArray:
    """The channel within the group of each element of `count` vectors of accumulators; shape (count, width)."""
    q, e = np.meshgrid(np.arange(count), np.arange(width), indexing="ij")
    return _constant(4 * count * (e // 4) + 4 * q + e % 4)


@functools.cache
def short_order(count: int, width: int) -> IntArray:
    """The channel of each i16 after pairs of vectors of accumulators are packed; shape (ceil(count / 2), 2 * width).

    An unpaired last vector is packed with itself.
    """
    order = channel_order(count, width)
    rows: list[IntArray] = []
    for q in range(0, count, 2):
        # VPACKSSDW packs two vectors. An unpaired one is packed with itself, and the copies are dropped later.
        low, high = order[q], order[min(q + 1, count - 1)]
        rows.append(np.stack([low.reshape(-1, 4), high.reshape(-1, 4)], axis=1).reshape(-1))
    return _constant(np.stack(rows))


def side_by_side(*parts: AnyArray) -> AnyArray:
    """Concatenate the bytes of arrays (groups, ...) per group; u8 of shape (groups, bytes per group)."""
    sizes = [math.prod(part.shape[1:]) * part.itemsize for part in parts]
    found, start = np.empty((len(parts[0]), sum(sizes)), np.uint8), 0
    for part, size in zip(parts, sizes, strict=True):
        # Written in place: weights are copied once, whatever their order in memory.
        found[:, start : start + size].view(part.dtype).reshape(part.shape)[...] = part
        start += size
    return found


def of_channels(numbers: AnyArray, channels: IntArray, dtype: DTypeLike, padding: float = 0) -> AnyArray:
    """The numbers of the given channels, along the last axis of `numbers`. Channel -1 gets `padding`."""
    if channels.size == numbers.shape[-1] and np.array_equal(channels.reshape(-1), np.arange(channels.size)):
        return numbers.reshape(*numbers.shape[:-1], *channels.shape).astype(dtype, copy=False)
    found = numbers[..., channels]
    return (np.where(channels < 0, padding, found) if channels.min(initial=0) < 0 else found).astype(dtype, copy=False)


def _constant(array: IntArray) -> IntArray:
    """The array, made read-only because callers share it."""
    array.flags.writeable = False
    return array


@dataclass(frozen=True)
class Epilogue:
    """The epilogue of a kernel. Steps known to have no effect are omitted."""

    behaviour: RequantizeBehaviour
    left: bool = False
    """fixed16, fixed32-double without `double`: whether any channel shifts left."""
    saturated: bool = False
    """fixed16: whether accumulators may overflow in the left shift, so that they saturate first."""
    clamped: bool = False
    """Whether the bounds are narrower than the range of the result type."""
    offset: bool = True
    """fixed16: whether the zero point plus the instruction set's offset is not 0. After a ReLU the sum is often 0."""
    lifted: int | None = None
    """fixed32: the left shift of accumulators after which the high half of products suffices, if there is one."""
    double: Lifted | None = None
    """fixed32-double: the form of accumulators with room for a left shift. AArch64 needs none."""
    near: bool = False
    """float32-rne: whether all products are within 2^22. A sum with 1.5 * 2^23 then rounds them."""
    itemsize: int = 1
    """The number of bytes of a result: 1 or 2."""

    @staticmethod
    def of(output: Requantization, reach: IntArray, isa: InstructionSet, bits: int = 8) -> Epilogue:
        """The epilogue for results of 8 or 16 bits and |acc| <= `reach` (per channel). `exact` has no epilogue."""
        multiplier, size = output.multiplier, bits // 8
        behaviour = multiplier.behaviour
        assert behaviour is not RequantizeBehaviour.EXACT
        clamped = (output.storage_min, output.storage_max) != signed_range(bits)
        if behaviour is RequantizeBehaviour.FIXED32:
            return Epilogue(behaviour, clamped=clamped, lifted=_lift(_widest(multiplier)[1], reach), itemsize=size)
        if behaviour is RequantizeBehaviour.FIXED32_DOUBLE:
            zero = output.zero_point + (isa.offset if size == 1 else 0)
            double = None if double_rounding.has_instructions(isa) else Lifted.of(output, reach, zero)
            left = double is None and double_rounding.shifts_left(multiplier)
            return Epilogue(behaviour, left, clamped=clamped, double=double, itemsize=size)
        if behaviour is RequantizeBehaviour.FLOAT32_RNE:
            # The accumulator and the product are each rounded to f32: by less than this factor.
            products = reach * np.abs(multiplier.multiplier.astype(np.float64)) * (1 + 2.0**-20)
            return Epilogue(behaviour, clamped=clamped, near=bool((products <= NEAR).all()), itemsize=size)
        if behaviour is not RequantizeBehaviour.FIXED16 or multiplier.shift is None:
            return Epilogue(behaviour, clamped=clamped, itemsize=size)
        left = bool((multiplier.shift < 0).any())
        limit = INT32_MAX >> np.maximum(-multiplier.shift, 0)
        saturated = left and bool((reach > limit).any())
        return Epilogue(behaviour, left, saturated, clamped, output.zero_point + isa.offset != 0)

    def has_room(self, output: Requantization, reach: IntArray) -> bool:
        """Whether i32 can hold accumulators of magnitude up to `reach` plus the rounding term in the biases."""
        return bool((reach + self.rounding(output) <= INT32_MAX).all())

    def rounding(self, output: Requantization) -> IntArray:
        """The rounding term that is added to the biases: 2^(s-1) for fixed16, otherwise 0."""
        multiplier = output.multiplier
        if self.behaviour is not RequantizeBehaviour.FIXED16 or multiplier.shift is None:
            return np.zeros(multiplier.multiplier.shape, np.int64)
        # As part of the bias, at which accumulators start, the term costs no instruction.
        return np.where(multiplier.shift > 0, np.int64(1) << np.maximum(multiplier.shift - 1, 0), 0)

    def parameters(self, isa: InstructionSet, output: Requantization, channels: IntArray, count: int) -> AnyArray:
        """The parameters of groups of `count` vectors, u8 of shape (groups, bytes per group).

        `channels`, of shape (groups, channels per group), are in order; -1 is padding.
        """
        multiplier, groups = output.multiplier, len(channels)
        factors, shifts = (multiplier.multiplier, multiplier.shift) if self.lifted is None else _widest(multiplier)
        m = of_channels(factors, channels, factors.dtype)
        # 2 is a shift that every behaviour allows.
        shift = None if shifts is None else of_channels(shifts, channels, np.int64, 2)
        order = channel_order(count, isa.width)
        # For unsigned dot products, bytes are stored plus 128; i16 have no such offset.
        offset = 0 if self.itemsize == 2 else isa.offset
        zero = output.zero_point + offset
        parts: list[AnyArray] = []
        if self.behaviour is RequantizeBehaviour.FIXED16 and shift is not None:
            parts.append(np.maximum(shift, 0)[:, order].astype(np.int32))
            if self.left:
                parts.append(np.maximum(-shift, 0)[:, order].astype(np.int32))
            parts.append(m[:, short_order(count, isa.width)].astype(np.int16))
            if self.offset:
                parts.append(np.full((groups, 2 * isa.width), zero, np.int16))
        elif self.double is not None and shift is not None:
            of = self.double.parts(m, np.where(channels < 0, 0, shift), zero)
            parts += [part[:, order].astype(np.int32) for part in of]
            parts += [np.full((groups, isa.width), zero, np.int32)] * self.double.apart
        else:
            parts.append(m[:, order].astype(np.int32 if shift is not None else multiplier.multiplier.dtype))
            if shift is not None and self.lifted is not None:
                # Shifts of 63 and more all give 0. 63 is a shift of the high half by 31.
                shift = np.where(channels < 0, 1, np.minimum(shift + (self.lifted - 32), 31))
                parts.append((np.int64(1) << (shift - 1))[:, order].astype(np.int32))
            if shift is not None:
                parts.append(shift[:, order].astype(np.int32))
            parts.append(np.full((groups, isa.width), zero - MAGIC_BITS * self.near, np.int32))
        if self.clamped:
            parts.append(bounds_of(isa, (output.storage_min, output.storage_max), groups, self.itemsize))
        return side_by_side(*parts)

    def size(self, isa: InstructionSet, count: int) -> int:
        """The number of bytes of `parameters`."""
        if self.behaviour is RequantizeBehaviour.FIXED16:
            vectors = count * (1 + self.left) + (count + 1) // 2 + self.offset
        elif self.double is not None:
            vectors = self.double.vectors(count)
        elif self.behaviour in _FLOATS:
            vectors = count * (WIDTHS[_FLOATS[self.behaviour]] // 32) + 1
        else:
            vectors = (2 + (self.lifted is not None)) * count + 1
        return (vectors + 2 * self.clamped) * isa.bytes

    def emit(self, f: Function, isa: InstructionSet, sums: Sequence[Value], parameters: Value) -> Value:
        """Requantize up to four vectors of accumulators to one vector, in channel order."""
        reader = ParameterReader(f, isa, parameters)
        shorts = self._shorts(f, isa, sums, reader)
        if self.itemsize == 2:
            return _in_order(f, isa, self._clamped(f, isa, shorts, reader), len(sums))
        return packed_bytes(f, isa, shorts, len(sums), reader if self.clamped else None)

    def emit_words(self, f: Function, isa: InstructionSet, sums: Sequence[Value], parameters: Value) -> list[Value]:
        """Results of 16 bits, as `packed_shorts` packs them."""
        reader = ParameterReader(f, isa, parameters)
        return self._clamped(f, isa, self._shorts(f, isa, sums, reader), reader)

    def _shorts(self, f: Function, isa: InstructionSet, sums: Sequence[Value], reader: ParameterReader) -> list[Value]:
        """Results before the clamp, packed to i16."""
        if self.behaviour is RequantizeBehaviour.FIXED16:
            return self._fixed16(f, isa, sums, reader)
        if self.behaviour is RequantizeBehaviour.FIXED32:
            scaled = _fixed32(f, isa, sums, reader) if self.lifted is None else self._lifted(f, isa, sums, reader)
            return packed_shorts(f, isa, scaled)
        if self.behaviour is RequantizeBehaviour.FIXED32_DOUBLE:
            return packed_shorts(f, isa, self._doubled(f, isa, sums, reader))
        return packed_shorts(f, isa, self._others(f, isa, sums, reader))

    def _others(self, f: Function, isa: InstructionSet, sums: Sequence[Value], reader: ParameterReader) -> list[Value]:
        """The behaviours without a fast form. The packing that follows saturates."""
        kind = _FLOATS.get(self.behaviour)
        multipliers = [reader.take(vector(isa.width, kind) if kind else isa.i32) for _ in sums]
        shifts = [None if kind else reader.take(isa.i32) for _ in sums]
        zero = reader.take(isa.i32)
        if self.near:
            return [_near(f, acc, m, zero) for acc, m in zip(sums, multipliers, strict=True)]
        parts = zip(sums, multipliers, shifts, strict=True)
        return [requantized(f, self.behaviour, acc, m, shift, zero) for acc, m, shift in parts]

    def _lifted(self, f: Function, isa: InstructionSet, sums: Sequence[Value], reader: ParameterReader) -> list[Value]:
        """((acc << L) M + 2^(N-1)) >> N with N >= 33, where only the high half of the product matters."""
        assert self.lifted is not None
        factors, terms, shifts = ([reader.take(isa.i32) for _ in sums] for _ in range(3))
        zero, results = reader.take(isa.i32), list[Value]()
        for acc, factor, term, shift in zip(sums, factors, terms, shifts, strict=True):
            # `_lift` has shown that no accumulator overflows.
            acc = f.binary("shl", acc, self.lifted) if self.lifted else acc
            # With N >= 33, the rounding term is a multiple of 2^32, so the low half does not affect the result.
            high = upper_half(f, isa, acc, factor)
            results.append(f.add(f.binary("ashr", f.add(high, term), shift), zero))
        return results

    def _doubled(self, f: Function, isa: InstructionSet, sums: Sequence[Value], reader: ParameterReader) -> list[Value]:
        """fixed32-double, with lifted accumulators or by instructions, if either is possible."""
        if self.double is not None:
            return self.double.emit(f, isa, sums, reader.take)
        if not double_rounding.has_instructions(isa):
            return self._others(f, isa, sums, reader)
        parts = zip(sums, *([reader.take(isa.i32) for _ in sums] for _ in range(2)), strict=True)
        found = [double_rounding.by_instructions(f, isa, *each, left=self.left) for each in parts]
        zero = reader.take(isa.i32)
        return [f.intrinsic("sadd.sat", each, zero) for each in found]

    def _clamped(
        self, f: Function, isa: InstructionSet, packed: Sequence[Value], reader: ParameterReader
    ) -> list[Value]:
        """Packed i16 between the bounds."""
        if not self.clamped:
            return list(packed)
        low, high = reader.take(isa.i16), reader.take(isa.i16)
        packed = [f.intrinsic("smax", short, low) for short in packed]
        return [f.intrinsic("smin", short, high) for short in packed]

    def _fixed16(self, f: Function, isa: InstructionSet, sums: Sequence[Value], reader: ParameterReader) -> list[Value]:
        right = [reader.take(isa.i32) for _ in sums]
        if self.left:
            if self.saturated:
                # Channels with a right shift have no left shift, so their sums are not saturated.
                sums = [
                    f.select(f.compare("eq", shift, 0), f.clamp(acc, -(1 << 15), (1 << 15) - 1), acc)
                    for acc, shift in zip(sums, right, strict=True)
                ]
            sums = [f.binary("shl", acc, reader.take(isa.i32)) for acc in sums]
        shifted = [f.binary("ashr", acc, shift) for acc, shift in zip(sums, right, strict=True)]
        shorts = packed_shorts(f, isa, shifted)
        scaled = [isa.scaled(f, short, reader.take(isa.i16)) for short in shorts]
        # (p + 64 zp + 32) >> 6 = ((p + 32) >> 6) + zp, and (p + 32) >> 6 = (p * 2^9 + 2^14) >> 15 is the same multiply.
        rounded = [isa.scaled(f, short, constant(isa.i16, 1 << 9)) for short in scaled]
        if not self.offset:
            return rounded
        offset = reader.take(isa.i16)
        return [f.add(short, offset) for short in rounded]


def _in_order(f: Function, isa: InstructionSet, packed: Sequence[Value], count: int) -> Value:
    """Packed i16 of `count` vectors, those of each lane concatenated in channel order."""
    each = 2 * isa.width
    order = [
        q // 2 * each + 8 * lane + 4 * (q % 2) + n for lane in range(isa.lanes) for q in range(count) for n in range(4)
    ]
    return f.shuffle(packed[0], packed[-1], order)


class ParameterReader:
    """Reads parameters vector by vector."""

    def __init__(self, f: Function, isa: InstructionSet, pointer: Value):
        self._f, self._isa, self._pointer, self._offset = f, isa, pointer, 0

    def take(self, type_: str) -> Value:
        value = self._f.load(type_, self._pointer, self._offset, align=self._isa.bytes)
        self._offset += bytes_of(type_)
        return value


def _near(f: Function, acc: Value, multiplier: Value, zero: Value) -> Value:
    """float32-rne of products within 2^22. The sum has no fraction bits: its last bits are the integer."""
    product = f.binary("fmul", f.cast("sitofp", acc, multiplier.type), multiplier)
    return f.add(f.bits(f.binary("fadd", product, MAGIC), acc.type), zero)


def bounds_of(isa: InstructionSet, bounds: tuple[int, int], groups: int, itemsize: int = 1) -> AnyArray:
    """The bounds of stored results as vectors: those of bytes include the offset of the instruction set."""
    narrow = np.uint8 if isa.unsigned else np.int8
    numbers = np.array(bounds) + (0 if itemsize == 2 else isa.offset)
    row = np.repeat(numbers, isa.bytes // itemsize).astype(np.int16 if itemsize == 2 else narrow)
    return np.broadcast_to(row, (groups, len(row)))


def packed_shorts(f: Function, isa: InstructionSet, vectors: Sequence[Value]) -> list[Value]:
    """Pairs of vectors of i32 packed to i16, with saturation. An unpaired one is packed with itself."""
    last = len(vectors) - 1
    return [isa.shorts(f, vectors[q], vectors[min(q + 1, last)]) for q in range(0, len(vectors), 2)]


def packed_bytes(
    f: Function, isa: InstructionSet, shorts: Sequence[Value], count: int, bounds: ParameterReader | None
) -> Value:
    """`count` vectors of results, packed to i16 in one or two, as bytes of one vector in channel order.

    Packing saturates to 8 bits, which is the clamp to the full range. Otherwise `bounds` has the bounds.
    """
    packed = isa.narrow(f, shorts[0], shorts[-1])
    if bounds is not None:
        packed = isa.bounded(f, packed, bounds.take(isa.i8), bounds.take(isa.i8))
    if count == GROUP:
        return packed
    order = [4 * lane + q for lane in range(isa.lanes) for q in range(count)]
    # The rest of a lane are copies of the last vector's groups.
    words = f.shuffle(f.bits(packed, isa.i32), None, order + [-1] * (isa.width - len(order)))
    return f.bits(words, isa.i8)


def _fixed32(f: Function, isa: InstructionSet, sums: Sequence[Value], reader: ParameterReader) -> list[Value]:
    """((acc * M0 + 2^(N-1)) >> N in i64, clamped to +-2^20) plus the zero point. Packing then saturates to i16.

    N < 0 shifts the product left.
    """
    factors, shifts = [reader.take(isa.i32) for _ in sums], [reader.take(isa.i32) for _ in sums]
    zero = reader.take(isa.i32)
    wide = vector(isa.width, "i64")
    results: list[Value] = []
    for acc, factor, shift in zip(sums, factors, shifts, strict=True):
        product = f.binary("mul", f.cast("sext", acc, wide), f.cast("sext", factor, wide))
        n = f.cast("sext", shift, wide)
        right = f.intrinsic("smax", n, 0)
        # max(n, 0) - n is -n for a left shift and 0 otherwise. Shifting by both needs no branch.
        left = f.binary("sub", right, n)
        # 2^right / 2 is 0 if right is 0. Then 1 << (right - 1) would be poison.
        rounding = f.binary("lshr", f.binary("shl", constant(wide, 1), right), 1)
        scaled = f.binary("ashr", f.add(f.binary("shl", product, left), rounding), right)
        results.append(f.add(f.cast("trunc", f.clamp(scaled, -(1 << 20), 1 << 20), isa.i32), zero))
    return results


def _widest(multiplier: Multiplier) -> tuple[IntArray, IntArray]:
    """M and N of fixed32 with M as great as i32 holds: M 2^h and N + h give the same results as M and N."""
    assert multiplier.shift is not None
    room = 31 - np.frexp(multiplier.multiplier)[1].astype(np.int64)
    return multiplier.multiplier << room, multiplier.shift + room


def _lift(shift: IntArray, reach: IntArray) -> int | None:
    """The least left shift of accumulators that makes all right shifts at least 33; None if i32 may overflow."""
    lift = max(0, 33 - int(shift.min(initial=33)))
    return lift if lift < 31 and int(np.max(reach, initial=0)) << lift <= INT32_MAX else None


def channels_stored(count: int, isa: InstructionSet) -> int:
    """The number of elements of the result of `emit` that are channels."""
    return count * lanes(isa.i32)
