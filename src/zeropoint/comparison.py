"""`compare`: two models on the same samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from operator import length_hint
from typing import Any

from zeropoint.calibrate import Progress, samples, silent
from zeropoint.calibrate.data import holds_items
from zeropoint.engines import QuickestEngine, for_runs
from zeropoint.frontend import ConstantInputs
from zeropoint.frontend.sources import load_alike, load_source
from zeropoint.frontend.torch import is_module
from zeropoint.fuse import fuse
from zeropoint.interp import check_mask, has_padding, masked
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.model import Model
from zeropoint.options import check_padding
from zeropoint.report.agreement import Accumulated, Comparison, ComparisonError
from zeropoint.report.counts import Ops
from zeropoint.report.layers import observed_layers
from zeropoint.report.parts import output_parts
from zeropoint.simplify import simplify
from zeropoint.specializations import Specializations, shapes_of


@dataclass
class _Sums:
    """The agreement of values so far, by name, in the order in which they were seen."""

    outputs: dict[str, Accumulated] = field(default_factory=dict[str, Accumulated])
    parts: dict[str, Accumulated] = field(default_factory=dict[str, Accumulated])
    layers: dict[str, Accumulated] = field(default_factory=dict[str, Accumulated])
    samples: int = 0
    is_padded: bool = False
    """Whether the mask is 0 anywhere."""

    def add(
        self,
        reference: Model,
        model: Model,
        given: Iterable[Mapping[str, Array]],
        *,
        layers: bool,
        mask: str | None,
        progress: Progress,
    ) -> None:
        """Run two models on the same samples and add the agreement of their outputs. Raises the errors of `compare`."""
        _check_ports(reference, model)
        check_mask(reference.program, mask)
        # By their positions in the outputs, which a mask would change.
        parts = output_parts(reference.program) if mask is None else {}
        runs, rows = length_hint(given, 1), getattr(given, "rows_a_sample", 1)
        engines = [
            masked(QuickestEngine(runs) if layers else for_runs(m.engine, runs), mask).prepare(
                _with_layers(m.program) if layers else m.program
            )
            for m in (reference, model)
        ]
        for sample in progress(given, "compare"):
            values: list[dict[str, Array]] = []
            observed: list[dict[str, Array]] = []
            for engine in engines:
                seen: dict[str, Array] = {}
                values.append(engine(sample, observe=seen.__setitem__))
                observed.append(seen)
            for port in reference.outputs:
                name = port.name
                for wanted, found in zip(*(_rows(value[name], rows) for value in values), strict=True):
                    _named(self.outputs, name).add(wanted, found)
                for part in parts.get(name, ()):
                    _named(self.parts, f"{name}: {part.name}").add(part.of(values[0][name]), part.of(values[1][name]))
            for name, wanted in observed[0].items():
                found = observed[1].get(name)
                if found is not None and wanted.shape == found.shape:  # otherwise two different values share a name
                    _named(self.layers, name).add(wanted, found)
            self.samples += rows
            self.is_padded = self.is_padded or has_padding(sample, mask)

    def comparison(self, ops: Ops | None) -> Comparison:
        """The agreement of all values. Raises ComparisonError if there were no samples."""
        if not self.samples:
            raise ComparisonError("found no samples, expected at least one")
        outputs, layers, parts = (
            [one.result() for one in group.values()] for group in (self.outputs, self.layers, self.parts)
        )
        return Comparison(self.samples, outputs, layers, parts, ops)


def _named(group: dict[str, Accumulated], name: str) -> Accumulated:
    return group.setdefault(name, Accumulated(name))


def compare(
    reference: Model,
    model: Model,
    given: Iterable[Mapping[str, Array]],
    *,
    layers: bool = False,
    mask: str | None = None,
    progress: Progress = silent,
) -> Comparison:
    """Run both models on the same samples, each with its engine; with `layers`, with the fastest engine.

    `mask` names an input that is 0 at padding, which is left out (`zeropoint.interp.padding`). Raises ComparisonError
    if inputs or outputs differ in name or number, or if there are no samples. Raises OptionError if there is no such
    mask, or if it is 0 nowhere.
    """
    return compare_all([(reference, model, given)], layers=layers, mask=mask, progress=progress)


def compare_all(
    pairs: Iterable[tuple[Model, Model, Iterable[Mapping[str, Array]]]],
    *,
    layers: bool = False,
    mask: str | None = None,
    progress: Progress = silent,
) -> Comparison:
    """`compare` for pairs of a reference and a model with samples. The pairs are one network for different shapes.

    The figures are over all samples. The ops are those of the first model. Raises the errors of `compare`.
    """
    sums, ops = _Sums(), None
    for number, (reference, model, given) in enumerate(pairs):
        sums.add(reference, model, given, layers=layers, mask=mask, progress=progress)
        if number == 0 and model.program.profile is not None:
            ops = Ops.of(model.program)
    check_padding(mask, padded=sums.is_padded or not sums.samples)
    return sums.comparison(ops)


def paired(
    reference: Any, models: Specializations, data: Any, constants: ConstantInputs | None = None, example: Any = None
) -> list[tuple[Model, Model, Iterable[Mapping[str, Array]]]]:
    """The models that the data needs, each with its reference and its samples.

    `reference` is a Model, Specializations, or anything that `load_source` takes, which is loaded for the shapes of
    each model. Raises ComparisonError if the reference lacks the shapes of a model, and the errors of `load_source` and
    `Specializations.parts_of`.
    """
    if isinstance(reference, Model | Specializations):
        known = [reference] if isinstance(reference, Model) else reference.models
        taken = {str(shapes_of(one)): one for one in known}
        models = Specializations([m for m in models.models if str(shapes_of(m)) in taken] or models.models)
    groups: dict[int, tuple[Model, list[Any]]] = {}
    for model, part in models.parts_of(data):
        groups.setdefault(id(model), (model, []))[1].append(part)
    found: list[tuple[Model, Model, Iterable[Mapping[str, Array]]]] = []
    for model, given in groups.values():
        first = _reference_for(model, reference, constants, example)
        part = list(chain.from_iterable(given)) if holds_items(data) else given[0]
        found.append((first, model, samples(part, first.inputs)))
    return found


def _reference_for(model: Model, reference: Any, constants: ConstantInputs | None, example: Any) -> Model:
    """The reference for the shapes of a model's inputs."""
    if isinstance(reference, Model):
        return reference
    shapes = shapes_of(model)
    if isinstance(reference, Specializations):
        fitting = [one for one in reference.models if shapes_of(one) == shapes]
        if not fitting:
            raise ComparisonError(f"found no reference for the inputs {shapes}, expected one for each model")
        return fitting[0]
    if is_module(reference):
        return Model(load_alike(reference, model.inputs, None, constants, example))
    return Model(load_source(reference, shapes, constants, example))


def _rows(array: Array, rows: int) -> list[Array]:
    """The rows of a batch's output, each with a leading axis of 1. The output itself if it has no batch axis."""
    return [array[row : row + 1] for row in range(rows)] if rows > 1 and array.shape[:1] == (rows,) else [array]


def _with_layers(program: Program) -> Program:
    """The program with its inner values observed. A float program is first fused, so that its values match those of
    kernels."""
    return observed_layers(fuse(simplify(program)) if program.profile is None else program)


def _check_ports(reference: Model, model: Model) -> None:
    for kind, first, second in (
        ("inputs", reference.inputs, model.inputs),
        ("outputs", reference.outputs, model.outputs),
    ):
        names = [[port.name for port in ports] for ports in (first, second)]
        if names[0] != names[1]:
            raise ComparisonError(f"found {kind} {names[0]} and {names[1]}, expected the same names in both models")
        for a, b in zip(first, second, strict=True):
            if a.type != b.type:
                is_stored = a.type.get_shape() == b.type.get_shape()
                fix = "; quantize with float inputs and outputs (io='float', --io float)" if is_stored else ""
                raise ComparisonError(f"{kind} '{a.name}': found {a.type} and {b.type}, expected the same type{fix}")
