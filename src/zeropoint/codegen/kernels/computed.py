"""An epilogue that computes 8-bit results from accumulators by scalars, as a runtime does: in floats of any form.

Vectors and elements are in the order of `Epilogue`. Parameters of a group, each a vector of the instruction set: the
numbers of channels (i32 or f32), a vector of each for every vector of accumulators, then bounds x 2 if `clamped`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from zeropoint.codegen.kernels.access import Elements
from zeropoint.codegen.kernels.elements import Argument, Elementwise, Number, Requantize, Scalar, Scalars
from zeropoint.codegen.kernels.finite import Nearest, Within
from zeropoint.codegen.kernels.known_scalars import Magnitude, known_of, of_known
from zeropoint.codegen.kernels.quantize import NEAR
from zeropoint.codegen.kernels.requantize import (
    Epilogue,
    ParameterReader,
    bounds_of,
    channel_order,
    of_channels,
    packed_bytes,
    packed_shorts,
    side_by_side,
)
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value, lanes, vector
from zeropoint.numerics import Requantization
from zeropoint.numerics.arrays import AnyArray, IntArray
from zeropoint.numerics.rounding import INT32_MAX
from zeropoint.numerics.storage import signed_range


@dataclass(frozen=True, eq=False)
class ComputedOutput:
    """clamp(body + zero_point). `body` ends with an i32 and has arguments: the accumulator (i32), then `numbers` (one
    per channel, i32 or f32), then the value that is added, if any (i32)."""

    body: Scalars
    numbers: tuple[AnyArray, ...]
    zero_point: int
    storage_min: int
    storage_max: int

    @property
    def requantizes(self) -> bool:
        """Whether accumulators are requantized first."""
        return any(isinstance(i.what, Requantize) for i in self.body)

    def of_channels(self, channels: slice) -> ComputedOutput:
        """The same for some channels."""
        return replace(self, numbers=tuple(part[channels] for part in self.numbers))


@dataclass(frozen=True)
class ComputedEpilogue:
    """`body` ends with an i32, to which packing saturates. Its arguments are the accumulator, the numbers of channels,
    whose types are `kinds`, and the value that is added, if any."""

    body: Scalars
    kinds: tuple[str, ...]
    clamped: bool
    itemsize = 1

    @staticmethod
    def of(output: ComputedOutput, reach: IntArray, isa: InstructionSet) -> ComputedEpilogue:
        """The epilogue of |acc| <= `reach`."""
        sums = Magnitude(float(reach.max(initial=0)), 0)
        arguments = dict(enumerate([sums, *(Magnitude.of(array) for array in output.numbers), Magnitude(128.0, 0)]))
        body = _saturated(of_known(output.body, isa, arguments), isa, arguments, output)
        body, zero = _with_room(body, isa, arguments, output), output.zero_point + isa.offset
        last = len(body) - 1
        body = (*body, Scalar(Number(zero), "i32"), Scalar(Elementwise("add"), "i32", (last, last + 1)))
        kinds = tuple("float" if array.dtype.kind == "f" else "i32" for array in output.numbers)
        return ComputedEpilogue(body, kinds, (output.storage_min, output.storage_max) != signed_range(8))

    def parameters(self, isa: InstructionSet, output: ComputedOutput, channels: IntArray, count: int) -> AnyArray:
        """The parameters of groups of `count` vectors, u8 of shape (groups, bytes per group).

        `channels`, of shape (groups, channels per group), are in order; -1 is padding.
        """
        order = channel_order(count, isa.width)
        parts: list[AnyArray] = [np.empty((len(channels), 0), np.uint8)]
        parts += [of_channels(array, channels[:, order], array.dtype) for array in output.numbers]
        if self.clamped:
            parts.append(bounds_of(isa, (output.storage_min, output.storage_max), len(channels)))
        return side_by_side(*parts)

    def size(self, isa: InstructionSet, count: int) -> int:
        """The number of bytes of `parameters`."""
        return (len(self.kinds) * count + 2 * self.clamped) * isa.bytes

    def emit(
        self, f: Function, isa: InstructionSet, sums: Sequence[Value], parameters: Value, other: Value | None = None
    ) -> Value:
        """Convert up to four vectors of accumulators to one vector, in channel order, as `other` is."""
        reader, count = ParameterReader(f, isa, parameters), len(sums)
        numbers = [[reader.take(vector(isa.width, kind)) for _ in sums] for kind in self.kinds]
        if other is not None:
            numbers.append([_widened(f, isa, other, order) for order in channel_order(count, isa.width)])
        shorts = packed_shorts(f, isa, self._integers(f, isa, list(zip(sums, *numbers, strict=True))))
        return packed_bytes(f, isa, shorts, count, reader if self.clamped else None)

    def _integers(self, f: Function, isa: InstructionSet, given: Sequence[Sequence[Value]]) -> list[Value]:
        """The results of the body for the arguments of each vector."""
        elements, made = Elements(f, isa, ()), [list[Value]() for _ in given]
        for i in self.body:
            # Scalar by scalar, because the scalars of a vector wait for each other.
            for values, arguments in zip(made, given, strict=True):
                if isinstance(i.what, Argument):
                    values.append(arguments[i.what.index])
                else:
                    values.append(elements.value(i, self.body, values, isa.width, 0, []))
        return [values[-1] for values in made]


AnyEpilogue = Epilogue | ComputedEpilogue
Output = Requantization | ComputedOutput
"""What an epilogue computes."""


def rounding_of(epilogue: AnyEpilogue, output: Output) -> IntArray:
    """The rounding term that is added to the biases of channels."""
    if isinstance(epilogue, Epilogue) and isinstance(output, Requantization):
        return epilogue.rounding(output)
    return np.zeros((), np.int64)


def parameters_of(
    epilogue: AnyEpilogue, isa: InstructionSet, output: Output, channels: IntArray, count: int
) -> AnyArray:
    """The parameters of groups of `count` vectors with `channels`, u8 of shape (groups, bytes per group)."""
    if isinstance(epilogue, ComputedEpilogue) and isinstance(output, ComputedOutput):
        return epilogue.parameters(isa, output, channels, count)
    assert isinstance(epilogue, Epilogue)
    assert isinstance(output, Requantization)
    return epilogue.parameters(isa, output, channels, count)


def _widened(f: Function, isa: InstructionSet, stored: Value, order: IntArray) -> Value:
    """Some elements of a vector of 8-bit activations as storage integers in i32."""
    if not isa.unsigned:
        return f.cast("sext", f.shuffle(stored, None, [int(n) for n in order]), isa.i32)
    # Bytes between zeros: one instruction, because elements stay in their lanes.
    zero, count = Value(stored.type, "zeroinitializer"), lanes(stored.type)
    spread = [index for n in order for index in (int(n), count, count, count)]
    return f.add(f.bits(f.shuffle(stored, zero, spread), isa.i32), -isa.offset)


def _with_room(
    body: Scalars, isa: InstructionSet, arguments: dict[int, Magnitude | None], output: ComputedOutput
) -> Scalars:
    """The body, clamped if the sum with the zero point could exceed 32 bits."""
    known = known_of(body, isa, arguments)[-1]
    if known is not None and known.most + abs(output.zero_point) + isa.offset <= INT32_MAX:
        return body
    bounds = output.storage_min, output.storage_max
    low, high = (Scalar(Number(bound - output.zero_point), "i32") for bound in bounds)
    n = len(body)
    return (*body, low, high, Scalar(Elementwise("clamp"), "i32", (n, n - 1, n + 1)))


def _saturated(
    body: Scalars, isa: InstructionSet, arguments: dict[int, Magnitude | None], output: ComputedOutput
) -> Scalars:
    """The body without a clamp to bounds that are no narrower than those of the storage."""
    rounded, added = body[-1], float(output.zero_point)
    if rounded.name == "add" and isinstance(number := body[rounded.arguments[1]].what, Number):
        rounded, added = body[rounded.arguments[0]], added + number.number
    if not isinstance(rounded.what, Nearest):
        return body
    (n,) = rounded.arguments
    within, known = body[n].what, known_of(body, isa, arguments)[body[n].arguments[0]] if body[n].arguments else None
    if not isinstance(within, Within) or known is None or known.most > NEAR:
        return body
    if within.low + added > output.storage_min or within.high + added < output.storage_max:
        return body
    kept = Scalar(Elementwise("convert"), body[n].type, body[n].arguments)
    return (*body[:n], kept, *body[n + 1 :])
