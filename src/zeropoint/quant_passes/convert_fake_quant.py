"""Converts fake quantization to a pair of casts.

```mlir
%0 = "quant.const_fake_quant"(%x) {min = -1.0 : f32, max = 1.0 : f32, num_bits = 8 : i64} : ...
```
becomes
```mlir
%q = quant.qcast %x : tensor<8xf32> to tensor<8x!quant.uniform<u8:f32, 0.0078431372549019607:127>>
%0 = quant.dcast %q : tensor<8x!quant.uniform<u8:f32, 0.0078431372549019607:127>> to tensor<8xf32>
```

Source: "MLIR Quantization", section "Integration with simulated quantization at training time"; the parameters are
those of `zeropoint.numerics.ranges.fake_quant`.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from xdsl.dialects.builtin import AnyFloat
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern, op_type_rewrite_pattern
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.locations import describe
from zeropoint.ir.program import Program
from zeropoint.ir.quant import (
    ConstFakeQuantOp,
    ConstFakeQuantPerAxisOp,
    DequantizeCastOp,
    QuantizeCastOp,
    Storage,
    UniformQuantizedType,
)
from zeropoint.ir.quant.containers import element_or_self, with_scalar
from zeropoint.numerics.ranges import fake_quant
from zeropoint.numerics.storage import StorageType
from zeropoint.quant_passes.errors import LoweringError

COMPAT_WIDTHS = (8, 16, 32)


def fake_quant_type(op: ConstFakeQuantOp | ConstFakeQuantPerAxisOp, compat: bool) -> UniformQuantizedType:
    """The type that a fake quantization simulates; with `compat`, that of TensorFlow's converter of 2019.

    Raises ValueError for a range that is not finite.
    """
    bits = op.num_bits.value.data
    per_axis = isinstance(op, ConstFakeQuantPerAxisOp)
    ranges = op.ranges if per_axis else [(op.min.value.data, op.max.value.data)]
    minimum, maximum = np.array(ranges, np.float64).T
    found = fake_quant(minimum, maximum, bits, op.is_narrow, op.is_signed_storage, compat)
    width = next(width for width in COMPAT_WIDTHS if width >= bits) if compat else bits
    storage = Storage(StorageType(op.is_signed_storage, width), int(found.storage_min), int(found.storage_max))
    expressed = cast("AnyFloat", element_or_self(op.inputs.type))
    scales, points = np.atleast_1d(found.scale), np.atleast_1d(found.zero_point)
    if per_axis:
        return UniformQuantizedType.per_channel(storage, op.axis.value.data, scales, points, expressed_type=expressed)
    return UniformQuantizedType.per_layer(storage, float(scales[0]), int(points[0]), expressed_type=expressed)


class ConvertFakeQuant(RewritePattern):
    """const_fake_quant(x) -> dcast(qcast(x))."""

    def __init__(self, compat: bool):
        self.compat = compat

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ConstFakeQuantOp | ConstFakeQuantPerAxisOp, rewriter: PatternRewriter, /) -> None:
        """Replace one op. Raises LoweringError for a range that has no parameters."""
        try:
            quantized = fake_quant_type(op, self.compat)
        except (ValueError, VerifyException) as error:
            raise LoweringError(f"{describe(op)}: {error}", op) from error
        stored = QuantizeCastOp(op.inputs, with_scalar(op.inputs.type, quantized))
        real = DequantizeCastOp(stored.result, op.outputs.type)
        stored.location = real.location = op.location
        rewriter.replace(op, [stored, real])


def convert_fake_quant(program: Program, compat: bool = False) -> Program:
    """Replace every fake quantization by `qcast` and `dcast`.

    Raises LoweringError for a range that has no parameters.
    """
    program = program.for_change()
    PatternRewriteWalker(ConvertFakeQuant(compat), apply_recursively=False).rewrite_module(program.module)
    return program
