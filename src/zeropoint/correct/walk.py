"""Run the float and the quantized network side by side, kernel by kernel, over all samples at once.

Every op of a propagated program runs alone, twice. The first run is in float, on the values of the float network. The
second run is quantized, on the values of the quantized network, with exactly the integers and the rounding of the final
program. In between, a visitor may inspect both sides and change the constants of the kernel, as corrections do. A value
is released after its last reader. So peak memory is that of the values alive at one op, times the number of samples. If
the last reader is not visited, a value is released sample by sample: the peak would often be at sums of large values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from zeropoint.calibrate import Progress, silent
from zeropoint.correct.isolate import integer_form
from zeropoint.freed_memory import give_back_memory
from zeropoint.interp import Engine, masks_of
from zeropoint.ir.annotations import EXPRESSED
from zeropoint.ir.isolation import activations, computing, float_form, last_readers, most_alive
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, UniformQuantizedType, evaluate
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.numerics.profile import DEFAULT_PROFILE
from zeropoint.solve import is_quantized

MEMORY = 440 << 20
"""The maximum number of bytes for the values of both networks. It limits the number of samples."""
FLOAT_BYTES = 4
DROPPED: Array = np.zeros(0, np.uint8)
"""In place of an array that nothing reads again."""
LARGE = 64 << 20
"""The bytes of values from which a walk begins with all garbage freed."""
RELEASED = 16 << 20
"""The bytes of released values after which freed memory is given back. The values of many samples are small arrays,
which the C library keeps, and the moments of a late kernel would come on top of them."""


@dataclass(eq=False)
class WalkValue:
    """A value in both networks, by sample: `exact` in float, and `stored` as integers of type `kind`, or as floats for
    None.

    `exact` is empty if the float network does not run.
    """

    exact: list[Array]
    stored: list[Array]
    kind: UniformQuantizedType | None = None

    def real(self, sample: int) -> Array:
        """The value in the quantized network, dequantized to f32."""
        stored = self.stored[sample]
        return stored if self.kind is None else evaluate.dequantize(stored, self.kind)

    @property
    def bytes(self) -> int:
        """The bytes of both forms."""
        return sum(array.nbytes for form in (self.exact, self.stored) for array in form)


@dataclass(eq=False)
class WalkStep:
    """A quantized kernel that is about to run: its inputs, and its float results by sample.

    The float results are empty if the float network does not run.
    """

    region: QuantizeRegionOp
    inputs: list[WalkValue]
    exact: list[Array]
    alone: Program | None
    """The float kernel as a program, with numbered input names; None if the float network does not run."""
    masks: Sequence[Array] | None = None
    """The positions of each sample that are not padding (bool); None if nothing is."""


Visitor = Callable[[WalkStep], None]
Follower = Callable[[WalkStep, WalkValue], None]


def ignore(step: WalkStep, value: WalkValue) -> None:
    """The default follower, which does nothing."""


def _edges(attributes: ArrayAttr[DictionaryAttr] | None, count: int) -> list[UniformQuantizedType | None]:
    """The quantized types of arguments or results; None for floats."""
    listed = [None] * count if attributes is None else [entry.data.get(EXPRESSED) for entry in attributes.data]
    return [kind if isinstance(kind, UniformQuantizedType) else None for kind in cast("list[Attribute | None]", listed)]


@dataclass
class Walk:
    """One walk over a program, which the visitor may change.

    `follower` is called with a kernel and its result after it has run. `reference` is a program with the same ops that
    provides the float network. It is the program itself, unless its constants have been changed. `mask` names the input
    that is 0 at padding.
    """

    program: Program
    engine: Engine
    visitor: Visitor
    follower: Follower = ignore
    reference: Program | None = None
    mask: str | None = None
    is_paired: bool = True
    """Whether the float network runs as well."""
    visits: Callable[[QuantizeRegionOp], bool] = lambda region: True
    """The quantized kernels that the visitor and the follower want to see."""
    masks: Sequence[Array] | None = None
    values: dict[SSAValue, WalkValue] = field(default_factory=dict[SSAValue, WalkValue])

    def run(self, samples: Sequence[Mapping[str, Array]], progress: Progress) -> None:
        """Run all ops in order, over all samples."""
        block = self.program.entry
        self.masks = masks_of(samples, self.mask)
        for argument, port in zip(block.args, self.program.inputs, strict=True):
            arrays = [np.asarray(sample[port.name]) for sample in samples]
            self.values[argument] = WalkValue(arrays, arrays)
        last, released = last_readers(block), 0
        ops, exact_ops = computing(self.program), computing(self.reference or self.program)
        with np.errstate(all="ignore"):  # non-finite samples give non-finite values
            for op, exact_op in progress(list(zip(ops, exact_ops, strict=True)), "kernels"):
                self._step(op, exact_op, len(samples), last.get(op, ()))
                for value in last.get(op, ()):
                    held = self.values.pop(value, None)
                    released += 0 if held is None else held.bytes
                    del held
                if released >= RELEASED:
                    give_back_memory()
                    released = 0

    def _step(self, op: Operation, exact_op: Operation, count: int, ending: Sequence[SSAValue] = ()) -> None:
        """Run an op, which is the last reader of the values `ending`."""
        inputs = [self.values[value] for value in activations(op)]
        quantized = isinstance(op, QuantizeRegionOp) and is_quantized(op)
        visited = isinstance(op, QuantizeRegionOp) and self.visits(op)
        ended = [] if visited or not quantized else [self.values[value] for value in ending if value in self.values]
        # Values before the first quantized kernel have one list for both networks.
        ended = [value for value in ended if value.exact is not value.stored]
        # From the reference: corrections of earlier kernels have changed constants, but float results must not change.
        alone = float_form(self.reference or self.program, exact_op) if self.is_paired or not quantized else None
        exact: list[list[Array]] = [[] for _ in op.results]
        if self.is_paired and alone is not None:
            exact = self._all(alone, [value.exact for value in inputs], count, [value.exact for value in ended])
        if alone is None or quantized:
            assert isinstance(op, QuantizeRegionOp)
            inputs = self._as_read(op, inputs)
            step = WalkStep(op, inputs, exact[0], alone, self.masks)
            if visited:
                self.visitor(step)
            # After the visitor, which may have changed the kernel's constants. Later kernels read its corrected
            # results.
            stored, kinds = self._quantized(op, inputs, count, [value.stored for value in ended])
            if visited:
                self.follower(step, WalkValue(exact[0], stored[0], kinds[0]))
        else:
            real = [[value.real(sample) for sample in range(count)] for value in inputs]
            # Float ops before the first quantized kernel have the same values in both networks, so they run once.
            same = self.is_paired and all(value.exact is value.stored for value in inputs)
            stored, kinds = exact if same else self._all(alone, real, count), [None] * len(op.results)
        for number, result in enumerate(op.results):
            self.values[result] = WalkValue(exact[number], stored[number], kinds[number])

    def _as_read(self, region: QuantizeRegionOp, inputs: list[WalkValue]) -> list[WalkValue]:
        """The inputs of a region. Floats from program inputs or float ops are quantized by the region's specs.

        A float that the region reads in two types stays float.
        """
        read: dict[SSAValue, set[Attribute]] = {}
        for value, spec in zip(region.inputs, region.input_specs, strict=True):
            read.setdefault(value, set()).add(spec)
        specs = {value: found.pop() if len(found) == 1 else None for value, found in read.items()}
        name = self.program.profile or DEFAULT_PROFILE
        found: list[WalkValue] = []
        for value, held in zip(activations(region), inputs, strict=True):
            spec = specs[value]
            if held.kind is None and isinstance(spec, UniformQuantizedType):
                held = WalkValue(held.exact, [evaluate.quantize(array, spec, name) for array in held.stored], spec)
            found.append(held)
        return found

    def _quantized(
        self, op: QuantizeRegionOp, inputs: list[WalkValue], count: int, ended: Sequence[list[Array]] = ()
    ) -> tuple[list[list[Array]], list[UniformQuantizedType | None]]:
        made = integer_form(self.program, op)
        wanted = _edges(made.main.arg_attrs, len(inputs))
        name = self.program.profile or DEFAULT_PROFILE
        given = [_as_stored(value, kind, name) for value, kind in zip(inputs, wanted, strict=True)]
        return self._all(made, given, count, ended), _edges(made.main.res_attrs, len(op.results))

    def _all(
        self, program: Program, given: Sequence[Sequence[Array]], count: int, ended: Sequence[list[Array]] = ()
    ) -> list[list[Array]]:
        """The results of a program, each a list by sample. The arrays of the lists `ended` are dropped as they are
        read."""
        run = self.engine.prepare(program)
        names = [port.name for port in program.inputs]
        rows: list[list[Array]] = []
        for sample in range(count):
            rows.append(list(run({name: arrays[sample] for name, arrays in zip(names, given, strict=True)}).values()))
            for arrays in ended:
                arrays[sample] = DROPPED
        return [[row[number] for row in rows] for number in range(len(program.outputs))]


class _Converted(Sequence[Array]):
    """A value that is converted lazily, sample by sample."""

    def __init__(self, value: WalkValue, convert: Callable[[int], Array]):
        self._value, self._convert = value, convert

    def __len__(self) -> int:
        return len(self._value.stored)

    def __getitem__(self, sample: int) -> Array:  # pyright: ignore[reportIncompatibleMethodOverride] (no slices)
        return self._convert(sample)


def _as_stored(value: WalkValue, kind: UniformQuantizedType | None, name: str) -> Sequence[Array]:
    if value.kind == kind:
        return value.stored
    if kind is None:
        return _Converted(value, value.real)
    return _Converted(value, lambda sample: evaluate.quantize(value.real(sample), kind, name))


def bytes_a_sample(program: Program) -> int:
    """Peak bytes per sample of the values of both networks that are alive at one op."""
    return most_alive(program.entry, _bytes)


def _bytes(value: SSAValue) -> int:
    stored = FLOAT_BYTES
    if isinstance(value, OpResult) and isinstance(value.op, QuantizeRegionOp) and is_quantized(value.op):
        kind = value.op.output_specs.data[value.index]
        stored = kind.storage.dtype.itemsize if isinstance(kind, UniformQuantizedType) else FLOAT_BYTES
    return int(np.prod(shape_of(value), dtype=np.int64)) * (FLOAT_BYTES + stored)


def fitting(
    program: Program, samples: Sequence[Mapping[str, Array]], memory: int = MEMORY
) -> list[Mapping[str, Array]]:
    """As many samples as a walk has memory for, evenly spaced; at least one."""
    count = max(1, min(len(samples), memory // max(bytes_a_sample(program), 1)))
    # Evenly spaced, because data is often sorted by class.
    return [samples[index * len(samples) // count] for index in range(count)]


def walk(
    program: Program,
    samples: Sequence[Mapping[str, Array]],
    engine: Engine,
    visitor: Visitor,
    progress: Progress = silent,
    mask: str | None = None,
    *,
    paired: bool = True,
    visits: Callable[[QuantizeRegionOp], bool] = lambda region: True,
) -> None:
    """Visit the quantized kernels of a propagated program in order, after running both networks up to each of them.

    Only those that `visits` names are visited. If not `paired`, only the quantized network runs. `visitor` may change
    the constants of its kernel and their specs; later kernels read the changed results. Passes on the errors of the
    engine.
    """
    # What follows decides the peak, if the values are large.
    give_back_memory(cycles=len(samples) * bytes_a_sample(program) >= LARGE)
    Walk(program, engine, visitor, mask=mask, is_paired=paired, visits=visits).run(samples, progress)
