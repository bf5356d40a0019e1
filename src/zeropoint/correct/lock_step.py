"""Empirical bias correction on the whole integer program, contraction by contraction, over all samples at once.

The walk (`walk.py`) lowers and prepares every kernel alone. That takes longer than its runs, and corrections of biases
need none of it: a bias is a number that is added to the sums of a contraction. So the program that was lowered and
prepared to be judged runs up to each contraction, whose bias then changes. The results are those of the walk.

A kernel and its contraction in the integer program are matched by its unique name, if it has one, and by what is added
to the sums: the integers of the bias, less the zero point of the input times the sum of the weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import itemgetter

import numpy as np

from zeropoint.calibrate import Progress, silent
from zeropoint.correct.contractions import ContractionKernel
from zeropoint.correct.empirical_bias import set_mean
from zeropoint.correct.float_means import FloatMean
from zeropoint.correct.geometry import ConvolutionGeometry
from zeropoint.correct.sample_parts import Samples
from zeropoint.correct.walk import MEMORY, WalkValue
from zeropoint.interp import Adjustable, LockStepped, Runnable
from zeropoint.ir.annotations import unique_name
from zeropoint.ir.constants import constant_array
from zeropoint.ir.quant import Storage, UniformQuantizedType, stored_array
from zeropoint.ir.tensors import Array, shape_of

OFFSET = 128
"""The distance of an i8 from the u8 that has its place."""
Note = Callable[[ContractionKernel, str], None]
"""Called with a kernel whose bias was corrected, and a description."""


def correct_in_lock_step(
    means: Sequence[FloatMean],
    run: Runnable,
    samples: Samples,
    note: Note,
    progress: Progress = silent,
) -> LockStepped | None:
    """Give kernels the biases with which they have the mean results of the float ones. Returns the corrected program.

    `run` is the uncorrected integer program. Returns None if it cannot run so, or if not every kernel has one
    contraction in it; then nothing has changed.
    """
    steps = run.lock_step(samples, MEMORY) if isinstance(run, Adjustable) else None
    found = None if steps is None else _matched([mean.kernel for mean in means], steps)
    if steps is None or found is None:
        return None
    by_kernel = {mean.kernel: mean for mean in means}
    for number, kernel in progress(sorted(found.items(), key=itemgetter(0)), "kernels"):
        mean, before = by_kernel[kernel], _integers(kernel)
        arrays = [_unpadded(array, kernel) for array in steps.sources(number)]
        read = WalkValue([], arrays, as_read(kernel.input_type, arrays))
        text = set_mean(kernel, read, mean.chosen, mean.mean)
        change = _integers(kernel) - before
        if change.any():
            steps.add(number, change)
        note(kernel, text)
    return steps


def with_other_biases(
    run: Runnable, own: Sequence[ContractionKernel], others: Sequence[ContractionKernel]
) -> LockStepped | None:
    """An integer program with the biases of other kernels, which are the same otherwise. `own` are its kernels.

    Returns None if it cannot run so, or if a kernel with another bias does not have one contraction in it.
    """
    changes = {kernel: _integers(other) - _integers(kernel) for kernel, other in zip(own, others, strict=True)}
    changed = {kernel: change for kernel, change in changes.items() if change.any()}
    steps = run.lock_step([], MEMORY) if isinstance(run, Adjustable) else None
    found = None if steps is None else _matched(list(changed), steps)
    if steps is None or found is None:
        return None
    for number, kernel in found.items():
        steps.add(number, changed[kernel])
    return steps


def _matched(kernels: Sequence[ContractionKernel], steps: LockStepped) -> dict[int, ContractionKernel] | None:
    """The kernel of each contraction, by its number; None if a kernel has none or several."""
    numbers: dict[tuple[str | None, bytes], list[int]] = {}
    for number, (name, bias) in enumerate(zip(steps.names, steps.biases, strict=True)):
        numbers.setdefault((name, bias.astype(np.int64).tobytes()), []).append(number)
    found: dict[int, ContractionKernel] = {}
    shapes = steps.shapes
    for kernel in kernels:
        known = numbers.get((unique_name(kernel.region), _added(kernel).tobytes()), [])
        if not _is_plain(kernel) or len(known) != 1 or known[0] in found:
            return None
        if _shape_as_read(shapes[known[0]], kernel) is None:
            return None
        found[known[0]] = kernel
    return found


def _is_plain(kernel: ContractionKernel) -> bool:
    """Whether a kernel reads signed bytes in the shape that it has in the integer program, and fits its accumulator
    with any bias that it may get."""
    storage = kernel.input_type.storage
    return storage.dtype == np.int8 and kernel.input_type.is_per_layer and kernel.is_bounded


def as_read(kind: UniformQuantizedType, arrays: Sequence[Array]) -> UniformQuantizedType:
    """The type of an operand as it is in memory: of u8, its numbers and its zero point are greater by 128."""
    if all(array.dtype == np.int8 for array in arrays):
        return kind
    low, high = kind.storage.minimum + OFFSET, kind.storage.maximum + OFFSET
    return UniformQuantizedType.per_layer(Storage.of("u8", low, high), kind.scale, kind.zero_point + OFFSET)


def _integers(kernel: ContractionKernel) -> Array:
    """The bias as integers, (channels,), i64."""
    bias = constant_array(kernel.region.inputs[2], kernel.weights)
    assert bias is not None
    return stored_array(bias, kernel.bias_type).astype(np.int64)


def _added(kernel: ContractionKernel) -> Array:
    """What the integer program adds to the sums of a kernel, (channels,), i64."""
    sums = kernel.integers().sum(axis=2, dtype=np.int64).reshape(-1)
    return _integers(kernel) - kernel.input_type.zero_point * sums


def _padding(kernel: ContractionKernel) -> dict[int, tuple[int, int]]:
    """What a kernel adds to each end of its operand's dimensions, if not nothing."""
    if not isinstance(kernel.geometry, ConvolutionGeometry):
        return {}
    form = kernel.geometry.convolution
    return dict(zip(form.layout.input_spatial_dimensions, form.padding, strict=True))


def _shape_as_read(shape: tuple[int, ...], kernel: ContractionKernel) -> tuple[int, ...] | None:
    """The shape of a kernel's operand, as it is or padded, of which the integer program has this one; None if neither.

    The two may differ in dimensions of size 1: a line is an image of one row there (`expand/one_row.py`). Outer
    dimensions of what a product of matrices reads may be merged there.
    """
    own, padding = tuple(shape_of(kernel.op.lhs)), _padding(kernel)
    padded = tuple(size + sum(padding.get(dim, (0, 0))) for dim, size in enumerate(own))
    if kernel.is_fully_connected and _merges(own, shape):
        return own
    return next((known for known in (own, padded) if _without_ones(known) == _without_ones(shape)), None)


def _merges(shape: tuple[int, ...], merged: tuple[int, ...]) -> bool:
    """Whether every dimension of `merged` is one or more adjacent dimensions of `shape`."""
    inside = [math.prod(shape[dim:]) for dim in range(len(shape) + 1)]
    return math.prod(merged) == inside[0] and all(math.prod(merged[dim:]) in inside for dim in range(len(merged)))


def _without_ones(shape: tuple[int, ...]) -> list[int]:
    return [size for size in shape if size != 1]


def _unpadded(array: Array, kernel: ContractionKernel) -> Array:
    """The operand of a kernel, which the integer program may have padded for it."""
    known, shape = _shape_as_read(array.shape, kernel), shape_of(kernel.op.lhs)
    assert known is not None
    array = array.reshape(known)
    if known == tuple(shape):
        return array
    low = [_padding(kernel).get(dim, (0, 0))[0] for dim in range(array.ndim)]
    return array[tuple(slice(first, first + size) for first, size in zip(low, shape, strict=True))]
