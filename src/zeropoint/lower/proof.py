"""The proof that no integer of a lowered program wraps around.

It covers every op that the lowering emitted, and integer ops of the given text that are part of the quantized program.
These are ops that depend on the integers of a quantized value or on the result of an fxpmath op, and ops on which these
depend. Dependence follows data, not indices, sizes or operands of comparisons. All other integer ops of the text are
the user's own and wrap around, as StableHLO defines (counters, hashes, random numbers). So do ops that depend on
integers converted from floats, up to the next clamp or conversion: floats have no bounds, and this is the form that
`lower-quant-ops` gives a quantization.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import Block, Operation, SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.fxpmath import InterpolateOp, RequantizeOp, TableOp
from zeropoint.ir.program import Program
from zeropoint.ir.quant import StorageCastOp
from zeropoint.ir.tensors import element_of
from zeropoint.lower.context import Lowering, LoweringError, refusal
from zeropoint.ranges import OBLIGATIONS, Ranges, obligations, ops_of, ranges_of

REMEDY = "quantize its operands to fewer bits, split its sums, or widen the scale of its result"
"""Advice in messages about numbers that fit no integer type."""
WRITTEN_REMEDY = "convert its operands to i64, clamp them, or split its sums"
"""Advice for ops of the given text."""
WIDEST_REMEDY = "clamp its operands, or split its sums"
"""Advice for those that are in 64 bits already."""
DATA: Mapping[type[Operation], int] = {
    hlo.CompareOp: 0,
    hlo.DynamicBroadcastInDimOp: 1,
    hlo.DynamicConvOp: 2,
    hlo.DynamicGatherOp: 1,
    hlo.DynamicPadOp: 2,
    hlo.DynamicReshapeOp: 1,
    hlo.DynamicSliceOp: 1,
    hlo.DynamicUpdateSliceOp: 2,
    hlo.GatherOp: 1,
    hlo.GetDimensionSizeOp: 0,
    InterpolateOp: 1,
    RequantizeOp: 1,
    TableOp: 1,
}
"""For ops with other operands than data, the number of leading operands that are data."""

BOUNDS = (hlo.ClampOp, hlo.ConvertOp, hlo.MaximumOp, hlo.MinimumOp)
"""Ops after which an integer converted from a float has bounds."""

Sources = Mapping[SSAValue, Sequence[SSAValue]]
"""The values that each value is computed from."""


def prove(lowering: Lowering, program: Program, part: Set[SSAValue]) -> None:
    """Raise LoweringError, with the bound and a remedy, if an op of the quantized program may overflow its type.

    `part` is the `quantized_part` before the lowering, which removes casts between integers and quantized values.
    """
    for op in lowering.made:
        # Ops without a parent were replaced or erased.
        if op.parent is not None:
            _prove(lowering.ranges, op, REMEDY)
    made, block = set(lowering.made), program.entry
    written = [op for op in ops_of(block) if op not in made and type(op) in OBLIGATIONS]
    if not written:
        return
    reached, ranges = quantized_part(block) | part, ranges_of(program)
    for op in written:
        if any(result in reached for result in op.results):
            _prove(ranges, op, WRITTEN_REMEDY)


def _prove(ranges: Ranges, op: Operation, remedy: str) -> None:
    for shown in obligations(ranges, op):
        if not shown.holds:
            advice = WIDEST_REMEDY if remedy == WRITTEN_REMEDY and shown.bits == 64 else remedy
            text = refusal(op, shown.what, shown.range, shown.bits, advice, unsigned=shown.unsigned)
            raise LoweringError(text, op)


def quantized_part(block: Block) -> set[SSAValue]:
    """The integers on which quantized values and fxpmath ops depend, and the integers that depend on these."""
    sources = _sources(block)
    readers: dict[SSAValue, list[SSAValue]] = {}
    for value, read in sources.items():
        for each in read:
            readers.setdefault(each, []).append(value)
    anchors = [op for op in ops_of(block) if isinstance(op, StorageCastOp) or op.dialect_name() == "fxpmath"]
    before = _reached((operand for op in anchors for operand in _data(op)), sources)
    after = _reached((result for op in anchors for result in op.results), readers)
    return (before | after) - _made_of_floats(block, readers)


def _made_of_floats(block: Block, readers: Sources) -> set[SSAValue]:
    """Integers converted from floats, and those that depend on them up to the next op of `BOUNDS`."""
    floats = [op for op in ops_of(block) if isinstance(op, hlo.ConvertOp) and not _is_number(op.operand)]
    ends = {result for op in ops_of(block) if isinstance(op, BOUNDS) and op not in floats for result in op.results}
    return _reached((op.result for op in floats), {value: () if value in ends else readers[value] for value in readers})


def _reached(start: Iterable[SSAValue], edges: Sources) -> set[SSAValue]:
    """The integers that are reachable from some values along edges between integers."""
    found: set[SSAValue] = set()
    pending = list(start)
    while pending:
        value = pending.pop()
        if value not in found and _is_number(value):
            found.add(value)
            pending += edges.get(value, ())
    return found


def _is_number(value: SSAValue) -> bool:
    """Whether a value is a tensor of integers other than booleans."""
    element = element_of(value) if isinstance(value.type, TensorType) else None
    return isinstance(element, IntegerType) and element.bitwidth > 1


def _data(op: Operation) -> Sequence[SSAValue]:
    return op.operands[1:] if isinstance(op, hlo.SelectOp) else op.operands[: DATA.get(type(op))]


def _sources(block: Block) -> dict[SSAValue, Sequence[SSAValue]]:
    """The values that each result, and each value that a loop carries, is computed from."""
    found: dict[SSAValue, Sequence[SSAValue]] = {}
    for op in ops_of(block):
        for n, result in enumerate(op.results):
            found[result] = _data(op)
            if isinstance(op, hlo.WhileOp):
                found[result] = [op.inputs[n], _returned(op.body.block)[n]]
                found |= {region.block.args[n]: found[result] for region in op.regions}
            elif isinstance(op, hlo.IfOp | hlo.CaseOp):
                found[result] = [_returned(region.block)[n] for region in op.regions]
    return found


def _returned(block: Block) -> Sequence[SSAValue]:
    assert block.last_op is not None
    return block.last_op.operands
