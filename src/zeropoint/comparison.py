"""`compare`: two models on the same samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import length_hint

from zeropoint.calibrate import Progress, silent
from zeropoint.engines import QuickestEngine, for_runs
from zeropoint.fuse import fuse
from zeropoint.interp import check_mask, masked
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.model import Model
from zeropoint.report.agreement import Accumulated, Comparison, ComparisonError
from zeropoint.report.counts import Ops
from zeropoint.report.layers import observed_layers
from zeropoint.report.parts import output_parts
from zeropoint.simplify import simplify


def compare(
    reference: Model,
    model: Model,
    samples: Iterable[Mapping[str, Array]],
    *,
    layers: bool = False,
    mask: str | None = None,
    progress: Progress = silent,
) -> Comparison:
    """Run both models on the same samples, each by its engine; with `layers`, by the fastest engine.

    `mask` names an input that is 0 at padding, which is left out (`zeropoint.interp.padding`).
    Raises ComparisonError if their inputs or outputs differ in name or number, or there are no samples; OptionError if
    there is no such mask.
    """
    _check_ports(reference, model)
    check_mask(reference.program, mask)
    outputs = {port.name: Accumulated(port.name) for port in reference.outputs}
    inner: dict[str, Accumulated] = {}
    parts = [  # by their places in the outputs, which a mask changes
        (name, part, Accumulated(f"{name}: {part.name}"))
        for name, found in (output_parts(reference.program).items() if mask is None else ())
        for part in found
    ]
    runs, rows = length_hint(samples, 1), getattr(samples, "rows_a_sample", 1)
    engines = [
        masked(QuickestEngine(runs) if layers else for_runs(m.engine, runs), mask).prepare(
            _with_layers(m.program) if layers else m.program
        )
        for m in (reference, model)
    ]
    count = 0
    for sample in progress(samples, "compare"):
        values: list[dict[str, Array]] = []
        observed: list[dict[str, Array]] = []
        for engine in engines:
            seen: dict[str, Array] = {}
            values.append(engine(sample, observe=seen.__setitem__))
            observed.append(seen)
        for name, accumulated in outputs.items():
            for wanted, given in zip(*(_rows(value[name], rows) for value in values), strict=True):
                accumulated.add(wanted, given)
        for name, part, accumulated in parts:
            accumulated.add(part.of(values[0][name]), part.of(values[1][name]))
        for name in observed[0].keys() & observed[1].keys():
            if observed[0][name].shape == observed[1][name].shape:  # otherwise, two different values share a name
                inner.setdefault(name, Accumulated(name)).add(observed[0][name], observed[1][name])
        count += rows
        order = list(observed[0])
        inner = {name: inner[name] for name in order if name in inner}
    if not count:
        raise ComparisonError("found no samples, expected at least one")
    return Comparison(
        count,
        [a.result() for a in outputs.values()],
        [a.result() for a in inner.values()],
        [a.result() for _, _, a in parts],
        None if model.program.profile is None else Ops.of(model.program),
    )


def _rows(array: Array, rows: int) -> list[Array]:
    """The rows of an output of a batch, each with a leading axis of 1; the output itself if it has no batch axis."""
    return [array[row : row + 1] for row in range(rows)] if rows > 1 and array.shape[:1] == (rows,) else [array]


def _with_layers(program: Program) -> Program:
    """The program with its inner values observed. A float program is fused first, so that kernels' values match."""
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
                raise ComparisonError(f"{kind} '{a.name}': found {a.type} and {b.type}, expected the same type")
