"""Products of two activations whose batches are among the channels, as one product for each of them.

```mlir
%2 = "quant.region"(%0, %1) ({ dot_general, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] })
    : (tensor<1x48x2x4xf32>, tensor<1x48x2x4xf32>) -> tensor<1x2x48x48xf32>
```
becomes
```mlir
%a = "quant.region"(%0) ({ slice [0:1, 0:48, 0:1, 0:4] }) : (tensor<1x48x2x4xf32>) -> tensor<1x48x1x4xf32>
%b = "quant.region"(%1) ({ slice [0:1, 0:48, 0:1, 0:4] }) : (tensor<1x48x2x4xf32>) -> tensor<1x48x1x4xf32>
%c = "quant.region"(%a, %b) ({ dot_general, ... }) : (...) -> tensor<1x1x48x48xf32>
...                                                                  // the same for the second head
%2 = "quant.region"(%c, %f) ({ concatenate, dim = 1 }) : (...) -> tensor<1x2x48x48xf32>
```
The heads of an attention over the pixels of an image are such batches. Operators take batches as the first dimensions,
so a product of all heads would transpose its operands and its result. If the last dimension of an operand is one of
the result's, heads and this dimension stay the channels of the result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.export.movement_regions import movement_region
from zeropoint.export.permuted import Permuted, is_identity, permuted_type
from zeropoint.export.reshaped_orders import DimensionOrder, moves_units
from zeropoint.ir.quant import QuantizeRegionOp, ReturnOp, UniformQuantizedType
from zeropoint.ir.stablehlo import ConcatenateOp, DotDimensions, DotGeneralOp, ReshapeOp, SliceOp
from zeropoint.ir.tensors import element_of, shape_of

MOST_HEADS = 32
"""More heads are transposed, because their operators would be many: up to 32, they take as long as transposes."""


@dataclass(frozen=True)
class _Side:
    """An operand of a product: its port, its shape, its batch dimensions, those that are summed, and the heads."""

    port: int
    shape: tuple[int, ...]
    batches: tuple[int, ...]
    summed: tuple[int, ...]
    heads: int = 0

    @property
    def free(self) -> tuple[int, ...]:
        """The dimensions that are also dimensions of the result."""
        return tuple(axis for axis in range(len(self.shape)) if axis not in (*self.batches, *self.summed))

    @property
    def is_matrices(self) -> bool:
        """Whether the elements are in the order of batches of matrices."""
        orders = (*self.batches, *self.free, *self.summed), (*self.batches, *self.summed, *self.free)
        return any(moves_units(self.shape, order) for order in orders)

    @property
    def keeps_channels(self) -> bool:
        """Whether the last dimension, behind the heads, is one of the result's."""
        return not self.is_matrices and len(self.shape) - 1 in self.free

    @property
    def one_head(self) -> _Side:
        """The side after a slice of one head."""
        return replace(self, shape=(*self.shape[: self.heads], 1, *self.shape[self.heads + 1 :]))


def product_by_heads(region: QuantizeRegionOp, order: DimensionOrder) -> Permuted | None:
    """The result of a product, computed head by head; None if no operand would be transposed, or heads do not help.

    `order` is that of the region's result. The region is replaced.
    """
    sides = _sides(region)
    if sides is None:
        return None
    if sides[0].keeps_channels and not sides[1].keeps_channels and _may_swap(region):
        sides = sides[1], sides[0]
        order = _swapped(order, sides)
    results = [_of_head(region, sides, head) for head in range(sides[0].shape[sides[0].heads])]
    heads, rank = sides[0].batches.index(sides[0].heads), len(order)
    places = [axis for axis in range(rank) if axis != heads]
    # A product keeps the last dimension of its second operand.
    places.insert(rank - 2 if sides[1].keeps_channels else heads, heads)
    spec = region.output_specs.data[0]

    def placed(value: SSAValue) -> SSAValue:
        made = movement_region([value], spec, lambda given: ReshapeOp(given[0], permuted_type(value, tuple(places))))
        return value if is_identity(tuple(places)) else _inserted(made, region)

    values = [placed(value) for value in results]
    made = movement_region(values, spec, lambda given: ConcatenateOp(given, places.index(heads)))
    found = Permuted(_inserted(made, region), tuple(order[place] for place in places))
    Rewriter.erase_op(region)
    return found


def _sides(region: QuantizeRegionOp) -> tuple[_Side, _Side] | None:
    """The operands of a product that is better computed by heads; None for other regions."""
    (op, *rest) = region.body.block.ops
    if not isinstance(op, DotGeneralOp) or len(rest) != 1 or op.lhs is op.rhs:
        return None
    numbers = op.dot_dimension_numbers.data
    first, second = [list[SSAValue](region.body.block.args).index(value) for value in op.operands]
    left = _Side(first, shape_of(op.lhs), numbers.lhs_batching_dimensions, numbers.lhs_contracting_dimensions)
    right = _Side(second, shape_of(op.rhs), numbers.rhs_batching_dimensions, numbers.rhs_contracting_dimensions)
    wide = [index for index, axis in enumerate(left.batches) if left.shape[axis] > 1]
    if len(wide) != 1 or not all(left.shape + right.shape) or (left.is_matrices and right.is_matrices):
        return None
    left, right = (replace(side, heads=side.batches[wide[0]]) for side in (left, right))
    helps = left.one_head.is_matrices and right.one_head.is_matrices
    return (left, right) if helps and left.shape[left.heads] <= MOST_HEADS else None


def _may_swap(region: QuantizeRegionOp) -> bool:
    """Whether the operands of a product have one arithmetic in both orders.

    LiteRT's default kernels are XNNPACK's if the second operand has zero point 0.
    """
    centred = {isinstance(spec, UniformQuantizedType) and not spec.zero_points.any() for spec in region.input_specs}
    return len(centred) == 1


def _swapped(order: DimensionOrder, sides: tuple[_Side, _Side]) -> DimensionOrder:
    """The order of the result of a product of `sides`, where `order` is that of the product the other way round."""
    batches, first = len(sides[0].batches), len(sides[1].free)
    return (*order[:batches], *order[batches + first :], *order[batches : batches + first])


def _of_head(region: QuantizeRegionOp, sides: tuple[_Side, _Side], head: int) -> SSAValue:
    """The product of one head. The dimension of the heads has size 1 in the result."""
    parts = [_sliced(region, side, head) for side in sides]
    left, right = sides
    numbers = DotDimensions(
        lhs_batching_dimensions=left.batches,
        rhs_batching_dimensions=right.batches,
        lhs_contracting_dimensions=left.summed,
        rhs_contracting_dimensions=right.summed,
    )
    shape = [1] * len(left.batches) + [side.shape[axis] for side in sides for axis in side.free]
    kind = TensorType(element_of(region.outputs[0]), shape)
    block = Block(arg_types=[part.type for part in parts])
    op = DotGeneralOp(block.args[0], block.args[1], kind, numbers)
    block.add_ops([op, ReturnOp([op.result])])
    specs = [region.input_specs.data[side.port] for side in sides]
    name = region.logical_kernel.data
    made = QuantizeRegionOp(parts, [kind], name, specs, region.output_specs.data, Region(block))
    made.attributes.update({**region.attributes, **made.attributes})
    return _inserted(made, region)


def _sliced(region: QuantizeRegionOp, side: _Side, head: int) -> SSAValue:
    """One head of an operand."""
    low, high, steps = [0] * len(side.shape), list(side.shape), [1] * len(side.shape)
    low[side.heads], high[side.heads] = head, head + 1
    spec = region.input_specs.data[side.port]
    made = movement_region([region.inputs[side.port]], spec, lambda given: SliceOp(given[0], low, high, steps))
    return _inserted(made, region)


def _inserted(made: QuantizeRegionOp, before: QuantizeRegionOp) -> SSAValue:
    made.location = before.location
    Rewriter.insert_op(made, InsertPoint.before(before))
    return made.outputs[0]
