"""Operands in layouts that kernels can read: a value's own view if the kernel can read it, otherwise a copy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.codegen.allocation import BYTE, Allocation, holds
from zeropoint.codegen.graph import Halo, Space, View, dense_view, matrix_view
from zeropoint.codegen.parameters import ALIGNMENT
from zeropoint.codegen.values import Values
from zeropoint.codegen.views import has_even_rows, transposed


class Operands:
    """The operands of a program's kernels. `views` has the views of the values that were laid out."""

    def __init__(self, values: Values, allocation: Allocation, views: Mapping[SSAValue, View]):
        self._values, self._allocation, self._views = values, allocation, views

    def fitting(self, op: Operation, value: SSAValue, multiple: int = 16, padding: Halo | None = None) -> View:
        """A value for kernels that read `multiple` bytes of adjacent channels (of images) or elements at once.

        Such reads stay inside the buffer. A value with another layout is copied, with `padding` around the copy.
        """
        view = self._views[value]
        if self._values.fits(view, multiple):
            return view
        return self._copied(op, view, 16, padding)

    def adjacent(self, op: Operation, value: SSAValue) -> View:
        """A value for a loop nest on 8-bit integers, read in place if the kernel can read the caller's layout."""
        view, inner = self._views[value], self._values.innermost(value)
        is_adjacent = inner < 0 or view.strides[inner] == view.itemsize
        return self.fitting(op, value) if view.activations or not is_adjacent else view

    def interleaved(self, op: Operation, value: SSAValue, padding: Halo | None) -> View:
        """An image whose channels are adjacent. An image with another layout is copied, with `padding` around it."""
        view = self._views[value]
        if self._values.image_strides(view)[1] == view.itemsize:
            return view
        return self._copied(op, view, 16, padding)

    def lined(self, op: Operation, value: SSAValue, padding: Halo | None = None) -> View:
        """A value in whole cache lines. A value with another layout is copied, with `padding` around the copy."""
        view, inner = self._views[value], self._values.innermost(value)
        even = self._values.is_image(value) or has_even_rows(view)
        # Kernels of floats load and store whole cache lines at the ends of rows, beyond the last element.
        if view.is_aligned(inner, ALIGNMENT) and view.strides[inner] == view.itemsize and even:
            return view
        return self._copied(op, view, ALIGNMENT, padding)

    def surrounded(self, op: Operation, view: View, padding: Halo | None) -> View:
        """An image with padding around it. It is copied if its buffer does not have the padding."""
        if padding is None or (view.halo is not None and holds(view.halo, padding)):
            return view
        return self._copied(op, view, 16 if view.dtype == BYTE else ALIGNMENT, padding)

    def _copied(self, op: Operation, view: View, multiple: int, padding: Halo | None) -> View:
        made = self._allocation.padded(op, view.shape, view.dtype, multiple, padding)
        return self._allocation.copy(op, view, made)

    def even(self, op: Operation, view: View) -> View:
        """The view if its rows are evenly spaced; otherwise a copy."""
        if has_even_rows(view):
            return view
        made = matrix_view(view.shape, view.dtype, 16)
        return self._allocation.copy(op, view, made)

    def without_gaps(self, op: Operation, value: SSAValue) -> View:
        """A value whose elements follow each other in memory, in order. A value with another layout is copied."""
        view = self._views[value]
        if view.is_dense:
            return view
        return self._allocation.copy(op, view, dense_view(view.shape, view.dtype, Space.ARENA))

    def turned(self, op: Operation, view: View, inner: int, multiple: int) -> View:
        """A copy whose elements are adjacent in dimension `inner`."""
        order = tuple(sorted(range(len(view.shape)), key=lambda d: d == inner))
        made = matrix_view([view.shape[d] for d in order], view.dtype, multiple)
        made = transposed(made, tuple(order.index(d) for d in range(len(order))))
        return self._allocation.copy(op, view, made)


def is_read_by_words(view: View, dimensions: tuple[int, ...]) -> bool:
    """Whether a view has 8-bit activations or i16 that can be read four at once along one of the dimensions."""
    inner = next((d for d in dimensions if view.strides[d] == view.itemsize), None)
    stored = view.activations or view.dtype == np.int16
    # A read of four elements must stay inside the buffer in every row.
    return stored and inner is not None and view.is_aligned(inner, 4 * view.itemsize)
