"""Count the integer and float ops of a program."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerType, StringAttr, TensorType
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import Pure

from zeropoint.ir.annotations import FLOAT_REASON, INTEGER_SUMS, KERNEL, KERNEL_NUMBER, RESCALE, facts_of
from zeropoint.ir.contractions import multiplications_of
from zeropoint.ir.fxpmath import RequantizeOp
from zeropoint.ir.locations import describe, location_text
from zeropoint.ir.program import Program
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, QuantizeRegionOp, StorageCastOp
from zeropoint.ir.stablehlo import (
    CaseOp,
    ConstantOp,
    ConvertOp,
    IfOp,
    UniformDequantizeOp,
    UniformQuantizeOp,
    WhileOp,
)
from zeropoint.ir.stablehlo import ReturnOp as StablehloReturnOp
from zeropoint.ir.tensors import element_of, has_floats

UNCOVERED = "no kernel covers it"
"""The reason for a float op that states none."""
UNMATERIALIZED = "its kernel has types, but is not materialized (zeropoint opt -p materialize,integer-program)"
"""The reason for a region that has types: it computes in float until `materialize` replaces it."""
LOCATIONS_SHOWN = 3
"""Number of locations shown per line of a summary."""
_KEPT, _ANY_KEPT = re.compile(r"would keep (-?[\d.]+|-?inf) dB"), "would keep dB"
_CONTROL = (CaseOp, IfOp, WhileOp)
EDGES = (DequantizeCastOp, QuantizeCastOp, StorageCastOp, UniformDequantizeOp, UniformQuantizeOp)


def counted(number: int, name: str) -> str:
    """`1 float op`, `2 float ops`."""
    return f"{number} {name}{'' if number == 1 else 's'}"


@dataclass(frozen=True)
class Counts:
    """Numbers of ops in the entry function and the bodies of its loops and branches, without constants and returns.

    `integer` ops compute on integers, `floats` in float. `edges` convert between the two. `rescales` counts the integer
    ops that only change scale and zero point; they are included in `integer`.
    """

    integer: int
    floats: int
    edges: int
    rescales: int


@dataclass(frozen=True)
class FloatKernel:
    """Kernels of one kind that stay float for one reason: the number of kernels and of their ops, and locations."""

    kernel: str
    reason: str
    kernels: int
    ops: int
    locations: tuple[str, ...]

    def __str__(self) -> str:
        """`1 layer_norm (20 ops) stays float at 'ln1': target cpu has no kernel 'layer_norm'`."""
        count = counted(self.ops, "op")
        shown = ", ".join(self.locations[:LOCATIONS_SHOWN])
        more = f" and {len(self.locations) - LOCATIONS_SHOWN} more" if len(self.locations) > LOCATIONS_SHOWN else ""
        where = f" at {shown}{more}" if shown else ""
        if self.reason.startswith(INTEGER_SUMS):
            verb = "has steps in float" if self.kernels == 1 else "have steps in float"
        else:
            verb = "stays float" if self.kernels == 1 else "stay float"
        return f"{self.kernels} {self.kernel} ({count}) {verb}{where}: {self.reason}"


def is_float(op: Operation) -> bool:
    """Whether an op produces a float tensor."""
    return any(isinstance(r.type, TensorType) and has_floats(r) for r in op.results)


def is_not_integer(op: Operation) -> bool:
    """Whether an op produces floats, or is an op on quantized values with a reason for staying float."""
    return (is_float(op) or FLOAT_REASON in op.attributes) and not is_edge(op)


def is_edge(op: Operation) -> bool:
    """Whether an op converts between floats and integers.

    Quantize and dequantize casts have the expressed type f32. In a model of another float type, the conversion between
    this type and f32 beside a cast counts, too.
    """
    if not isinstance(op, ConvertOp):
        return isinstance(op, EDGES)
    if not all(has_floats(value) for value in (op.operand, op.result)):
        return False
    users = [use.operation for use in op.result.uses]
    return isinstance(op.operand.owner, EDGES) or (bool(users) and all(isinstance(user, EDGES) for user in users))


def computing(ops: Iterable[Operation], constants: Iterable[SSAValue] = ()) -> list[Operation]:
    """The ops without constants, and without float ops on constants alone, such as stored weights times their scales.

    `constants` are constant values from outside of `ops`.
    """
    known = set(constants)
    found: list[Operation] = []
    for op in ops:
        fixed = bool(op.operands) and all(value in known for value in op.operands)
        if isinstance(op, ConstantOp) or (fixed and is_float(op) and op.has_trait(Pure)):
            known.update(op.results)
        elif not isinstance(op, ReturnOp):
            found.append(op)
    return found


def with_bodies(op: Operation) -> Iterator[Operation]:
    """An op, then the ops in its bodies if it is a loop or a branch. Other bodies only define what their op does."""
    yield op
    for region in op.regions if isinstance(op, _CONTROL) else ():
        for inner in region.block.ops:
            if not isinstance(inner, ConstantOp | StablehloReturnOp):
                yield from with_bodies(inner)


def _floats_in(op: Operation) -> int:
    """1 for a float op, plus the number of float ops in the bodies of a loop or a branch."""
    return sum(map(is_not_integer, with_bodies(op)))


def why_float(op: Operation) -> str:
    """The reason why an op is float.

    This is the reason that the op states, else the stage that its region is in, else the kernel that will turn it into
    a table, else that no kernel covers it.
    """
    reason = op.attributes.get(FLOAT_REASON)
    if isinstance(reason, StringAttr):
        return reason.data
    if isinstance(op, QuantizeRegionOp):
        return UNMATERIALIZED if op.is_quantized else "its kernel has no types yet"
    kernel = _kernel_around(op)
    return UNCOVERED if kernel is None else f"kernel '{kernel}' covers it; lowering makes it a table of 8-bit values"


def _kernel_around(op: Operation) -> str | None:
    """The kernel whose float form (dequantize, ops, quantize) contains an op, from the facts of the quantize op."""
    seen: set[Operation] = set()
    pending = [op]
    while pending:
        found = pending.pop()
        if isinstance(found, UniformQuantizeOp):
            return next((fact.value for fact in facts_of(found) if fact.name == "kernel"), None)
        if found not in seen and is_float(found) and not is_edge(found):
            seen.add(found)
            pending += [use.operation for result in found.results for use in result.uses]
    return None


def float_ops(program: Program) -> list[tuple[str, str]]:
    """The description of each float op, with its location, and the reason why it is float."""
    return [(describe(op), why_float(op)) for op in computing(program.entry.ops) if _floats_in(op)]


def float_kernels(program: Program) -> list[FloatKernel]:
    """The float ops of a program, grouped by kernel and reason. Connected ops of one kernel count as one kernel.

    An op that no kernel covers is listed under its own name, such as `stablehlo.sine`. The count of a loop includes the
    float ops of its body. Reasons that differ only in what would be kept, such as those of an LSTM's steps in time,
    are one.
    """
    groups: dict[tuple[str, str], list[Operation]] = {}
    for op in computing(program.entry.ops):
        if _floats_in(op):
            groups.setdefault((_kernel_of(op), _KEPT.sub(_ANY_KEPT, why_float(op))), []).append(op)
    return [
        FloatKernel(kernel, _common_reason(ops), _connected(ops), sum(map(_floats_in, ops)), _locations(ops))
        for (kernel, _), ops in groups.items()
    ]


def _common_reason(ops: list[Operation]) -> str:
    """The reason of ops whose reasons differ only in what would be kept: `would keep 17.5 to 19.8 dB`."""
    reasons = list(dict.fromkeys(map(why_float, ops)))
    kept = sorted((found[1] for reason in reasons if (found := _KEPT.search(reason))), key=float)
    return reasons[0] if len(reasons) == 1 else _KEPT.sub(f"would keep {kept[0]} to {kept[-1]} dB", reasons[0])


def _kernel_of(op: Operation) -> str:
    kernel = op.logical_kernel if isinstance(op, QuantizeRegionOp) else op.attributes.get(KERNEL)
    return kernel.data if isinstance(kernel, StringAttr) else _kernel_around(op) or op.name


def is_same_kernel(op: Operation, other: Operation) -> bool:
    """Whether two float ops, one of which reads the other, belong to one kernel that stays float."""
    parts = KERNEL, KERNEL_NUMBER
    return all(op.attributes.get(part) == other.attributes.get(part) for part in parts) and (
        KERNEL in op.attributes or _kernel_around(op) is not None
    )


def _connected(ops: list[Operation]) -> int:
    """The number of kernels that the ops form: connected components under `is_same_kernel`, found by union-find."""
    part = {op: op for op in ops}

    def root(op: Operation) -> Operation:
        while part[op] is not op:
            part[op] = part[part[op]]
            op = part[op]
        return op

    for op in ops:
        for operand in op.operands:
            made = operand.owner
            if isinstance(made, Operation) and made in part and is_same_kernel(op, made):
                part[root(op)] = root(made)
    return sum(part[op] is op for op in ops)


def _locations(ops: list[Operation]) -> tuple[str, ...]:
    names = [location_text(op.location) for op in ops]
    return tuple(dict.fromkeys(f"'{name}'" for name in names if name))


@dataclass(frozen=True)
class Ops:
    """The op counts of a program, and the kernels that stay float."""

    counts: Counts
    floats: tuple[FloatKernel, ...]

    @staticmethod
    def of(program: Program) -> Ops:
        """The counts and float kernels of a program."""
        return Ops(count_ops(program), tuple(float_kernels(program)))

    def __str__(self) -> str:
        """`60 integer ops, 20 float ops, 3 rescales, 2 conversions`, then a line per group of float kernels."""
        found = self.counts
        named = (("integer op", found.integer), ("float op", found.floats), ("rescale", found.rescales))
        line = ", ".join(counted(number, name) for name, number in (*named, ("conversion", found.edges)))
        return "\n".join([line, *(f"  {group}" for group in self.floats)])


def count_ops(program: Program) -> Counts:
    """The op counts of a program."""
    ops = [inner for op in computing(program.entry.ops) for inner in with_bodies(op)]
    edges = sum(map(is_edge, ops))
    floats = sum(is_not_integer(op) for op in ops)
    rescales = sum(isinstance(op, RequantizeOp) and RESCALE in op.attributes for op in ops)
    return Counts(len(ops) - edges - floats, floats, edges, rescales)


def constant_bytes(program: Program) -> int:
    """Total bytes of the program's constants as files store them.

    Shared constants count once. Integers of 4 bits take half a byte.
    """
    sizes: dict[object, int] = {}
    for op in program.module.walk():
        if isinstance(op, ConstantOp):
            array = program.weights.array(op.value)
            sizes[op.value] = -(-array.size // 2) if _is_nibble(element_of(op.output)) else array.nbytes
    return sum(sizes.values())


def size_text(size: int) -> str:
    """A size as text: below 10,000 bytes in B, else in kB (1,000 bytes) or MB."""
    if size < 10**4:
        return f"{size} B"
    return f"{size / 10**6:.2f} MB" if size >= 10**6 else f"{size / 1000:.2f} kB"


def _is_nibble(element: Attribute) -> bool:
    return isinstance(element, IntegerType) and element.bitwidth == 4


def multiplications(program: Program) -> int:
    """Number of multiplications in the convolutions and matrix products of one run; dynamic dimensions count as 1."""
    return multiplications_of(program.module)
