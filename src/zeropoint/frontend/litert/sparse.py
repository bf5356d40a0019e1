"""Dense arrays of sparse tensors in a .tflite file.

A sparse tensor is a tree. Its levels are the dimensions in the order of `traversalOrder`. Dimensions that are in
`blockMap` are split in two: the number of the block, and the place inside of it. The latter are numbered after the
dimensions of the shape. Each level is dense, or has the indices of what is stored (compressed rows: `arraySegments` has
the part of `arrayIndices` for each node of the level before). The leaves are the stored elements, in order.

Source: the LiteRT schema (`SparsityParameters`), and `FormatConverter::Populate` in LiteRT's
`sparsity_format_converter.cc`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from zeropoint.frontend.errors import ModelError
from zeropoint.ir.tensors import Array
from zeropoint.litert_schema import schema

VECTORS = ("Int32Vector", "Uint16Vector", "Uint8Vector")


@dataclass(frozen=True)
class Level:
    """A dimension of the tree: its number of places, and for compressed ones the parts of the indices by node."""

    size: int
    segments: Array | None = None
    indices: Array | None = None


@dataclass(frozen=True)
class Sparsity:
    """How the elements of a tensor are stored: the dimension of each level, the dimension that each block splits, and
    the levels."""

    order: tuple[int, ...]
    blocks: tuple[int, ...]
    levels: tuple[Level, ...]

    @staticmethod
    def of(found: Any, name: str) -> Sparsity:
        """The description in a file. Raises ModelError if it contradicts itself."""
        order, blocks = (
            tuple(() if isinstance(numbers, int) else numbers.tolist())
            for numbers in (found.TraversalOrderAsNumpy(), found.BlockMapAsNumpy())
        )
        levels = tuple(_level(found.DimMetadata(index), name) for index in range(found.DimMetadataLength()))
        if len(levels) != len(order) or sorted(order) != [*range(len(order))]:
            raise _broken(name, f"{len(levels)} levels for the dimensions {list(order)[:16]}", "each dimension once")
        return Sparsity(order, blocks, levels)

    def positions(self, shape: tuple[int, ...], name: str) -> Array:
        """The places of the stored elements in the dense array, as indices into its elements."""
        sizes = self._sizes(shape, name)
        nodes, places = np.zeros(1, np.int64), [np.zeros(1, np.int64) for _ in self.order]
        for dimension, level in zip(self.order, self.levels, strict=True):
            parents, nodes, here = _children(level, nodes, sizes[dimension], prod(shape), name)
            places = [place[parents] for place in places]
            places[dimension] = here
        for block, dimension in enumerate(self.blocks):
            inner = len(shape) + block
            places[dimension] = places[dimension] * sizes[inner] + places[inner]
        if not shape:
            return np.zeros(len(nodes), np.int64)
        return np.ravel_multi_index(places[: len(shape)], shape).astype(np.int64)

    def _sizes(self, shape: tuple[int, ...], name: str) -> list[int]:
        """The number of places of each dimension: those of the shape, divided by their blocks, then the blocks."""
        if len(self.order) != len(shape) + len(self.blocks) or len({*self.blocks}) != len(self.blocks):
            raise _broken(name, f"{len(self.order)} levels for {len(shape)} dimensions", "one each, and one a block")
        inner = [self.levels[self.order.index(len(shape) + block)].size for block in range(len(self.blocks))]
        sizes = [*shape, *inner]
        for dimension, block in zip(self.blocks, inner, strict=True):
            if not 0 <= dimension < len(shape) or block < 1 or shape[dimension] % block:
                raise _broken(name, f"blocks of {block} along dimension {dimension} of {list(shape)}", "a divisor")
            sizes[dimension] //= block
        return sizes


def dense(elements: Array, positions: Array, shape: tuple[int, ...]) -> Array:
    """The dense array of stored elements; the others are zeros."""
    made = np.zeros(prod(shape), elements.dtype)
    made[positions] = elements
    return made.reshape(shape)


def _level(found: Any, name: str) -> Level:
    kinds = schema().DimensionType
    if found.Format() == kinds.DENSE:
        return Level(int(found.DenseSize()))
    if found.Format() != kinds.SPARSE_CSR:
        raise _broken(name, f"a level of format {found.Format()}", "a dense or a compressed one")
    segments = _vector(found.ArraySegmentsType(), found.ArraySegments(), name)
    return Level(0, segments, _vector(found.ArrayIndicesType(), found.ArrayIndices(), name))


def _vector(kind: int, table: Any, name: str) -> Array:
    """The numbers of a vector of one of several widths."""
    kinds = schema().SparseIndexVector
    known = next((vector for vector in VECTORS if getattr(kinds, vector) == kind), None)
    if known is None or table is None:
        raise _broken(name, f"indices of kind {kind}", f"one of: {', '.join(VECTORS)}")
    made = getattr(schema(), known)()
    made.Init(table.Bytes, table.Pos)
    values = made.ValuesAsNumpy()
    return np.zeros(0, np.int64) if isinstance(values, int) else np.asarray(values, np.int64)


def _children(level: Level, nodes: Array, size: int, most: int, name: str) -> tuple[Array, Array, Array]:
    """The nodes of a level: the numbers of their parents, their own numbers, and their places in the dimension."""
    if level.segments is None or level.indices is None:
        if level.size != size:
            raise _broken(name, f"a level of {level.size} places", f"{size} as its dimension has")
        starts, counts = nodes * size, np.full(len(nodes), size)
    else:
        segments = level.segments
        steps = np.diff(segments)
        if len(segments) <= int(nodes.max(initial=-1)) + 1 or steps.min(initial=0) < 0:
            raise _broken(name, f"{len(segments)} ends of segments", f"rising ones for {len(nodes)} nodes")
        if segments.min(initial=0) < 0 or segments.max(initial=0) > len(level.indices):
            raise _broken(name, f"a segment beyond {len(level.indices)} indices", "segments of the indices")
        starts, counts = segments[nodes], steps[nodes]
    if counts.sum() > most:
        raise _broken(name, f"{counts.sum()} stored elements", f"at most {most}")
    parents = np.repeat(np.arange(len(nodes)), counts)
    inside = np.arange(len(parents)) - np.repeat(np.cumsum(counts) - counts, counts)
    numbers = starts[parents] + inside
    places = inside if level.indices is None else level.indices[numbers]
    if places.size and (places.min() < 0 or places.max() >= size):
        raise _broken(name, f"the index {places.max()}", f"0 to {size - 1}")
    return parents, numbers, places


def _broken(name: str, found: str, expected: str) -> ModelError:
    return ModelError(f"tensor '{name}': found sparse storage with {found}, expected {expected}; the file is broken")
