"""Max pools that also give the positions of their maxima, and scatters at computed positions (`MaxUnpool`)."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import i1, i64
from xdsl.ir import Block, SSAValue

from zeropoint.export.errors import ExportError
from zeropoint.export.onnx.emission import OnnxEmission, Tensor
from zeropoint.export.onnx.graph import element_type
from zeropoint.export.onnx.pools import window_attributes
from zeropoint.ir.stablehlo import (
    AndOp,
    CompareOp,
    ComparisonDirection,
    OrOp,
    ReduceWindowOp,
    ReturnOp,
    ScatterOp,
    SelectOp,
)
from zeropoint.ir.tensors import Array, element_of, shape_of


def pool_with_positions(op: ReduceWindowOp, source: Tensor, emit: OnnxEmission) -> None:
    """MaxPool with its second output.

    Raises ExportError for a `reduce_window` that is no maximum with its position in the flat operand.
    """
    order = _storage_order(emit.array(op.inputs[1])) if len(op.inputs) == 2 else None
    if order is None or not _keeps_first_greatest(op.body.block):
        raise ExportError(
            "found a window with another body, expected a kernel of the target, or a maximum with its position", op
        )
    names = [emit.builder.unique(f"{emit.name(op.results_[0])}/{part}") for part in ("maxima", "positions")]
    attributes = {**window_attributes(op, op, range(len(shape_of(op.inputs[0])))), "storage_order": order}
    emit.builder.node("MaxPool", [source.name], names, names[0], attributes)
    for result, name in zip(op.results_, names, strict=True):
        emit.put(result, Tensor(name, element_of(result), shape_of(result)))


def _storage_order(positions: Array | None) -> int | None:
    """0 if positions count the elements of the shape, 1 if the first spatial dimension varies fastest, else None."""
    if positions is None or positions.ndim < 3:
        return None
    shape: tuple[int, ...] = positions.shape
    if np.array_equal(positions, np.arange(positions.size).reshape(shape)):
        return 0
    turned = np.arange(positions.size).reshape(*shape[:2], *shape[:1:-1])
    order = (0, 1, *range(len(shape) - 1, 1, -1))
    return 1 if np.array_equal(positions, turned.transpose(order)) else None


def _keeps_first_greatest(block: Block) -> bool:
    """Whether a body keeps the greater value and its position; of equal values the left one, unless it is padding."""
    returned = block.last_op
    assert isinstance(returned, ReturnOp)
    left, left_position, right, right_position = block.args
    choices = [(right, left), (right_position, left_position)]
    selects = [value.owner for value in returned.operands]
    if len(selects) != 2:
        return False
    takes: set[SSAValue] = set()
    for select, (yes, no) in zip(selects, choices, strict=True):
        if not isinstance(select, SelectOp) or (select.on_true, select.on_false) != (yes, no):
            return False
        takes.add(select.pred)
    take = takes.pop().owner
    if takes or not isinstance(take, OrOp):
        return False
    greater, equal = take.lhs.owner, take.rhs.owner
    return (
        _compares(greater, ComparisonDirection.GT, right, left)
        and isinstance(equal, AndOp)
        and _compares(equal.lhs.owner, ComparisonDirection.EQ, right, left)
        and _compares(equal.rhs.owner, ComparisonDirection.LT, left_position)
    )


def _compares(op: object, direction: ComparisonDirection, lhs: SSAValue, rhs: SSAValue | None = None) -> bool:
    if not isinstance(op, CompareOp) or op.comparison_direction.data is not direction:
        return False
    return op.lhs is lhs and (rhs is None or op.rhs is rhs)


def scattered_at_computed(
    op: ScatterOp, source: Tensor, indices: Tensor, updates: Tensor, emit: OnnxEmission
) -> Tensor:
    """ScatterND of rows at computed indices of the first dimension.

    StableHLO skips indices out of range, ONNX forbids them. Their updates go to an additional row, which is dropped.
    """
    numbers, name, count = op.scatter_dimension_numbers.data, emit.name(op.results_[0]), source.shape[0]
    rank = len(indices.shape)
    is_rows = numbers.scatter_dims_to_operand_dims == (0,) == numbers.inserted_window_dims
    last = tuple(range(rank - 1, rank - 2 + len(source.shape)))
    if not is_rows or numbers.index_vector_dim != rank - 1 or numbers.update_window_dims != last:
        raise ExportError("found a scatter at computed indices, expected indices of the first dimension", op)
    if indices.kind != i64:
        to = {"to": element_type(np.dtype(np.int64))}
        indices = emit.apply("Cast", [indices], i64, indices.shape, f"{name}/indices", to)
    least, limit = (emit.constant(np.full((), end, np.int64), i64, f"{name}/bound") for end in (0, count))
    tests = (("GreaterOrEqual", least), ("Less", limit))
    known = [emit.apply(test, [indices, end], i1, indices.shape, f"{name}/{test}") for test, end in tests]
    inside = emit.apply("And", known, i1, indices.shape, f"{name}/inside")
    safe = emit.apply("Where", [inside, indices, limit], i64, indices.shape, f"{name}/safe")
    longer = (count + 1, *source.shape[1:])
    padded = emit.padded(source, [(0, 1), *((0, 0) for _ in source.shape[1:])], f"{name}/longer")
    made = emit.apply("ScatterND", [padded], source.kind, longer, f"{name}/all", None, [safe.name, updates.name])
    extra = [emit.integers(values, "slice") for values in ([0], [count], [0])]
    return emit.apply("Slice", [made], source.kind, source.shape, name, None, extra)
