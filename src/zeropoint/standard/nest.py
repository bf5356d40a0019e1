"""An insertion point in loops over memrefs: the loops, loads and stores of `lower-to-loops`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from xdsl.builder import Builder
from xdsl.dialects import affine, memref
from xdsl.dialects.affine import ForOp
from xdsl.dialects.bufferization import ToBufferOp
from xdsl.dialects.builtin import AffineMapAttr, IndexType, LocationAttr, MemRefType, TensorType, UnitAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.rewriter import InsertPoint

from zeropoint.ir.tensors import element_of, shape_of

OperationT = TypeVar("OperationT", bound=Operation)
LoopIndices = Sequence[SSAValue]
Fill = Callable[["LoopNest", LoopIndices], None]
"""Emits the body of a loop nest, given the indices of its loops."""


@dataclass
class LoopNest:
    """An insertion point, and the memrefs of a function's tensors."""

    builder: Builder
    location: LocationAttr
    buffers: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def insert(self, op: OperationT) -> OperationT:
        """Insert an op with the location of the op that is being lowered."""
        op.location = self.location
        return self.builder.insert(op)

    def inside(self, block: Block) -> LoopNest:
        """An insertion point at the end of a block, with the same memrefs."""
        return LoopNest(Builder(InsertPoint.at_end(block)), self.location, self.buffers)

    def buffer(self, value: SSAValue) -> SSAValue:
        """The memref of a tensor. For an argument or a constant, a `bufferization.to_buffer` of it is inserted."""
        if value not in self.buffers:
            kind = cast("TensorType[Any]", value.type)
            cast_op = ToBufferOp.create(
                operands=[value],
                result_types=[MemRefType(kind.element_type, kind.get_shape())],
                properties={"read_only": UnitAttr()},
            )
            owner = value.owner
            where = InsertPoint.at_start(owner) if isinstance(owner, Block) else InsertPoint.after(owner)
            self.buffers[value] = Builder(where).insert(cast_op).memref
        return self.buffers[value]

    def alloc(self, value: SSAValue) -> SSAValue:
        """A new memref for the tensor `value`."""
        op = memref.AllocOp([], [], MemRefType(element_of(value), shape_of(value)))
        self.buffers[value] = self.insert(op).memref
        return self.buffers[value]

    def loops(self, sizes: Sequence[int], body: Fill) -> None:
        """Nested loops from 0 to each size."""
        indices: list[SSAValue] = []
        nest = self
        for size in sizes:
            block = Block(arg_types=[IndexType()])
            nest.insert(ForOp.from_region([], [], [], [], 0, size, Region(block)))
            inner = nest.inside(block)
            inner.insert(affine.YieldOp.get())
            nest = LoopNest(Builder(InsertPoint.at_start(block)), self.location, self.buffers)
            indices.append(block.args[0])
        body(nest, indices)

    def load(self, source: SSAValue, indices: LoopIndices, indexing: AffineMap | None = None) -> SSAValue:
        """`affine.load` of an element of a memref."""
        attribute = None if indexing is None else AffineMapAttr(indexing)
        return self.insert(affine.LoadOp(source, indices, attribute)).result

    def store(self, value: SSAValue, target: SSAValue, indices: LoopIndices, indexing: AffineMap | None = None) -> None:
        """`affine.store` of an element of a memref."""
        attribute = None if indexing is None else AffineMapAttr(indexing)
        self.insert(affine.StoreOp(value, target, indices, attribute))
