"""Elementwise ops whose operands or result have other storage: one storage for all, as StableHLO requires.

```mlir
%2 = stablehlo.multiply %0, %1 : (tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i16:f32, 0.1>>)
    -> tensor<4x!quant.uniform<i16<-4096:4095>:f32, 0.2>>
```
is written as
```mlir
%3 = stablehlo.uniform_quantize %0 {zeropoint.same_integers} : ... -> tensor<4x!quant.uniform<i16:f32, 0.5>>
%4 = stablehlo.multiply %3, %1 : ... -> tensor<4x!quant.uniform<i16:f32, 0.2>>
%2 = stablehlo.uniform_quantize %4 {zeropoint.same_integers} : ... -> tensor<4x!quant.uniform<i16<-4096:4095>:f32, 0.2>>
```
The first cast keeps every integer, and the last one clamps them. `lower/widths.py` joins the three again.
"""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.annotations import SAME_INTEGERS
from zeropoint.ir.quant import Storage, UniformQuantizedType
from zeropoint.ir.stablehlo import UniformQuantizeOp
from zeropoint.ir.tensors import element_of, with_element
from zeropoint.materialize.kernel import MaterializedKernel


def in_one_storage(kernel: MaterializedKernel, op: Operation, result: UniformQuantizedType) -> SSAValue:
    """Emit an elementwise op on the quantized operands, with a result of the given type."""
    given = [element_of(kernel.values[operand]) for operand in op.operands]
    kinds = [kind for kind in (*given, result) if isinstance(kind, UniformQuantizedType)]
    common = _common([kind.storage for kind in kinds])
    if common is None:
        return kernel.retyped(op, result)
    for operand, kind in zip(op.operands, given, strict=True):
        if isinstance(kind, UniformQuantizedType):
            kernel.values[operand] = _stored_as(kernel, kernel.values[operand], _with(kind, common))
    made = kernel.retyped(op, _with(result, common))
    kernel.values[op.results[0]] = _stored_as(kernel, made, result)
    return kernel.values[op.results[0]]


def _common(storages: list[Storage]) -> Storage | None:
    """The storage that holds the integers of all; None if they have one already, or differ in signedness."""
    if len(set(storages)) == 1 or not all(storage.type.signed for storage in storages):
        return None
    least, greatest = min(each.minimum for each in storages), max(each.maximum for each in storages)
    return Storage.of(f"i{max(each.type.width for each in storages)}", least, greatest)


def _with(kind: UniformQuantizedType, storage: Storage) -> UniformQuantizedType:
    return UniformQuantizedType(replace(kind.data, storage=storage))


def _stored_as(kernel: MaterializedKernel, value: SSAValue, kind: UniformQuantizedType) -> SSAValue:
    if element_of(value) == kind:
        return value
    cast = UniformQuantizeOp(value, with_element(value, kind))
    cast.attributes[SAME_INTEGERS] = UnitAttr()
    return kernel.insert(cast, kernel.region).result
