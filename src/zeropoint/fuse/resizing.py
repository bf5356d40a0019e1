"""Linear resizes of images, as one kernel.

```mlir
%1 = stablehlo.dot_general %0, %rows {zeropoint.resized = 2}        rows, then a transpose that moves them back
%2 = stablehlo.transpose %1, dims = [0, 1, 3, 2]
%3 = stablehlo.dot_general %2, %columns {zeropoint.resized = 3}     columns
```
"""

from __future__ import annotations

from xdsl.ir import Operation

from zeropoint.fuse.match import FloatGraph, RegionMatch
from zeropoint.ir.linear_resizes import resize_matrices, resized_dimension
from zeropoint.ir.stablehlo import DotGeneralOp, TransposeOp
from zeropoint.ir.tensors import shape_of
from zeropoint.numerics.litert_resize import placement_of

RANK = 4
IMAGES = ({1, 2}, {2, 3})
"""The dimensions of an image, channels last and first."""


def match_linear_resize(op: Operation, graph: FloatGraph) -> RegionMatch | None:
    """Products with matrices that resize an image, with the transposes between them, if the target has this kernel."""
    if "linear_resize" not in graph.kernels or not isinstance(op, DotGeneralOp) or resized_dimension(op) is None:
        return None
    if len(shape_of(op.lhs)) != RANK or not graph.is_float(op.lhs):
        return None
    ops: list[Operation] = []
    following: Operation | None = op
    while isinstance(following, DotGeneralOp) and (axis := resized_dimension(following)) is not None:
        if axis in resize_matrices(ops, graph.weights):
            break
        chain = _moved_back(following, axis, graph)
        if chain is None or following.lhs is not (ops[-1].results[0] if ops else op.lhs):
            break
        ops += chain
        following = graph.only_user(ops[-1].results[0])
    matrices = resize_matrices(ops, graph.weights)
    if (
        not matrices
        or not any(matrices.keys() <= image for image in IMAGES)
        or placement_of(list(matrices.values())) is None
    ):
        return None
    return RegionMatch("linear_resize", tuple(ops), (op.lhs,))


def _moved_back(op: DotGeneralOp, axis: int, graph: FloatGraph) -> list[Operation] | None:
    """A product that resizes a dimension, with the transpose that moves this dimension back; None if it has none."""
    if axis == RANK - 1:
        return [op]
    reader = graph.only_user(op.result)
    return [op, reader] if isinstance(reader, TransposeOp) else None


PATTERNS = (match_linear_resize,)
