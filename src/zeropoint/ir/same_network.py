"""Whether two programs are the same float network, apart from what quantization adds: specs, statistics, names."""

from __future__ import annotations

from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue

from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, ReturnOp, StatisticsOp, StatisticsRefOp
from zeropoint.ir.regions import regions_of
from zeropoint.ir.stablehlo import ConstantOp

_OURS = "zeropoint."
"""Attributes with this prefix do not change what an op computes."""


def same_regions(first: Program, second: Program) -> dict[QuantizeRegionOp, QuantizeRegionOp] | None:
    """The region of `first` for every region of `second`, if both compute the same floats, op by op; else None.

    Regions that return their operand, such as rescales, compute nothing in float. They are left out.
    """
    names = [[port.name for port in (*one.inputs, *one.outputs)] for one in (first, second)]
    if names[0] != names[1] or not _Comparison().blocks(first.entry, second.entry):
        return None
    regions = [[region for region in regions_of(one) if not _returns_operand(region)] for one in (second, first)]
    return dict(zip(*regions, strict=True))


class _Comparison:
    def __init__(self) -> None:
        self._values: dict[SSAValue, SSAValue] = {}
        """The value of the first program for each value of the second."""

    def blocks(self, first: Block, second: Block) -> bool:
        """Whether two blocks compute the same."""
        ops = [[op for op in block.ops if not _is_skipped(op)] for block in (first, second)]
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


def _is_skipped(op: Operation) -> bool:
    return isinstance(op, ConstantOp | StatisticsOp | StatisticsRefOp) or _returns_operand(op)


def _returns_operand(op: Operation) -> bool:
    """Whether an op is a region that computes nothing in float."""
    if not isinstance(op, QuantizeRegionOp) or len(op.operands) != 1 or len(op.results) != 1:
        return False
    block = op.body.block
    return isinstance(first := block.first_op, ReturnOp) and first.operands[0] is block.args[0]


def _unstated(value: SSAValue) -> SSAValue:
    """A value, looking through statistics of it and regions that return their operand."""
    while isinstance(value, OpResult):
        if not isinstance(value.op, StatisticsOp | StatisticsRefOp) and not _returns_operand(value.op):
            break
        value = value.op.operands[0]
    return value


def _constant(value: SSAValue) -> Attribute | None:
    return value.op.value if isinstance(value, OpResult) and isinstance(value.op, ConstantOp) else None


def _form(op: Operation) -> dict[str, Attribute]:
    """The attributes that say what an op computes; a region is what its body is."""
    if isinstance(op, QuantizeRegionOp | FuncOp):
        return {}
    return {name: one for name, one in (*op.properties.items(), *op.attributes.items()) if not name.startswith(_OURS)}
