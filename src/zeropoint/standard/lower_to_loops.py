"""Lower programs in standard form to loops over memrefs, in the affine and memref dialects.

```mlir
%0 = linalg.matmul ins(%x, %w : tensor<2x3xi8>, tensor<3x4xi8>) outs(%zeros : tensor<2x4xi32>) -> tensor<2x4xi32>
```
becomes
```mlir
affine.for %i = 0 to 2 {
  affine.for %j = 0 to 4 {
    %acc = affine.for %k = 0 to 3 iter_args(%total = %zero) -> (i32) {
      %a = affine.load %x[%i, %k] : memref<2x3xi8>
      %b = affine.load %w[%k, %j] : memref<3x4xi8>
      %1 = arith.extsi %a : i8 to i32
      %2 = arith.extsi %b : i8 to i32
      %3 = arith.muli %1, %2 : i32
      %4 = arith.addi %total, %3 : i32
      affine.yield %4 : i32
    }
    affine.store %acc, %y[%i, %j] : memref<2x4xi32>
  }
}
```
Arguments and results of functions stay tensors, cast by the bufferization dialect. Loops and branches of scf carry
memrefs. Other programs are lowered by `lower-to-standard` first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.builder import Builder
from xdsl.dialects import affine, linalg, memref, scf, tensor
from xdsl.dialects.affine import ForOp
from xdsl.dialects.bufferization import ToTensorOp
from xdsl.dialects.builtin import IndexType, MemRefType, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.ir.calls import CallOp
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.locations import describe
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.quant_passes.errors import LoweringError
from zeropoint.standard.lower_to_standard import lower_to_standard
from zeropoint.standard.nest import LoopIndices, LoopNest


@dataclass(frozen=True)
class Structured:
    """A structured op: its loops, the maps from loops to operands, and its body."""

    op: Operation
    inputs: Sequence[SSAValue]
    outputs: Sequence[SSAValue]
    maps: Sequence[AffineMap]
    reduced: Sequence[int]
    block: Block

    @staticmethod
    def of(op: Any) -> Structured:
        """The loops of any op of the linalg dialect that `lower-to-standard` emits."""
        if isinstance(op, linalg.ops.ReduceOp):
            rank, dims = len(shape_of(op.input)), op.dimensions.get_values()
            kept = tuple(AffineExpr.dimension(dim) for dim in range(rank) if dim not in dims)
            maps = [AffineMap.identity(rank), AffineMap(rank, 0, kept)]
            return Structured(op, [op.input], [op.init], maps, dims, op.region.block)
        iterators = [entry.data.value for entry in op.get_iterator_types()]
        reduced = [dim for dim, kind in enumerate(iterators) if kind == "reduction"]
        return Structured(
            op, op.inputs, op.outputs, [found.data for found in op.get_indexing_maps()], reduced, op.body.block
        )

    def size(self, dim: int) -> int:
        """The trip count of a loop: the size of a dimension whose index is the loop's own."""
        for value, indexing in zip((*self.inputs, *self.outputs), self.maps, strict=True):
            for position, expression in enumerate(indexing.results):
                if expression == AffineExpr.dimension(dim):
                    return shape_of(value)[position]
        raise LoweringError(f"{describe(self.op)}: expected every loop to index a dimension alone", self.op)


def _lower_structured(nest: LoopNest, op: Operation) -> None:
    found = Structured.of(op)
    targets = [nest.alloc(result) for result in op.results]
    rank = found.maps[0].num_dims
    parallel = [dim for dim in range(rank) if dim not in found.reduced]

    def body(inner: LoopNest, indices: LoopIndices) -> None:
        at = dict(zip(parallel, indices, strict=True))
        totals = _initial(inner, found, at)
        results = _reduce(inner, found, at, totals) if found.reduced else _body(inner, found, at, totals)
        for value, target, indexing in zip(results, targets, found.maps[len(found.inputs) :], strict=True):
            inner.store(value, target, *_access(at, indexing))

    nest.loops([found.size(dim) for dim in parallel], body)


def _access(at: Mapping[int, SSAValue], indexing: AffineMap) -> tuple[list[SSAValue], AffineMap]:
    """The loop indices that a map uses, and the map from these alone."""
    used = sorted({dim for expression in indexing.results for dim in expression.used_dims()})
    renamed: list[AffineExpr] = [AffineExpr.constant(0)] * indexing.num_dims
    for position, dim in enumerate(used):
        renamed[dim] = AffineExpr.dimension(position)
    results = tuple(expression.replace_dims_and_symbols(renamed, []) for expression in indexing.results)
    return [at[dim] for dim in used], AffineMap(len(used), 0, results)


def _initial(nest: LoopNest, found: Structured, at: Mapping[int, SSAValue]) -> list[SSAValue | None]:
    """The initial totals: the number of a fill, or the output's element; None if the body does not read it."""
    totals: list[SSAValue | None] = []
    arguments = found.block.args[len(found.inputs) :]
    for value, argument, indexing in zip(found.outputs, arguments, found.maps[len(found.inputs) :], strict=True):
        if isinstance(value.owner, linalg.ops.FillOp):
            totals.append(value.owner.inputs[0])
        elif argument.first_use is None:
            totals.append(None)
        else:
            totals.append(nest.load(nest.buffer(value), *_access(at, indexing)))
    return totals


def _reduce(
    nest: LoopNest, found: Structured, at: Mapping[int, SSAValue], totals: Sequence[SSAValue | None]
) -> list[SSAValue]:
    """Emit the reduction loops, which carry the totals."""
    given = [total for total in totals if total is not None]
    if len(given) < len(totals):
        raise LoweringError(f"{describe(found.op)}: found a reduction that ignores its total", found.op)
    at, outer = dict(at), nest
    levels: list[ForOp] = []
    for dim in found.reduced:
        block = Block(arg_types=[IndexType(), *(total.type for total in given)])
        types = [total.type for total in given]
        levels.append(outer.insert(ForOp.from_region([], [], given, types, 0, found.size(dim), Region(block))))
        at[dim], given, outer = block.args[0], list(block.args[1:]), outer.inside(block)
    made = _body(outer, found, at, given)
    for level in reversed(levels):
        nest.inside(level.body.block).insert(affine.YieldOp.get(*made))
        made = [*map(SSAValue.get, level.results)]
    return made


def _body(
    nest: LoopNest, found: Structured, at: Mapping[int, SSAValue], totals: Sequence[SSAValue | None]
) -> list[SSAValue]:
    """Emit the body, on elements that are loaded at this point."""
    values: dict[SSAValue, SSAValue] = {}
    count = len(found.inputs)
    for value, argument, indexing in zip(found.inputs, found.block.args[:count], found.maps[:count], strict=True):
        if argument.first_use is not None:
            values[argument] = nest.load(nest.buffer(value), *_access(at, indexing))
    for argument, total in zip(found.block.args[count:], totals, strict=True):
        if total is not None:
            values[argument] = total
    last = cast("Operation", found.block.last_op)
    for op in found.block.ops:
        if op is last:
            break
        if isinstance(op, linalg.ops.IndexOp):
            values[op.result] = at[int(op.dim.value.data)]
        elif isinstance(op, tensor.ExtractOp):
            indices = [values[index] for index in op.indices]
            values[op.result] = nest.insert(memref.LoadOp.get(nest.buffer(op.tensor), indices)).results[0]
        else:
            nest.insert(op.clone(values))
    return [values.get(value, value) for value in last.operands]


def _lower_fill(nest: LoopNest, op: linalg.ops.FillOp) -> None:
    """A loop nest that stores one number.

    It is left out if all readers are structured ops that start with the number.
    """
    if all(_reads_the_number(use.operation, op.results[0]) for use in op.results[0].uses):
        return
    target = nest.alloc(op.results[0])
    nest.loops(shape_of(op.results[0]), lambda inner, indices: inner.store(op.inputs[0], target, indices))


def _lower_empty(nest: LoopNest, op: tensor.EmptyOp) -> None:
    """Allocate a tensor without elements, because it is a value.

    Other `tensor.empty` are destinations that a reader allocates.
    """
    if 0 in shape_of(op.tensor):
        nest.alloc(op.tensor)


def _reads_the_number(reader: Operation, value: SSAValue) -> bool:
    structured = reader.name.startswith("linalg.") and not isinstance(reader, linalg.ops.FillOp)
    return structured and value not in Structured.of(reader).inputs


def _shifted(offsets: Sequence[int], strides: Sequence[int]) -> AffineMap:
    """The map to offset + i * stride in each dimension."""
    pairs = enumerate(zip(offsets, strides, strict=True))
    results = tuple(AffineExpr.dimension(dim) * stride + offset for dim, (offset, stride) in pairs)
    return AffineMap(len(offsets), 0, results)


def _lower_pad(nest: LoopNest, op: tensor.PadOp) -> None:
    target, source = nest.alloc(op.result), nest.buffer(op.source)
    number = cast("Operation", op.region.block.last_op).operands[0]
    shift = _shifted(op.static_low.get_values(), [1] * len(op.static_low))
    nest.loops(shape_of(op.result), lambda inner, indices: inner.store(number, target, indices))
    nest.loops(shape_of(op.source), lambda inner, at: inner.store(inner.load(source, at), target, at, shift))


def _lower_extract_slice(nest: LoopNest, op: tensor.ExtractSliceOp) -> None:
    target, source = nest.alloc(op.result), nest.buffer(op.source)
    shift = _shifted(op.static_offsets.get_values(), op.static_strides.get_values())
    nest.loops(shape_of(op.result), lambda inner, at: inner.store(inner.load(source, at, shift), target, at))


def _lower_insert_slice(nest: LoopNest, op: tensor.InsertSliceOp) -> None:
    target, source = nest.alloc(op.result), nest.buffer(op.source)
    if not isinstance(op.dest.owner, tensor.EmptyOp):
        before = nest.buffer(op.dest)
        nest.loops(shape_of(op.dest), lambda inner, at: inner.store(inner.load(before, at), target, at))
    shift = _shifted(op.static_offsets.get_values(), op.static_strides.get_values())
    nest.loops(shape_of(op.source), lambda inner, at: inner.store(inner.load(source, at), target, at, shift))


def _lower_reshape(nest: LoopNest, op: tensor.CollapseShapeOp | tensor.ExpandShapeOp) -> None:
    """A view of the same memory in another shape."""
    kind = MemRefType(element_of(op.result), shape_of(op.result))
    expands = isinstance(op, tensor.ExpandShapeOp)
    form = memref.ExpandShapeOp if expands else memref.CollapseShapeOp
    properties: dict[str, Attribute] = {"reassociation": op.reassociation}
    if isinstance(op, tensor.ExpandShapeOp):
        properties["static_output_shape"] = op.static_output_shape
    made = form.create(operands=[nest.buffer(op.src)], result_types=[kind], properties=properties)
    nest.buffers[op.result] = nest.insert(made).results[0]


def _lower_extract(nest: LoopNest, op: tensor.ExtractOp) -> None:
    found = nest.insert(memref.LoadOp.get(nest.buffer(op.tensor), list(op.indices))).results[0]
    op.result.replace_all_uses_with(found)


def _lower_return(nest: LoopNest, op: CallOp | ReturnOp) -> None:
    op.operands = [
        nest.insert(ToTensorOp(nest.buffers[value], restrict=True)).tensor if value in nest.buffers else value
        for value in op.operands
    ]


def _lower_insert(nest: LoopNest, op: tensor.InsertOp) -> None:
    """A store into the memory that a loop carries (`_passed` copied it before the loop), else into a copy of the
    tensor.
    """
    target = nest.buffer(op.dest)
    if not _is_carried(op.dest):
        before, target = target, nest.alloc(op.result)
        nest.loops(shape_of(op.result), lambda inner, at: inner.store(inner.load(before, at), target, at))
    nest.insert(memref.StoreOp.get(op.scalar, target, list(op.indices)))
    nest.buffers[op.result] = target


def _is_carried(value: SSAValue) -> bool:
    """Whether an `scf.for` carries a tensor, reads its elements, then writes one element and yields it, as
    scatters do.
    """
    block = value.owner
    if not isinstance(value, BlockArgument) or not isinstance(block, Block):
        return False
    if not isinstance(block.parent_op(), scf.ForOp):
        return False
    readers = [use.operation for use in value.uses]
    writes = [op for op in readers if isinstance(op, tensor.InsertOp)]
    if len(writes) != 1 or not all(op.parent_block() is block for op in readers):
        return False
    ends = [(use.operation, use.index) for use in writes[0].result.uses]
    if ends != [(block.last_op, value.index - 1)]:
        return False
    before = list(block.ops)[: list(block.ops).index(writes[0])]
    return all(isinstance(op, tensor.ExtractOp) and op in before for op in readers if op is not writes[0])


def _lower_control(nest: LoopNest, op: scf.ForOp | scf.IfOp | scf.IndexSwitchOp | scf.WhileOp) -> None:
    """A loop or branch on memrefs."""
    operands = [_passed(nest, op, position) for position in range(len(op.operands))]
    for region in op.regions:
        for block in region.blocks:
            for argument in list(block.args):
                if isinstance(argument.type, TensorType):
                    nest.buffers[argument] = block.insert_arg(_memory_type(argument), argument.index)
            _lower_block(block, nest.buffers)
            for argument in [argument for argument in block.args if isinstance(argument.type, TensorType)]:
                block.erase_arg(argument)
    made = type(op).create(
        operands=operands,
        result_types=[_memory_type(result) for result in op.results],
        properties=op.properties,
        attributes=op.attributes,
        regions=[op.detach_region(region) for region in list(op.regions)],
    )
    for given, result in zip(op.results, nest.insert(made).results, strict=True):
        if isinstance(given.type, TensorType):
            nest.buffers[given] = result
        else:
            given.replace_all_uses_with(result)


def _memory_type(value: SSAValue) -> Attribute:
    """The memref type of a tensor; the type of any other value."""
    return MemRefType(element_of(value), shape_of(value)) if isinstance(value.type, TensorType) else value.type


def _passed(nest: LoopNest, op: Operation, position: int) -> SSAValue:
    """An operand of a loop or branch: the memref of a tensor, copied if the loop writes elements in place."""
    value = op.operands[position]
    if not isinstance(value.type, TensorType):
        return value
    source = nest.buffer(value)
    if not isinstance(op, scf.ForOp) or not _is_carried(op.body.block.args[position - 2]):
        return source
    copy = nest.insert(memref.AllocOp([], [], cast("MemRefType[Any]", _memory_type(value)))).memref
    nest.loops(shape_of(value), lambda inner, at: inner.store(inner.load(source, at), copy, at))
    return copy


def _lower_end(nest: LoopNest, op: scf.YieldOp | scf.ConditionOp) -> None:
    """The terminator of a region, on memrefs."""
    tensors = [isinstance(value.type, TensorType) for value in op.operands]
    given = list(op.operands)
    op.operands = [nest.buffer(value) if found else value for value, found in zip(given, tensors, strict=True)]


_LOWERINGS: Mapping[type[Operation], Callable[[LoopNest, Any], None]] = {
    CallOp: _lower_return,
    ReturnOp: _lower_return,
    linalg.ops.FillOp: _lower_fill,
    scf.ConditionOp: _lower_end,
    scf.ForOp: _lower_control,
    scf.IfOp: _lower_control,
    scf.IndexSwitchOp: _lower_control,
    scf.WhileOp: _lower_control,
    scf.YieldOp: _lower_end,
    tensor.CollapseShapeOp: _lower_reshape,
    tensor.ExpandShapeOp: _lower_reshape,
    tensor.ExtractOp: _lower_extract,
    tensor.ExtractSliceOp: _lower_extract_slice,
    tensor.InsertOp: _lower_insert,
    tensor.InsertSliceOp: _lower_insert_slice,
    tensor.PadOp: _lower_pad,
}
_CONTROL = (scf.ForOp, scf.IfOp, scf.IndexSwitchOp, scf.WhileOp)
_KEPT = frozenset(("arith", "bufferization", "math", "memref"))


def lower_to_loops(program: Program) -> Program:
    """A copy in affine, arith, math, memref and scf ops, with the same results as that of `lower_to_standard`.

    Raises LoweringError for dynamic shapes and the ops that `lower-to-standard` refuses.
    """
    program = lower_to_standard(program)
    for function in [op for op in program.module.ops if isinstance(op, FuncOp)]:
        _lower_block(function.body.block, {})
    return program


def _lower_block(block: Block, buffers: dict[SSAValue, SSAValue]) -> None:
    given = list(block.ops)
    for op in given:
        nest = LoopNest(Builder(InsertPoint.before(op)), op.location, buffers)
        dialect = op.name.partition(".")[0]
        if type(op) in _LOWERINGS:
            _LOWERINGS[type(op)](nest, op)
        elif isinstance(op, tensor.EmptyOp):
            _lower_empty(nest, op)
        elif dialect == "linalg":
            _lower_structured(nest, op)
        elif dialect not in _KEPT:
            raise LoweringError(
                f"{describe(op)}: found an op without a form over memrefs, expected static shapes; "
                "`lower-to-standard` has a form of it",
                op,
            )
    for op in reversed(given):
        replaced = op.name.partition(".")[0] in ("linalg", "tensor") or isinstance(op, _CONTROL)
        if replaced:
            Rewriter.erase_op(op)
    remove_dead_ops(block)
