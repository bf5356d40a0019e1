"""Softmax in integers (`numerics.softmax`), as plain integer ops on the stored integers.

```mlir
%1 = "quant.region"(%scores, %mask) ({ multiply by 0.18, broadcast, add, softmax }) {logical_kernel = "softmax"} : ...
```
becomes, for scores of i16 and a result of i8 at 1/256,
```mlir
%t = (the stored scores) + (broadcast of the stored mask, requantized to the scores' scale)     i32
%d = minimum(reduce maximum(%t) - %t, D)
%u = %d * M >> S
%e = (cubic of %u & 32767) >> (%u >> 15)
%r = (2^30 + T >> 1) / T, where T = reduce add(%e) + 32 >> 6                     one number a row
%p = minimum((%e >> 6) * %r + 2^21 >> 22, 255) - 128                             i8
```
Softmax depends on differences only, so zero points cancel. With other storage, or other parameters of the result, it
stays float, with a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import BlockArgument, SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.constants import splat_value
from zeropoint.ir.fxpmath import RequantizeOp
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import element_of, shape_of, with_element
from zeropoint.materialize.elementwise import encased
from zeropoint.materialize.kernel import MaterializedKernel
from zeropoint.materialize.words import Words
from zeropoint.numerics.requantize import WIDE_STORAGE_LIMIT, Multiplier, RequantizeBehaviour
from zeropoint.numerics.softmax import COEFFICIENTS, FRACTION, GREATEST_SCORE, MOST_TERMS, Softmax

RESULTS = {(8, 1 / 256, -128): 8, (16, 1 / 2048, 0): 11, (16, 1 / 32768, 0): 15}
"""Maps (storage width, scale, zero point) of results to their fraction bits."""
MASKED = GREATEST_SCORE >> 1
"""A requantized mask saturates at plus and minus this number, which is far beyond any difference of 16-bit scores."""


def softmax(kernel: MaterializedKernel) -> SSAValue:
    """Softmax of 8- or 16-bit scores, which may be scaled and masked first."""
    found = _scores(kernel)
    if isinstance(found, str):
        return encased(kernel, found)
    scores, axis, scale = found
    integers = Softmax.of(scale, shape_of(scores)[axis], RESULTS[_form(kernel.output_type)])
    run = Words(kernel)
    e = _exponentials(run, integers, scores, axis)
    word = i64 if integers.wide_sums else i32
    summands = run.converted(e, word)
    total = run.rounded(run.reduced(hlo.AddOp, summands, axis), integers.dropped)
    # The greatest score contributes 2^exponent_bits, so this changes no sum. It gives range analysis a bound on the
    # divisor.
    total = run.maximum(total, 1 << (integers.exponent_bits - integers.dropped))
    numerator = run.add(run.shifted(total, 1), 1 << (integers.bits + integers.result_shift))
    reciprocal = run.divide(numerator, total)
    word = i64 if integers.wide_products else i32
    factor = run.along(run.converted(reciprocal, word), scores, axis)
    product = run.multiply(run.converted(run.shifted(e, integers.dropped), word), factor)
    p = run.minimum(run.rounded(product, integers.result_shift), (1 << integers.bits) - 1)
    if integers.bits != 8:  # p >= 0 holds, but range analysis cannot derive it from the bounds of T and R
        p = run.maximum(p, 0)
    point = kernel.output_type.zero_point
    return run.quantized(run.add(p, point) if point else p)


def _exponentials(run: Words, integers: Softmax, scores: SSAValue, axis: int) -> SSAValue:
    """The ops of `Softmax.exponentials`, with the same results."""
    greatest = run.along(run.reduced(hlo.MaximumOp, scores, axis), scores, axis)
    distance = run.minimum(run.subtract(greatest, scores), integers.reach)
    u = run.shifted(run.multiply(distance, integers.multiplier), integers.shift)
    f = run.masked(u, FRACTION)
    c1, c2, c3 = COEFFICIENTS
    y = run.add(run.shifted(run.multiply(f, c3), 15), c2)
    y = run.add(run.shifted(run.multiply(y, f), 15), c1)
    y = run.add(run.shifted(run.multiply(y, f), 30 - integers.exponent_bits), 1 << integers.exponent_bits)
    return run.shifted(y, run.shifted(u, FRACTION))


Scores = tuple[SSAValue, int, float]
"""The i32 scores, the axis of the softmax, and the scale of the scores."""


def _scores(kernel: MaterializedKernel) -> Scores | str:
    """The scores after scaling and masking, or the reason why there is no integer form."""
    reduction = next(op for op in kernel.body if isinstance(op, hlo.ReduceOp))
    axes, wanted = array_values(reduction.dimensions), kernel.output_type
    shape = shape_of(reduction.inputs[0])
    kinds = [element_of(kernel.values[argument]) for argument in kernel.arguments]
    if len(axes) != 1 or shape[axes[0]] > MOST_TERMS:
        return f"integer softmax takes one dimension of at most {MOST_TERMS} elements"
    bits = RESULTS.get(_form(wanted)) if all(_is_plain(kind) for kind in (*kinds, wanted)) else None
    if bits is None or wanted.storage.maximum - wanted.zero_point < (1 << bits) - 1:
        return (
            "integer softmax takes signed 8- or 16-bit scores, and gives results at 1/256 from -128, 1/2048 or 1/32768"
        )
    return _sum(kernel, reduction.inputs[0], axes[0])


def _form(kind: UniformQuantizedType) -> tuple[int, float, int]:
    return kind.storage.type.width, kind.scale, kind.zero_point


def _is_plain(kind: object) -> bool:
    return (
        isinstance(kind, UniformQuantizedType)
        and kind.is_per_layer
        and kind.storage.type.signed
        and kind.storage.type.width in (8, 16)
    )


def _sum(kernel: MaterializedKernel, value: SSAValue, axis: int) -> Scores | str:
    """The scores behind `value`: the first argument, times positive numbers, plus a mask."""
    run, mask = Words(kernel), None
    if isinstance(value.owner, hlo.AddOp):
        sides = [(value.owner.lhs, value.owner.rhs), (value.owner.rhs, value.owner.lhs)]
        value, mask = next(pair for pair in sides if _scaled(pair[0], kernel)[0] is kernel.arguments[0])
    argument, factor = _scaled(value, kernel)
    if not isinstance(argument, BlockArgument):
        return "integer softmax takes scores times positive numbers, plus a mask"
    scale = kernel.type_of(argument).scale * factor
    scores = run.stored(argument)
    return (scores if mask is None else run.add(scores, _masked(run, mask, scale))), axis, scale


def _scaled(value: SSAValue, kernel: MaterializedKernel) -> tuple[SSAValue, float]:
    """The x of products x * c and quotients x / c with positive numbers c, and the total factor."""
    factor = 1.0
    while isinstance(op := value.owner, hlo.MultiplyOp | hlo.DivideOp):
        number = splat_value(op.rhs, kernel.weights)
        if number is None or not 0 < number < float("inf"):
            break
        value, factor = op.lhs, factor * number if isinstance(op, hlo.MultiplyOp) else factor / number
    return value, factor


def _masked(run: Words, mask: SSAValue, scale: float) -> SSAValue:
    """The mask's stored integers, rescaled to the scale of the scores and broadcast to their shape.

    The ratio of the scales is limited to 2^16 steps of the scores, the greatest difference of 16-bit scores.
    """
    shape, kernel = mask, run.kernel
    broadcast = mask.owner if isinstance(mask.owner, hlo.BroadcastInDimOp) else None
    argument = mask if broadcast is None else broadcast.operand
    stored = run.stored(argument)
    ratio = min(kernel.type_of(argument).scale / scale, WIDE_STORAGE_LIMIT)
    multiplier = Multiplier.of(ratio, RequantizeBehaviour.FIXED32, 32)
    assert multiplier.shift is not None
    parts = [
        kernel.constant(np.atleast_1d(part).astype(np.int32)) for part in (multiplier.multiplier, multiplier.shift)
    ]
    made = RequantizeOp(
        stored,
        parts[0],
        parts[1],
        stored.type,
        behaviour=multiplier.behaviour.value,
        zero_point=0,
        storage_min=-MASKED,
        storage_max=MASKED,
    )
    scaled = run.insert(made)
    if broadcast is None:
        return scaled
    dimensions = array_values(broadcast.broadcast_dimensions)
    return run.insert(hlo.BroadcastInDimOp(scaled, with_element(shape, i32), dimensions))


KERNELS: Mapping[str, Callable[[MaterializedKernel], SSAValue]] = {"softmax": softmax}
"""By logical kernel."""
