"""Whether two programs are the same float network, apart from what quantization adds: specs, statistics, names."""

from __future__ import annotations

from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue

from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsOp, StatisticsRefOp
from zeropoint.ir.regions import regions_of
from zeropoint.ir.stablehlo import ConstantOp

_OURS = "zeropoint."
"""Attributes with this prefix do not change what an op computes."""


def same_regions(first: Program, second: Program) -> dict[QuantizeRegionOp, QuantizeRegionOp] | None:
    """The region of `first` for every region of `second`, if both compute the same floats, op by op; else None."""
    names = [[port.name for port in (*one.inputs, *one.outputs)] for one in (first, second)]
    if names[0] != names[1] or not _Comparison().blocks(first.entry, second.entry):
        return None
    return dict(zip(regions_of(second), regions_of(first), strict=True))


class _Comparison:
    def __init__(self) -> None:
        self._values: dict[SSAValue, SSAValue] = {}
        """The value of the first program for each value of the second."""

    def blocks(self, first: Block, second: Block) -> bool:
        """Whether two blocks compute the same."""
        ops = [[op for op in block.ops if not isinstance(op, _SKIPPED)] for block in (first, second)]
        if len(ops[0]) != len(ops[1]) or [arg.type for arg in first.args] != [arg.type for arg in second.args]:
            return False
        self._values.update(zip(second.args, first.args, strict=True))
        return all(map(self._ops, *ops))

    def _ops(self, first: Operation, second: Operation) -> bool:
        results = [[value.type for value in op.results] for op in (first, second)]
        if type(first) is not type(second) or results[0] != results[1] or _form(first) != _form(second):
            return False
        if len(first.operands) != len(second.operands) or len(first.regions) != len(second.regions):
            return False
        if not all(map(self._same, first.operands, second.operands)):
            return False
        self._values.update(zip(second.results, first.results, strict=True))
        blocks = [[block for region in op.regions for block in region.blocks] for op in (first, second)]
        return len(blocks[0]) == len(blocks[1]) and all(map(self.blocks, *blocks))

    def _same(self, first: SSAValue, second: SSAValue) -> bool:
        first, second = _unstated(first), _unstated(second)
        constants = [_constant(value) for value in (first, second)]
        if constants[0] is not None or constants[1] is not None:
            # A handle stands for its content.
            return constants[0] == constants[1] and first.type == second.type
        return self._values.get(second) is first


_SKIPPED = (ConstantOp, StatisticsOp, StatisticsRefOp)


def _unstated(value: SSAValue) -> SSAValue:
    """A value, looking through statistics of it."""
    while isinstance(value, OpResult) and isinstance(value.op, StatisticsOp | StatisticsRefOp):
        value = value.op.arg
    return value


def _constant(value: SSAValue) -> Attribute | None:
    return value.op.value if isinstance(value, OpResult) and isinstance(value.op, ConstantOp) else None


def _form(op: Operation) -> dict[str, Attribute]:
    """The attributes that say what an op computes; a region is what its body is."""
    if isinstance(op, QuantizeRegionOp | FuncOp):
        return {}
    return {name: one for name, one in (*op.properties.items(), *op.attributes.items()) if not name.startswith(_OURS)}
