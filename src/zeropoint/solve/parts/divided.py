"""Copy a region so that it computes a part of its result along one dimension from parts of its operands.

```mlir
%y = "quant.region"(%x, %scale) ({ broadcast of %scale along dimension 1, multiply })
```
Elements 4 to 7 of `%y` along dimension 1 are this region applied to elements 4 to 7 of `%x` and of `%scale`. The same
holds for sums, functions of one value and depthwise convolutions. A part of a contraction's channels needs all of its
first operand, and a part of the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue

from zeropoint.ir.annotations import PINNED
from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.quant import QuantizeRegionOp, ReturnOp
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.ir.tensors import Array
from zeropoint.ir.weights import Weights
from zeropoint.solve.parts.cuts import Cut, copied, needed, part_type


def is_cuttable(value: SSAValue) -> bool:
    """Whether a part of a value is available without computation: of a constant, unless it is pinned to the type of the
    whole."""
    return isinstance(value.owner, ConstantOp) and PINNED not in value.owner.attributes


@dataclass(frozen=True)
class Divided:
    """How to compute the elements `chosen` of a region's only result along `axis`.

    `cuts` maps values of the body to the part that is needed, or to None if all of the value is needed.
    """

    region: QuantizeRegionOp
    axis: int
    chosen: Array
    cuts: dict[SSAValue, Cut | None]
    weights: Weights

    @staticmethod
    def of(region: QuantizeRegionOp, axis: int, chosen: Array, weights: Weights) -> Divided | None:
        """The division of a region; None if the part does not follow from parts of the operands."""
        returned = region.body.block.last_op
        assert isinstance(returned, ReturnOp)
        cuts: dict[SSAValue, Cut | None] = {}
        pending: list[tuple[SSAValue, Cut | None]] = [(returned.operands[0], Cut(axis, chosen))]
        while pending:
            value, cut = pending.pop()
            if value in cuts:
                known = cuts[value]
                if cut is not known and (cut is None or not cut.agrees(known)):
                    return None
                continue
            cuts[value] = cut
            read = needed(value.op, cut) if isinstance(value, OpResult) else []
            if read is None:
                return None
            pending += read
        return Divided(region, axis, chosen, cuts, weights)

    def operand_cut(self, index: int) -> Cut | None:
        """The part of an operand that is needed; None if all of it is."""
        return self.cuts.get(self.region.body.block.args[index])

    def operand_axis(self, index: int) -> int | None:
        """The dimension along which a part of an operand is needed; None if all of it is."""
        cut = self.operand_cut(index)
        return None if cut is None else cut.axis

    def constant(self, index: int) -> Operation:
        """The part of a constant operand."""
        value, cut = self.region.inputs[index], self.operand_cut(index)
        array = constant_array(value, self.weights)
        assert array is not None and cut is not None and isinstance(value.owner, Operation)
        return constant_op(np.take(array, cut.chosen, cut.axis), self.weights, location=value.owner.location)

    def copy(self, operands: Sequence[SSAValue]) -> QuantizeRegionOp:
        """The region applied to these operands, which are already the parts."""
        body = self.region.body.block
        block = Block(arg_types=[value.type for value in operands])
        values: dict[SSAValue, SSAValue] = dict(zip(body.args, block.args, strict=True))
        for op in body.ops:
            cut = self.cuts.get(op.results[0]) if op.results else None
            block.add_op(copy := copied(op, cut, values, self.weights))
            values |= zip(op.results, copy.results, strict=True)
        specs = list(self.region.input_specs), list(self.region.output_specs)
        result = part_type(self.region.outputs[0], self.axis, self.chosen.size)
        made = QuantizeRegionOp(operands, [result], self.region.logical_kernel.data, *specs, Region(block))
        made.attributes = dict(self.region.attributes)
        return made
