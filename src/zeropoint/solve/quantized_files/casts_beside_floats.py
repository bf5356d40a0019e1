"""Casts of a model that saturate a value which others read as it is.

```mlir
%a = quant.dcast(quant.qcast(%0)) : !quant.uniform<i8:f32, 0.004>      the convolution reads [-0.5, 0.5]
%1 = "quant.region"(%a, %w) ({ convolution })
%2 = "quant.region"(%0, %1) ({ add })                                  the sum reads [-5, 5]
```
A pair of casts states the type of its value, so that a kernel makes it in this type. That would saturate the other
readers. If calibration observed more than the type holds, the value has a type by its range, and the pair is a rescale.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.ir.annotations import Fact, state_facts
from zeropoint.ir.locations import written_name
from zeropoint.ir.quant import QuantizeCastOp, QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.stablehlo import UniformQuantizeOp
from zeropoint.solve.classes import real_range
from zeropoint.solve.rescale import rescale_region
from zeropoint.solve.value_constraint import ValueConstraint

POINTS = 4096
"""Number of points at which the distribution of a value is read."""
CASTS = (QuantizeCastOp, UniformQuantizeOp)


def has_other_readers(value: SSAValue, cast: Operation, unrounded: Collection[tuple[Operation, int]]) -> bool:
    """Whether an op reads a value as it is, or through a cast to another type."""
    return any(
        (use.operation, use.index) in unrounded
        or (isinstance(use.operation, CASTS) and use.operation.results[0].type != cast.operands[0].type)
        for use in value.uses
    )


def saturates(known: ValueConstraint | None, quantized: UniformQuantizedType) -> bool:
    """Whether saturation at the ends of a type is more noise than rounding in a type that holds the range.

    The distribution goes linearly through the minimum, the medians of equal-count bins, and the maximum. Rounding to
    steps s has the power s^2 / 12.
    """
    if known is None or known.minimum is None or known.maximum is None or not quantized.is_per_layer:
        return False
    points, (low, high) = np.sort(np.clip(known.quantiles, known.minimum, known.maximum)), real_range(quantized)
    shares = [0.0, *(np.arange(points.size) + 0.5) / max(points.size, 1), 1.0]
    values = np.interp((np.arange(POINTS) + 0.5) / POINTS, shares, [known.minimum, *points, known.maximum])
    step = (max(known.maximum, 0.0) - min(known.minimum, 0.0)) / (quantized.storage.maximum - quantized.storage.minimum)
    return bool(np.mean(np.square(values - np.clip(values, low, high))) > step**2 / 12)


def rescaled(value: SSAValue, known: ValueConstraint, wanted: UniformQuantizedType, op: Operation) -> QuantizeRegionOp:
    """A rescale to a type that a pair of casts states, from the type that the value will have."""
    has = f"the range [{known.minimum:g}, {known.maximum:g}] of its other readers"
    source = f"{op.name} '{written_name(op.results[0])}'"
    made = rescale_region(value, None, wanted, (has, f"{wanted} ({source})"))
    state_facts(made, [Fact("has", has, "calibrated", source), Fact("required", str(wanted), "user", source)])
    assert op.parent is not None
    op.parent.insert_op_before(made, op)
    return made


def drop_rescales_of_floats(rescales: Iterable[QuantizeRegionOp], joined: Collection[SSAValue]) -> None:
    """Let the readers of a rescale quantize the value for themselves, in place, if it stays float."""
    for rescale in rescales:
        (value,) = rescale.inputs
        maker = value.owner
        made = isinstance(maker, QuantizeRegionOp) and maker.is_quantized
        if not made and value not in joined:
            rescale.outputs[0].replace_all_uses_with(value)
            Rewriter.erase_op(rescale)
