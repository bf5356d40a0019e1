"""Rewrite chains of reshapes and transposes as one reshape that splits dimensions, one transpose, one that merges them.

```mlir
%1 = "quant.region"(%0) ({ reshape }) : (tensor<1x8x4x6xf32>) -> tensor<1x32x6xf32>
%2 = "quant.region"(%1) ({ transpose, dims = [0, 2, 1] }) : (tensor<1x32x6xf32>) -> tensor<1x6x32xf32>
```
becomes
```mlir
%1 = "quant.region"(%0) ({ reshape }) : (tensor<1x8x4x6xf32>) -> tensor<8x4x6xf32>
%a = "quant.region"(%1) ({ transpose, dims = [2, 0, 1] }) : (tensor<8x4x6xf32>) -> tensor<6x8x4xf32>
%2 = "quant.region"(%a) ({ reshape }) : (tensor<6x8x4xf32>) -> tensor<1x6x32xf32>
```
The layout pass can move the channels of `%0` through a reshape that only splits dimensions, but not through one that
merges channels and rows. A chain is rewritten if it has several transposes, or a reshape of that kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.builder import Builder
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.export.permuted import inverse, is_identity
from zeropoint.export.reshaped_orders import DimensionOrder, groups, last_order, moves_units, reshaped_order
from zeropoint.export.wanted_orders import IMAGE_RANK, permutation
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, ReturnOp
from zeropoint.ir.stablehlo import ReshapeOp, TransposeOp
from zeropoint.ir.tensors import element_of, shape_of

MOST_DIMENSIONS = 6
"""The rank up to which runtimes transpose."""


@dataclass(eq=False)
class _Part:
    """A part of a dimension of the chain's operand, and the parts that it was split into."""

    size: int
    parts: list[_Part] = field(default_factory=list["_Part"])

    def split(self, first: int) -> None:
        """Split into a part of the given size and the rest."""
        self.parts = [_Part(first), _Part(self.size // first)]

    @property
    def smallest(self) -> list[_Part]:
        """The parts that are not split."""
        return [small for part in self.parts for small in part.smallest] if self.parts else [self]


def merge_chains(program: Program) -> Program:
    """The program with chains of reshapes and transposes rewritten."""
    program = program.clone()
    for op in list(program.entry.ops)[::-1]:
        if op.parent is not None:
            chain = _chain(op)
            if any(permutation(link) is not None for link in chain):
                _rewrite(chain)
    return program


def _spec(op: Operation) -> Attribute | None:
    """The type that a reshape or transpose moves; None for one that also rounds. A float op has its element type."""
    if not isinstance(op, QuantizeRegionOp):
        return element_of(op.results[0])
    given, made = op.input_specs.data[0], op.output_specs.data[0]
    return given if given == made else None


def _moves(op: Operation) -> bool:
    """Whether an op only reshapes or transposes."""
    if isinstance(op, QuantizeRegionOp):
        first = op.body.block.first_op
        alone = len(op.inputs) == 1 and len(list(op.body.block.ops)) == 2
        return alone and isinstance(first, ReshapeOp | TransposeOp)
    return isinstance(op, ReshapeOp | TransposeOp)


def _chain(last: Operation) -> list[Operation]:
    """The reshapes and transposes that end with an op, of one type, each read by the next one only."""
    found: list[Operation] = []
    op: object = last
    while isinstance(op, Operation) and _moves(op) and _spec(op) is not None:
        if found and (_spec(op), _is_region(op)) != (_spec(last), _is_region(last)):
            break
        if found and not op.results[0].has_one_use():
            break
        found.insert(0, op)
        op = op.operands[0].owner
    return found


def _is_region(op: Operation) -> bool:
    return isinstance(op, QuantizeRegionOp)


def _rewrite(chain: Sequence[Operation]) -> None:
    source, last = chain[0].operands[0], chain[-1]
    dimensions = [_Part(size) for size in shape_of(source)]
    final = _through(chain, dimensions) if all(shape_of(source)) else None
    if final is None:
        return
    split = [part for dimension in dimensions for part in dimension.smallest if part.size != 1]
    order = tuple(split.index(part) for part in final if part.size != 1)
    stays = is_identity(order)
    fewer = _transposes(chain) > (not stays)
    if len(order) > MOST_DIMENSIONS or not (fewer or _merges_channels(chain)):
        return
    value = _reshaped(source, [part.size for part in split], last)
    if not stays:
        value = _inserted(TransposeOp, value, [split[place].size for place in order], last, order)
    value = _reshaped(value, shape_of(last.results[0]), last)
    last.results[0].replace_all_uses_with(value)
    for op in reversed(chain):
        Rewriter.erase_op(op)


def _transposes(chain: Sequence[Operation]) -> int:
    """The number of transposes that move elements."""
    orders = [(shape_of(op.operands[0]), permutation(op)) for op in chain]
    return sum(order is not None and not moves_units(shape, order) for shape, order in orders)


def _merges_channels(chain: Sequence[Operation]) -> bool:
    """Whether a chain begins with a reshape of an image that channels cannot be moved through.

    An operand of more dimensions is an image whose dimensions are split.
    """
    given, made = shape_of(chain[0].operands[0]), shape_of(chain[0].results[0])
    if permutation(chain[0]) is not None or len(chain) == 1:
        return False
    if len(given) > IMAGE_RANK:
        merges = groups(given, made)
        if len(chain) == 2 and permutation(chain[1]) == inverse(last_order(len(made))):
            # Channels are last already: an imported file has this transpose for a result in the model's order.
            merges = merges[-1:]
        return any(len(taken) > 1 for taken, _ in merges)
    return len(given) == IMAGE_RANK and reshaped_order(given, made, last_order(IMAGE_RANK)) is None


def _through(chain: Sequence[Operation], dimensions: Sequence[_Part]) -> list[_Part] | None:
    """The parts of the dimensions in the order of the result; None if a reshape cuts them unevenly."""
    shape = [[part] for part in dimensions]
    for op in chain:
        order = permutation(op)
        found = (
            _regrouped([part for parts in shape for part in parts], shape_of(op.results[0]))
            if order is None
            else [shape[dimension] for dimension in order]
        )
        if found is None:
            return None
        shape = found
    return [small for parts in shape for part in parts for small in part.smallest]


def _regrouped(parts: Sequence[_Part], sizes: Sequence[int]) -> list[list[_Part]] | None:
    """Parts as dimensions of the given sizes, split where necessary; None if they do not fit."""
    left = [small for part in parts for small in part.smallest if small.size != 1]
    found: list[list[_Part]] = []
    for size in sizes:
        taken: list[_Part] = []
        while size > 1:
            part = left.pop(0)
            if size % part.size:
                if part.size % size:
                    return None
                part.split(size)
                part, rest = part.parts
                left.insert(0, rest)
            taken.append(part)
            size //= part.size
        found.append(taken)
    return found


def _reshaped(value: SSAValue, sizes: Sequence[int], like: Operation) -> SSAValue:
    return value if tuple(sizes) == shape_of(value) else _inserted(ReshapeOp, value, sizes, like)


def _inserted(
    kind: type[ReshapeOp | TransposeOp],
    value: SSAValue,
    sizes: Sequence[int],
    like: Operation,
    order: DimensionOrder = (),
) -> SSAValue:
    """Insert a reshape or transpose before an op, as a region if that is one."""
    result = TensorType(element_of(value), sizes)

    def moved(operand: SSAValue) -> Operation:
        return TransposeOp(operand, order) if kind is TransposeOp else ReshapeOp(operand, result)

    builder = Builder(InsertPoint.before(like))
    if not isinstance(like, QuantizeRegionOp):
        made = builder.insert(moved(value))
    else:
        block = Block(arg_types=[value.type])
        inner = moved(block.args[0])
        block.add_ops([inner, ReturnOp([inner.results[0]])])
        name, specs = kind.name.split(".")[-1], (like.input_specs.data, like.output_specs.data)
        made = builder.insert(QuantizeRegionOp([value], [result], name, *specs, Region(block)))
        made.attributes.update({**like.attributes, **made.attributes})
    made.location = like.location
    return made.results[0]
