"""Requantization in steps that add no zero point to a scaled number.

```mlir
%1 = stablehlo.uniform_quantize %0 : (tensor<!quant.uniform<i32:f32, 0.01>>) -> tensor<!quant.uniform<i8:f32, 0.5:3>>
```
becomes
```mlir
%1 = stablehlo.uniform_quantize %0 : (tensor<!quant.uniform<i32:f32, 0.01>>) -> tensor<!quant.uniform<i32:f32, 0.5>>
%2 = stablehlo.uniform_quantize %1 : (tensor<!quant.uniform<i32:f32, 0.5>>) -> tensor<!quant.uniform<i8:f32, 0.5:3>>
```
C++ StableHLO computes `round(x * (s1 / s2) + (z2 - z1 * (s1 / s2)))` in f32. The sum with the zero point rounds, too,
and a tie goes to the even result, not to the even number of steps. Without zero points, it is `round(x * (s1 / s2))`.
With one scale, nothing is rounded.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from zeropoint.ir.quant import Storage, UniformQuantizedType
from zeropoint.ir.stablehlo import UniformQuantizeOp
from zeropoint.ir.tensors import with_element
from zeropoint.quant_passes.reference_forms.rewriting import Rewrite, only_user, owner, per_tensor, quantized

WORD = Storage.of("i32")


def write_rescale(rewrite: Rewrite, op: UniformQuantizeOp) -> None:
    """Write a requantization in up to three steps: without zero point, scaled, with the zero point."""
    given, wanted = quantized(op.operand), per_tensor(op.result)
    if given is None or wanted is None or _is_exact(given, wanted):
        return
    value = op.operand
    if given.zero_points.any():
        if not given.is_per_layer:
            return
        value = _requantized(rewrite, value, _without_zero_point(given))
    if wanted.zero_point:
        value = _requantized(rewrite, value, _without_zero_point(wanted))
    if value is not op.operand:
        op.operands[0] = value


def read_rescale(rewrite: Rewrite, op: UniformQuantizeOp) -> None:
    """Merge the steps of a requantization, from the last one."""
    wanted, value = per_tensor(op.result), op.operand
    if wanted is None:
        return
    if _is_step(value, wanted):
        value = _before(value) or value
    given, before = per_tensor(value), _before(value)
    if given is not None and before is not None and given.scale != wanted.scale:
        first = per_tensor(before)
        if first is not None and _is_step(value, first):
            value = before
    if value is not op.operand:
        rewrite.replace(rewrite.add(UniformQuantizeOp(value, op.result.type)))


def _is_exact(given: UniformQuantizedType, wanted: UniformQuantizedType) -> bool:
    """Whether one step rounds nothing but the scaled number."""
    if given.is_per_layer and given.scale == wanted.scale:
        return True
    return not given.zero_points.any() and wanted.zero_point == 0


def _without_zero_point(kind: UniformQuantizedType) -> UniformQuantizedType:
    return UniformQuantizedType.per_layer(WORD, kind.scale, 0, expressed_type=kind.expressed_type)


def _requantized(rewrite: Rewrite, value: SSAValue, kind: UniformQuantizedType) -> SSAValue:
    return rewrite.add(UniformQuantizeOp(value, with_element(value, kind)))


def _before(value: SSAValue) -> SSAValue | None:
    """The quantized value that a value is a requantization of; None if it is no requantization."""
    op = owner(value)
    return op.operand if isinstance(op, UniformQuantizeOp) and quantized(op.operand) is not None else None


def _is_step(value: SSAValue, beside: UniformQuantizedType) -> bool:
    """Whether a value is a step of a requantization: i32 without zero point, at the scale beside it, read once."""
    return (
        beside.zero_point != 0
        and quantized(value) == _without_zero_point(beside)
        and _before(value) is not None
        and only_user(value) is not None
    )
