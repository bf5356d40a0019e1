"""Real math ops: arithmetic on real numbers, with the clamps and biases that quantized kernels absorb.

Source: "MLIR Quantization", section "FxpMath Dialect" (real math ops). Operands and results are floats, or quantized
values of one scale and 8 or 16 bits, whose types may differ. `clamp_min` and `clamp_max` are real numbers.

```mlir
%0 = "fxpmath.real_add_ew"(%a, %b) <{clamp_min = 0.0 : f64}>
       : (tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.25:3>>)
       -> tensor<4x!quant.uniform<i16:f32, 0.125>>
%1 = "fxpmath.real_unary_ew"(%0) <{fn = "TANH"}> : ...
%2 = "fxpmath.real_matmul_bias"(%x, %w, %bias) <{clamp_min = 0.0 : f64, clamp_max = 6.0 : f64}> : ...
```

**Semantics.** On floats, the function is applied, then the clamp, in the float type. On quantized values, the real
result is rounded once to the result's type, by the program's profile, and clamped to the quantized bounds; only the
bias of a matmul is rounded before, to 32 bits at the scale of the products. If every ratio of scales is a power of two,
values are rescaled by shifts that round ties away from zero (`numerics.real_math`).
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import AnyFloat, Float64Type, FloatAttr, IntegerType, StringAttr, TensorType, f64, i1
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from zeropoint.ir.quant.channel_scales import channel_scales
from zeropoint.ir.quant.checks import refusal
from zeropoint.ir.quant.storage import Storage
from zeropoint.ir.quant.types import UniformQuantizedType
from zeropoint.ir.tensors import element_of, shape_of

WIDTHS = (8, 16)
WEIGHT_WIDTHS = (4, 8, 16)
BIAS_WIDTHS = (8, 16, 32)
SUMS = Storage.of("i32")
"""The storage of results that are the sums of products."""

FUNCTIONS = {
    "IDENTITY": None,
    "TANH": "tanh",
    "SIGMOID": "logistic",
    "EXP": "exponential",
    "LOG": "log",
    "NEG": "negate",
    "RSQRT": "rsqrt",
    "SIN": "sine",
    "SQUARE": None,
    "SQRT": "sqrt",
}
"""Maps the functions of `real_unary_ew` to StableHLO's op names; None if StableHLO has no such op."""
COMPARISONS = {"CMPZ": "EQ", "CMPNZ": "NE", "CMPLZ": "LT", "CMPGZ": "GT"}
"""Maps the comparisons with zero, whose results are i1, to StableHLO's directions."""


def _is_tensor(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType)


def _check_value(op: Operation, role: str, value: SSAValue, widths: tuple[int, ...] = WIDTHS) -> None:
    """Check for a tensor of floats, or of quantized values of one scale and one of the widths."""
    element = element_of(value) if _is_tensor(value) else None
    if isinstance(element, AnyFloat):
        return
    if isinstance(element, UniformQuantizedType):
        storage = element.storage.type
        if element.is_per_layer and storage.signed and storage.width in widths:
            return
    listed = " or ".join(f"i{width}" for width in widths)
    raise refusal(op, f"{role} must be a tensor of floats, or of {listed} with one scale, but got '{value.type}'")


def _check_weights(op: Operation, value: SSAValue) -> None:
    """Check for floats, or quantized values of 4, 8 or 16 bits; per column or in blocks if they are one matrix."""
    element = element_of(value) if _is_tensor(value) else None
    if not isinstance(element, UniformQuantizedType) or element.is_per_layer:
        _check_value(op, "rhs", value, WEIGHT_WIDTHS)
        return
    storage, rank = element.storage.type, len(shape_of(value))
    by_column = element.axis == 1 or element.is_sub_channel
    if rank != 2 or not by_column or not storage.signed or storage.width not in WEIGHT_WIDTHS:
        listed = " or ".join(f"i{width}" for width in WEIGHT_WIDTHS)
        wanted = f"of {listed} with one scale, or, as one matrix, with a scale per column or block"
        raise refusal(op, f"rhs must be a tensor of floats, or {wanted}, but got '{value.type}'")


def expressed_element(value: SSAValue) -> Attribute:
    """The float type of a value's real numbers."""
    element = element_of(value)
    return element.expressed_type if isinstance(element, UniformQuantizedType) else element


def is_real(op: Operation) -> bool:
    """Whether all operands and results are floats."""
    values = (*op.operands, *op.results)
    return all(isinstance(element_of(value), AnyFloat | IntegerType) for value in values)


class ClampedRealOp(IRDLOperation):
    """An op on real numbers, with a clamp of its result."""

    result = result_def()
    clamp_min = opt_prop_def(FloatAttr)
    clamp_max = opt_prop_def(FloatAttr)
    traits = traits_def(Pure())

    def __init__(
        self,
        *operands: SSAValue,
        result_type: Attribute,
        clamp_min: float | None = None,
        clamp_max: float | None = None,
        **properties: Attribute,
    ):
        bounds = {"clamp_min": clamp_min, "clamp_max": clamp_max}
        given = {name: FloatAttr(bound, f64) for name, bound in bounds.items() if bound is not None}
        super().__init__(operands=list(operands), result_types=[result_type], properties={**given, **properties})

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """clamp_min and clamp_max; None for an absent one."""
        low, high = (None if bound is None else float(bound.value.data) for bound in (self.clamp_min, self.clamp_max))
        return low, high

    def _check_clamp(self) -> None:
        for name, bound in (("clamp_min", self.clamp_min), ("clamp_max", self.clamp_max)):
            if bound is not None and not isinstance(bound.type, Float64Type):
                raise refusal(self, f"{name} must be a number of f64, but got '{bound}'")
            if bound is not None and bound.value.data != bound.value.data:
                raise refusal(self, f"{name} must be a number, but got NaN")
        low, high = self.bounds
        if low is not None and high is not None and low > high:
            raise refusal(self, f"clamp_min must be at most clamp_max, but got {low} and {high}")

    def _check_kinds(self) -> None:
        """Check for all floats or all quantized, of one expressed type."""
        values = [*self.operands, *self.results]
        kinds = {isinstance(element_of(value), UniformQuantizedType) for value in values}
        if len(kinds) > 1 or len({expressed_element(value) for value in values}) > 1:
            listed = ", ".join(f"'{value.type}'" for value in values)
            raise refusal(self, f"operands and result must be all floats or all quantized, but got {listed}")


class RealBinaryOp(ClampedRealOp):
    """A function of two values of one shape."""

    lhs = operand_def()
    rhs = operand_def()

    def verify_(self) -> None:
        """Check for one shape, kinds and the clamp."""
        for role, value in (("lhs", self.lhs), ("rhs", self.rhs), ("result", self.result)):
            _check_value(self, role, value)
            if shape_of(value) != shape_of(self.result):
                raise refusal(
                    self, f"{role} must have the shape of the result, but got '{value.type}' and '{self.result.type}'"
                )
        self._check_kinds()
        self._check_clamp()


@irdl_op_definition
class RealAddEwOp(RealBinaryOp):
    """clamp(lhs + rhs)."""

    name = "fxpmath.real_add_ew"


@irdl_op_definition
class RealSubEwOp(RealBinaryOp):
    """clamp(lhs - rhs)."""

    name = "fxpmath.real_sub_ew"


@irdl_op_definition
class RealMulEwOp(RealBinaryOp):
    """clamp(lhs * rhs)."""

    name = "fxpmath.real_mul_ew"


@irdl_op_definition
class RealDivEwOp(RealBinaryOp):
    """clamp(lhs / rhs)."""

    name = "fxpmath.real_div_ew"


@irdl_op_definition
class RealUnaryEwOp(ClampedRealOp):
    """clamp(fn(operand)) with a function of `FUNCTIONS`; or a comparison with zero of `COMPARISONS`, as i1."""

    name = "fxpmath.real_unary_ew"
    operand = operand_def()
    fn = prop_def(StringAttr)

    @property
    def compares(self) -> bool:
        """Whether the function is a comparison with zero."""
        return self.fn.data in COMPARISONS

    def verify_(self) -> None:
        """Check the function, one shape, kinds and the clamp; comparisons have none."""
        if self.fn.data not in FUNCTIONS and not self.compares:
            listed = ", ".join((*FUNCTIONS, *COMPARISONS))
            raise refusal(self, f"fn must be one of {listed}, but got '{self.fn.data}'")
        _check_value(self, "operand", self.operand)
        if not _is_tensor(self.result) or shape_of(self.operand) != shape_of(self.result):
            raise refusal(
                self,
                f"operand must have the shape of the result, but got '{self.operand.type}' and '{self.result.type}'",
            )
        if self.compares:
            self._check_comparison()
            return
        _check_value(self, "result", self.result)
        self._check_kinds()
        self._check_clamp()

    def _check_comparison(self) -> None:
        if element_of(self.result) != i1:
            raise refusal(self, f"result of {self.fn.data} must be a tensor of i1, but got '{self.result.type}'")
        if self.clamp_min is not None or self.clamp_max is not None:
            raise refusal(self, f"{self.fn.data} has no clamp, but got one")


def _matmul_shape(lhs: Any, rhs: Any) -> tuple[int, ...] | None:
    """The shape of a product of stacks of matrices; None if they do not fit."""
    fits = len(lhs) == len(rhs) >= 2 and lhs[:-2] == rhs[:-2] and lhs[-1] == rhs[-2]
    return (*lhs[:-1], rhs[-1]) if fits else None


class RealMatMulBase(ClampedRealOp):
    """A product of two matrices, or of two stacks with the same number of matrices.

    Quantized weights (`rhs`) of one matrix may have 4 bits, and a scale per column or per block (`numerics.blockwise`).
    A product without bias and clamp may have a result of i32 with the scales of the products: the saturated sums.
    """

    lhs = operand_def()
    rhs = operand_def()

    def _check_matrices(self) -> None:
        _check_value(self, "lhs", self.lhs)
        if not self.gives_sums:
            _check_value(self, "result", self.result)
        _check_weights(self, self.rhs)
        given = _matmul_shape(shape_of(self.lhs), shape_of(self.rhs))
        if given is None or given != tuple(shape_of(self.result)):
            types = f"'{self.lhs.type}', '{self.rhs.type}' and '{self.result.type}'"
            raise refusal(
                self, f"lhs, rhs and result must be [..., m, k], [..., k, n] and [..., m, n], but got {types}"
            )
        self._check_kinds()
        self._check_clamp()
        if self.gives_sums:
            self._check_sums()

    @property
    def gives_sums(self) -> bool:
        """Whether the result is the sums of products in i32."""
        element = element_of(self.result) if _is_tensor(self.result) else None
        return isinstance(element, UniformQuantizedType) and element.storage == SUMS

    def _check_sums(self) -> None:
        lhs, rhs, result = (
            cast("UniformQuantizedType", element_of(value)) for value in (self.lhs, self.rhs, self.result)
        )
        axis = len(shape_of(self.result)) - 1
        scales = lhs.scale * channel_scales(rhs, 1, shape_of(self.result)[-1])
        plain = self.clamp_min is None and self.clamp_max is None and len(self.operands) == 2
        fits = result.axis in (None, axis) and not result.zero_points.any() and np.array_equal(result.scales, scales)
        if not plain or not fits:
            raise refusal(
                self,
                "a result of i32 must have the scales of the products, zero point 0, no bias and no clamp, "
                f"but got '{self.result.type}'",
            )

    def verify_(self) -> None:
        """Check that the matrices fit, kinds and the clamp."""
        self._check_matrices()


@irdl_op_definition
class RealMatMulOp(RealMatMulBase):
    """clamp(lhs x rhs), of [..., m, k] and [..., k, n]."""

    name = "fxpmath.real_matmul"


@irdl_op_definition
class RealMatMulBiasOp(RealMatMulBase):
    """clamp(lhs x rhs + bias), with one bias for each of the n columns.

    A quantized bias has 8, 16 or 32 bits, and any scale: it is first rescaled to the scale of the products.
    """

    name = "fxpmath.real_matmul_bias"
    lhs = operand_def()
    rhs = operand_def()
    bias = operand_def()

    def verify_(self) -> None:
        """Check that matrices and bias fit, kinds and the clamp."""
        _check_value(self, "bias", self.bias, BIAS_WIDTHS)
        self._check_matrices()
        if tuple(shape_of(self.bias)) != tuple(shape_of(self.result))[-1:]:
            raise refusal(
                self, f"bias must have one element per column, but got '{self.bias.type}' and '{self.result.type}'"
            )
