"""Lower an integer program to func, arith, linalg and tensor, the input of MLIR-based compilers.

```mlir
%0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x3xi8>, tensor<3x4xi8>) -> tensor<2x4xi32>
%1 = stablehlo.add %0, (broadcast of %bias along axis 1) : tensor<2x4xi32>
%2 = "fxpmath.requantize"(%1, %m, %n) <{behaviour = "fixed32", ...}> : ... -> tensor<2x4xi8>
```
becomes one named op and one generic,
```mlir
%0 = linalg.matmul ins(%x, %w : tensor<2x3xi8>, tensor<3x4xi8>) outs(%zeros : tensor<2x4xi32>) -> tensor<2x4xi32>
%1 = linalg.generic {...} ins(%0, %bias : tensor<2x4xi32>, tensor<4xi32>) outs(%empty : tensor<2x4xi8>) {
^bb0(%acc: i32, %b: i32, %out: i8):
  %2 = arith.addi %acc, %b : i32
  %3 = arith.extsi %2 : i32 to i64
  %4 = arith.muli %3, %multiplier : i64
  %5 = arith.addi %4, %half : i64
  %6 = arith.shrsi %5, %shift : i64
  ...
  linalg.yield %9 : i8
} -> tensor<2x4xi8>
```
Loops and branches become scf ops (`control.py`), scatters and sorts `scf.for` (`scatter.py`, `sort.py`); calls and
their callees stay. Floats at the edges become arith and math ops. Their sums have the interpreter's order
(`ordered_reductions.py`). Only functions such as `exp`, and products of float matrices, depend on the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdsl.builder import Builder
from xdsl.dialects.builtin import TensorType, UnrealizedConversionCastOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.expand import (
    Expansion,
    dimension_size,
    expand,
    grouped_features,
    in_one_type,
    reduced,
    resized,
)
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.locations import describe
from zeropoint.ir.program import Program
from zeropoint.ir.quant import StorageCastOp, UniformQuantizedType
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.quant_passes import strip_func_quant_types
from zeropoint.quant_passes.errors import LoweringError
from zeropoint.quant_passes.lower_quant_ops import lower_quant_ops
from zeropoint.standard.contractions import lower_convolution, lower_dot_general
from zeropoint.standard.control import LowerBlock, call_decompositions, lower_case, lower_if, lower_while
from zeropoint.standard.element_types import scalar_type, signless_tensor
from zeropoint.standard.elementwise import ELEMENTWISE
from zeropoint.standard.indexing import lower_dynamic_slice, lower_dynamic_update_slice, lower_gather
from zeropoint.standard.lowering import Standard, insert_before, is_fused
from zeropoint.standard.movement import (
    lower_concatenate,
    lower_iota,
    lower_pad,
    lower_reshape,
    lower_reverse,
    lower_slice,
    lower_transpose,
)
from zeropoint.standard.ordered_reductions import expand_ordered_reductions
from zeropoint.standard.reductions import lower_reduce, lower_reduce_window
from zeropoint.standard.saturating_forms import refuse_saturating_forms
from zeropoint.standard.scatter import lower_scatter
from zeropoint.standard.sort import lower_sort

LOWERINGS: Mapping[type[Operation], Callable[[Standard, Any], SSAValue]] = {
    hlo.ConcatenateOp: lower_concatenate,
    hlo.ConvolutionOp: lower_convolution,
    hlo.DotGeneralOp: lower_dot_general,
    hlo.DynamicSliceOp: lower_dynamic_slice,
    hlo.DynamicUpdateSliceOp: lower_dynamic_update_slice,
    hlo.GatherOp: lower_gather,
    hlo.IotaOp: lower_iota,
    hlo.PadOp: lower_pad,
    hlo.ReduceOp: lower_reduce,
    hlo.ReshapeOp: lower_reshape,
    hlo.ReverseOp: lower_reverse,
    hlo.SliceOp: lower_slice,
    hlo.TransposeOp: lower_transpose,
}
"""Lowerings of ops that are not elementwise."""
CONTROL: Mapping[type[Operation], Callable[[Standard, Any, LowerBlock], Sequence[SSAValue]]] = {
    hlo.CaseOp: lower_case,
    hlo.IfOp: lower_if,
    hlo.WhileOp: lower_while,
}
"""Lowerings of ops whose regions are lowered, too."""
LOOPED: Mapping[type[Operation], Callable[[Standard, Any], Sequence[SSAValue]]] = {
    hlo.OptimizationBarrierOp: lambda std, op: [std.value(value) for value in op.operands],
    hlo.ReduceWindowOp: lower_reduce_window,
    hlo.ScatterOp: lower_scatter,
    hlo.SortOp: lower_sort,
}
"""Lowerings of ops with any number of results."""
_DEFERRED = (hlo.ConstantOp, hlo.BroadcastInDimOp)
"""Ops that are emitted at their first reader."""
_ON_STORAGE = (
    StorageCastOp,
    hlo.BroadcastInDimOp,
    hlo.ConstantOp,
    hlo.ReshapeOp,
    hlo.ReverseOp,
    hlo.SliceOp,
    hlo.TransposeOp,
    hlo.UniformDequantizeOp,
    hlo.UniformQuantizeOp,
)
"""Ops on quantized values that only cast or move storage integers."""
KEPT = frozenset((*LOWERINGS, *ELEMENTWISE))
"""Ops that `expand` keeps, because they have a standard form."""
_EXPANDED: Mapping[type[Operation], Expansion] = {
    hlo.BitcastConvertOp: resized,
    hlo.ConvolutionOp: grouped_features,
    hlo.GetDimensionSizeOp: dimension_size,
    hlo.ReduceOp: in_one_type,
    hlo.ReducePrecisionOp: reduced,
    hlo.ReduceWindowOp: in_one_type,
}
"""Ops that are expanded before this lowering, but not for native code."""
_STANDARD = frozenset(("arith", "func", "linalg", "math", "scf", "tensor"))


def lower_to_standard(program: Program) -> Program:
    """A copy in func, arith, math, linalg, scf and tensor ops, with the same results.

    Raises LoweringError, naming the op, for anything but integer programs with floats at their edges: quantized
    arithmetic (run `integer-program` first), complex numbers, dynamic shapes, except of elementwise ops, and dot forms
    whose sums may saturate.
    Quantized types of arguments and results become their storage, as `strip-func-quant-types` does; unsigned integers
    become signless ones with the same bits.
    """
    refuse_saturating_forms(program)
    program = expand(strip_func_quant_types(program), KEPT, _EXPANDED)
    casts = any(op.name in ("quant.qcast", "quant.dcast") for op in program.module.walk())
    program = lower_quant_ops(program) if casts else program
    call_decompositions(program)
    expand_ordered_reductions(program)
    for function in [op for op in program.module.ops if isinstance(op, FuncOp)]:
        if len(function.body.blocks) != 1:
            raise LoweringError(
                f"found @{function.sym_name.data} with {len(function.body.blocks)} blocks, expected one",
                function,
            )
        _lower_block(function.body.block, program)
        function.update_function_type()
    return program


def _lower_block(block: Block, program: Program, outer: Standard | None = None) -> None:
    given = list(block.ops)
    _check_types(given)
    std = Standard(program.weights, program.profile, insert_before(given[0]), given[0].location)
    std.order = {op: position for position, op in enumerate(given)}
    arguments = _signless(block.args, InsertPoint.at_start(block))
    std.values = {**({} if outer is None else outer.values), **arguments}
    for op in given:
        if op.name.partition(".")[0] in _STANDARD and not isinstance(op, ReturnOp):
            std.builder, std.location = insert_before(op), op.location
            _read_standard(std, op, given)
            std.values.update(_signless(op.results, InsertPoint.after(op)))
        elif not isinstance(op, _DEFERRED) and not is_fused(op):
            std.builder, std.location = insert_before(op), op.location
            _lower(std, op, program)
    for op in reversed(given):
        if op.name.partition(".")[0] not in _STANDARD and not isinstance(op, hlo.ReturnOp):
            Rewriter.erase_op(op)
    for op in [op for op in block.ops if isinstance(op, UnrealizedConversionCastOp)]:
        value = op.operands[0]
        op.results[0].replace_all_uses_with(Rewriter.replace_value_with_new_type(value, op.results[0].type))
        Rewriter.erase_op(op)
    remove_dead_ops(block)


def _read_standard(std: Standard, op: Operation, block: list[Operation]) -> None:
    """Replace the operands of an op that is kept, such as a call, by their standard values."""
    lowered = {result for made in block for result in made.results} | set(std.values)
    for inner in op.walk():
        inner.operands = [std.value(value) if value in lowered else value for value in inner.operands]


def _signless(values: Sequence[SSAValue], point: InsertPoint) -> dict[SSAValue, SSAValue]:
    """The values with signless elements, by casts. The cast values change type when all their readers are lowered."""
    found: dict[SSAValue, SSAValue] = {}
    for value in values:
        given: Attribute = value.type
        wanted = signless_tensor(value) if isinstance(given, TensorType) else given
        if given == wanted:
            found[value] = value
        else:
            cast = Builder(point).insert(UnrealizedConversionCastOp.get([value], [wanted]))
            found[value] = cast.results[0]
    return found


def _lower(std: Standard, op: Operation, program: Program) -> None:
    if isinstance(op, ReturnOp | hlo.ReturnOp):
        op.operands = [std.value(value) for value in op.operands]
        return
    if type(op) in CONTROL:
        made = CONTROL[type(op)](std, op, lambda block, outer: _lower_body(block, program, outer))
        std.values.update(zip(op.results, made, strict=True))
        return
    if type(op) in LOOPED:
        std.values.update(zip(op.results, LOOPED[type(op)](std, op), strict=True))
        return
    lower = LOWERINGS.get(type(op))
    if lower is not None:
        std.values[op.results[0]] = lower(std, op)
    elif type(op) in ELEMENTWISE:
        std.value(op.results[0])
    else:
        raise std.refuse(
            op,
            "found an op that has no form in arith, linalg, scf and tensor; "
            "keep it in StableHLO (`expand-fxpmath` instead of `lower-to-standard`), or compute it outside the program",
        )
    std.values[op.results[0]].name_hint = op.results[0].name_hint


def _lower_body(block: Block, program: Program, outer: Standard) -> Sequence[SSAValue]:
    """Lower a block of a loop except its terminator. Returns the terminator's operands."""
    _lower_block(block, program, outer)
    assert block.last_op is not None
    return list(block.last_op.operands)


def _check_types(ops: list[Operation]) -> None:
    """Raise LoweringError for values that have no standard form: tuples, complex numbers, and dynamic shapes of ops
    that are not elementwise."""
    for op in ops:
        if op.name.partition(".")[0] in _STANDARD:
            continue
        for value in (*op.operands, *op.results):
            scalar_type(op, value)
            if isinstance(element_of(value), UniformQuantizedType) and type(op) not in _ON_STORAGE:
                raise LoweringError(
                    f"{describe(op)}: found {value.type}, expected integers or floats; run integer-program first", op
                )
            if any(size < 0 for size in shape_of(value)) and type(op) not in ELEMENTWISE:
                raise LoweringError(f"{describe(op)}: found {value.type}, expected a static shape", op)
