"""XNNPACK's kernels on storage integers, as LiteRT's delegate uses them, and the list of delegated kernels.

Mean and sum are an f32 product and an f32 sum with the zero points, rounded half to even. Rescale and leaky relu
multiply by a factor with 8 fractional bits: ((q - z_in) * round(256 * s_in / s_out) + 128) >> 8. They add the zero
point afterwards. Leaky relu and ELU are tables.

Sources: XNNPACK's qs8-rsum, qs8-vcvt and qs8-vlrelu.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import numpy as np
from xdsl.dialects.builtin import StringAttr, f32
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.annotations import RESCALE, ROW_PROFILE, carry
from zeropoint.ir.contractions import has_computed_weights
from zeropoint.ir.fxpmath import TableOp
from zeropoint.ir.quant import QuantizeRegionOp, StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import DotGeneralOp, ReduceOp, UniformQuantizeOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import shape_of, with_element
from zeropoint.materialize import elementwise, litert, litert_float_softmax, litert_resize, ruy
from zeropoint.materialize.float_arithmetic import FloatArithmetic
from zeropoint.materialize.kernel import MaterializedKernel
from zeropoint.materialize.reduction import summed
from zeropoint.materialize.storage import (
    centred,
    counts_of,
    division_of,
    expressed,
    is_plain,
    reduced,
    requantized,
    stored_input,
    widened,
)
from zeropoint.numerics.arrays import IntArray
from zeropoint.numerics.ranges import AffineParameters
from zeropoint.numerics.requantize import Multiplier, RequantizeBehaviour
from zeropoint.numerics.rounding import INT32_MAX
from zeropoint.numerics.xnnpack import FRACTION_BITS, conversion_factor, elu_table, leaky_relu_table

DELEGATED = frozenset(
    {
        "add", "concatenate", "convolution", "depthwise_convolution", "elu", "fully_connected", "leaky_relu",
        "linear_resize", "max_pool", "mean", "multiply", "pad", "rescale", "reshape", "slice", "subtract", "sum",
        "transpose", "transpose_convolution",
    }
)  # fmt: skip
"""The 8-bit kernels that XNNPACK executes. LiteRT's own kernels execute the others (`undelegated_profile`).

XNNPACK also executes a `batch_matmul` whose right operand has zero point 0.
"""
REASON = "XNNPACK computes means in f32"
UNDELEGATED_PROFILE = "fixed32-double"
"""The profile of LiteRT's own kernels for rows without a profile."""
BYTE = 8
WIDE = 16
"""The width in bits of activations that XNNPACK has no kernels for."""


def is_delegated(region: QuantizeRegionOp) -> bool:
    """Whether XNNPACK executes the kernel of a region, or LiteRT in floats or with ruy."""
    if has_computed_weights(region):
        return True
    own = region.logical_kernel.data in DELEGATED | litert_float_softmax.KERNELS.keys() and not ruy.is_grouped(region)
    specs = [spec for spec in (*region.input_specs, *region.output_specs) if isinstance(spec, UniformQuantizedType)]
    wide = any(spec.storage.type.width == WIDE for spec in specs)
    return not wide and (own or _multiplies_by_symmetric(region))


def _multiplies_by_symmetric(region: QuantizeRegionOp) -> bool:
    """Whether a region is a `batch_matmul` whose right operand has zero point 0."""
    product = next((op for op in region.body.block.ops if isinstance(op, DotGeneralOp)), None)
    if region.logical_kernel.data != "batch_matmul" or product is None:
        return False
    specs = zip(region.body.block.args, region.input_specs, strict=True)
    found = next((spec for argument, spec in specs if argument is product.rhs), None)
    return isinstance(found, UniformQuantizedType) and found.zero_point == 0


def undelegated_profile(region: QuantizeRegionOp) -> StringAttr:
    """The profile of LiteRT's own kernel: that of its row in the table, if it has one."""
    found = region.attributes.get(ROW_PROFILE)
    return found if isinstance(found, StringAttr) else StringAttr(UNDELEGATED_PROFILE)


def mean(kernel: MaterializedKernel) -> SSAValue:
    """The sum of stored integers times m = fl32(fl32(s_in / s_out) / count), plus fl32(z_out - fl32(count * z_in * m)).

    All steps are f32, and the last one rounds half to even. For `sum`, the count of the divisor is 1.
    """
    op = next((op for op in kernel.body if isinstance(op, ReduceOp)), None)
    if op is None or not is_plain(kernel):
        return summed(kernel)
    given, wanted = kernel.type_of(kernel.arguments[0]), kernel.output_type
    terms = prod(shape_of(op.inputs[0])[axis] for axis in array_values(op.dimensions))
    division = division_of(kernel)
    counts = np.array(1) if division is None else counts_of(kernel, division)
    if (
        counts is None
        or not (counts == (1 if division is None else terms)).all()
        or terms * given.affine.reach > INT32_MAX
    ):
        return summed(kernel)
    ratio = np.float32(given.scale) / np.float32(wanted.scale)
    factor = ratio / np.float32(1 if division is None else terms)
    point = np.float32(wanted.zero_point) - np.float32(terms * given.zero_point) * factor
    run = FloatArithmetic(kernel, REASON)
    kernel.values[kernel.arguments[0]] = widened(kernel)
    value = run.plus(run.times(run.to(reduced(kernel), f32), factor), point)
    return run.rounded(run.clamped(value, wanted.storage.minimum, wanted.storage.maximum), wanted.zero_point)


def rescale(kernel: MaterializedKernel) -> SSAValue:
    """A rescale in 8.8 fixed point.

    LiteRT's own kernel takes what XNNPACK does not: a change between i8 and u8, and ratios outside of
    `conversion_factor`. It rounds as `ruy.half_up`, 16 elements at a time, and the last ones of a tensor whose size is
    no multiple of 16 as the reference kernel, which is not predicted.
    """
    given, wanted = kernel.type_of(kernel.arguments[0]), kernel.output_type
    if not all(kind.is_per_layer and kind.storage.type.width == BYTE for kind in (given, wanted)):
        return elementwise.rescale(kernel)
    _read_signed(kernel, given)
    factor = conversion_factor(given.scale, wanted.scale)
    if factor is None or given.storage.type.signed != wanted.storage.type.signed:
        stored = ruy.half_up(kernel, centred(kernel), np.asarray(given.scale / wanted.scale), wanted.signed)
    else:
        multiplier = Multiplier(RequantizeBehaviour.FIXED32, np.asarray(factor), np.asarray(FRACTION_BITS))
        stored = requantized(kernel, centred(kernel), multiplier, wanted=wanted.signed)
    value = kernel.insert(StorageCastOp(stored, with_element(stored, wanted.signed)), kernel.region).result
    if not wanted.storage.type.signed:
        value = kernel.insert(UniformQuantizeOp(value, with_element(value, wanted)), kernel.region).result
    assert isinstance(value.owner, Operation)
    carry(kernel.region, value.owner, RESCALE)
    return value


def _read_signed(kernel: MaterializedKernel, given: UniformQuantizedType) -> None:
    """Let a kernel read its operand in the signed type of the same numbers."""
    value = kernel.values[kernel.arguments[0]]
    if not given.storage.type.signed:
        cast = UniformQuantizeOp(value, with_element(value, given.signed))
        kernel.values[kernel.arguments[0]] = kernel.insert(cast, kernel.region).result


def leaky_relu(kernel: MaterializedKernel) -> SSAValue:
    """A table of x times an 8.8 fixed-point factor, one for each sign of x."""
    slope = -litert.value_at(kernel)(-1.0)
    return _tabulated(kernel, lambda given, wanted: leaky_relu_table(given, wanted, slope))


def elu(kernel: MaterializedKernel) -> SSAValue:
    """A table of real numbers, rounded to even."""
    return _tabulated(kernel, elu_table)


def _tabulated(
    kernel: MaterializedKernel, entries: Callable[[AffineParameters, AffineParameters], IntArray]
) -> SSAValue:
    """A function of an 8-bit value, as a table."""
    given, wanted = kernel.type_of(kernel.arguments[0]), kernel.output_type
    if not is_plain(kernel) or given.storage.type.width != 8 or wanted.storage.type.width != 8:
        return elementwise.encased(kernel)
    stored, table = stored_input(kernel), entries(given.affine, wanted.affine).astype(np.int8)
    return expressed(kernel, kernel.insert(TableOp(stored, kernel.constant(table), stored.type), kernel.region).result)


KERNELS: Mapping[str, Callable[[MaterializedKernel], SSAValue]] = {
    **litert_float_softmax.KERNELS,
    "batch_matmul": ruy.batch_matmul,
    "convolution": ruy.convolution,
    "elu": elu,
    "fully_connected": ruy.fully_connected,
    "leaky_relu": leaky_relu,
    "linear_resize": litert_resize.xnnpack,
    "mean": mean,
    "rescale": rescale,
    "sum": mean,
}
"""By logical kernel."""
