"""The range report of a program: for each kernel and channel, the bound, the bits that it needs, and the headroom.

The bounds are those of `zeropoint.ranges`, from the actual weights and the storage of activations. A bound is reached
by some input, or it is conservative.

The report finds channels whose weight scale was increased so that their bias or sums fit. At the smallest possible
scale, the largest weight of a channel is stored as 127. So a stored maximum m < 127 means a scale 127 / m times the
smallest. A table, a recipe or training may also have fixed a larger scale. That is the case if bias and sums fit at the
smallest scale as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, OpResult

from zeropoint.ir.annotations import FACTS, ZERO_POINTS, unique_name
from zeropoint.ir.constants import constant_array
from zeropoint.ir.contractions import weight_channel_axis, weights_by_channel
from zeropoint.ir.inline_calls import inline_functions
from zeropoint.ir.locations import location_text
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import AddOp, BroadcastInDimOp, ConvertOp, ConvolutionOp, DotGeneralOp
from zeropoint.ir.tensors import Array
from zeropoint.numerics.arrays import AnyArray
from zeropoint.ranges import EXACT, Obligation, Ranges, obligations, ops_of, ranges_of
from zeropoint.report.explain.read import ExplanationError, stands_for
from zeropoint.report.tables import folded, preformatted, text_table

WIDTH = 140
WEIGHT_MAX = 127
ACCUMULATOR_LIMIT = 1 << 30
"""The bound that propagation keeps for |sums| + |bias| (`solve/weights.py`)."""
CHANNELS = 1
PAIR_BITS = 16
CORRECTED = {"after": "after", "inside": "inside of"}
"""The words for where zero points are corrected, before "the sum"."""


@dataclass(frozen=True)
class Reach:
    """A number that an op computes in `width` bits: for each channel its bound, the bits it needs, and the headroom.

    `grown` is, for each channel, the weight scale divided by the smallest one that the weights allow, as far as the
    stored weights tell; 1 if they are equal. It is empty for ops without weights. `grown_by` is the cause, `bias` or
    `sums`. It is an empty string if both fit at the smallest scale, so that a table, a recipe or training fixed the
    scale.
    """

    name: str
    op: str
    what: str
    width: int
    bound: tuple[int, ...]
    bits: tuple[int, ...]
    headroom: tuple[int, ...]
    grown: tuple[float, ...] = ()
    grown_by: tuple[str, ...] = ()
    unique_name: str = ""
    """The unique name of the kernel, such as `gru_8`, if the op of the model became several kernels."""
    zero_points: str = ""
    """Where a contraction corrects zero points: `inside` the sum or `after` it; empty without zero points."""

    @property
    def shown_name(self) -> str:
        """The unique name, or else the name."""
        return self.unique_name or self.name

    @property
    def grown_factors(self) -> list[float]:
        """The factors of the channels whose weight scale was increased so that bias or sums fit."""
        return [factor for factor, cause in zip(self.grown, self.grown_by, strict=True) if cause]

    @property
    def coarser_factors(self) -> list[float]:
        """The factors of the channels whose weight scale is larger than the smallest for another reason."""
        return [factor for factor, cause in zip(self.grown, self.grown_by, strict=True) if factor > 1 and not cause]

    @property
    def worst(self) -> int:
        """The channel with the largest bound."""
        return max(range(len(self.bound)), key=self.bound.__getitem__)

    def record(self) -> dict[str, Any]:
        """The fields as a dict, for tools."""
        return asdict(self)


@dataclass(frozen=True)
class IntegerBounds:
    """The bounds, bits and headroom of every number of an integer program that could overflow, or of one name's."""

    reaches: tuple[Reach, ...]
    of_one: bool = False
    """Whether these are the numbers of a single name of the original model."""

    @staticmethod
    def of(program: Program, value: str | None = None) -> IntegerBounds:
        """The bounds of a lowered program. The arguments and errors are those of `reaches`."""
        return IntegerBounds(tuple(reaches(program, value)), value is not None)

    def record(self) -> list[dict[str, Any]]:
        """The bounds as lists and dictionaries, for tools."""
        return [reach.record() for reach in self.reaches]

    def __str__(self) -> str:
        """A table with the channel of the largest bound, or all channels of one name."""
        return _details(self.reaches) if self.of_one else _table(self.reaches)

    def _repr_html_(self) -> str:
        return preformatted(str(self))


def reaches(program: Program, value: str | None = None) -> list[Reach]:
    """Every number of a lowered program that could overflow, in program order.

    `value` restricts the result to one name: of an op, an output, a tensor or a weight. Raises ExplanationError for a
    program without integer ops, and for an unknown name.
    """
    found = [reach for _, reach in reaches_by_op(program)]
    if not found:
        raise ExplanationError(
            "found no integer arithmetic, expected an integer program (zeropoint quantize writes one)"
        )
    wanted = {value, *(() if value is None else stands_for(program, value))}
    part = [reach for reach in found if value is None or wanted & {reach.name, reach.unique_name}]
    if not part:
        named = ", ".join(dict.fromkeys(f"'{reach.name}'" for reach in found[:4]))
        raise ExplanationError(f"found no integer op '{value}' in the program, expected a name such as {named}")
    return part


def reaches_by_op(program: Program) -> list[tuple[Operation, Reach]]:
    """Every number that could overflow, with the op that computes it, also in loops and branches.

    Called functions are inlined first; in such a program the ops are those of a copy. Empty for a float program.
    """
    program = inline_functions(program)
    ranges, kernels = ranges_of(program), _kernel_names(program)
    return [
        (op, replace(_reach(ranges, program, shown), unique_name=kernels.get(op, "")))
        for op in ops_of(program.entry)
        if not isinstance(op, ConvertOp)
        for shown in obligations(ranges, op)
    ]


def _kernel_names(program: Program) -> dict[Operation, str]:
    """The unique names of kernels, by the op that produces the result and by ops that only this kernel reads."""
    names: dict[Operation, str] = {}
    for op in reversed(list(program.entry.ops)):
        own = unique_name(op)
        if own is None and FACTS not in op.attributes:
            readers = {names.get(use.operation) for result in op.results for use in result.uses}
            own = readers.pop() if len(readers) == 1 else None
        if own is not None:
            names[op] = own
    return names


def _reach(ranges: Ranges, program: Program, shown: Obligation) -> Reach:
    op, several = shown.op, shown.range.axis is not None
    arrays = (shown.range.magnitude, shown.needed, shown.headroom)
    bound, bits, headroom = (_numbers(array if several else _extreme(array)) for array in arrays)
    if not several:
        headroom = (shown.bits - bits[0],)
    grown = _growth(program, op, bound) if isinstance(op, ConvolutionOp | DotGeneralOp) else ((), ())
    name = location_text(op.location) or op.name
    return Reach(name, op.name, shown.what, shown.bits, bound, bits, headroom, *grown, zero_points=_zero_points(shown))


def _zero_points(shown: Obligation) -> str:
    """Where the complete sums of a contraction correct zero points; empty for its 16-bit sums of two products."""
    form = shown.op.attributes.get(ZERO_POINTS)
    named = form.data if isinstance(form, StringAttr) and shown.bits > PAIR_BITS else ""
    return named if named in CORRECTED else ""


def _extreme(array: AnyArray) -> AnyArray:
    return np.asarray(array.max(initial=0))


def _numbers(array: AnyArray) -> tuple[int, ...]:
    return tuple(array.reshape(-1).tolist())


def _growth(
    program: Program, op: ConvolutionOp | DotGeneralOp, bound: Sequence[int]
) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """The growth factor of each channel's weight scale, and its cause."""
    weights, axis = _stored(program, op), weight_channel_axis(op)
    # A convolution with weights of 1 sums the inputs of each window, to correct zero points. Its weights have no scale.
    adds_windows = isinstance(op, ConvolutionOp) and weights is not None and bool((weights == 1).all())
    if weights is None or axis is None or weights.dtype != np.int8 or adds_windows:
        return (), ()
    greatest = np.abs(weights_by_channel(weights, axis).astype(np.int64)).max(axis=1, initial=0)
    grown = np.where((greatest > 0) & (greatest < WEIGHT_MAX), WEIGHT_MAX / np.maximum(greatest, 1), 1.0)
    if len(bound) != len(grown):
        bound = [max(bound)] * len(grown)
    bias = np.broadcast_to(_bias(program, op), grown.shape)
    causes = [_cause(g, b, most) for g, b, most in zip(grown.tolist(), bias.tolist(), bound, strict=True)]
    return tuple(grown.tolist()), tuple(causes)


def _cause(grown: float, bias: int, sums: int) -> str:
    """Which integers would exceed the accumulator at the smallest weight scale: `bias`, `sums`, or neither (empty)."""
    needed = grown > 1 and (bias + sums) * grown > ACCUMULATOR_LIMIT
    return "" if not needed else "bias" if bias > sums else "sums"


def _stored(program: Program, op: ConvolutionOp | DotGeneralOp) -> Array | None:
    value = op.rhs
    if isinstance(value, OpResult) and isinstance(value.op, ConvertOp):
        value = value.op.operand
    return constant_array(value, program.weights)


def _bias(program: Program, op: Operation) -> Array:
    """The magnitude of the constant that is added to the sums of each channel: bias and zero-point correction."""
    users = [use.operation for use in op.results[0].uses]
    for user in users:
        if isinstance(user, AddOp) and isinstance(user.rhs.owner, BroadcastInDimOp):
            array = constant_array(user.rhs.owner.operand, program.weights)
            if array is not None and array.ndim <= CHANNELS:
                return np.abs(array.astype(np.int64))
    return np.zeros((), np.int64)


def _table(found: Sequence[Reach]) -> str:
    """A text table with a row per op: the channel with the largest bound, and the number of enlarged weight scales.

    `grown` scales were increased so that bias or sums fit; `coarser` ones are larger for another reason.
    """
    columns = "value", "op", "numbers", "channels", "worst", "bound", "bits", "of", "headroom", "weight scale"
    rows: list[tuple[str, ...]] = []
    for reach in found:
        at = reach.worst
        scale = "\n".join(
            _counted(words, factors)
            for words, factors in (("grown", reach.grown_factors), ("coarser", reach.coarser_factors))
            if factors
        )
        several = len(reach.bound) > 1
        cells = (str(len(reach.bound)) if several else "", str(at) if several else "", _bound(reach.bound[at]))
        bits = (str(reach.bits[at]), str(reach.width), str(reach.headroom[at]))
        rows.append((reach.shown_name, reach.op.partition(".")[2], reach.what, *cells, *bits, scale))
    return text_table(columns, rows, width=WIDTH) + _corrections(found)


def _corrections(found: Sequence[Reach]) -> str:
    """A line with the number of contractions for each place where zero points are corrected; empty without any."""
    counts = Counter(reach.zero_points for reach in found if reach.zero_points)
    parts = [f"{words} the sum in {counts[form]}" for form, words in CORRECTED.items() if counts[form]]
    return "\n" + folded(f"contractions correct zero points {', '.join(parts)}") if parts else ""


def _counted(what: str, factors: Sequence[float]) -> str:
    return f"{len(factors)} {what}, up to {max(factors):.3g}x"


def _details(found: Sequence[Reach]) -> str:
    """A text with a line for every channel of every op."""
    lines: list[str] = []
    for reach in found:
        form = f", zero points corrected {CORRECTED[reach.zero_points]} the sum" if reach.zero_points else ""
        lines.append(f"{reach.shown_name}: {reach.what} of {reach.op} in {_bits(reach.width)}{form}")
        for channel, (bound, bits, headroom) in enumerate(zip(reach.bound, reach.bits, reach.headroom, strict=True)):
            which = f"channel {channel}: " if len(reach.bound) > 1 else ""
            text = f"  {which}up to {_bound(bound)}, {_bits(bits)}, headroom {headroom}"
            if reach.grown and len(reach.grown) == len(reach.bound) and (factor := reach.grown[channel]) > 1:
                cause = reach.grown_by[channel]
                text += _GROWN.format(factor, cause) if cause else _COARSER.format(factor)
            lines.append(text)
    return "\n".join(lines)


_GROWN = "; weight scale increased {:.3g} times to fit its {}"
_COARSER = "; weight scale {:.3g} times what its weights and sums need"


def _bits(count: int) -> str:
    return "1 bit" if count == 1 else f"{count} bits"


def _bound(number: int) -> str:
    return str(number) if number <= EXACT else "beyond 2^63"
