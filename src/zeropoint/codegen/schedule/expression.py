"""Ops as scalars of a loop nest: the computation of one element of a result, from elements of operands.

An `Axis` is the index of a dimension as an affine function of the loops. `Indices` has one axis per dimension. Data
movement (broadcast, transpose, slice, reverse, reshapes that only split) changes only the indices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from xdsl.ir import Operation, SSAValue

from zeropoint.codegen.graph import View
from zeropoint.codegen.kernels.access import Access
from zeropoint.codegen.kernels.combining import is_ordered
from zeropoint.codegen.kernels.elements import (
    Elementwise,
    Narrow,
    Number,
    Read,
    Reduce,
    Region,
    Scalar,
    StoredNumber,
    Total,
    What,
)
from zeropoint.codegen.kernels.half_precision import HALF_FORMS
from zeropoint.codegen.kernels.loops import Nest, Order, Reduction
from zeropoint.codegen.kernels.rows import Rows
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.values import Values
from zeropoint.codegen.views import SCALAR_TYPES, access_of
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.locations import describe
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of


class ExpressionScope(Protocol):
    """The context of an expression, which provides the views of the values that the expression reads."""

    @property
    def values(self) -> Values:
        """Queries about values, such as constants and layouts."""
        ...

    def view(self, value: SSAValue) -> View:
        """The view of a value that the expression reads."""
        ...

    def constant_view(self, array: Array) -> View:
        """The view of an array from the program's constants or types."""
        ...


@dataclass(frozen=True)
class Axis:
    """An index: offset + the sum of loop * step. `steps` has (loop, step) pairs."""

    offset: int = 0
    steps: tuple[tuple[int, int], ...] = ()

    def scaled(self, step: int, offset: int = 0) -> Axis:
        """The axis offset + step * self."""
        return Axis(offset + step * self.offset, tuple((loop, step * by) for loop, by in self.steps))

    def plus(self, other: Axis) -> Axis:
        """The axis self + other."""
        return Axis(self.offset + other.offset, self.steps + other.steps)


Indices = tuple[Axis, ...]
"""The indices of an element of a value: one axis per dimension."""

CONTRACTION_OPS = (hlo.ConvolutionOp, hlo.DotGeneralOp, hlo.ReduceOp, hlo.ReduceWindowOp)
"""Ops that are a reduction. A nest has at most one of them."""

ScalarRule = Callable[["Expression", Any, Indices], int]
"""Appends the scalar for the element of an op's result at the given indices. Returns the scalar's number."""

Inner = Callable[[list[Axis]], int]
"""Appends the scalar that a reduction combines, from the indices of its loops. Returns the scalar's number."""


def scalar_type(value: SSAValue) -> tuple[str, bool]:
    """The LLVM type of a value's elements, and whether they are signed.

    Raises CodegenError if native code does not support the element type.
    """
    element = element_of(value)
    found = SCALAR_TYPES.get(element_dtype(element))
    width = getattr(element, "width", None)
    exact = width is None or width.data in (1, 8, 16, 32, 64)
    if found is None or not exact:
        owner = value.owner
        where = describe(owner) if isinstance(owner, Operation) else "an argument"
        raise CodegenError(
            f"{where}: found elements {element}; native code has i1, integers of 8 to 64 bits, f16, bf16, f32, f64 "
            "(convert, or run it with the interpreter)"
        )
    return found


def half_of(value: SSAValue) -> str | None:
    """The memory form of a half-precision value: "half" for f16, "bfloat" for bf16; None for any other type."""
    return HALF_FORMS.get(element_dtype(element_of(value)))


def on_numbers(rule: ScalarRule) -> ScalarRule:
    """Wrap a rule for ops that compute. Results of f16 and bf16 are rounded to their type.

    The wrapped rule raises CodegenError for quantized values, because it would compute with the stored integers.
    """

    def checked(e: Expression, op: Any, indices: Indices) -> int:
        for value in (*op.operands, *op.results):
            if type(element_of(value)) is UniformQuantizedType:
                raise CodegenError(
                    f"{describe(op)}: found {value.type}; expected numbers: native code is made of integer programs "
                    "(lower it first)"
                )
        result, form = rule(e, op, indices), half_of(op.results[0])
        return result if form is None else e.step(Narrow(form), op.results[0], [result])

    return checked


class Expression:
    """The scalars of a nest under construction. `members` are the ops that may become part of the nest, by `rules`.

    `row` is the result dimension over which row reductions run; -1 in a nest without rows.
    """

    def __init__(
        self,
        scope: ExpressionScope,
        members: frozenset[Operation],
        sizes: Sequence[int],
        rules: Mapping[type[Operation], ScalarRule],
        row: int = -1,
    ):
        self.scope, self.row = scope, row
        self.taken: list[Operation] = []
        """The members that became scalars."""
        self.members = members
        self._rules = rules
        self.sizes = list(sizes)
        self._outer = list(range(len(sizes)))
        self._shape = tuple(sizes)
        self._splits: dict[int, tuple[int, int, int]] = {}
        self.reduction: tuple[str, float, Order] | None = None
        self._reads: list[tuple[View, Indices]] = []
        self._parts: tuple[list[Scalar], list[Scalar]] = ([], [])
        self._known: dict[object, int] = {}
        self._places: dict[SSAValue, list[NumberOfRow]] = {}
        self._inside = False

    @property
    def every(self) -> Indices:
        """The indices of each element of the result. In dimensions of size 1 the index is 0, as for broadcasts."""
        return tuple(Axis(0, ((d, 1),)) if self._shape[d] > 1 else Axis() for d in range(len(self._shape)))

    # Scalars.

    def step(self, what: What | str, like: SSAValue | tuple[str, bool], arguments: Sequence[int] = ()) -> int:
        """Append a scalar, unless there is an equal one. Returns its number. A string names an elementwise op."""
        type_, signed = like if isinstance(like, tuple) else scalar_type(like)
        scalar = Scalar(Elementwise(what) if isinstance(what, str) else what, type_, tuple(arguments), signed)
        # The scalars inside the loops of a reduction are not available outside.
        key = (self._inside, scalar)
        if key not in self._known:
            part = self._parts[self._inside]
            part.append(scalar)
            self._known[key] = len(part) - 1
        return self._known[key]

    def read(self, view: View, indices: Indices, like: SSAValue | tuple[str, bool]) -> int:
        """The scalar that reads the element of a view at the given indices."""
        return self.step(Read(self.operand(view, indices)), like)

    def operand(self, view: View, indices: Indices) -> int:
        """The number of the kernel operand for a view that is read at the given indices."""
        key = (view, indices)
        if key not in self._known:
            self._reads.append(key)
            self._known[key] = len(self._reads) - 1
        return self._known[key]

    def type_of(self, index: int) -> tuple[str, bool]:
        """The LLVM type of a scalar, and whether it is signed."""
        scalar = self._parts[self._inside][index]
        return scalar.type, scalar.signed

    def value(self, value: SSAValue, indices: Indices) -> int:
        """The scalar for the element of a value at the given indices."""
        key = (self._inside, value, indices)
        if key not in self._known:
            self._known[key] = self._made(value, indices)
        return self._known[key]

    def _made(self, value: SSAValue, indices: Indices) -> int:
        number = self.scope.values.splat(value)
        # From 2^53 on, an f64 may not be the exact integer: that of 2^53 + 1 is 2^53.
        if number is not None and abs(number) < 1 << 53:
            return self.step(Number(number), value)
        owner = value.owner
        if isinstance(owner, Operation) and owner in self.members and self.takes(owner, indices):
            self.taken.append(owner)
            return self._rules[type(owner)](self, owner, indices)
        return self.read(self.scope.view(value), indices, value)

    def takes(self, op: Operation, indices: Indices) -> bool:
        """Whether an op can be part of the nest here. A nest has at most one reduction.

        Other ops are read from memory, as results of other nests.
        """
        return self.may_reduce or type(op) not in CONTRACTION_OPS

    def bind(self, argument: SSAValue, scalar: int, indices: Indices = ()) -> None:
        """Bind the element of a value at the given indices, or a rank-0 block argument, to a scalar."""
        self._known[(self._inside, argument, indices)] = scalar

    def region(self, results: Sequence[int]) -> Region:
        """The scalars so far as a region with these results."""
        return Region(tuple(self._parts[0]), tuple(results))

    @property
    def may_reduce(self) -> bool:
        """Whether the nest has no reduction yet."""
        return self.reduction is None and not self._inside

    def split(self, axis: Axis, size: int) -> tuple[Axis, Axis]:
        """Split an index that is one whole loop into (index // size, index % size). The loop becomes two loops."""
        ((loop, step),) = axis.steps
        assert step == 1 and axis.offset == 0 and self.sizes[loop] % size == 0
        first = len(self.sizes)
        self.sizes += [self.sizes[loop] // size, size]
        # The split loop runs once, because the two new loops replace it.
        self.sizes[loop] = 1
        self._outer += [first, first + 1]
        self._splits[loop] = (first, first + 1, size)
        return Axis(0, ((first, 1),)), Axis(0, ((first + 1, 1),))

    def reduce(
        self, op: str, start: float, sizes: Sequence[int], inner: Inner, order: Order = Order.LEFT_TO_RIGHT
    ) -> int:
        """Append a reduction over new loops of the given sizes. `inner` makes the reduced scalar from their indices.

        `order` applies only to float sums and products. For other reductions, any order gives the same result.
        """
        assert self.may_reduce
        first = len(self.sizes)
        self.sizes += sizes
        self._inside = True
        result = inner([Axis(0, ((first + n, 1),)) for n in range(len(sizes))])
        self._parts[1].append(self._copy(self._parts[1][result], result))
        like = self.type_of(result)
        self._inside = False
        # With any order, the kernel can reduce in vectors.
        self.reduction = (op, start, order if is_ordered(op, like[0]) else Order.ANY)
        return self.step(Total(), like)

    def _copy(self, scalar: Scalar, index: int) -> Scalar:
        """A copy of a scalar. The result must be the last scalar of its list."""
        return Scalar(Elementwise("convert"), scalar.type, (index,), scalar.signed)

    # The nest.

    def nest(self, result: int, target: View) -> tuple[Nest, list[View]]:
        """The kernel that writes `result` to `target`, and its operands. The first loops are those of `target`."""
        body = self._parts[0]
        body.append(self._copy(body[result], result))
        reads = [self._access(view, indices) for view, indices in self._reads]
        write = self._access(target, self.every)
        reduction = None
        if self.reduction is not None:
            op, start, by = self.reduction
            reduction = Reduction(op, start, tuple(self._parts[1]), by)
        inner = [loop for loop in range(len(self.sizes)) if loop not in self._outer]
        order = self._outer + inner
        nest = Nest(
            tuple(self.sizes[loop] for loop in order),
            len(inner),
            tuple(_reordered(read, order) for read in reads),
            _reordered(write, order),
            reduction,
            tuple(body),
        )
        return nest.arranged(), self.operands

    @property
    def views(self) -> list[View]:
        """The views that the scalars read."""
        return [view for view, _ in self._reads]

    @property
    def operands(self) -> list[View]:
        """The views that the scalars read, each moved to the element at which all loops are 0."""
        return [_at(view, indices) for view, indices in self._reads]

    @property
    def elementwise(self) -> list[View]:
        """The operands whose elements are read only for the output element at the same indices."""
        return [view for view, indices in self._reads if indices == self.every and self.reduction is None]

    def _access(self, view: View, indices: Indices) -> Access:
        strides = [0] * len(self.sizes)
        for axis, stride in zip(indices, view.strides, strict=True):
            for loop, step in axis.steps:
                if loop in self._splits:
                    outer, inner, size = self._splits[loop]
                    # index = outer * size + inner.
                    strides[outer] += step * size * stride
                    strides[inner] += step * stride
                else:
                    strides[loop] += step * stride
        return access_of(view, tuple(strides))


def _reordered(access: Access, order: Sequence[int]) -> Access:
    return Access(access.type, tuple(access.strides[loop] for loop in order), access.form)


def _at(view: View, indices: Indices) -> View:
    """The view moved to the element at which all loops are 0."""
    return view.moved(sum(axis.offset * stride for axis, stride in zip(indices, view.strides, strict=True)))


NumberOfRow = tuple[int, Indices]
"""A scalar that is a number of each row, and the indices of its element."""


class RowExpression(Expression):
    """The scalars of a `Rows` kernel under construction."""

    def _made(self, value: SSAValue, indices: Indices) -> int:
        number = super()._made(value, indices)
        self._places.setdefault(value, []).append((number, indices))
        return number

    def number(self, value: SSAValue) -> NumberOfRow | None:
        """The scalar for a value that has one element for each row; None if it is not made, or not by all rows."""
        found, shape, loops = self._places.get(value, []), shape_of(value), list[int]()
        if len(found) != 1:
            return None
        for axis, size in zip(found[0][1], shape, strict=True):
            if axis.offset or (size > 1 and [step for _, step in axis.steps] != [1]):
                return None
            loops += [loop for loop, _ in axis.steps]
        rows = [d for d, size in enumerate(self._shape) if d != self.row and size > 1]
        sizes = [size for size in shape if size > 1]
        return found[0] if sorted(loops) == rows and [self.sizes[d] for d in loops] == sizes else None

    def takes(self, op: Operation, indices: Indices) -> bool:
        """Whether an op can be part of the rows: not a reduction, or the reduction of a whole row to one number."""
        if type(op) not in CONTRACTION_OPS:
            return True
        return reduced_row(op) == self.sizes[self.row] and not any(
            loop == self.row for axis in indices for loop, _ in axis.steps
        )

    def reduce(self, op: str, start: float, sizes: Sequence[int], inner: Inner, order: Order = Order.PARTS) -> int:
        """Append a reduction of the row."""
        result = inner([Axis(0, ((self.row, 1),))])
        return self.step(Reduce(op, start), self.type_of(result), [result])

    def rows(
        self, result: int, target: View, numbers: Sequence[tuple[NumberOfRow, View]] = ()
    ) -> tuple[Rows, list[View]]:
        """The kernel that writes `result` to `target`, and its operands. The loops are those of `target`.

        It also writes `numbers` of rows to their views.
        """
        body = self._parts[0]
        kept = [replace(body[number], what=StoredNumber(), arguments=(number,)) for (number, _), _ in numbers]
        body = [*body, *kept, self._copy(body[result], result)]
        order = [*(d for d in range(len(self._shape)) if d != self.row), self.row]
        reads = tuple(_reordered(self._access(view, indices), order) for view, indices in self._reads)
        write = _reordered(self._access(target, self.every), order)
        places = tuple(_reordered(self._access(view, indices), order) for (_, indices), view in numbers)
        sizes = tuple(self.sizes[d] for d in order)
        return Rows(sizes, reads, write, tuple(body), places).arranged(), self.operands


def reduced_row(op: Operation) -> int | None:
    """The size of the reduced dimension of a `reduce` of one operand over one dimension; None for any other op."""
    if not isinstance(op, hlo.ReduceOp) or len(op.operands) != 2 or len(array_values(op.dimensions)) != 1:
        return None
    return shape_of(op.operands[0])[array_values(op.dimensions)[0]]
