"""Layer normalization in integers (`numerics.layer_norm`), as plain integer ops on the stored integers.

```mlir
%1 = "quant.region"(%x, %gamma, %beta) ({ layer norm, times %gamma, plus %beta }) {logical_kernel = "layer_norm"}
```
becomes, for x of i16,
```mlir
%s, %v = (sums of %x and of its squares, n^2 times the variance)                    i64, one number a row
%g, %l = (the reciprocal root of %v by Newton steps, as a factor and a shift)
%c = (%x - mean) * 2^%l                                                             i32
%t = %c * %g >> 41
%y = clamp((%t * Gamma + B) >> N)                                                   Gamma, B, N: one a channel
```
Rows are along one dimension, and gamma and beta are constants along it. Anything else stays float, with a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import BlockArgument, Operation, SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.constants import constant_array, splat_value
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.materialize.elementwise import encased
from zeropoint.materialize.kernel import MaterializedKernel
from zeropoint.materialize.storage import is_plain
from zeropoint.materialize.words import Words
from zeropoint.numerics.layer_norm import LINE, NEWTON_STEPS, ChannelMaps, LayerNorm


@dataclass(frozen=True)
class _Form:
    """The row's dimension, and the float constants of a layer norm."""

    axis: int
    epsilon: float
    gamma: Array
    beta: Array


def layer_norm(kernel: MaterializedKernel) -> SSAValue:
    """Layer normalization of signed 8- or 16-bit values."""
    form = _form(kernel)
    if form is None:
        return encased(kernel, "integer layer normalization takes one dimension of signed 8- or 16-bit values with "
                       "one scale, and factors and addends that are constant along the others")  # fmt: skip
    source, wanted = kernel.arguments[0], kernel.output_type
    terms = shape_of(source)[form.axis]
    try:
        norm = LayerNorm.of(kernel.type_of(source).scale, terms, form.epsilon)
        bounds = wanted.storage.minimum, wanted.storage.maximum
        affine = ChannelMaps.of(form.gamma, form.beta, norm.fraction, wanted.scale, wanted.zero_point, *bounds)
    except ValueError as error:
        return encased(kernel, str(error))
    run = Words(kernel)
    t = _normalized(run, norm, run.stored(source), form.axis)
    product = run.multiply(t, run.channels(affine.factor, t, form.axis))
    total = run.add(product, run.channels(affine.bias, t, form.axis))
    shifted = run.shifted(total, run.channels(affine.shift, t, form.axis))
    return run.quantized(run.clamped(shifted, affine.low, affine.high))


def _normalized(run: Words, norm: LayerNorm, q: SSAValue, axis: int) -> SSAValue:
    """The ops of `LayerNorm.normalized`, with the same results.

    Squares are summed in two parts of 15 bits, in i32, which takes fewer instructions than i64. The factor is i32 until
    it is multiplied, so that native code can use a product of 32-bit numbers.
    """
    n = norm.terms
    total = run.converted(run.reduced(hlo.AddOp, q, axis), i64)
    square = run.multiply(q, q)
    high = run.converted(run.reduced(hlo.AddOp, run.shifted(square, 15), axis), i64)
    low = run.converted(run.reduced(hlo.AddOp, run.masked(square, 15), axis), i64)
    squares = run.add(run.multiply(high, 1 << 15), low)
    spread = run.subtract(run.multiply(squares, n), run.multiply(total, total))
    v = run.maximum(run.add(spread, norm.epsilon) if norm.epsilon else spread, n)
    z = run.both(run.leading_zeros(v), ~1)
    m = run.shifted(run.raised(v, run.subtract(z, 2)), 30)
    factor = run.shifted(run.multiply(_reciprocal_root(run, m), n), norm.log + 1)
    left = run.add(run.shifted(z, 1), norm.log - norm.reach - 2)
    mean = run.subtract(run.divide(run.add(total, n * (1 << 15) + n // 2), n), 1 << 15)
    rest = run.subtract(total, run.multiply(mean, n))
    rho = run.divide(run.raised(rest, left), n)

    def every(number: SSAValue) -> SSAValue:
        return run.along(run.converted(number, i32), q, axis)

    unit = run.raised(1, left)
    c = run.subtract(run.multiply(run.subtract(q, every(mean)), every(unit)), every(rho))
    product = run.multiply(run.converted(c, i64), run.converted(every(factor), i64))
    return run.rounded(run.converted(run.shifted(product, 32), i32), 9)


def _reciprocal_root(run: Words, m: SSAValue) -> SSAValue:
    """The ops of `numerics.layer_norm.reciprocal_root`."""
    y = run.subtract(LINE[0], run.shifted(run.multiply(m, LINE[1]), 15))
    for _ in range(NEWTON_STEPS):
        square = run.shifted(run.multiply(y, y), 30)
        rest = run.subtract(3 << 30, run.shifted(run.multiply(m, square), 30))
        y = run.shifted(run.multiply(y, rest), 31)
    return y


def _form(kernel: MaterializedKernel) -> _Form | None:
    """The form of the body's layer norm; None if it has no integer form."""
    source, *others = kernel.arguments
    axes = {array_values(op.dimensions) for op in kernel.body if isinstance(op, hlo.ReduceOp)}
    if not is_plain(kernel) or len(axes) != 1 or len(next(iter(axes))) != 1:
        return None
    ((axis,),) = axes
    terms = shape_of(source)[axis]
    found: dict[type[Operation], Array] = {hlo.MultiplyOp: np.ones(terms), hlo.AddOp: np.zeros(terms)}
    for argument in others:
        user, array = _constant(kernel, argument)
        row = None if array is None else _row(array, axis, shape_of(source))
        if row is None or user is None or type(user) not in found:
            return None
        found[type(user)] = row
    return _Form(axis, _epsilon(kernel), found[hlo.MultiplyOp], found[hlo.AddOp])


def _constant(kernel: MaterializedKernel, argument: BlockArgument) -> tuple[Operation | None, Array | None]:
    """The op that computes with a constant argument, and the constant as that op reads it; None for other arguments."""
    value: SSAValue = argument
    array: Array | None = constant_array(kernel.region.inputs[argument.index], kernel.weights)
    while array is not None and value.has_one_use():
        user = next(iter(value.uses)).operation
        if isinstance(user, hlo.BroadcastInDimOp):
            dimensions, shape = array_values(user.broadcast_dimensions), shape_of(user.result)
            sizes = [1] * len(shape)
            for size, dimension in zip(array.shape, dimensions, strict=True):
                sizes[dimension] = size
            whole: Array = array.reshape(sizes)
            array = np.broadcast_to(whole, shape)
        elif isinstance(user, hlo.ReshapeOp):
            array = array.reshape(shape_of(user.result))
        else:
            return user, array
        value = user.result
    return None, None


def _row(array: Array, axis: int, shape: tuple[int, ...]) -> Array | None:
    """The numbers along one dimension of an array that is constant along the others; None for other arrays."""
    if array.shape != shape:
        return None
    first = np.moveaxis(array, axis, -1).reshape(-1, shape[axis])
    return first[0] if (first == first[0]).all() else None


def _epsilon(kernel: MaterializedKernel) -> float:
    """The number that is added to the variance before the square root; 0 without one."""
    for op in kernel.body:
        if isinstance(op, hlo.RsqrtOp | hlo.SqrtOp):
            value = op.operand
            while isinstance(value.owner, hlo.BroadcastInDimOp | hlo.ReshapeOp):
                value = value.owner.operand
            if isinstance(add := value.owner, hlo.AddOp):
                numbers = [splat_value(operand, kernel.weights) for operand in add.operands]
                return next((number for number in numbers if number is not None), 0.0)
    return 0.0


KERNELS: Mapping[str, Callable[[MaterializedKernel], SSAValue]] = {"layer_norm": layer_norm}
"""By logical kernel."""
