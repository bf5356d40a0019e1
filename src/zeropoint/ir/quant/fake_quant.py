"""`quant.const_fake_quant`, `quant.const_fake_quant_per_axis`: fake quantization from quantization-aware training.

Source: "MLIR Quantization", sections "Instrumentation and constraint ops" and "Integration with simulated quantization
at training time". Names and attributes are those of upstream MLIR's former ops.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, ArrayAttr, BoolAttr, FloatAttr, IntegerAttr, f32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, attr_def, irdl_op_definition, operand_def, opt_attr_def, result_def, traits_def
from xdsl.traits import Pure

from zeropoint.ir.quant.checks import refusal
from zeropoint.ir.quant.containers import element_or_self, is_tensor, ranked_shape

MIN_BITS, MAX_BITS = 2, 32


class _FakeQuantOp(IRDLOperation):
    inputs = operand_def()
    outputs = result_def()
    num_bits = attr_def(IntegerAttr)
    narrow_range = opt_attr_def(BoolAttr)
    is_signed = opt_attr_def(BoolAttr)

    @property
    def is_narrow(self) -> bool:
        """Whether the least storage value is unused (narrow range)."""
        return self.narrow_range is not None and bool(self.narrow_range.value.data)

    @property
    def is_signed_storage(self) -> bool:
        """Whether the storage is signed; unsigned if the attribute is absent."""
        return self.is_signed is not None and bool(self.is_signed.value.data)

    def verify_(self) -> None:
        found = self.inputs.type
        if not is_tensor(found) or element_or_self(found) != f32:
            raise refusal(self, f"operand #0 must be tensor of 32-bit float values, but got '{found}'")
        if found != self.outputs.type:
            raise refusal(self, "requires the same type for all operands and results")
        bits = self.num_bits.value.data
        if not MIN_BITS <= bits <= MAX_BITS:
            raise refusal(self, f"unsupported FakeQuant number of bits: {bits}")

    def _verify_range(self, minimum: float, maximum: float) -> None:
        if not minimum <= maximum:
            raise refusal(self, f"has min {minimum} above max {maximum}")


def _shared(num_bits: int, narrow_range: bool, is_signed: bool) -> dict[str, Attribute]:
    return {
        "num_bits": IntegerAttr(num_bits, i64),
        "narrow_range": BoolAttr.from_bool(narrow_range),
        "is_signed": BoolAttr.from_bool(is_signed),
    }


@irdl_op_definition
class ConstFakeQuantOp(_FakeQuantOp):
    """Quantize to `num_bits` bits over [min, max] and dequantize again.

    `"quant.const_fake_quant"(%x) {min = 0.0 : f32, max = 6.0 : f32, num_bits = 8 : i64} : (tensor<8xf32>) -> ...`
    """

    name = "quant.const_fake_quant"
    min = attr_def(FloatAttr)
    max = attr_def(FloatAttr)
    traits = traits_def(Pure())

    def __init__(
        self,
        inputs: SSAValue,
        minimum: float,
        maximum: float,
        num_bits: int = 8,
        *,
        narrow_range: bool = False,
        is_signed: bool = False,
    ):
        attributes = {"min": FloatAttr(minimum, f32), "max": FloatAttr(maximum, f32)}
        super().__init__(
            operands=[inputs],
            result_types=[inputs.type],
            attributes={**attributes, **_shared(num_bits, narrow_range, is_signed)},
        )

    def verify_(self) -> None:
        super().verify_()
        self._verify_range(self.min.value.data, self.max.value.data)


@irdl_op_definition
class ConstFakeQuantPerAxisOp(_FakeQuantOp):
    """`const_fake_quant` with one range per index of `axis`: `min` and `max` are arrays of floats."""

    name = "quant.const_fake_quant_per_axis"
    min = attr_def(ArrayAttr[FloatAttr])
    max = attr_def(ArrayAttr[FloatAttr])
    axis = attr_def(IntegerAttr)
    traits = traits_def(Pure())

    def __init__(
        self,
        inputs: SSAValue,
        minimum: Sequence[float],
        maximum: Sequence[float],
        axis: int,
        num_bits: int = 8,
        *,
        narrow_range: bool = False,
        is_signed: bool = False,
    ):
        attributes = {
            "min": ArrayAttr([FloatAttr(value, f32) for value in minimum]),
            "max": ArrayAttr([FloatAttr(value, f32) for value in maximum]),
            "axis": IntegerAttr(axis, i64),
        }
        super().__init__(
            operands=[inputs],
            result_types=[inputs.type],
            attributes={**attributes, **_shared(num_bits, narrow_range, is_signed)},
        )

    @property
    def ranges(self) -> list[tuple[float, float]]:
        """(minimum, maximum) for each index of the axis."""
        return [(low.value.data, high.value.data) for low, high in zip(self.min, self.max, strict=True)]

    def verify_(self) -> None:
        super().verify_()
        if len(self.min) != len(self.max):
            raise refusal(self, f"mismatched per-axis min and max size: {len(self.min)} vs. {len(self.max)}")
        axis = self.axis.value.data
        if axis < 0:
            raise refusal(self, f"illegal quantized dimension: {axis}")
        shape = ranked_shape(self.inputs.type)
        if shape is not None:
            if axis >= len(shape):
                raise refusal(self, "quantized dimension must be less than tensor rank")
            if shape[axis] not in (DYNAMIC_INDEX, len(self.min)):
                raise refusal(self, "quantized dimension size does not match number of scales")
        for minimum, maximum in self.ranges:
            self._verify_range(minimum, maximum)
