"""`quant.qcast`, `quant.dcast`, `quant.scast`: casts between expressed, quantized and storage values.

Source: the "'quant' Dialect" document, section "Operations".
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import Signedness
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, OpResult, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.floats import FORMATS
from zeropoint.ir.quant.checks import refusal
from zeropoint.ir.quant.containers import check_container, element_or_self, shapes_match
from zeropoint.ir.quant.storage import Storage, signedness_of
from zeropoint.ir.quant.types import QuantizedType


def is_float(found: Attribute) -> bool:
    """Whether a scalar type is a floating-point type."""
    return type(found) in FORMATS


def is_signless(found: Attribute) -> bool:
    """Whether a scalar type is a signless integer."""
    return signedness_of(found) is Signedness.SIGNLESS


class _CastOp(IRDLOperation):
    input = operand_def()
    result = result_def()
    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    def __init__(self, input: SSAValue, result_type: Attribute):
        super().__init__(operands=[input], result_types=[result_type])

    def _check_scalar(self, role: str, found: Attribute, accepts: Callable[[Attribute], bool], kind: str) -> None:
        if not accepts(element_or_self(found)):
            raise refusal(self, f"{role} #0 must be scalar or tensor of {kind}, but got '{found}'")

    def _check_shapes(self) -> None:
        if not shapes_match(self.input.type, self.result.type):
            raise refusal(
                self, "failed to verify that input and result are both scalars or both tensors with matching shape"
            )


def _is_quantized(found: Attribute) -> bool:
    return isinstance(found, QuantizedType)


def _check_quantization(quantized: Attribute, expressed: Attribute) -> None:
    """The rules that `qcast` and `dcast` share: one expressed type, and a container that fits the axes."""
    scalar = element_or_self(quantized)
    assert isinstance(scalar, QuantizedType)
    if scalar.expressed_type != element_or_self(expressed):
        raise VerifyException("expressed type in quantized type expected to match float type")
    check_container(quantized)


def _undone(op: _CastOp, inverse: type[_CastOp]) -> tuple[SSAValue] | None:
    """The operand of the `inverse` cast that defines this op's operand, if it has the result's type; None otherwise."""
    source = op.input.op if isinstance(op.input, OpResult) else None
    return (source.input,) if isinstance(source, inverse) and source.input.type == op.result.type else None


@irdl_op_definition
class QuantizeCastOp(_CastOp, HasFolderInterface):
    """Quantizes a floating-point value: `quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<...>>`.

    clamp(convert(x / scale + zero_point), storage_min, storage_max). The numerics profile of the lowering or evaluation
    determines the rounding.
    """

    name = "quant.qcast"
    traits = traits_def(Pure())

    def verify_(self) -> None:
        self._check_scalar("operand", self.input.type, is_float, "floating-point")
        self._check_scalar("result", self.result.type, _is_quantized, "quantized type")
        self._check_shapes()
        _check_quantization(self.result.type, self.input.type)

    def fold(self) -> tuple[SSAValue] | None:
        """`qcast(dcast(q))` is q if both have the same type."""
        return _undone(self, DequantizeCastOp)


@irdl_op_definition
class DequantizeCastOp(_CastOp):
    """Dequantizes a value to the float that it expresses: (stored - zero_point) * scale."""

    name = "quant.dcast"
    traits = traits_def(Pure())

    def verify_(self) -> None:
        self._check_scalar("operand", self.input.type, _is_quantized, "quantized type")
        self._check_scalar("result", self.result.type, is_float, "floating-point")
        self._check_shapes()
        _check_quantization(self.input.type, self.result.type)


@irdl_op_definition
class StorageCastOp(_CastOp, HasFolderInterface):
    """Casts a quantized value to its signless storage integer or back; the bits do not change."""

    name = "quant.scast"
    traits = traits_def(Pure())

    def verify_(self) -> None:
        kind = "signless integer or quantized type"
        self._check_scalar("operand", self.input.type, lambda t: is_signless(t) or _is_quantized(t), kind)
        self._check_scalar("result", self.result.type, lambda t: is_signless(t) or _is_quantized(t), kind)
        scalars = [element_or_self(self.input.type), element_or_self(self.result.type)]
        self._check_shapes()
        if _is_quantized(scalars[0]) == _is_quantized(scalars[1]):
            raise refusal(
                self, "failed to verify that input must be integer and result must be quantized, or vice versa"
            )
        quantized, integer = scalars if _is_quantized(scalars[0]) else scalars[::-1]
        assert isinstance(quantized, QuantizedType)
        storage: Storage | None = quantized.storage
        if storage is None or storage.mlir_type != integer:
            raise VerifyException("storage type in quantized type expected to match integer type")
        check_container(self.input.type)
        check_container(self.result.type)

    def fold(self) -> tuple[SSAValue] | None:
        """`scast(scast(x))` is x if x has the result's type."""
        return _undone(self, StorageCastOp)
