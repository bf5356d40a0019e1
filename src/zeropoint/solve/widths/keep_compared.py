"""Keep values float that the model compares for equality with values computed from them, back to the contraction.

```mlir
%h = "quant.region"(%c) ({ logistic })          a heatmap
%m = "quant.region"(%h) ({ maximum of 3 x 3 })
%e = "quant.region"(%m, %h) ({ compare EQ })    its peaks
```
Rounding makes different values equal, so neighbours of a peak would become peaks, too. So the comparison and the
kernels of one value before it stay float. Values of different contractions are hardly ever equal, and are compared as
integers. A comparison of a value with itself is a test for NaN (`keep_tested.py`). Values that the model pins to a type
are compared in that type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.quant.statements import unstated
from zeropoint.ir.stablehlo import CompareOp, ComparisonDirection, ConvolutionOp, DotGeneralOp
from zeropoint.ir.tensors import element_of
from zeropoint.solve.keep_float import with_float

WHY = "the model compares values for equality here, and rounding makes different values equal"
EQUALITY = (ComparisonDirection.EQ, ComparisonDirection.NE)


def keep_compared(program: Program) -> Program:
    """A copy in which values that are compared for equality stay float; the program itself if there are none.

    Kernels with demands from a recipe are left unchanged.
    """
    ops = list(program.entry.ops)
    return with_float(program, {kept for op in ops if _is_equality(op) for kept in (op, *_before(op))}, WHY)


def _is_equality(op: Operation) -> bool:
    """Whether an op, or the body of a region, compares for equality two floats that are computed from one value."""
    given: dict[SSAValue, SSAValue] = {value: value for value in op.operands}
    inner: Sequence[Operation] = [op]
    if isinstance(op, QuantizeRegionOp):
        given, inner = dict(zip(op.body.block.args, op.inputs, strict=True)), list(op.body.block.ops)
    for each in inner:
        if not isinstance(each, CompareOp) or each.comparison_direction.data not in EQUALITY:
            continue
        lhs, rhs = given.get(each.lhs), given.get(each.rhs)
        if lhs is None or rhs is None or lhs is rhs or not isinstance(element_of(lhs), AnyFloat):
            continue
        if not {*_chain(lhs)}.isdisjoint(_chain(rhs)):
            return True
    return False


def _chain(value: SSAValue) -> Iterator[SSAValue]:
    """A value, and the values that it is computed from by kernels of one value that are not contractions."""
    while True:
        yield (value := unstated(value))
        maker = value.owner
        computed = list(_computed(maker)) if isinstance(maker, QuantizeRegionOp) else []
        if len(computed) != 1 or not isinstance(maker, QuantizeRegionOp) or _is_contraction(maker):
            return
        value = computed[0]


def _before(op: Operation) -> Iterator[Operation]:
    """The regions of one input before an op that are not contractions."""
    for operand in op.operands:
        yield from (value.owner for value in [*_chain(operand)][:-1] if isinstance(value.owner, Operation))


def _is_contraction(region: QuantizeRegionOp) -> bool:
    return any(isinstance(each, ConvolutionOp | DotGeneralOp) for each in region.body.block.ops)


def _computed(region: QuantizeRegionOp) -> Iterator[SSAValue]:
    """The inputs of a region that another op computes from floats."""
    for value in region.inputs:
        if isinstance(element_of(value), AnyFloat) and not _is_constant(value):
            yield value


def _is_constant(value: SSAValue) -> bool:
    owner = value.owner
    return isinstance(owner, Operation) and not owner.operands and owner.name == "stablehlo.constant"
