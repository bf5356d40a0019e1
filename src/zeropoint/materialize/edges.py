"""The edges between quantized values and floats: reuses casts of the program, and converts between float types."""

from __future__ import annotations

from xdsl.builder import Builder
from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.ir.constants import is_constant
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import ConvertOp, UniformDequantizeOp, UniformQuantizeOp
from zeropoint.ir.tensors import element_of, with_element


def quantized_before(value: SSAValue, spec: UniformQuantizedType) -> SSAValue | None:
    """The value of type `spec` that `value` was dequantized from, or None."""
    made = value.owner
    if isinstance(made, DequantizeCastOp | UniformDequantizeOp) and element_of(made.operands[0]) == spec:
        return made.operands[0]
    return None


def in_element(value: SSAValue, element: Attribute, builder: Builder, location: LocationAttr) -> SSAValue:
    """A float value in another float type. Casts express values in f32, but a model may be in f16, bf16 or f64."""
    if element_of(value) == element:
        return value
    made = ConvertOp(value, with_element(value, element))
    made.location = location
    return builder.insert(made).result


def cast_constant(value: SSAValue, spec: UniformQuantizedType) -> SSAValue:
    """The constant behind a pair of casts to type `spec`; `value` itself without one."""
    stored = quantized_before(value, spec)
    if stored is not None and isinstance(stored.owner, QuantizeCastOp | UniformQuantizeOp):
        constant = stored.owner.operands[0]
        return constant if is_constant(constant) else value
    return value


def take_over_casts(value: SSAValue, quantized: SSAValue) -> None:
    """Replace casts of `value` to the type of `quantized` by `quantized`."""
    for use in list(value.uses):
        user = use.operation
        if isinstance(user, QuantizeCastOp | UniformQuantizeOp) and user.results[0].type == quantized.type:
            user.results[0].replace_all_uses_with(quantized)
            Rewriter.erase_op(user)
