"""Operators on integers that carry the parameters of operands and result as inputs: the QOperator form.

Source: the ONNX operator specification (QLinearConv, QLinearMatMul) and onnxruntime's contributed operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from zeropoint.export.onnx.graph import MICROSOFT, Attributes


@dataclass(frozen=True)
class Parts:
    """The names of a tensor of integers, of its scale and of its zero point."""

    tensor: str
    scale: str
    zero_point: str

    @property
    def all(self) -> list[str]:
        """In the order in which operators take them."""
        return [self.tensor, self.scale, self.zero_point]


Make = Callable[[Sequence[Parts], Parts], list[str]]


@dataclass(frozen=True)
class QOperator:
    """An operator, and how its inputs are listed: operands and result with their parameters."""

    name: str
    make: Make
    domain: str = MICROSOFT
    opset_attribute: bool = False
    fixed: Mapping[str, int] | None = None

    def attributes(self, opset: int) -> Attributes:
        """Attributes that the float op does not have."""
        return {**(self.fixed or {}), **({"opset": opset} if self.opset_attribute else {})}


def _in_order(operands: Sequence[Parts], result: Parts) -> list[str]:
    """Operands, then scale and zero point of the result."""
    return [*(part for operand in operands for part in operand.all), result.scale, result.zero_point]


def _bias_last(operands: Sequence[Parts], result: Parts) -> list[str]:
    """QLinearConv: the bias has no parameters of its own."""
    return [*_in_order(operands[:2], result), *(bias.tensor for bias in operands[2:])]


def _bias_between(operands: Sequence[Parts], result: Parts) -> list[str]:
    """QGemm: the bias stands before the result's parameters."""
    bias = [operand.tensor for operand in operands[2:]] or [""]
    return [*operands[0].all, *operands[1].all, *bias, result.scale, result.zero_point]


def _result_first(operands: Sequence[Parts], result: Parts) -> list[str]:
    """QLinearConcat."""
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
"""By float operator."""
MOVES = frozenset({"Expand", "Gather", "MaxPool", "ReduceMax", "ReduceMin", "Reshape", "Slice", "Transpose"})
"""Operators that take integers as they are, where operands and result have one type."""
