"""Ops as scalars of a loop nest: what one element of a result is made of, and where its operands' elements are.

An `Axis` says how a dimension's index follows from the loops: offset + sum of loop * step. Movement is nothing but
another place: broadcast, transpose, slice, reverse, and reshapes that only split.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from xdsl.ir import Operation, SSAValue

from zeropoint.codegen.graph import View
from zeropoint.codegen.kernels.access import Access
from zeropoint.codegen.kernels.elements import (
    Elementwise,
    Narrow,
    Number,
    Read,
    Reduce,
    Region,
    Scalar,
    Total,
    What,
    is_ordered,
)
from zeropoint.codegen.kernels.halves import HALVES
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


class Scope(Protocol):
    """What expressions are made in: the memory of values that they read."""

    @property
    def values(self) -> Values:
        """What is known of the values."""
        ...

    def view(self, value: SSAValue) -> View:
        """Where a value is that the expression reads, or an array of numbers."""
        ...

    def constant_view(self, array: Array) -> View:
        """Where numbers of the program's constants and types are."""
        ...


@dataclass(frozen=True)
class Axis:
    """An index: offset plus loops times steps."""

    offset: int = 0
    steps: tuple[tuple[int, int], ...] = ()

    def scaled(self, step: int, offset: int = 0) -> Axis:
        """offset + step * this."""
        return Axis(offset + step * self.offset, tuple((loop, step * by) for loop, by in self.steps))

    def plus(self, other: Axis) -> Axis:
        """The sum of two."""
        return Axis(self.offset + other.offset, self.steps + other.steps)


Place = tuple[Axis, ...]
"""Where an element of a value is: an axis for each dimension."""

CONTRACTION_OPS = (hlo.ConvolutionOp, hlo.DotGeneralOp, hlo.ReduceOp, hlo.ReduceWindowOp)
"""Ops that are one reduction: a nest has at most one of them."""

Rule = Callable[["Expression", Any, Place], int]
"""Makes the scalar that is an element of an op's result."""


def scalar_type(value: SSAValue) -> tuple[str, bool]:
    """The LLVM type of a value's elements, and whether they are signed. Raises CodegenError where there is none."""
    element = element_of(value)
    found = SCALAR_TYPES.get(element_dtype(element).name)
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
    """The form of a value of f16 or bf16, None of any other."""
    return HALVES.get(element_dtype(element_of(value)).name)


def on_numbers(rule: Rule) -> Rule:
    """The rule for ops that compute: of quantized values it would compute with what is stored for them.

    What is f16 or bf16 is rounded to it.
    """

    def checked(e: Expression, op: Any, place: Place) -> int:
        for value in (*op.operands, *op.results):
            if isinstance(element_of(value), UniformQuantizedType):
                raise CodegenError(
                    f"{describe(op)}: found {value.type}; expected numbers: native code is made of integer programs "
                    "(lower it first)"
                )
        result, form = rule(e, op, place), half_of(op.results[0])
        return result if form is None else e.step(Narrow(form), op.results[0], [result])

    return checked


class Expression:
    """The scalars of a nest under construction: `members` are the ops that become part of it, by `rules`.

    Of the result's dimensions `row` is the one that the reductions of rows run over.
    """

    def __init__(
        self,
        scope: Scope,
        members: frozenset[Operation],
        sizes: Sequence[int],
        rules: Mapping[type[Operation], Rule],
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
        self._reads: list[tuple[View, Place]] = []
        self._parts: tuple[list[Scalar], list[Scalar]] = ([], [])
        self._known: dict[object, int] = {}
        self._inside = False

    @property
    def every(self) -> Place:
        """Every element of the result; where a dimension has one, as broadcasts say it."""
        return tuple(Axis(0, ((d, 1),)) if self._shape[d] > 1 else Axis() for d in range(len(self._shape)))

    # Scalars.

    def step(self, what: What | str, like: SSAValue | tuple[str, bool], arguments: Sequence[int] = ()) -> int:
        """Append a scalar, of an elementwise op by its name; the same one is not computed twice."""
        type_, signed = like if isinstance(like, tuple) else scalar_type(like)
        scalar = Scalar(Elementwise(what) if isinstance(what, str) else what, type_, tuple(arguments), signed)
        key = (self._inside, scalar)
        if key not in self._known:
            part = self._parts[self._inside]
            part.append(scalar)
            self._known[key] = len(part) - 1
        return self._known[key]

    def read(self, view: View, place: Place, like: SSAValue | tuple[str, bool]) -> int:
        """The element of a view at a place."""
        return self.step(Read(self.operand(view, place)), like)

    def operand(self, view: View, place: Place) -> int:
        """The number of an operand."""
        key = (view, place)
        if key not in self._known:
            self._reads.append(key)
            self._known[key] = len(self._reads) - 1
        return self._known[key]

    def type_of(self, index: int) -> tuple[str, bool]:
        """The type of a scalar."""
        scalar = self._parts[self._inside][index]
        return scalar.type, scalar.signed

    def value(self, value: SSAValue, place: Place) -> int:
        """The scalar that is the element of a value at a place."""
        key = (self._inside, value, place)
        if key not in self._known:
            self._known[key] = self._made(value, place)
        return self._known[key]

    def _made(self, value: SSAValue, place: Place) -> int:
        number = self.scope.values.splat(value)
        if number is not None and abs(number) <= 1 << 53:
            return self.step(Number(number), value)
        owner = value.owner
        if isinstance(owner, Operation) and owner in self.members and self.takes(owner, place):
            self.taken.append(owner)
            return self._rules[type(owner)](self, owner, place)
        return self.read(self.scope.view(value), place, value)

    def takes(self, op: Operation, place: Place) -> bool:
        """Whether an op can be a part here: of reductions only the first, outside of any other."""
        return self.may_reduce or type(op) not in CONTRACTION_OPS

    def bind(self, argument: SSAValue, scalar: int) -> None:
        """Say which scalar is the element of an argument of rank 0."""
        self._known[(self._inside, argument, ())] = scalar

    def region(self, results: Sequence[int]) -> Region:
        """The scalars so far, of which these are the results."""
        return Region(tuple(self._parts[0]), tuple(results))

    @property
    def may_reduce(self) -> bool:
        """Whether the nest has no reduction yet."""
        return self.reduction is None and not self._inside

    def split(self, axis: Axis, size: int) -> tuple[Axis, Axis]:
        """An index that is one whole loop as (index / size, index % size): the loop becomes two."""
        ((loop, step),) = axis.steps
        assert step == 1 and axis.offset == 0 and self.sizes[loop] % size == 0
        first = len(self.sizes)
        self.sizes += [self.sizes[loop] // size, size]
        self.sizes[loop] = 1
        self._outer += [first, first + 1]
        self._splits[loop] = (first, first + 1, size)
        return Axis(0, ((first, 1),)), Axis(0, ((first + 1, 1),))

    def reduce(
        self,
        op: str,
        start: float,
        sizes: Sequence[int],
        inner: Callable[[list[Axis]], int],
        order: Order = Order.LEFT_TO_RIGHT,
    ) -> int:
        """A reduction over new loops; `inner` makes what is combined from their indices.

        `order` is that of sums of floats; others take any.
        """
        assert self.may_reduce
        first = len(self.sizes)
        self.sizes += sizes
        self._inside = True
        result = inner([Axis(0, ((first + n, 1),)) for n in range(len(sizes))])
        self._parts[1].append(self._copy(self._parts[1][result], result))
        like = self.type_of(result)
        self._inside = False
        self.reduction = (op, start, order if is_ordered(op, like[0]) else Order.ANY)
        return self.step(Total(), like)

    def _copy(self, scalar: Scalar, index: int) -> Scalar:
        """The result has to be the last of its list."""
        return Scalar(Elementwise("convert"), scalar.type, (index,), scalar.signed)

    # The nest.

    def nest(self, result: int, target: View) -> tuple[Nest, list[View]]:
        """The kernel that writes `result` to `target`, whose dimensions are the first loops; its operands."""
        body = self._parts[0]
        body.append(self._copy(body[result], result))
        reads = [self._access(view, place) for view, place in self._reads]
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
        return nest.arranged(), self._operands

    @property
    def _operands(self) -> list[View]:
        return [_at(view, place) for view, place in self._reads]

    @property
    def elementwise(self) -> list[View]:
        """Operands of which an element is read only for the output's element of that place."""
        return [view for view, place in self._reads if place == self.every and self.reduction is None]

    def _access(self, view: View, place: Place) -> Access:
        strides = [0] * len(self.sizes)
        for axis, stride in zip(place, view.strides, strict=True):
            for loop, step in axis.steps:
                if loop in self._splits:
                    outer, inner, size = self._splits[loop]
                    strides[outer] += step * size * stride
                    strides[inner] += step * stride
                else:
                    strides[loop] += step * stride
        return access_of(view, tuple(strides))


def _reordered(access: Access, order: Sequence[int]) -> Access:
    return Access(access.type, tuple(access.strides[loop] for loop in order), access.form)


def _at(view: View, place: Place) -> View:
    """The view moved to where all loops are 0."""
    return view.moved(sum(axis.offset * stride for axis, stride in zip(place, view.strides, strict=True)))


class RowExpression(Expression):
    """Rows under construction."""

    def takes(self, op: Operation, place: Place) -> bool:
        """Of reductions those of a whole row, to what is the same for all of its elements."""
        if type(op) not in CONTRACTION_OPS:
            return True
        return reduced_row(op) == self.sizes[self.row] and not any(
            loop == self.row for axis in place for loop, _ in axis.steps
        )

    def reduce(
        self,
        op: str,
        start: float,
        sizes: Sequence[int],
        inner: Callable[[list[Axis]], int],
        order: Order = Order.PARTS,
    ) -> int:
        """A reduction of the row, in parts where it is a sum of floats."""
        result = inner([Axis(0, ((self.row, 1),))])
        return self.step(Reduce(op, start), self.type_of(result), [result])

    def rows(self, result: int, target: View) -> tuple[Rows, list[View]]:
        """The kernel that writes `result` to `target`, whose dimensions are the loops; its operands."""
        body = [*self._parts[0], self._copy(self._parts[0][result], result)]
        order = [*(d for d in range(len(self._shape)) if d != self.row), self.row]
        reads = tuple(_reordered(self._access(view, place), order) for view, place in self._reads)
        write = _reordered(self._access(target, self.every), order)
        return Rows(tuple(self.sizes[d] for d in order), reads, write, tuple(body)).arranged(), self._operands


def reduced_row(op: Operation) -> int | None:
    """The elements that a reduction over one dimension combines; None for any other op."""
    if not isinstance(op, hlo.ReduceOp) or len(op.operands) != 2 or len(array_values(op.dimensions)) != 1:
        return None
    return shape_of(op.operands[0])[array_values(op.dimensions)[0]]
