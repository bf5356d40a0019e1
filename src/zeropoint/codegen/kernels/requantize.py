"""The epilogue of a kernel: requantize accumulators to 8 or 16 bits, as in `zeropoint.numerics.requantize`.

Accumulators come in groups of up to four vectors of V elements, element 4 l + i of vector q being channel 4 n l + 4 q
+ i of the group of n vectors (`channel_order`). Packing i16 and bytes lane by lane then puts the channels in order,
and no data is permuted while the kernel runs. Weights and parameters are laid out so when they are packed.

Parameters of a group, each a vector of the instruction set:

| behaviour | |
|---|---|
| fixed16 | right shifts (i32) x n, left ones x n if `left`, M (i16) x ceil(n/2), zp (i16) if `offset`, bounds x 2 |
| fixed32 with `lifted` | multipliers (i32) x n, rounding terms (i32) x n, shifts (i32) x n, zp (i32), bounds x 2 |
| float32-rne | m (f32) x n, zp (i32), bounds x 2 |
| others | multipliers (i32) x n, shifts (i32) x n, zp (i32), bounds x 2 |

Bounds exist if `clamped`; they are as wide as the results. 16-bit results are signed on every instruction set. The
biases, with fixed16's rounding terms, are where the accumulators start.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from zeropoint.codegen.kernels.rounding import requantized
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value, constant, lanes, vector
from zeropoint.numerics import Multiplier, Requantization, RequantizeBehaviour
from zeropoint.numerics.arrays import AnyArray, IntArray
from zeropoint.numerics.rounding import INT32_MAX
from zeropoint.numerics.storage import signed_range

GROUP = 4
"""Vectors of accumulators that become one vector of bytes."""


@functools.cache
def channel_order(count: int, width: int) -> IntArray:
    """(count, width): the channel, inside its group, of every element of `count` vectors of accumulators."""
    q, e = np.meshgrid(np.arange(count), np.arange(width), indexing="ij")
    return _constant(4 * count * (e // 4) + 4 * q + e % 4)


@functools.cache
def short_order(count: int, width: int) -> IntArray:
    """(ceil(count / 2), 2 * width): the channel of every i16, after two vectors of accumulators are packed to one.

    A lone last vector is packed with itself.
    """
    order = channel_order(count, width)
    rows: list[IntArray] = []
    for q in range(0, count, 2):
        # VPACKSSDW packs two vectors; the second of a lone one is itself, and its elements are dropped.
        low, high = order[q], order[min(q + 1, count - 1)]
        rows.append(np.stack([low.reshape(-1, 4), high.reshape(-1, 4)], axis=1).reshape(-1))
    return _constant(np.stack(rows))


def side_by_side(*parts: AnyArray) -> AnyArray:
    """The bytes of each group's part of every array (groups, ...), one after the other: u8 (groups, bytes of one)."""
    rows = [np.ascontiguousarray(part).reshape(len(part), -1).view(np.uint8) for part in parts]
    return np.concatenate(rows, axis=1)


def of_channels(numbers: AnyArray, channels: IntArray, dtype: DTypeLike, padding: float = 0) -> AnyArray:
    """The numbers (..., channels) of some channels, of which -1 is padding and gets the number `padding`."""
    return np.where(channels < 0, padding, numbers[..., channels]).astype(dtype)


def _constant(array: IntArray) -> IntArray:
    """The array, made read-only because callers share it."""
    array.flags.writeable = False
    return array


@dataclass(frozen=True)
class Epilogue:
    """The epilogue of a kernel. Steps that are known to have no effect are left out."""

    behaviour: RequantizeBehaviour
    left: bool = False
    """Some channel of fixed16 shifts left."""
    saturated: bool = False
    """Accumulators may exceed the limit of a left shift, so they saturate first."""
    clamped: bool = False
    """The bounds are narrower than the 8-bit range."""
    offset: bool = True
    """The zero point with the instruction set's offset is not 0; after a ReLU it is 0."""
    lifted: int | None = None
    """The left shift of accumulators after which the high half of fixed32's products is enough, if there is one."""
    itemsize: int = 1
    """Bytes of a result: 1 or 2."""

    @staticmethod
    def of(output: Requantization, reach: IntArray, isa: InstructionSet, bits: int = 8) -> Epilogue:
        """The epilogue for results of 8 or 16 bits and |acc| <= `reach` (per channel). `exact` (f64) has none."""
        multiplier, size = output.multiplier, bits // 8
        behaviour = multiplier.behaviour
        assert behaviour is not RequantizeBehaviour.EXACT
        clamped = (output.storage_min, output.storage_max) != signed_range(bits)
        if behaviour is RequantizeBehaviour.FIXED32:
            return Epilogue(behaviour, clamped=clamped, lifted=_lift(multiplier, reach), itemsize=size)
        if behaviour is not RequantizeBehaviour.FIXED16 or multiplier.shift is None:
            return Epilogue(behaviour, clamped=clamped, itemsize=size)
        left = bool((multiplier.shift < 0).any())
        limit = INT32_MAX >> np.maximum(-multiplier.shift, 0)
        saturated = left and bool((reach > limit).any())
        return Epilogue(behaviour, left, saturated, clamped, output.zero_point + isa.offset != 0)

    def has_room(self, multiplier: Multiplier, reach: IntArray) -> bool:
        """Whether i32 can hold accumulators of magnitude up to `reach` plus the rounding term in the biases."""
        return bool((reach + self.rounding(multiplier) <= INT32_MAX).all())

    def rounding(self, multiplier: Multiplier) -> IntArray:
        """The rounding term that is added to the biases ahead of time: 2^(s-1) for fixed16, else 0."""
        if self.behaviour is not RequantizeBehaviour.FIXED16 or multiplier.shift is None:
            return np.zeros(multiplier.multiplier.shape, np.int64)
        # acc + 2^(s-1) costs nothing here: the bias is where accumulators start.
        return np.where(multiplier.shift > 0, np.int64(1) << np.maximum(multiplier.shift - 1, 0), 0)

    def parameters(self, isa: InstructionSet, output: Requantization, channels: IntArray, count: int) -> AnyArray:
        """The parameters of groups of `count` vectors, u8 (groups, bytes of one).

        `channels` (groups, channels of one) are in order; -1 is padding.
        """
        multiplier, groups = output.multiplier, len(channels)
        m = of_channels(multiplier.multiplier, channels, multiplier.multiplier.dtype)
        # Padding gets a shift that every behaviour allows.
        shift = None if multiplier.shift is None else of_channels(multiplier.shift, channels, np.int64, 2)
        order = channel_order(count, isa.width)
        # Bytes are stored with 128 added where the dot product takes unsigned ones; i16 never are.
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
        else:
            parts.append(m[:, order].astype(np.int32 if shift is not None else np.float32))
            if shift is not None and self.lifted is not None:
                # A channel that shifts by 64 or more is always 0, and so it is with 63: 31 of the high half.
                shift = np.where(channels < 0, 1, np.minimum(shift + (self.lifted - 32), 31))
                parts.append((np.int64(1) << (shift - 1))[:, order].astype(np.int32))
            if shift is not None:
                parts.append(shift[:, order].astype(np.int32))
            parts.append(np.full((groups, isa.width), zero, np.int32))
        if self.clamped:
            bounds = np.array([output.storage_min, output.storage_max]) + offset
            # Bounds are compared with the stored bytes, after the offset is added.
            narrow = np.uint8 if isa.unsigned else np.int8
            row = np.repeat(bounds, isa.bytes // self.itemsize).astype(np.int16 if self.itemsize == 2 else narrow)
            parts.append(np.broadcast_to(row, (groups, len(row))))
        return side_by_side(*parts)

    def size(self, isa: InstructionSet, count: int) -> int:
        """The number of bytes of `parameters`."""
        if self.behaviour is RequantizeBehaviour.FIXED16:
            vectors = count * (1 + self.left) + (count + 1) // 2 + self.offset
        elif self.behaviour is RequantizeBehaviour.FLOAT32_RNE:
            vectors = count + 1
        else:
            vectors = (2 + (self.lifted is not None)) * count + 1
        return (vectors + 2 * self.clamped) * isa.bytes

    def emit(self, f: Function, isa: InstructionSet, sums: Sequence[Value], parameters: Value) -> Value:
        """Requantize up to four vectors of accumulators to one vector: V results for each of them, in channel order."""
        reader = _Reader(f, isa, parameters)
        if self.behaviour is RequantizeBehaviour.FIXED16:
            shorts = self._fixed16(f, isa, sums, reader)
        elif self.behaviour is RequantizeBehaviour.FIXED32:
            scaled = _fixed32(f, isa, sums, reader) if self.lifted is None else self._lifted(f, isa, sums, reader)
            shorts = _packed_shorts(f, isa, scaled)
        else:
            shorts = _packed_shorts(f, isa, self._others(f, isa, sums, reader))
        if self.itemsize == 2:
            return self._in_order(f, isa, shorts, len(sums), reader)
        # Packing saturates to 8 bits, which is the clamp to the full range.
        packed = isa.narrow(f, shorts[0], shorts[-1])
        if self.clamped:
            packed = isa.bounded(f, packed, reader.take(isa.i8), reader.take(isa.i8))
        return _compressed(f, isa, packed, len(sums))

    def _others(self, f: Function, isa: InstructionSet, sums: Sequence[Value], reader: _Reader) -> list[Value]:
        """The behaviours that need no fast code; the packing that follows saturates."""
        floats = self.behaviour is RequantizeBehaviour.FLOAT32_RNE
        multipliers = [reader.take(vector(isa.width, "float") if floats else isa.i32) for _ in sums]
        shifts = [None if floats else reader.take(isa.i32) for _ in sums]
        zero = reader.take(isa.i32)
        parts = zip(sums, multipliers, shifts, strict=True)
        return [requantized(f, self.behaviour, acc, m, shift, zero) for acc, m, shift in parts]

    def _lifted(self, f: Function, isa: InstructionSet, sums: Sequence[Value], reader: _Reader) -> list[Value]:
        """((acc << L) M + 2^(N-1)) >> N with N >= 33: the rounding term only adds to the high half of the product."""
        assert self.lifted is not None
        factors, terms, shifts = ([reader.take(isa.i32) for _ in sums] for _ in range(3))
        zero, wide = reader.take(isa.i32), vector(isa.width, "i64")
        results: list[Value] = []
        for acc, factor, term, shift in zip(sums, factors, terms, shifts, strict=True):
            # `_lift` has shown that no accumulator overflows.
            acc = f.binary("shl", acc, self.lifted) if self.lifted else acc
            product = f.binary("mul", f.cast("sext", acc, wide), f.cast("sext", factor, wide))
            # The low half of the product cannot reach the rounding bit when N is at least 33.
            high = f.cast("trunc", f.binary("lshr", product, 32), isa.i32)
            results.append(f.add(f.binary("ashr", f.add(high, term), shift), zero))
        return results

    def _in_order(
        self, f: Function, isa: InstructionSet, packed: Sequence[Value], count: int, reader: _Reader
    ) -> Value:
        """Clamp packed i16 of `count` vectors, and put those of every lane side by side, in channel order."""
        if self.clamped:
            low, high = reader.take(isa.i16), reader.take(isa.i16)
            packed = [f.intrinsic("smax", short, low) for short in packed]
            packed = [f.intrinsic("smin", short, high) for short in packed]
        each = 2 * isa.width
        order = [
            q // 2 * each + 8 * lane + 4 * (q % 2) + n
            for lane in range(isa.lanes)
            for q in range(count)
            for n in range(4)
        ]
        return f.shuffle(packed[0], packed[-1], order)

    def _fixed16(self, f: Function, isa: InstructionSet, sums: Sequence[Value], reader: _Reader) -> list[Value]:
        right = [reader.take(isa.i32) for _ in sums]
        if self.left:
            if self.saturated:
                # Applies only if the right shift is 0; otherwise the left shift is 0, and the sum is unchanged.
                sums = [
                    f.select(f.compare("eq", shift, 0), f.clamp(acc, -(1 << 15), (1 << 15) - 1), acc)
                    for acc, shift in zip(sums, right, strict=True)
                ]
            sums = [f.binary("shl", acc, reader.take(isa.i32)) for acc in sums]
        shifted = [f.binary("ashr", acc, shift) for acc, shift in zip(sums, right, strict=True)]
        shorts = _packed_shorts(f, isa, shifted)
        scaled = [isa.scaled(f, short, reader.take(isa.i16)) for short in shorts]
        # (p + 64 zp + 32) >> 6 = ((p + 32) >> 6) + zp, and (p + 32) >> 6 = (p * 2^9 + 2^14) >> 15: the multiply again.
        rounded = [isa.scaled(f, short, constant(isa.i16, 1 << 9)) for short in scaled]
        if not self.offset:
            return rounded
        offset = reader.take(isa.i16)
        return [f.add(short, offset) for short in rounded]


class _Reader:
    """Reads parameters one vector after the other."""

    def __init__(self, f: Function, isa: InstructionSet, pointer: Value):
        self._f, self._isa, self._pointer, self._offset = f, isa, pointer, 0

    def take(self, type_: str) -> Value:
        value = self._f.load(type_, self._pointer, self._offset, align=self._isa.bytes)
        self._offset += self._isa.bytes
        return value


def _packed_shorts(f: Function, isa: InstructionSet, vectors: Sequence[Value]) -> list[Value]:
    last = len(vectors) - 1
    return [isa.shorts(f, vectors[q], vectors[min(q + 1, last)]) for q in range(0, len(vectors), 2)]


def _compressed(f: Function, isa: InstructionSet, packed: Value, count: int) -> Value:
    """The first `count` groups of four bytes of every lane, concatenated."""
    if count == GROUP:
        return packed
    order = [4 * lane + q for lane in range(isa.lanes) for q in range(count)]
    # Packing leaves a lane's groups of four bytes beside copies of the last vector's.
    words = f.shuffle(f.bits(packed, isa.i32), None, order + [-1] * (isa.width - len(order)))
    return f.bits(words, isa.i8)


def _fixed32(f: Function, isa: InstructionSet, sums: Sequence[Value], reader: _Reader) -> list[Value]:
    """((acc * M0 + 2^(N-1)) >> N in i64, clamped to +-2^20) plus the zero point. Packing then saturates it to i16.

    N < 0 shifts the product left; it is then past every bound, or small enough to be shifted (`_fixed32_parts`).
    """
    factors, shifts = [reader.take(isa.i32) for _ in sums], [reader.take(isa.i32) for _ in sums]
    zero = reader.take(isa.i32)
    wide = vector(isa.width, "i64")
    results: list[Value] = []
    for acc, factor, shift in zip(sums, factors, shifts, strict=True):
        product = f.binary("mul", f.cast("sext", acc, wide), f.cast("sext", factor, wide))
        n = f.cast("sext", shift, wide)
        right = f.intrinsic("smax", n, 0)
        # max(n, 0) - n is -n for a left shift and 0 otherwise: no branch for each element.
        left = f.binary("sub", right, n)
        # 2^right / 2, which is 0 for no shift, where 1 << (right - 1) would be poison.
        rounding = f.binary("lshr", f.binary("shl", constant(wide, 1), right), 1)
        scaled = f.binary("ashr", f.add(f.binary("shl", product, left), rounding), right)
        results.append(f.add(f.cast("trunc", f.clamp(scaled, -(1 << 20), 1 << 20), isa.i32), zero))
    return results


def _lift(multiplier: Multiplier, reach: IntArray) -> int | None:
    """The least left shift of accumulators with which all shifts are at least 33; None if it may overflow i32."""
    assert multiplier.shift is not None
    lift = max(0, 33 - int(multiplier.shift.min(initial=33)))
    return lift if lift < 31 and int(np.max(reach, initial=0)) << lift <= INT32_MAX else None


def channels_stored(count: int, isa: InstructionSet) -> int:
    """The number of elements of `emit`'s result that are channels."""
    return count * lanes(isa.i32)
