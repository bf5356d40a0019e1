"""Move channels after the spatial dimensions (channels-last), the layout that device runtimes expect.

```mlir
%1 = "quant.region"(%0, %w) ({ convolution [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1] }) : (tensor<1x3x8x8xf32>, ...)
%2 = "quant.region"(%1) ({ maximum with 0 }) : (tensor<1x4x6x6xf32>) -> tensor<1x4x6x6xf32>
```
becomes
```mlir
%t = "quant.region"(%0) ({ transpose, dims = [0, 2, 3, 1] })
%1 = "quant.region"(%t, %w) ({ convolution [b, 0, 1, f]x[o, i, 0, 1]->[b, 0, 1, f] }) : (tensor<1x8x8x3xf32>, ...)
%2 = "quant.region"(%1) ({ maximum with 0 }) : (tensor<1x6x6x4xf32>) -> tensor<1x6x6x4xf32>
```
The pass starts at convolutions and windows, and continues through every op with a rule in `permute`. Transposes remain
only between an op with a rule and one without, and at inputs and outputs. With `ports`, inputs and outputs of rank 3
and more are reordered instead. Their order is recorded as `zeropoint.order` on the argument or result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.builder import Builder
from xdsl.dialects.func import ReturnOp as FunctionReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.export.heads import product_by_heads
from zeropoint.export.movement_regions import transpose_region
from zeropoint.export.permute import permuted
from zeropoint.export.permuted import (
    Permuted,
    Rewriting,
    in_order_of,
    inverse,
    is_identity,
    is_pointwise,
    kept_order,
    permuted_type,
)
from zeropoint.export.port_orders import reorder_arguments, reorder_results
from zeropoint.export.region_types import (
    broadcast_order,
    image_order,
    made_as,
    multiplies_activations,
    only_a_product_reads,
    only_moves,
    softmax_order,
)
from zeropoint.export.reshaped_orders import DimensionOrder, WantedOrder
from zeropoint.export.sorts import sort_along_last
from zeropoint.export.unit_moves import reshape_unit_moves
from zeropoint.export.wanted_orders import SPATIAL, permutation, wanted_orders, window_order
from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.dead_code import remove_dead_ops, remove_if_dead
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, ReturnOp
from zeropoint.ir.stablehlo import (
    BroadcastInDimOp,
    CompareOp,
    ConstantOp,
    ConvolutionOp,
    DotGeneralOp,
    SortOp,
    TransposeOp,
)
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import shape_of
from zeropoint.ir.weights import Weights
from zeropoint.targets.logical_kernels import RESIZES


@dataclass
class _Pass:
    """The state of the pass.

    `natural` has the values that are computed in a new order, and `given` those that a transpose of this pass brings
    into one. `back` has the transposes of `natural` values to their old order, and `specs` their types.
    """

    weights: Weights
    wanted: Mapping[SSAValue, WantedOrder]
    by_heads: bool
    natural: dict[SSAValue, Permuted] = field(default_factory=dict[SSAValue, Permuted])
    specs: dict[SSAValue, Attribute] = field(default_factory=dict[SSAValue, Attribute])
    given: dict[tuple[SSAValue, DimensionOrder, Attribute | None], SSAValue] = field(
        default_factory=dict[tuple[SSAValue, DimensionOrder, Attribute | None], SSAValue]
    )
    """The key includes the type, because a float that two kernels quantize differently is transposed for each."""
    undone: dict[tuple[SSAValue, DimensionOrder], SSAValue] = field(
        default_factory=dict[tuple[SSAValue, DimensionOrder], SSAValue]
    )
    """The operands of the model's transposes, by result and by the order of the result that the operand is."""
    back: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    made: set[Operation] = field(default_factory=set[Operation])
    """The transposes that this pass inserted."""

    def transposed(self, value: SSAValue, order: DimensionOrder, spec: Attribute | None, before: Operation) -> SSAValue:
        """Insert a transpose of a value; as a region if its type `spec` is known. Constants are transposed here."""
        array = constant_array(value, self.weights)
        if array is not None:
            constant = constant_op(array.transpose(order), self.weights)
            if isinstance(value.owner, Operation):
                constant.location = value.owner.location
            return Builder(InsertPoint.before(before)).insert(constant).output
        repeated = self._repeated(value, order)
        if repeated is not None:
            return repeated
        made = TransposeOp(value, order) if spec is None else transpose_region(value, order, spec)
        if isinstance(value.owner, Operation):
            for op in made.walk():
                op.location = value.owner.location
        self.made.add(made)
        return Builder(InsertPoint.before(before)).insert(made).results[0]

    def _repeated(self, value: SSAValue, order: DimensionOrder) -> SSAValue | None:
        """The result of a broadcast kernel in a new order: its operand is moved instead. None for other values."""
        region = value.owner
        if not isinstance(region, QuantizeRegionOp) or region.logical_kernel.data != "broadcast":
            return None
        op = region.body.block.first_op
        if not isinstance(op, BroadcastInDimOp) or not value.first_use:
            return None
        places = [order.index(dimension) for dimension in array_values(op.broadcast_dimensions)]
        moved = tuple(sorted(range(len(places)), key=places.__getitem__))
        operand = self.forward(region.inputs[0], moved, region.input_specs.data[0], region)
        block = Block(arg_types=[operand.type])
        made = BroadcastInDimOp(block.args[0], permuted_type(value, order), sorted(places))
        block.add_ops([made, ReturnOp([made.result])])
        specs = region.input_specs.data, region.output_specs.data
        copy = QuantizeRegionOp([operand], [made.result.type], "broadcast", *specs, Region(block))
        copy.attributes.update({**region.attributes, **copy.attributes})
        copy.location = region.location
        return Builder(InsertPoint.before(region)).insert(copy).outputs[0]

    def forward(self, value: SSAValue, order: DimensionOrder, spec: Attribute | None, before: Operation) -> SSAValue:
        """The value in a new order, transposed if it is computed in another order."""
        found = self.natural.get(value)
        if found is not None and found.order == order:
            return found.value
        if is_identity(order):
            return self.original(value, before)
        if (value, order) in self.undone:
            return self.undone[value, order]
        key = (value, order, spec)
        if key not in self.given:
            source = Permuted(value, kept_order(value)) if found is None else found
            moved = tuple(source.order.index(dimension) for dimension in order)
            self.given[key] = self.transposed(source.value, moved, spec, before)
        return self.given[key]

    def original(self, value: SSAValue, before: Operation) -> SSAValue:
        """The value in its old order, transposed back if it is computed in a new order."""
        found = self.natural.get(value)
        if found is None:
            return value
        if value not in self.back:
            after = found.value.owner
            # Directly after the producer, so that all later readers can share the transpose.
            point = after.next_op if isinstance(after, Operation) and after.next_op is not None else before
            self.back[value] = self.transposed(found.value, inverse(found.order), self.specs.get(value), point)
        return self.back[value]

    def order(self, ops: Sequence[Operation], inputs: Sequence[SSAValue]) -> DimensionOrder | None:
        """The new order for a kernel of these ops, from its window op, else from an input; None keeps the old order.

        Inputs of the program are taken in the order that windows want later, because that moves the transpose to the
        edge.
        """
        for op in ops:
            if isinstance(op, SPATIAL):
                wanted = WantedOrder(window_order(op), is_pointwise(op))
                made = self.natural.get(inputs[0])
                order = made.order if made is not None and wanted.takes(made.order) else wanted.order
                return None if is_identity(order) else order
        found = next((self.natural[value].order for value in inputs if value in self.natural), None)
        if found is not None:
            return found
        return next(
            (self.wanted[value].order for value in inputs if isinstance(value, BlockArgument) and value in self.wanted),
            None,
        )

    def orders(
        self, order: DimensionOrder, ops: Sequence[Operation], arguments: Sequence[SSAValue], inputs: Sequence[SSAValue]
    ) -> list[DimensionOrder | None]:
        """The new order of every input; None for weights, biases and inputs of rank below 2."""
        # Weights keep their layout here, because each exporter transposes them to that of its operator.
        weights = {op.rhs for op in ops if isinstance(op, ConvolutionOp | DotGeneralOp)}
        found: list[DimensionOrder | None] = []
        for argument, value in zip(arguments, inputs, strict=True):
            rank = len(shape_of(value))
            if argument in weights or rank < 2:
                found.append(None)
            elif rank == len(order):
                found.append(order)
            else:
                known = self.natural[value].order if value in self.natural else None
                found.append(known or broadcast_order(argument, ops, order))
        return found

    def _own_order(self, value: SSAValue) -> DimensionOrder | None:
        """The order in which a product takes an activation: that of the value itself; None keeps the model's.

        A transpose of the last two dimensions is left to the product if nothing else reads it.
        """
        if value in self.natural:
            return self.natural[value].order
        op, kind = value.owner, made_as(value)
        moved = permutation(op) if isinstance(op, Operation) else None
        if moved is None or not value.has_one_use() or moved[-2:] != (len(moved) - 1, len(moved) - 2):
            return None
        if moved[:-2] != tuple(range(len(moved) - 2)) or (
            isinstance(op, QuantizeRegionOp) and op.input_specs.data[0] != kind
        ):
            return None
        assert isinstance(op, Operation)
        self.undone.setdefault((value, moved), op.operands[0])
        return moved

    def region(self, region: QuantizeRegionOp) -> None:
        """Rewrite a region to channels-last if there is an order for it and every op in it has a rule."""
        ops, arguments = list(region.body.block.ops)[:-1], region.body.block.args
        resizes = region.logical_kernel.data in RESIZES
        order = image_order(region, self.natural, self.weights) if resizes else self.order(ops, region.inputs)
        if order is None and permutation(region) is not None and region.outputs[0] in self.wanted:
            order = kept_order(region.inputs[0])
        order = softmax_order(region, self.natural, self.weights) or order
        multiplies = multiplies_activations(region, self.weights)
        if order is None and multiplies:
            order = kept_order(region.inputs[0])
        if order is None or len(region.outputs) != 1 or self._leaves(region):
            return
        roles = (
            [self._own_order(value) for value in region.inputs]
            if multiplies
            else self.orders(order, ops, arguments, region.inputs)
        )
        made = self._body(ops, list(arguments), roles, region)
        if made is None:
            return
        body, result = made
        inputs = [
            value if role is None else self.forward(value, role, spec, region)
            for value, role, spec in zip(region.inputs, roles, region.input_specs.data, strict=True)
        ]
        # A rescale has no ops: its result is its operand in another type.
        if isinstance(result.value, BlockArgument) and ops:
            # The region only transposes into the order of its operand: no kernel remains, unless it also rounds.
            if only_moves(region, result.value.index):
                self.results(region, inputs[result.value.index], result.order, region.output_specs.data[0])
            return
        copy = QuantizeRegionOp(
            inputs,
            [result.value.type],
            region.logical_kernel.data,
            region.input_specs.data,
            region.output_specs.data,
            body,
        )
        copy.attributes.update(region.attributes)
        copy.location = region.location
        Builder(InsertPoint.before(region)).insert(copy)
        found = (self.by_heads and product_by_heads(copy, result.order)) or Permuted(copy.outputs[0], result.order)
        self.results(region, found.value, found.order, region.output_specs.data[0])

    def _leaves(self, region: QuantizeRegionOp) -> bool:
        """Leave a transpose of the model to the product that reads it, if its operand has a new order."""
        moved, found = permutation(region), self.natural.get(region.inputs[0])
        if moved is None or found is None or not only_moves(region, 0):
            return False
        if not only_a_product_reads(region.outputs[0], self.weights):
            return False
        order = tuple(moved.index(dimension) for dimension in found.order)
        self.results(region, found.value, order, region.output_specs.data[0])
        return True

    def transposition(self, op: Operation) -> None:
        """Record that the operand of a transpose in the model is its result in another order."""
        order = permutation(op)
        if order is not None and op.operands[0] not in self.natural:
            # A reader that wants this order reads the operand, instead of a second transpose that undoes the first.
            self.undone[op.results[0], inverse(order)] = op.operands[0]

    def results(self, op: Operation, value: SSAValue, order: DimensionOrder, spec: Attribute | None) -> None:
        """Record the value that replaces the result of `op`, in its order."""
        result = op.results[0]
        if is_identity(order):
            result.replace_all_uses_with(value)
            return
        self.natural[result] = Permuted(value, order)
        if spec is not None:
            self.specs[result] = spec

    def _body(
        self,
        ops: Sequence[Operation],
        arguments: Sequence[BlockArgument],
        roles: Sequence[DimensionOrder | None],
        like: Operation,
    ) -> tuple[Region, Permuted] | None:
        types = [a.type if o is None else permuted_type(a, o) for a, o in zip(arguments, roles, strict=True)]
        block = Block(arg_types=types)
        mapping: dict[SSAValue, SSAValue] = {}
        values: dict[SSAValue, Permuted] = {}
        for argument, order, new in zip(arguments, roles, block.args, strict=True):
            mapping[argument] = new
            if order is not None:
                values[argument] = Permuted(new, order)
        builder = Builder(InsertPoint.at_end(block))
        run = Rewriting(builder, self.weights, values, mapping, self.wanted.get(like.results[0]))
        for op in ops:
            if any(operand in values for operand in op.operands):
                found = permuted(op, run)
                if found is None:
                    return None
                values[op.results[0]] = found
            else:
                copy = run.builder.insert(op.clone(mapping))
                mapping.update(zip(op.results, copy.results, strict=True))
        returned = like.regions[0].block.last_op
        result = None if returned is None else values.get(returned.operands[0])
        if result is None:
            return None
        if isinstance(like, QuantizeRegionOp) and like.logical_kernel.data in RESIZES and roles[0] is not None:
            result = in_order_of(result, roles[0], builder)
        block.add_op(ReturnOp([result.value]))
        # In reverse, so that the producers of a dead op are visited after it and found dead as well.
        for op in list(block.ops)[-2::-1]:
            remove_if_dead(op)
        return Region(block), result

    def op(self, op: Operation) -> None:
        """Rewrite an op outside of regions to channels-last if it reads a reordered value and has a rule."""
        if len(op.results) != 1:
            return
        wanted, values = self.wanted.get(op.results[0]), self.natural
        if not any(value in values for value in op.operands):
            values = self._in_wanted_order(op, wanted)
        if not values:
            return
        builder = Builder(InsertPoint.before(op))
        found = permuted(op, Rewriting(builder, self.weights, values, wanted=wanted))
        if found is not None:
            self.results(op, found.value, found.order, None)

    def sort(self, op: SortOp) -> None:
        """Sort along the last dimension if the operand has a new order or a result is wanted in one."""
        value, found = op.inputs[0], self.natural.get(op.inputs[0])
        if found is None and not any(result in self.wanted for result in op.results):
            return
        given = kept_order(value) if found is None else found.order
        made = sort_along_last(op, given, lambda order: self.forward(value, order, made_as(value), op))
        self.natural.update(zip(op.results, made, strict=False))

    def _in_wanted_order(self, op: Operation, wanted: WantedOrder | None) -> Mapping[SSAValue, Permuted]:
        """The operands of an op that has none in a new order, as its readers want them: of a transpose, or of a
        comparison with values that are repeated. Empty for other ops."""
        if wanted is None or not isinstance(op, CompareOp | TransposeOp):
            return {}
        if isinstance(op, TransposeOp):
            return {op.operand: Permuted(op.operand, kept_order(op.operand))}
        moved = {value: self._repeated(value, wanted.order) for value in op.operands}
        return {value: Permuted(made, wanted.order) for value, made in moved.items() if made is not None}

    def settle(self, op: Operation) -> None:
        """Restore the old order of the operands of an op that is not rewritten."""
        for index, value in enumerate(op.operands):
            if value in self.natural:
                op.operands[index] = self.original(value, op)


def channels_last(program: Program, *, ports: bool = False, by_heads: bool = False) -> Program:
    """The program with convolutions, windows and the ops between them in channels-last layout.

    `ports` also reorders inputs and outputs of rank 3 and more that would otherwise need a transpose.
    """
    program = program.clone()
    run = _Pass(program.weights, wanted_orders(program.entry), by_heads)
    for op in list(program.entry.ops):
        run.transposition(op)
        if isinstance(op, QuantizeRegionOp):
            run.region(op)
        elif isinstance(op, SortOp):
            run.sort(op)
        elif not isinstance(op, ConstantOp | FunctionReturnOp):
            run.op(op)
    if ports:
        reorder_results(program, run.natural)
    for op in list(program.entry.ops)[::-1]:
        if op.results and not any(result.first_use for result in op.results):
            Rewriter.erase_op(op)
        else:
            run.settle(op)
    remove_dead_ops(program.entry)
    if ports:
        reorder_arguments(program, run.made)
    reshape_unit_moves(program)
    return program
