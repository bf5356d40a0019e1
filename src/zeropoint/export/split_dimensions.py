"""Kernels on dimensions that are split into several: the ops of their bodies over the parts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from math import prod
from operator import mul

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.quant import QuantizeRegionOp, ReturnOp, UniformQuantizedType
from zeropoint.ir.stablehlo import (
    BinaryOp,
    BroadcastInDimOp,
    ClampOp,
    CompareOp,
    ConstantOp,
    ConvertOp,
    ReduceOp,
    ReshapeOp,
    SelectOp,
    UnaryOp,
)
from zeropoint.ir.stablehlo.arrays import array_values, i64_array
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.targets.logical_kernels import REDUCTIONS

ELEMENTWISE = (BinaryOp, ClampOp, CompareOp, ConvertOp, SelectOp, UnaryOp)


@dataclass(frozen=True)
class SplitDimensions:
    """The dimensions of a merged shape, each with the sizes of its parts."""

    parts: tuple[tuple[int, ...], ...]

    @classmethod
    def between(cls, old: Sequence[int], merged: Sequence[int]) -> SplitDimensions | None:
        """The fewest parts of `merged` that split it wherever `old` or `merged` does; None if they do not fit."""
        ends = sorted({*accumulate(old, mul, initial=1), *accumulate(merged, mul, initial=1)})
        if any(high % low for low, high in pairwise(ends)):
            return None
        parts: list[tuple[int, ...]] = []
        for low, high in pairwise(accumulate(merged, mul, initial=1)):
            inside = [end for end in ends if low <= end <= high]
            parts.append(tuple(after // before for before, after in pairwise(inside)) or (1,))
        return cls(tuple(parts))

    @property
    def merged(self) -> tuple[int, ...]:
        """The merged shape."""
        return tuple(map(prod, self.parts))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of all parts."""
        return tuple(size for sizes in self.parts for size in sizes)

    def places(self, dimension: int) -> range:
        """The dimensions of the parts of a merged dimension."""
        first = sum(map(len, self.parts[:dimension]))
        return range(first, first + len(self.parts[dimension]))

    def is_split(self, dimension: int) -> bool:
        """Whether a merged dimension has several parts."""
        return len(self.parts[dimension]) > 1


@dataclass
class _Body:
    """A body that is rewritten over the parts."""

    split: SplitDimensions
    weights: Weights
    block: Block
    mapping: dict[SSAValue, SSAValue]
    constants: Collection[SSAValue]
    """The arguments that are constant operands of the region."""
    shaped: dict[SSAValue, tuple[int, ...]] = field(default_factory=dict[SSAValue, tuple[int, ...]])
    """The new shapes of constant arguments."""

    def add(self, op: Operation) -> bool:
        """Add an op over the parts; False if there is none."""
        if isinstance(op, BroadcastInDimOp) and shape_of(op.result) == self.split.merged:
            return self._broadcast(op)
        if isinstance(op, ReduceOp) and shape_of(op.inputs[0]) == self.split.merged:
            return self._reduce(op)
        touches = any(shape_of(value) == self.split.merged for value in (*op.operands, *op.results))
        if touches and not isinstance(op, (*ELEMENTWISE, ReturnOp, ConstantOp)):
            return False
        if touches and isinstance(op, ConstantOp):
            array = constant_array(op.output, self.weights)
            if array is None:
                return False
            made = constant_op(array.reshape(self.split.shape), self.weights)
            self._insert(op, made)
            return True
        self._insert(op, op.clone(self.mapping))
        return True

    def _insert(self, op: Operation, made: Operation) -> None:
        self.block.add_op(made)
        for old, new in zip(op.results, list(made.results), strict=True):
            whole = shape_of(old) == self.split.merged and shape_of(new) == self.split.merged
            kind = TensorType(element_of(old), self.split.shape)
            self.mapping[old] = Rewriter.replace_value_with_new_type(new, kind) if whole else new

    def _broadcast(self, op: BroadcastInDimOp) -> bool:
        dimensions = array_values(op.broadcast_dimensions)
        sizes, places = list[int](), list[int]()
        for size, dimension in zip(shape_of(op.operand), dimensions, strict=True):
            repeats = size == 1 or not self.split.is_split(dimension)
            found = self.split.places(dimension)
            sizes += [size] if repeats else self.split.parts[dimension]
            places += found[:1] if repeats else found
        operand = self.mapping[op.operand]
        if tuple(sizes) != shape_of(operand):
            if op.operand not in self.constants or not op.operand.has_one_use():
                return False
            self.shaped[op.operand] = tuple(sizes)
            operand = Rewriter.replace_value_with_new_type(operand, TensorType(element_of(operand), sizes))
            self.mapping[op.operand] = operand
        kind = TensorType(element_of(op.result), self.split.shape)
        self._insert(op, BroadcastInDimOp(operand, kind, places))
        return True

    def _reduce(self, op: ReduceOp) -> bool:
        dimensions = array_values(op.dimensions)
        kept = [dimension for dimension in range(len(self.split.parts)) if dimension not in dimensions]
        if len(op.inputs) != 1 or any(map(self.split.is_split, kept)):
            return False
        made = op.clone(self.mapping)
        made.properties["dimensions"] = i64_array([place for axis in dimensions for place in self.split.places(axis)])
        self._insert(op, made)
        return True


def region_on_parts(
    region: QuantizeRegionOp, split: SplitDimensions, known: Mapping[SSAValue, SSAValue], weights: Weights
) -> list[Operation] | None:
    """A region computed over the parts of its dimensions, after the constants that it reads; None if it cannot be.

    `known` has the operands over the parts.
    """
    arguments, ops = region.body.block.args, list(region.body.block.ops)
    reduces = any(isinstance(op, ReduceOp) for op in ops) and region.is_quantized
    if reduces and region.logical_kernel.data not in REDUCTIONS:
        # The operator of a softmax computes along one dimension.
        return None
    if len(region.outputs) != 1 or shape_of(region.outputs[0]) != split.merged or isinstance(ops[0], ReshapeOp):
        return None
    arrays = {value: constant_array(value, weights) for value in region.inputs if value not in known}
    if any(array is None for array in arrays.values()):
        return None
    constants = [a for a, v in zip(arguments, region.inputs, strict=True) if v in arrays]
    block = Block(arg_types=[_kind(argument, split) for argument in arguments])
    body = _Body(split, weights, block, dict(zip(arguments, block.args, strict=True)), constants)
    if not all(body.add(op) for op in ops):
        return None
    made: list[Operation] = []
    inputs: list[SSAValue] = []
    for old, new, value, spec in zip(arguments, block.args, region.inputs, region.input_specs.data, strict=True):
        array = arrays.get(value)
        if array is None:
            inputs.append(known[value])
        elif shape_of(new) == shape_of(old):
            inputs.append(value)
        elif isinstance(spec, UniformQuantizedType) and spec.is_per_channel:
            return None
        else:
            made.append(constant_op(array.reshape(shape_of(new)), weights))
            inputs.append(made[-1].results[0])
    kind = TensorType(element_of(region.outputs[0]), split.shape)
    specs = region.input_specs.data, region.output_specs.data
    copy = QuantizeRegionOp(inputs, [kind], region.logical_kernel.data, *specs, Region(block))
    copy.attributes.update({**region.attributes, **copy.attributes})
    return [*made, copy]


def _kind(argument: BlockArgument, split: SplitDimensions) -> Attribute:
    is_whole = shape_of(argument) == split.merged
    return TensorType(element_of(argument), split.shape) if is_whole else argument.type
