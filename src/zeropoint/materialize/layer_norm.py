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
from zeropoint.numerics.layer_norm import ChannelMaps, LayerNorm
from zeropoint.numerics.layer_norm_steps import row_steps


@dataclass(frozen=True)
class _Form:
    """The row's dimension, and the float constants of a layer norm."""

    axis: int
    epsilon: float
    gamma: Array
    beta: Array


@dataclass(frozen=True)
class _Rows(Words):
    """Emits the ops of rows along a dimension of `values`."""

    values: SSAValue
    axis: int

    def total(self, values: SSAValue) -> SSAValue:
        return self.reduced(hlo.AddOp, values, self.axis)

    def wide(self, value: SSAValue) -> SSAValue:
        return self.converted(value, i64)

    def word(self, value: SSAValue) -> SSAValue:
        return self.converted(value, i32)

    def every(self, number: SSAValue) -> SSAValue:
        return self.along(self.word(number), self.values, self.axis)


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
    q = Words(kernel).stored(source)
    run = _Rows(kernel, q, form.axis)
    t = row_steps(run, norm, q).normalized
    product = run.multiply(t, run.channels(affine.factor, t, form.axis))
    total = run.add(product, run.channels(affine.bias, t, form.axis))
    shifted = run.shifted(total, run.channels(affine.shift, t, form.axis))
    return run.quantized(run.clamped(shifted, affine.low, affine.high))


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
