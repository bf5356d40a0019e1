"""Rows of inputs and results of a contraction at sampled output positions, the same ones in both networks.

Using all positions of all samples would take gigabytes and gain little. Float and quantized results are compared at the
same positions, so the difference of the two means is far more accurate than either mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from zeropoint.correct.contractions import ContractionKernel, magnitudes
from zeropoint.correct.geometry import Geometry
from zeropoint.correct.walk import WalkValue
from zeropoint.interp import kept_positions
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.threads import in_threads

POSITIONS = 16384
"""The number of output positions sampled per kernel, over all samples."""
MEANS = 256
"""The maximum number of output positions per sample for the means of inputs."""
BLOCK = 1 << 20
"""About as many elements of rows or results are computed at a time."""
EXACT = 1 << 24
"""Integers of a smaller magnitude, and their sums, are exact in f32."""
ELEMENTS = 1 << 24
"""The maximum number of elements in the rows of one input."""


@dataclass(frozen=True)
class ResultRows:
    """The results of a contraction as rows of channels, one for each output position.

    `terms` is the number of elements in the input rows of a position.
    """

    geometry: Geometry
    terms: int
    shape: tuple[int, ...]

    @staticmethod
    def of(kernel: ContractionKernel) -> ResultRows:
        """The results of a kernel."""
        groups, _, terms = kernel.shape
        return ResultRows(kernel.geometry, groups * terms, tuple(shape_of(kernel.region.results[0])))

    def sampled_sum(self, result: Array, positions: Array) -> Array:
        """The sum over positions of one sample's results, (channels,), f64."""
        # Contiguous, so that the sum does not depend on the layout of the result.
        return np.ascontiguousarray(self.geometry.results(result, positions)).sum(axis=0, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class InputRows:
    """The input rows of a contraction at evenly spaced output positions."""

    geometry: Geometry
    positions: Array

    @staticmethod
    def of(geometry: Geometry, shape: tuple[int, ...], mask: Array | None = None) -> InputRows:
        """At most `MEANS` positions of a result of this shape, which are not padding."""
        kept = rows_kept(geometry, mask, shape)
        spaced = np.unique(np.linspace(0, len(kept) - 1, min(len(kept), MEANS)).astype(np.int64))
        return InputRows(geometry, kept[spaced])

    def mean(self, array: Array) -> Array:
        """The mean row of one sample's operand, (groups, 1, terms), f64."""
        with np.errstate(all="ignore"):  # non-finite samples give non-finite means
            return self.geometry.mean_row(array, self.positions)


@dataclass(frozen=True)
class Chosen:
    """The sampled output positions of each sample."""

    positions: tuple[Array, ...]

    @staticmethod
    def of(rows: ResultRows, count: int, masks: Sequence[Array] | None) -> Chosen:
        """About `POSITIONS` random positions of `count` samples, fewer if rows are long. Padding is never chosen.

        Seeded, so the choice is the same in every run.
        """
        every = rows.geometry.positions(rows.shape)
        most = max(count, min(POSITIONS, ELEMENTS // max(rows.terms, 1)))
        share = min(every, -(-most // count))
        generator = np.random.default_rng([every, count])
        given = [rows_kept(rows.geometry, mask, rows.shape) for mask in masks or [None] * count]
        drawn = (
            kept if len(kept) <= share else np.sort(generator.choice(kept, share, replace=False)) for kept in given
        )
        return Chosen(tuple(drawn))

    def parts(self, most: int) -> list[Chosen]:
        """The positions of neighbouring samples: at most this many parts with about as many samples each.

        Other samples have no positions in a part. Parts without any are left out.
        """
        samples = len(self.positions)
        ends = [samples * number // min(most, samples) for number in range(min(most, samples) + 1)]
        none: Array = np.zeros(0, np.int64)
        parts = [
            Chosen(tuple(each if first <= n < last else none for n, each in enumerate(self.positions)))
            for first, last in pairwise(ends)
        ]
        return [part for part in parts if part.count]

    @property
    def count(self) -> int:
        """The number of positions of all samples."""
        return sum(map(len, self.positions))

    def __iter__(self) -> Iterator[tuple[int, Array]]:
        return iter(enumerate(self.positions))


def rows_kept(geometry: Geometry, mask: Array | None, shape: tuple[int, ...]) -> Array:
    """The output positions of a result of this shape that are not padding, from a mask (bool)."""
    every = np.arange(geometry.positions(shape))
    kept = None if mask is None else kept_positions(mask, shape)
    return every if kept is None else np.flatnonzero(geometry.results(kept, every).any(axis=1))


def exact_rows(kernel: ContractionKernel, value: WalkValue, chosen: Chosen) -> Array:
    """The input rows of the float kernel, (groups, positions, terms), f32."""
    return _joined(kernel, chosen, lambda n, positions: kernel.geometry.rows(value.exact[n], positions))


def _joined(kernel: ContractionKernel, chosen: Chosen, rows: Callable[[int, Array], Array]) -> Array:
    """The rows of all samples, (groups, positions, terms), f32.

    Written to their place sample by sample: a list of them all would take as much memory again.
    """
    groups, _, terms = kernel.shape
    made, start = np.empty((groups, chosen.count, terms), np.float32), 0
    for number, positions in ((number, positions) for number, positions in chosen if len(positions)):
        made[:, start : start + len(positions)] = rows(number, positions)
        start += len(positions)
    return made


def quantized_rows(kernel: ContractionKernel, value: WalkValue, chosen: Chosen) -> Array:
    """The dequantized input rows of the quantized kernel, (groups, positions, terms), f32."""
    kind = value.kind
    if kind is None or kind.axis is not None:
        return _joined(kernel, chosen, lambda n, positions: kernel.geometry.rows(value.real(n), positions))
    point, scale = kind.zero_point, np.float32(kind.scale)
    real = _joined(kernel, chosen, lambda n, positions: kernel.geometry.rows(value.stored[n], positions, point))
    real -= np.float32(point)  # in place, because rows may have `ELEMENTS` elements
    real *= scale
    return real


def exact_mean(kernel: ContractionKernel, exact: Sequence[Array], chosen: Chosen) -> Array:
    """The mean results of the float kernel after its clamps, (channels,), f64. `exact` has its results by sample."""
    sums = [ResultRows.of(kernel).sampled_sum(exact[n], positions) for n, positions in chosen]
    return np.sum(sums, axis=0) / max(chosen.count, 1)


def products(rows: Array, matrix: Array) -> Array:
    """Weights (groups, outputs, terms) times rows (groups, positions, terms): (channels, positions), f32."""
    return np.matmul(matrix.astype(np.float32), rows.swapaxes(1, 2)).reshape(-1, rows.shape[1])


def quantized_sums(kernel: ContractionKernel, value: WalkValue, chosen: Chosen) -> Array:
    """The sums of the quantized kernel without its bias, (channels, positions), f32.

    Products of integers are summed exactly and rounded once, so the sums are the same on every machine.
    """
    kind = value.kind
    if kind is None or kind.axis is not None or kernel.weight_type.is_sub_channel:
        return products(quantized_rows(kernel, value, chosen), kernel.quantized_weight())
    weight, point = kernel.integers(), kind.zero_point
    # The zero point may be subtracted from each integer or from the sums, so both have to be exact.
    reach = max(kind.affine.reach, -kind.storage.minimum, kind.storage.maximum)
    greatest = int(magnitudes(weight).max(initial=0)) * reach
    weight = weight.astype(np.float32 if greatest < EXACT else np.float64)
    multiply = _sums_of_one if weight.shape[1] == 1 else _exact_products
    made = np.empty((kernel.channels, chosen.count), np.float32)

    def fill(block: _Block) -> None:
        # Positions first, as they are in memory if channels are adjacent there.
        stored, positions = [value.stored[n] for n, _ in block.samples], [each for _, each in block.samples]
        rows = kernel.geometry.terms(stored, positions, point)
        sums = multiply(weight, rows, point)
        made[:, block.start : block.start + len(rows)] = sums.reshape(kernel.channels, -1)

    in_threads(fill, _blocks(chosen, BLOCK // max(kernel.shape[0] * kernel.shape[2], kernel.channels, 1)))
    made *= (kind.scale * kernel.weight_scales).reshape(-1, 1).astype(np.float32)
    return made


def _sums_of_one(weight: Array, rows: Array, point: int) -> Array:
    """Weights (groups, 1, terms) times rows (positions, terms, groups) of integers less `point`: (groups, positions).

    Sums of integers are exact in any order.
    """
    by_term = np.ascontiguousarray(weight[:, 0].T)
    made = np.zeros((len(rows), len(weight)), weight.dtype)
    product = np.empty_like(made)
    for term, factors in enumerate(by_term):
        np.multiply(rows[:, term], factors, out=product)
        made += product
    made -= weight.dtype.type(point) * by_term.sum(axis=0)
    return made.T


def _exact_products(weight: Array, rows: Array, point: int) -> Array:
    """Weights (groups, outputs, terms) times rows (positions, terms, groups) of integers less `point`:
    (groups, outputs, positions)."""
    real = rows.astype(weight.dtype)
    real -= weight.dtype.type(point)
    return np.matmul(weight, real.transpose(2, 1, 0))


@dataclass(frozen=True)
class _Block:
    """Some samples and their positions; `start` is the number of positions before."""

    start: int
    samples: list[tuple[int, Array]]

    @property
    def end(self) -> int:
        return self.start + sum(len(positions) for _, positions in self.samples)


def _blocks(chosen: Chosen, most: int) -> Iterator[_Block]:
    """The samples and their positions, in blocks of about `most` positions."""
    block = _Block(0, [])
    for one in chosen:
        block.samples.append(one)
        if block.end - block.start >= most:
            yield block
            block = _Block(block.end, [])
    if block.samples:
        yield block
