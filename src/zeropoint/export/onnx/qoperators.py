"""The QOperator form: operators on integers that take the parameters of operands and result as inputs.

Source: the ONNX operator specification (QLinearConv, QLinearMatMul) and onnxruntime's contributed operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Attribute, Operation

from zeropoint.export.errors import ExportError
from zeropoint.export.onnx.graph import MICROSOFT, Attributes
from zeropoint.ir.quant import UniformQuantizedType


@dataclass(frozen=True)
class TensorParts:
    """The names of an integer tensor, its scale and its zero point."""

    tensor: str
    scale: str
    zero_point: str

    @property
    def all(self) -> list[str]:
        """The names, in the order of the operator's inputs."""
        return [self.tensor, self.scale, self.zero_point]


Make = Callable[[Sequence[TensorParts], TensorParts], list[str]]


@dataclass(frozen=True)
class QOperator:
    """An operator on integers. `make` lists its inputs: the operands, and the parameters of operands and result."""

    name: str
    make: Make
    domain: str = MICROSOFT
    opset_attribute: bool = False
    fixed: Mapping[str, int] | None = None

    def attributes(self, opset: int) -> Attributes:
        """The attributes that the float op does not have."""
        return {**(self.fixed or {}), **({"opset": opset} if self.opset_attribute else {})}


def _in_order(operands: Sequence[TensorParts], result: TensorParts) -> list[str]:
    """Operands, then the result's scale and zero point."""
    return [*(part for operand in operands for part in operand.all), result.scale, result.zero_point]


def _bias_last(operands: Sequence[TensorParts], result: TensorParts) -> list[str]:
    """QLinearConv: the bias comes last and has no parameters."""
    return [*_in_order(operands[:2], result), *(bias.tensor for bias in operands[2:])]


def _bias_between(operands: Sequence[TensorParts], result: TensorParts) -> list[str]:
    """QGemm: the bias comes before the result's parameters."""
    bias = [operand.tensor for operand in operands[2:]] or [""]
    return [*operands[0].all, *operands[1].all, *bias, result.scale, result.zero_point]


def _result_first(operands: Sequence[TensorParts], result: TensorParts) -> list[str]:
    """QLinearConcat: the result's parameters come first."""
    return [result.scale, result.zero_point, *(part for operand in operands for part in operand.all)]


QOPERATORS: Mapping[str, QOperator] = {
    "Add": QOperator("QLinearAdd", _in_order),
    "AveragePool": QOperator("QLinearAveragePool", _in_order),
    "Concat": QOperator("QLinearConcat", _result_first),
    "Conv": QOperator("QLinearConv", _bias_last, ""),
    "Gemm": QOperator("QGemm", _bias_between),
    "GlobalAveragePool": QOperator("QLinearGlobalAveragePool", _in_order, fixed={"channels_last": 0}),
    "LeakyRelu": QOperator("QLinearLeakyRelu", _in_order),
    "MatMul": QOperator("QLinearMatMul", _in_order, ""),
    "Mul": QOperator("QLinearMul", _in_order),
    "Sigmoid": QOperator("QLinearSigmoid", _in_order),
    "Softmax": QOperator("QLinearSoftmax", _in_order, opset_attribute=True),
}
"""QOperators by float operator."""
MOVES = frozenset({"Expand", "Gather", "MaxPool", "ReduceMax", "ReduceMin", "Reshape", "Slice", "Transpose"})
"""Operators that compute on integers directly if operands and result have the same type."""
LEAST_STEPS, MOST_STEPS = 2.0**-32, 256.0
"""The steps of a mean per step of a term for which onnxruntime has a kernel (`MlasQLinearGlobalAveragePool`)."""


def check_mean(place: Operation, given: Attribute, wanted: Attribute, terms: int) -> None:
    """Raise ExportError for a mean that onnxruntime's kernel refuses to compute when the file is run."""
    if not isinstance(given, UniformQuantizedType) or not isinstance(wanted, UniformQuantizedType):
        return
    steps = np.float32(given.scale) / (np.float32(wanted.scale) * np.float32(terms))
    if not LEAST_STEPS <= steps < MOST_STEPS:
        raise ExportError(
            f"found {steps:.3g} steps of the mean per step of a term, expected fewer than {MOST_STEPS:g}, which "
            "onnxruntime computes; keep the mean float by a recipe (quantize: false)",
            place,
        )
