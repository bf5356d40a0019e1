"""Averages over windows of three dimensions: AVERAGE_POOL_2D over the places in the window.

The elements at one place of all windows are a STRIDED_SLICE, which becomes a row of an image. A window of one column
then has the elements of one window, so the sum has the same terms, and is divided and rounded once.
"""

from __future__ import annotations

from math import prod

from zeropoint.export.averages import counted_padding_of
from zeropoint.export.errors import ExportError
from zeropoint.export.kernels import ExportKernel
from zeropoint.export.litert.emission import LitertEmission
from zeropoint.export.litert.maxima import check_places, places
from zeropoint.export.litert.padding import padded
from zeropoint.ir.stablehlo import ReduceWindowOp
from zeropoint.ir.stablehlo.arrays import array_values, padding_values
from zeropoint.ir.tensors import shape_of


def volume_means(kernel: ExportKernel, emit: LitertEmission) -> None:
    """The averages. Raises ExportError for padding that does not count, and for windows with too many elements."""
    op, kind, name = kernel.first(ReduceWindowOp), kernel.output_spec, emit.name(kernel.region.outputs[0])
    shape, counts = shape_of(op.inputs[0]), shape_of(op.results[0])
    check_places(kernel)
    pairs = padding_values(op.padding, len(shape))
    if [*counted_padding_of(kernel)] != [*pairs]:
        raise ExportError(
            "found an average over three dimensions whose padding does not count, expected padding that counts "
            "(count_include_pad) or none; pad the value in the model",
            kernel.region,
        )
    source = emit.operand(kernel.region.inputs[0], kernel.specs[0])
    if any(map(any, pairs)):
        wide = [size + low + high for size, (low, high) in zip(shape, pairs, strict=True)]
        made = emit.temporary(f"{name}/pad", wide, kind)
        padded(emit, source, made, pairs, kind, None)
        source = made
    row = (1, 1, prod(counts[:-1]), counts[-1])
    rows = [emit.reshaped(part, row, kind) for part in places(op, source, kind, name, emit)]
    terms = prod(array_values(op.window_dimensions))
    image, means = emit.temporary(name, (1, terms, *row[2:]), kind), emit.temporary(name, row, kind)
    emit.operator("CONCATENATION", rows, [image], ("ConcatenationOptions", {"axis": 1}), 2)
    fields = {"padding": 1, "strideH": 1, "strideW": 1, "filterHeight": terms, "filterWidth": 1}
    emit.operator("AVERAGE_POOL_2D", [image], [means], ("Pool2DOptions", {**fields, "fusedActivationFunction": 0}), 2)
    emit.reshape(means, emit.declare(kernel.region.outputs[0], kind))
