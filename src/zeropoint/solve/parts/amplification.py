"""How much a kernel amplifies an error in a part of its operand.

`multiply` by constants amplifies an error by the largest factor. A function of one value amplifies it by its steepest
slope in the range of the part. A depthwise convolution amplifies it by the L2 norm of a filter, because the errors of
different elements are independent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.ir.constants import constant_array
from zeropoint.ir.contractions import weights_by_channel
from zeropoint.ir.functions import evaluate_chain
from zeropoint.ir.quant import ReturnOp
from zeropoint.ir.stablehlo import BroadcastInDimOp, ConvolutionOp
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.solve.parts.divided import Divided
from zeropoint.solve.parts.part_readers import RealRange

POINTS = 129
"""Points in the range, between which slopes are computed."""


@dataclass(frozen=True)
class Amplified:
    """The largest amplification of an error in a part, and an estimate of the range of the part's results."""

    gain: float
    range: RealRange


def amplified(divided: Divided, index: int, span: RealRange) -> Amplified | None:
    """The amplification of an error in a part of operand `index`, whose values are in `span`; None if it is unknown."""
    block = divided.region.body.block
    returned, source = block.last_op, block.args[index]
    assert isinstance(returned, ReturnOp)
    reader = next(iter(source.uses)).operation
    if isinstance(reader, ConvolutionOp):
        filters = _constant(divided, reader.rhs)
        if filters is None:
            return None
        axis = reader.dimension_numbers.data.kernel_output_feature_dimension
        channels = weights_by_channel(np.take(filters, divided.chosen, axis), axis)
        # An estimate of the range: the sum of a filter's terms grows like its L2 norm, unless the terms have one sign.
        gain = float(np.sqrt(np.square(channels, dtype=np.float64).sum(1)).max())
        return Amplified(gain, (gain * span[0], gain * span[1]))
    points = np.linspace(*span, POINTS, dtype=np.float64).astype(np.float32)
    try:
        with np.errstate(all="ignore"):
            made = evaluate_chain(returned.operands[0], source, points[None], divided.weights, _constants(divided))
    except ValueError:
        return None
    made = np.broadcast_to(made, (divided.chosen.size, POINTS)).astype(np.float64)
    width = (span[1] - span[0]) / (POINTS - 1)
    if not np.isfinite(made).all() or not width:
        return None
    return Amplified(float(np.abs(np.diff(made, axis=1)).max()) / width, (float(made.min()), float(made.max())))


def _constants(divided: Divided) -> dict[SSAValue, Array]:
    """The numbers that the body broadcasts along the divided dimension, one row for each element of the part."""
    found: dict[SSAValue, Array] = {}
    for op in divided.region.body.block.ops:
        array = _constant(divided, op.operand) if isinstance(op, BroadcastInDimOp) else None
        if not isinstance(op, BroadcastInDimOp) or array is None:
            continue
        cut = divided.cuts.get(op.operand)
        if cut is not None and array.size == shape_of(op.operand)[cut.axis]:
            found[op.result] = array.reshape(-1)[cut.chosen].reshape(-1, 1)
        elif array.size == 1:
            found[op.result] = array.reshape(1, 1)
    return found


def _constant(divided: Divided, value: SSAValue) -> Array | None:
    """The array of a constant in the body, or of a constant operand of the region."""
    arguments: list[SSAValue] = list(divided.region.body.block.args)
    if value in arguments:
        value = divided.region.inputs[arguments.index(value)]
    return constant_array(value, divided.weights)
