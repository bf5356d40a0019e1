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

from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.normalizations import layer_norm_form
from zeropoint.ir.tensors import shape_of
from zeropoint.materialize.elementwise import encased
from zeropoint.materialize.kernel import MaterializedKernel
from zeropoint.materialize.storage import is_plain
from zeropoint.materialize.words import Words
from zeropoint.numerics.layer_norm import ChannelMaps, LayerNorm
from zeropoint.numerics.layer_norm_steps import row_steps


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
    form = layer_norm_form(kernel.region, kernel.weights) if is_plain(kernel) else None
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


KERNELS: Mapping[str, Callable[[MaterializedKernel], SSAValue]] = {"layer_norm": layer_norm}
"""By logical kernel."""
