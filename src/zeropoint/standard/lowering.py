"""The context of `lower-to-standard`: the standard values of a function's tensors, and the fusion of elementwise ops.

If the only reader of an elementwise op is an elementwise op of the same shape, the reader's `linalg.generic` computes
both. So the bias, the requantization and the clamp after a contraction are one generic. A broadcast becomes an indexing
map of the generic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from xdsl.builder import Builder
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    AffineMapAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    TensorType,
    i1,
)
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import FillOp, GenericOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint

from zeropoint.ir.constants import constant_array
from zeropoint.ir.locations import describe
from zeropoint.ir.stablehlo import BroadcastInDimOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, element_of, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.numerics.arrays import AnyArray
from zeropoint.quant_passes.errors import LoweringError
from zeropoint.standard.arithmetic import Element
from zeropoint.standard.element_types import is_unsigned, number_attribute, scalar_type, signless, signless_array
from zeropoint.standard.elementwise import ELEMENTWISE, ElementSource, activations, channel_axis, constant_number
from zeropoint.standard.scalars import GenericBody, ScalarArithmetic, extended

OperationT = TypeVar("OperationT", bound=Operation)
PARALLEL, REDUCTION = IteratorTypeAttr.parallel(), IteratorTypeAttr.reduction()


def is_fused(op: Operation) -> bool:
    """Whether an elementwise op is computed by its only reader, an elementwise op of the same shape."""
    readers = {use.operation for result in op.results for use in result.uses}
    if type(op) not in ELEMENTWISE or len(readers) != 1 or len(op.results) != 1:
        return False
    (reader,) = readers
    if type(reader) not in ELEMENTWISE or op.results[0] not in activations(reader):
        return False
    same_block = reader.parent_block() is op.parent_block()
    return same_block and shape_of(reader.results[0]) == shape_of(op.results[0])


@dataclass
class Standard:
    """The state of one function's lowering. `values` maps its tensors to standard ones."""

    weights: Weights
    profile: str | None
    builder: Builder
    location: LocationAttr
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    order: Mapping[Operation, int] = field(default_factory=dict[Operation, int])
    """The positions of the block's ops. Searching the block for the ops of each body would take quadratic time."""

    def insert(self, op: OperationT) -> OperationT:
        """Insert an op before the op that is being lowered, with the latter's location."""
        op.location = self.location
        return self.builder.insert(op)

    def constant(self, array: AnyArray, element: Attribute) -> SSAValue:
        """`arith.constant` of a tensor, in the signless type of its elements."""
        element = signless(element)
        return self.insert(arith.ConstantOp(self.weights.attribute(signless_array(array, element), element))).result

    def number(self, value: float, element: Element) -> SSAValue:
        """`arith.constant` of a number."""
        return self.insert(arith.ConstantOp(number_attribute(value, element))).result

    def index(self, value: int) -> SSAValue:
        """`arith.constant` of an index."""
        return self.insert(arith.ConstantOp(number_attribute(value, IndexType()))).result

    def converted(self, value: SSAValue, element: Element, *, unsigned: bool) -> SSAValue:
        """A standard tensor with its elements converted to another type."""
        if element_of(value) == element:
            return value
        body = GenericBody(len(shape_of(value)), self.location)
        ops = ScalarArithmetic(body, self.constant, unsigned=unsigned)
        body.end(ops.converted(body.read(value), element))
        return self.generic(body, shape_of(value), element)

    def empty(self, shape: Sequence[int], element: Attribute) -> SSAValue:
        """`tensor.empty`, as a destination that only gives the shape of a result."""
        return self.insert(tensor.EmptyOp([], TensorType(element, shape))).tensor

    def filled(self, shape: Sequence[int], element: Attribute, value: float) -> SSAValue:
        """A tensor filled with a number, by `linalg.fill`."""
        return self.filled_with(shape, self.number(value, cast("Element", element)))

    def filled_with(self, shape: Sequence[int], scalar: SSAValue) -> SSAValue:
        """A tensor filled with a scalar, by `linalg.fill`."""
        empty = self.empty(shape, scalar.type)
        return self.insert(FillOp([scalar], [empty], [empty.type])).results[0]

    def array(self, value: SSAValue) -> Array | None:
        """The elements of a constant; None for other values."""
        return constant_array(value, self.weights)

    def scalar(self, value: SSAValue) -> SSAValue:
        """The only element of a tensor of rank 0."""
        number = constant_number(value, self.weights)
        if number is not None:
            return self.number(number, cast("Element", signless(element_of(value))))
        found = self.value(value)
        return self.insert(tensor.ExtractOp(found, [], element_of(found))).results[0]

    def value(self, value: SSAValue) -> SSAValue:
        """The standard tensor of a value; constants, broadcasts and fused ops are emitted here."""
        if value not in self.values:
            assert isinstance(value, OpResult)
            array = self.array(value)
            if array is not None:
                self.values[value] = self.constant(array, scalar_type(value.op, value))
            else:
                self.values[value] = self._computed(value)
        return self.values[value]

    def _computed(self, value: OpResult) -> SSAValue:
        number = constant_number(value, self.weights)
        element = scalar_type(value.op, value)
        if number is not None:
            return self.filled(shape_of(value), element, number)
        body = self.elementwise(value)
        result = body.block.args and self._is_copy(body, value)
        return body.inputs[0] if result else self.generic(body, shape_of(value), element)

    def _is_copy(self, body: GenericBody, value: SSAValue) -> bool:
        """Whether a body yields its only operand unchanged, as for a cast between a quantized type and its storage."""
        last = body.block.last_op
        assert last is not None
        plain = body.maps == [AffineMap.identity(body.rank)] and [*last.operands] == [*body.block.args]
        return plain and body.inputs[0].type == TensorType(body.block.args[0].type, shape_of(value))

    def elementwise(self, root: OpResult) -> GenericBody:
        """The body that computes one element of `root` and of every op that is fused into it."""
        body = GenericBody(len(shape_of(root)), self.location)
        scalars: dict[SSAValue, SSAValue] = {}
        for op in sorted(self._fused(root), key=self.order.__getitem__):
            args = [self._element(body, value, scalars, shape_of(root)) for value in activations(op)]
            ops = ScalarArithmetic(body, self.constant, channel_axis(op), unsigned=is_unsigned(op.operands[0]))
            ops.body.location = op.location
            source = ElementSource(self.weights, self.profile, self.value)
            scalars[op.results[0]] = ELEMENTWISE[type(op)](ops, op, args, source)
        result = scalars.get(root)
        body.end(self._element(body, root, scalars, shape_of(root)) if result is None else result)
        return body

    def _fused(self, root: OpResult) -> set[Operation]:
        """The elementwise ops that the root's body computes."""
        found: set[Operation] = set()
        pending: list[SSAValue] = [root]
        while pending:
            value = pending.pop()
            op = value.owner
            if value in self.values or not isinstance(op, Operation) or type(op) not in ELEMENTWISE or op in found:
                continue
            if value is root or (is_fused(op) and shape_of(value) == shape_of(root)):
                found.add(op)
                pending += activations(op)
        return found

    def _element(
        self, body: GenericBody, value: SSAValue, scalars: dict[SSAValue, SSAValue], shape: tuple[int, ...]
    ) -> SSAValue:
        """One element of a value: a constant, the result of a fused op, or an element of an operand of the generic."""
        if value in scalars:
            return scalars[value]
        number = constant_number(value, self.weights)
        if number is not None:
            return body.number(number, scalar_type(cast("OpResult", value).op, value))
        owner = value.owner
        if isinstance(owner, BroadcastInDimOp) and value not in self.values:
            return body.read(self.value(owner.operand), broadcast_map(owner))
        indexing = AffineMap.identity(len(shape)) if shape_of(value) == shape else AffineMap(len(shape), 0, ())
        return body.read(self.value(value), indexing)

    def generic(self, body: GenericBody, shape: Sequence[int], element: Attribute) -> SSAValue:
        """A `linalg.generic` with parallel loops over the elements of a result.

        The sizes of a dynamic shape are taken from an operand whose indexing map is the identity.
        """
        empty = self.like(body, shape, element) if min(shape, default=0) < 0 else self.empty(shape, element)
        body.block.insert_arg(element, len(body.block.args))
        maps = [AffineMapAttr(found) for found in (*body.maps, AffineMap.identity(len(shape)))]
        op = GenericOp(body.inputs, [empty], Region(body.block), maps, [PARALLEL] * len(shape), [empty.type])
        return self.insert(op).results[0]

    def like(self, body: GenericBody, shape: Sequence[int], element: Attribute) -> SSAValue:
        """`tensor.empty` with the dynamic sizes of an operand of the body that has the same shape."""
        whole = AffineMap.identity(len(shape))
        source = next(value for value, found in zip(body.inputs, body.maps, strict=True) if found == whole)
        sizes: list[SSAValue] = []
        for dimension in (n for n, size in enumerate(shape) if size < 0):
            index = self.insert(arith.ConstantOp(IntegerAttr(dimension, IndexType()))).result
            sizes.append(self.insert(tensor.DimOp(source, index)).result)
        return self.insert(tensor.EmptyOp(sizes, TensorType(element, shape))).tensor

    def reduction(
        self, inputs: Sequence[SSAValue], init: SSAValue, block: Block, loops: tuple[Sequence[AffineMap], int, int]
    ) -> SSAValue:
        """A `linalg.generic` whose last loops reduce; `loops` are (the maps, parallel loops, reduction loops)."""
        return self.reductions(inputs, [init], block, loops)[0]

    def reductions(
        self,
        inputs: Sequence[SSAValue],
        inits: Sequence[SSAValue],
        block: Block,
        loops: tuple[Sequence[AffineMap], int, int],
    ) -> Sequence[SSAValue]:
        """`reduction` with any number of results."""
        maps, parallel, reduced = loops
        iterators = [PARALLEL] * parallel + [REDUCTION] * reduced
        attributes, types = [AffineMapAttr(found) for found in maps], [init.type for init in inits]
        return self.insert(GenericOp(inputs, inits, Region(block), attributes, iterators, types)).results

    def refuse(self, op: Operation, reason: str) -> LoweringError:
        """The error for an op without a standard form."""
        return LoweringError(f"{describe(op)}: {reason}", op)


def broadcast_map(op: BroadcastInDimOp) -> AffineMap:
    """The map from the indices of a broadcast's result to those of its operand."""
    given, made = shape_of(op.operand), shape_of(op.result)
    results = [
        AffineExpr.constant(0) if size == 1 and made[dim] != 1 else AffineExpr.dimension(dim)
        for size, dim in zip(given, array_values(op.broadcast_dimensions), strict=True)
    ]
    return AffineMap(len(made), 0, tuple(results))


def insert_before(op: Operation) -> Builder:
    """A builder right before an op."""
    return Builder(InsertPoint.before(op))


def product_body(types: Sequence[Attribute], unsigned: Sequence[bool] = (False, False)) -> Block:
    """total + a * b, with operands extended to the type of the total; `unsigned` says which of these are zero-extended.

    A sum of booleans is "or".
    """
    block = Block(arg_types=types)
    is_integer = isinstance(types[2], IntegerType)
    factors: list[SSAValue] = []
    for argument, kind, sign in zip(block.args[:2], types[:2], unsigned, strict=True):
        if kind == types[2]:
            factors.append(argument)
            continue
        wider = cast("Any", types[2])
        made = extended(argument, wider, unsigned=sign) if is_integer else arith.ExtFOp(argument, wider)
        block.add_op(made)
        factors.append(made.results[0])
    product = (arith.MuliOp if is_integer else arith.MulfOp)(factors[0], factors[1])
    add = arith.OrIOp if types[2] == i1 else arith.AddiOp if is_integer else arith.AddfOp
    total = add(block.args[2], product)
    block.add_ops([product, total, YieldOp(total)])
    return block
