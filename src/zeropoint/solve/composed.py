"""Kernels of a user's own composites: whether the types of the values inside follow from those of the ports.

In a composite of sums, products, extremes, movements and functions of one value, the types of the ports determine the
range of every value (`materialize/derived.py`). The values of a contraction, quotient or reduction cover much less than
the types of its operands allow. So calibration observes the values inside (`inner_values`), and the composite is split
into kernels of the target (`split_composites.py`).

Source: the RFC on quantization transformations, section "Export": if regions are coarser than the target's ops, the
parameters of intermediate tensors are derived from those of the ports.
"""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import SSAValue

from zeropoint.ir.constants import splat_value
from zeropoint.ir.functions import is_function
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsOp, StatisticsRefOp, UniformQuantizedType
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ConstantOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    ReshapeOp,
    ReverseOp,
    SliceOp,
    SubtractOp,
    TransposeOp,
)
from zeropoint.ir.tensors import element_of
from zeropoint.ir.weights import Weights
from zeropoint.solve.rescale import is_rescale
from zeropoint.targets.logical_kernels import FUSED, WRITTEN

ARITHMETIC = (AddOp, MultiplyOp, SubtractOp)
EXTREMES = (MaximumOp, MinimumOp)
MOVEMENTS = (BroadcastInDimOp, ReshapeOp, ReverseOp, SliceOp, TransposeOp)
ANNOTATIONS = (StatisticsOp, StatisticsRefOp)
BYTE = 8


def is_own(region: QuantizeRegionOp) -> bool:
    """Whether only a user's table has the kernel of a region: no fusion pattern makes it, no built-in runtime has
    it."""
    return region.logical_kernel.data not in FUSED | WRITTEN and not is_rescale(region)


def sources(region: QuantizeRegionOp, weights: Weights) -> dict[SSAValue, SSAValue] | str:
    """Map each value inside to the value that it is a function of, or to itself if it is not a function of one value.

    Constants are left out. Returns the reason instead if the range of an op's result does not follow from its operands.
    """
    found: dict[SSAValue, SSAValue] = {argument: argument for argument in region.body.block.args}
    for op in list(region.body.block.ops)[:-1]:
        result = op.results[0]
        if splat_value(result, weights) is not None:
            continue
        read = [operand for operand in op.operands if operand in found]
        roots = {found[operand] for operand in read}
        if isinstance(op, ANNOTATIONS):
            found[result] = found[op.operands[0]]
        elif is_function(op) and len(roots) == 1:
            found[result] = next(iter(roots))
        elif read and len(read) == len(op.operands) and isinstance(op, (*ARITHMETIC, *EXTREMES, *MOVEMENTS)):
            found[result] = result
        else:
            return f"kernel '{region.logical_kernel.data}' has an op without an integer form, {op.name}"
    return found


def why_not_derived(region: QuantizeRegionOp, weights: Weights) -> str | None:
    """The reason why the types inside a quantized region do not follow from its ports; None if they do."""
    specs = [*region.input_specs, *region.output_specs]
    kinds = [spec for spec in specs if isinstance(spec, UniformQuantizedType) and spec.is_per_layer]
    body = list(region.body.block.ops)[:-1]
    alike = len(kinds) == len(specs) and len({kind.storage for kind in kinds}) == 1
    narrow = alike and kinds[0].storage.type.width == BYTE
    if not alike or not (narrow or all(isinstance(op, MOVEMENTS) for op in body)):
        name = region.logical_kernel.data
        return f"kernel '{name}' is computed in integers only if all its ports have one 8-bit storage"
    found = sources(region, weights)
    return found if isinstance(found, str) else None


def is_composed(region: QuantizeRegionOp, weights: Weights) -> bool:
    """Whether a region is a user's kernel of several ops that is not a function of one value. Such a function is a
    table."""
    if not is_own(region) or len(list(region.body.block.ops)) <= 2:
        return False
    found = sources(region, weights)
    returned = region.body.block.last_op
    assert returned is not None
    return isinstance(found, str) or any(found.get(value) not in region.body.block.args for value in returned.operands)


def inner_values(region: QuantizeRegionOp, weights: Weights) -> list[SSAValue]:
    """The float values inside a composed region that are computed from its operands and not returned."""
    if not is_composed(region, weights):
        return []
    varying: set[SSAValue] = set(region.body.block.args)
    *body, returned = region.body.block.ops
    found: list[SSAValue] = []
    for op in body:
        # A value computed from constants only is folded, so it needs no range.
        if isinstance(op, ConstantOp) or not any(operand in varying for operand in op.operands):
            continue
        varying.update(op.results)
        found += [result for result in op.results if isinstance(element_of(result), AnyFloat)]
    return [value for value in found if value not in returned.operands and not isinstance(value.owner, ANNOTATIONS)]
