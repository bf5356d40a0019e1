"""The builder that converters use to emit StableHLO, with the values of the graph so far."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
from onnx import GraphProto, NodeProto
from xdsl.dialects.builtin import IntegerType, LocationAttr, TensorType, UnknownLoc
from xdsl.ir import Attribute, Block, Operation, SSAValue

from zeropoint.frontend.errors import NodeError
from zeropoint.frontend.onnx.tensors import as_program_array, element_of_dtype
from zeropoint.ir.constants import constant_op
from zeropoint.ir.locations import name_location
from zeropoint.ir.mapped import result_of
from zeropoint.ir.quant import StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import AddOp, BroadcastInDimOp, CompareOp, ComparisonDirection, IotaOp, ReduceOp, ReshapeOp
from zeropoint.ir.stablehlo.bodies import binary_body
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of, with_element, with_shape
from zeropoint.ir.weights import Weights
from zeropoint.limits import LimitExceeded, afford

MOST_OPS = 1_000_000
"""Maximum number of ops in a program after loops are unrolled."""
ArrayReader = Callable[[], Array]
"""Reads a constant of the model when it is first used."""


class Builder:
    """Appends ops to the program's entry block.

    `values` maps names to the graph's tensors, and `readers` to its constants. A constant becomes an op when it is
    first used. Every inserted op has `location`, the name of the current node. `convert_node` converts a node of a
    nested graph.

    `integers` has the tensors that an op other than a dequantization reads. `clipped` has the tensors that a Clip
    bounds before dequantization, with the bounds. `annotated` has the names of the scale and the zero point that the
    model states of float tensors. `moved_casts` and `biased_products` are those of `loaded_products`. `index_bounds`
    has the smallest and largest values of arguments that are indices. `unused_rows` has the tensors that end in unused
    rows, with the dimension of the rows.
    """

    def __init__(self, block: Block, weights: Weights, readers: Mapping[str, ArrayReader]):
        self.block = block
        self.weights = weights
        self.values: dict[str, SSAValue] = {}
        self.integers: set[str] = set()
        self.clipped: Mapping[str, tuple[int, int]] = {}
        self.annotated: Mapping[str, tuple[str, str]] = {}
        self.moved_casts: Mapping[str, str] = {}
        self.biased_products: Collection[str] = ()
        self.index_bounds: dict[SSAValue, tuple[int, int]] = {}
        self.unused_rows: dict[str, int] = {}
        self.location: LocationAttr = UnknownLoc()
        self.convert_node: Callable[[NodeProto], None] | None = None
        self._readers = dict(readers)
        self._count = 0
        self._arrays: dict[str, Array] = {}

    def input_bounds(self, entry: Block) -> dict[int, tuple[int, int]]:
        """The bounds of arguments that are indices, by the number of the argument."""
        return {number: self.index_bounds[one] for number, one in enumerate(entry.args) if one in self.index_bounds}

    def array(self, name: str) -> Array | None:
        """The constant of that name, in the model's dtype; None if the tensor is computed."""
        if name not in self._arrays and name in self._readers:
            self._arrays[name] = self._readers[name]()
        return self._arrays.get(name)

    def set_array(self, name: str, array: Array) -> None:
        """Record that a tensor is a constant."""
        self._arrays[name] = array

    def forget_array(self, name: str) -> None:
        """Record that a tensor is not constant, for example because a later trip of an unrolled loop computes it."""
        self._arrays.pop(name, None)

    def inline(self, graph: GraphProto, given: Sequence[SSAValue | Array]) -> list[SSAValue]:
        """Convert a nested graph with inputs `given`, and return its results. It may read tensors of outer graphs.

        Raises NodeError if the number of inputs differs.
        """
        assert self.convert_node is not None
        if len(graph.input) != len(given):
            raise NodeError(f"found {len(graph.input)} inputs of graph '{graph.name}', expected {len(given)}")
        values, arrays = dict(self.values), dict(self._arrays)
        for value_info, value in zip(graph.input, given, strict=True):
            self.values.pop(value_info.name, None)
            self._arrays.pop(value_info.name, None)
            if isinstance(value, SSAValue):
                self.values[value_info.name] = value
            else:
                self.set_array(value_info.name, value)
        for node in graph.node:
            self.convert_node(node)
        results = [self.value(output.name) for output in graph.output]
        self.values, self._arrays = values, arrays
        return results

    def value(self, name: str) -> SSAValue:
        """The value of the tensor of that name.

        Raises NodeError if there is none.
        """
        if name not in self.values:
            array = self.array(name)
            if array is None:
                raise NodeError(f"found a use of '{name}', which no earlier node computes")
            self.values[name] = self.constant(array, location=name_location(name))
        return self.values[name]

    def is_known(self, name: str) -> bool:
        """Whether a tensor of that name exists."""
        return name in self.values or name in self._readers or name in self._arrays

    def insert(self, op: Operation) -> SSAValue:
        """Append an op and return its first result.

        Raises LimitExceeded if the result exceeds the memory limit, or there are too many ops; NodeError for a negative
        dimension.
        """
        for result in op.results:
            if min(shape_of(result), default=0) < 0:
                raise NodeError(f"found a result of shape {list(shape_of(result))}, expected no negative sizes")
            afford(shape_of(result), element_dtype(element_of(result)).itemsize, "a result")
        self._count += 1
        if self._count > MOST_OPS:
            raise LimitExceeded(f"found more than {MOST_OPS} ops after unrolling loops, expected fewer trips")
        op.location = self.location
        self.block.add_op(op)
        return op.results[0]

    @contextmanager
    def at(self, name: str) -> Generator[None]:
        """A context in which inserted ops have the location of a tensor, such as a constant of the file."""
        outside, self.location = self.location, name_location(name)
        yield
        self.location = outside

    def apply(self, op: Callable[..., Operation], *operands: SSAValue) -> SSAValue:
        """Append an op that takes only operands."""
        return self.insert(op(*operands))

    def compare(self, direction: ComparisonDirection, lhs: SSAValue, rhs: SSAValue | float) -> SSAValue:
        """`compare` a value with another value or a number."""
        other = rhs if isinstance(rhs, SSAValue) else self.splat(rhs, lhs)
        return self.insert(CompareOp(lhs, other, direction))

    def iota(self, shape: Sequence[int], dimension: int, element: Attribute) -> SSAValue:
        """`iota`: 0, 1, 2, ... along a dimension."""
        return self.insert(IotaOp(TensorType(element, shape), dimension))

    def constant(self, array: Array, location: LocationAttr | None = None) -> SSAValue:
        """A constant. Floats of any width become f32."""
        again, element = partial(result_of, as_program_array, array), element_of_dtype(array.dtype)
        held = again()
        is_wider = held.nbytes > array.nbytes
        op = constant_op(held, self.weights, element_type=element, again=again if is_wider else None)
        self.insert(op)
        if location is not None:
            op.location = location
        return op.output

    def quantized_constant(self, stored: Array, kind: UniformQuantizedType) -> SSAValue:
        """A constant of a quantized type, from its storage integers, by `quant.scast`."""
        integers = stored.astype(kind.storage.dtype, copy=False)
        signless = IntegerType(kind.storage.type.width)
        held = self.insert(constant_op(integers, self.weights, element_type=signless))
        return self.insert(StorageCastOp(held, with_element(held, kind)))

    def scalar(self, number: float, like: SSAValue) -> SSAValue:
        """A scalar constant of the element type of `like`."""
        return self.constant(np.array(number, element_dtype(element_of(like))))

    def splat(self, number: float, like: SSAValue) -> SSAValue:
        """A scalar constant broadcast to the shape of `like`."""
        return self.broadcast(self.scalar(number, like), like.type, ())

    def broadcast(self, value: SSAValue, result_type: Attribute, dimensions: Sequence[int]) -> SSAValue:
        """`broadcast_in_dim`, or the value itself if its type does not change."""
        if value.type == result_type:
            return value
        return self.insert(BroadcastInDimOp(value, result_type, dimensions))

    def reshape(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """`reshape`, or the value itself if it has that shape."""
        if shape_of(value) == tuple(shape):
            return value
        return self.insert(ReshapeOp(value, with_shape(value, shape)))

    def reduce(
        self,
        value: SSAValue,
        axes: Sequence[int],
        initial: float,
        op: Callable[[SSAValue, SSAValue], Operation] = AddOp,
    ) -> SSAValue:
        """`reduce` over `axes`, which are removed."""
        kept = [size for axis, size in enumerate(shape_of(value)) if axis not in axes]
        init = self.scalar(initial, value)
        body = binary_body(op, element_of(value))
        return self.insert(ReduceOp([value], [init], [with_shape(value, kept)], axes, body))
