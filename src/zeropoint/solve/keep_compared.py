"""Keep values float that the model compares for equality, back to the contraction or the kernel that they come from.

```mlir
%h = "quant.region"(%c) ({ logistic })          a heatmap
%m = "quant.region"(%h) ({ maximum of 3 x 3 })
%e = "quant.region"(%m, %h) ({ compare EQ })    its peaks
```
Rounding makes different values equal, so that neighbours of a peak are peaks, too. So the comparison and the kernels of
one value before it stay float. A comparison with a constant is not such a one, and neither is one of a value with
itself (`keep_tested.py`). Values that the model pins to a type are compared as it says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.annotations import DEMANDS
from zeropoint.ir.constants import broadcast_array
from zeropoint.ir.program import Program
from zeropoint.ir.quant import DequantizeCastOp, QuantizeRegionOp
from zeropoint.ir.quant.statements import unstated
from zeropoint.ir.stablehlo import CompareOp, ComparisonDirection, ConvolutionOp, DotGeneralOp
from zeropoint.ir.tensors import element_of
from zeropoint.ir.weights import Weights
from zeropoint.solve.keep_float import keep_float

WHY = "the model compares values for equality here, and rounding makes different values equal"
EQUALITY = (ComparisonDirection.EQ, ComparisonDirection.NE)


def keep_compared(program: Program) -> Program:
    """A copy whose values that are compared for equality stay float; the program itself if there are none.

    Kernels of which a recipe demands something are left to it.
    """
    ops = list(program.entry.ops)
    found = {kept for op in ops if _is_equality(op, program.weights) for kept in (op, *_before(op))}
    places = [n for n, op in enumerate(ops) if op in found and isinstance(op, QuantizeRegionOp)]
    places = [n for n in places if DEMANDS not in ops[n].attributes]
    if not places:
        return program
    program = program.for_change()
    ops = list(program.entry.ops)
    for place in places:
        region = ops[place]
        assert isinstance(region, QuantizeRegionOp)
        keep_float(region, WHY)
    return program


def _is_equality(op: Operation, weights: Weights) -> bool:
    """Whether an op, or the body of a region, compares two different computed floats for equality."""
    given: dict[SSAValue, SSAValue] = {}
    inner: Sequence[Operation] = [op]
    if isinstance(op, QuantizeRegionOp):
        given, inner = dict(zip(op.body.block.args, op.inputs, strict=True)), list(op.body.block.ops)
    for each in inner:
        if not isinstance(each, CompareOp) or each.comparison_direction.data not in EQUALITY:
            continue
        lhs, rhs = (given.get(value, value) for value in (each.lhs, each.rhs))
        constant = any(broadcast_array(value, weights, given) is not None for value in (each.lhs, each.rhs))
        pinned = any(isinstance(unstated(value).owner, DequantizeCastOp) for value in (lhs, rhs))
        if lhs is not rhs and not constant and not pinned and isinstance(element_of(each.lhs), AnyFloat):
            return True
    return False


def _before(op: Operation) -> Iterator[Operation]:
    """The regions before an op that compute of one value, and are no contractions."""
    pending, seen = list(op.operands), set[Operation]()
    while pending:
        maker = unstated(pending.pop()).owner
        if maker in seen or not isinstance(maker, QuantizeRegionOp):
            continue
        seen.add(maker)
        computed = list(_computed(maker))
        if len(computed) == 1 and not any(isinstance(e, ConvolutionOp | DotGeneralOp) for e in maker.body.block.ops):
            yield maker
            pending += computed


def _computed(region: QuantizeRegionOp) -> Iterator[SSAValue]:
    """The inputs of a region that another op computes of floats."""
    for value in region.inputs:
        if isinstance(element_of(value), AnyFloat) and not _is_constant(value):
            yield value


def _is_constant(value: SSAValue) -> bool:
    owner = value.owner
    return isinstance(owner, Operation) and not owner.operands and owner.name == "stablehlo.constant"
