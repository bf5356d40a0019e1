"""Kernels of several operands and several ops: derives the types of intermediate values from those of the ports.

```mlir
%2 = "quant.region"(%0, %1) ({ multiply of %0 and logistic of %1 }) {logical_kernel = "gate", ...}
```
becomes
```mlir
%a = stablehlo.uniform_quantize (stablehlo.logistic (uniform_dequantize %1)) : a table of 256 entries
%2 = stablehlo.multiply %0, %a : (tensor<4x!quant.uniform<i8:f32, 0.5>>, ...) -> tensor<4x!quant.uniform<i8:f32, 0.2>>
```
A kernel may have an op without such a form: a quotient of two values, or a contraction, whose result covers far less
than the range that its operand types allow. Such a kernel was split before (`split_composites.py`), or it stays float
as a whole.

A chain of functions of one 8-bit value becomes one table, whose type covers the range of its 256 values. The type of a
sum, difference or product of two values covers every result that the operand types allow. The op that computes a result
of the kernel, and the clamps after it, have the type of that result. A kernel that only moves data may have any width.

Source: the RFC on quantization transformations, "Export": parameters of intermediate tensors are derived from the
parameters of the ports, if regions are coarser than the target's ops.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.bounds import Bounds
from zeropoint.ir.constants import splat_value
from zeropoint.ir.functions import evaluate_chain
from zeropoint.ir.quant import UniformQuantizedType, dequantize
from zeropoint.ir.stablehlo import (
    AddOp,
    ConstantOp,
    MultiplyOp,
    SubtractOp,
    UniformDequantizeOp,
    UniformQuantizeOp,
)
from zeropoint.ir.tensors import element_of, with_element
from zeropoint.materialize.kernel import MaterializedKernel
from zeropoint.numerics.ranges import asymmetric
from zeropoint.solve.composed import EXTREMES, MOVEMENTS, sources, why_not_derived


def derived(kernel: MaterializedKernel) -> list[SSAValue] | str:
    """The results of a kernel on quantized values, or the reason why it stays float.

    A kernel stays float if an op has no integer form or a port is not 8-bit.
    """
    plan = _Plan.of(kernel)
    return plan if isinstance(plan, str) else _Emission(kernel, plan).results()


@dataclass(frozen=True)
class _Result:
    """A result before its final clamps, the clamps' bounds, and the type of the result."""

    value: SSAValue
    bounds: Bounds
    kind: UniformQuantizedType


@dataclass(frozen=True)
class _Plan:
    """The plan for emitting a kernel.

    `sources` maps the result of a function of one quantized value to that value, and any other value to itself. `steps`
    are the ops to emit, without the final clamps of results.
    """

    sources: dict[SSAValue, SSAValue]
    results: tuple[_Result, ...]
    steps: tuple[Operation, ...]

    @staticmethod
    def of(kernel: MaterializedKernel) -> _Plan | str:
        """The plan of a kernel, or the reason why it has none (`solve/composed.py`)."""
        reason = why_not_derived(kernel.region, kernel.weights)
        found = sources(kernel.region, kernel.weights)
        if reason is not None or isinstance(found, str):
            return reason or str(found)
        steps = [op for op in kernel.body if op.results[0] in found]
        results: list[_Result] = []
        for value, kind in kernel.returned:
            assert kind is not None
            last, bounds, steps = _without_bounds(kernel, value, steps)
            results.append(_Result(last, bounds, kind))
        return _Plan(found, tuple(results), tuple(steps))


def _without_bounds(
    kernel: MaterializedKernel, value: SSAValue, steps: list[Operation]
) -> tuple[SSAValue, Bounds, list[Operation]]:
    """Split off the final clamps: the value before them, their bounds, and the ops before them."""
    ending: list[Operation] = []
    while isinstance(op := value.owner, Operation) and Bounds().then(op, kernel.weights):
        data = [operand for operand in op.operands if splat_value(operand, kernel.weights) is None]
        if len(data) != 1 or not value.has_one_use():
            break
        ending.append(op)
        (value,) = data
    bounds = Bounds()
    for op in reversed(ending):
        bounds.then(op, kernel.weights)
    return value, bounds, [op for op in steps if op not in ending]


@dataclass
class _Emission:
    """Emits a plan. `real` maps body values inside chains of functions to emitted float values."""

    kernel: MaterializedKernel
    plan: _Plan
    real: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def results(self) -> list[SSAValue]:
        """Emit the plan; returns the quantized results."""
        kernel = self.kernel
        for op in kernel.body:
            if isinstance(op, ConstantOp) or splat_value(op.results[0], kernel.weights) is not None:
                self.real[op.results[0]] = kernel.builder.insert(op.clone(self.real)).results[0]
        for op in self.plan.steps:
            self._step(op)
        return [
            kernel.bounded(self._as(found.value, found.kind), found.bounds, kernel.region, found.kind)
            for found in self.plan.results
        ]

    def _step(self, op: Operation) -> None:
        kernel, result = self.kernel, op.results[0]
        if self.plan.sources[result] is not result:  # a function of one value
            for operand in op.operands:
                self._dequantized(operand)
            self.real[result] = kernel.insert(op.clone(self.real), op).results[0]
        elif isinstance(op, MOVEMENTS):
            kernel.retyped(op, element_of(self._quantized(op.operands[0])))
        elif isinstance(op, EXTREMES):
            wanted = self._type(op)
            operands = [self._as(operand, wanted) for operand in op.operands]
            made = type(op).create(operands=operands, result_types=[with_element(result, wanted)])
            kernel.values[result] = kernel.insert(made, op).results[0]
        else:
            for operand in op.operands:
                self._quantized(operand)
            kernel.retyped(op, self._type(op))

    def _type(self, op: Operation) -> UniformQuantizedType:
        """The type of an op's result: that of the kernel's result, or one that covers every result of the operands."""
        kind = next((found.kind for found in self.plan.results if found.value is op.results[0]), None)
        if kind is not None:
            return kind
        (a, b), (c, d) = (_range(element_of(self._quantized(operand))) for operand in op.operands)
        if isinstance(op, AddOp):
            return self._holding(a + c, b + d)
        if isinstance(op, SubtractOp):
            return self._holding(a - d, b - c)
        if isinstance(op, MultiplyOp):
            corners = (a * c, a * d, b * c, b * d)
            return self._holding(min(corners), max(corners))
        return self._holding(min(a, c), max(b, d))

    def _holding(self, low: float, high: float) -> UniformQuantizedType:
        output = self.kernel.output_type
        found = asymmetric(low, high, output.storage.minimum, output.storage.maximum)
        scale, point = float(found.scale), int(found.zero_point)
        return UniformQuantizedType.per_layer(output.storage, scale, point, expressed_type=output.expressed_type)

    def _dequantized(self, value: SSAValue) -> None:
        """Emit the dequantized form of a value, once."""
        if value not in self.real:
            made = UniformDequantizeOp(self.kernel.values[value])
            self.real[value] = self.kernel.insert(made, self.kernel.region).result

    def _quantized(self, value: SSAValue) -> SSAValue:
        """The quantized form of a value.

        At the end of a chain of functions, its type covers the chain's 256 results.
        """
        if value not in self.kernel.values:
            source = self.plan.sources[value]
            kind = self.kernel.type_of(source)
            stored = np.arange(kind.storage.minimum, kind.storage.maximum + 1, dtype=np.int32)
            image = evaluate_chain(value, source, dequantize(stored, kind), self.kernel.weights)
            finite = image[np.isfinite(image)].astype(np.float64)
            low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
            self._end_chain(value, self._holding(low, high))
        return self.kernel.values[value]

    def _end_chain(self, value: SSAValue, kind: UniformQuantizedType) -> None:
        made = UniformQuantizeOp(self.real[value], with_element(self.real[value], kind))
        self.kernel.values[value] = self.kernel.insert(made, self.kernel.region).result

    def _as(self, value: SSAValue, wanted: UniformQuantizedType) -> SSAValue:
        """The value quantized to the type `wanted`."""
        if value not in self.kernel.values:
            self._end_chain(value, wanted)
        found = self.kernel.values[value]
        if element_of(found) == wanted:
            return found
        return self.kernel.insert(UniformQuantizeOp(found, with_element(found, wanted)), self.kernel.region).result


def _range(kind: object) -> tuple[float, float]:
    """The least and the greatest real value of a per-layer type."""
    assert isinstance(kind, UniformQuantizedType)
    storage, point = kind.storage, kind.zero_point
    return (storage.minimum - point) * kind.scale, (storage.maximum - point) * kind.scale
