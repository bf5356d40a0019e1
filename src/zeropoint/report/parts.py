"""The parts of concatenated values. A part with small values can be lost while the whole looks good."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.locations import value_name
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import ConcatenateOp, TransposeOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, shape_of


@dataclass(frozen=True)
class Part:
    """One operand of a concatenation: the elements from `start` to `stop` along `axis`."""

    name: str
    axis: int
    start: int
    stop: int

    def of(self, array: Array) -> Array:
        """The elements of this part."""
        return array.take(range(self.start, self.stop), self.axis)


def parts_of(value: SSAValue) -> tuple[Part, ...]:
    """The parts of a concatenation, also behind transposes; empty for other values."""
    order = list(range(len(shape_of(value))))
    while isinstance(value.owner, TransposeOp):
        before = array_values(value.owner.permutation)
        order = [before[axis] for axis in order]
        value = value.owner.operand
    op = value.owner
    if not isinstance(op, ConcatenateOp):
        return ()
    along, start, found = int(op.dimension.value.data), 0, list[Part]()
    for index, operand in enumerate(op.inputs):
        size = shape_of(operand)[along]
        found.append(Part(value_name(operand) or str(index), order.index(along), start, start + size))
        start += size
    return tuple(found)


def output_parts(program: Program) -> dict[str, tuple[Part, ...]]:
    """The parts of the outputs of a float program, by output name."""
    returned: Operation | None = program.entry.last_op
    assert isinstance(returned, ReturnOp)
    named = zip((port.name for port in program.outputs), returned.operands, strict=True)
    return {name: parts for name, value in named if (parts := parts_of(value))}
