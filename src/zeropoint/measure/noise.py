"""The noise of every kernel of an integer program, from runs beside the float program.

For the float result y of a kernel, its result q in the integer program, and the result f(x) of the float kernel on the
integer program's inputs, all as real numbers:

    total      E (q - y)^2       noise of the result
    inherited  E (f(x) - y)^2    noise of the inputs, as passed on by the kernel
    added      E (q - f(x))^2    from rounding the weights and the result, and from clipping its range

relative to E y^2. These are the figures of `zeropoint.correct.sensitivity`, measured on the lowered program, so that a
saved program and the float model are enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.calibrate import PercentileObserver, Progress
from zeropoint.calibrate.distribution import Distribution
from zeropoint.engines import QuickestEngine
from zeropoint.interp import Runnable, masks_of, unpadded
from zeropoint.ir.arguments import Sample
from zeropoint.ir.isolation import activations, float_form
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.numerics.noise import NoiseSums
from zeropoint.report.document import Noise, ReportGraph
from zeropoint.report.document.graph import Occurrence, occurrences
from zeropoint.report.layers import observed_at


def _noise(sums: NoiseSums) -> Noise | None:
    """Noise relative to the signal; None if that is 0 or not finite."""
    if not sums.signal or not np.isfinite(sums.signal):
        return None
    return Noise(sums.total / sums.signal, sums.inherited / sums.signal, sums.added / sums.signal)


@dataclass(frozen=True)
class _Step:
    """A float kernel alone, with the names of its inputs and of its result."""

    node: str
    name: str
    reads: tuple[str, ...]
    run: Runnable


@dataclass(frozen=True)
class Observed:
    """The measurements by node: noise, and the distribution of the float values."""

    noise: dict[str, Noise]
    distributions: dict[str, Distribution]


def _key(occurrence: Occurrence) -> str:
    return f"{occurrence[0]}#{occurrence[1]}"


def _steps(ops: Mapping[Occurrence, Operation], fused: Program, graph: ReportGraph, runs: int) -> list[_Step]:
    """The float kernels of the nodes; a kernel is left out if it reads a value that has no name."""
    keys: dict[SSAValue, str] = {op.results[0]: _key(occurrence) for occurrence, op in ops.items()}
    keys |= {value: port.name for value, port in zip(fused.entry.args, fused.inputs, strict=True)}
    found: list[_Step] = []
    for occurrence, node in graph.by_occurrence().items():
        op = ops.get(occurrence)
        if op is not None and all(value in keys for value in activations(op)):
            reads = tuple(keys[value] for value in activations(op))
            found.append(_Step(node.id, _key(occurrence), reads, QuickestEngine(runs).prepare(float_form(fused, op))))
    return found


def _matched(fused: Program, graph: ReportGraph) -> dict[Occurrence, Operation]:
    """The float op of every node: by name and number if there are as many of that name in both programs.

    A float island of several ops ends in the last float op of its name.
    """
    ops, nodes = occurrences(fused), graph.by_occurrence()
    counts = [Counter(name for name, _ in named) for named in (ops, nodes)]
    found: dict[Occurrence, Operation] = {}
    for (name, number), node in nodes.items():
        given, wanted = counts[0][name], counts[1][name]
        if given == wanted:
            found[name, number] = ops[name, number]
        elif given > wanted == 1 and node.kind == "float":
            found[name, number] = ops[name, given - 1]
    return found


def observe(
    fused: Program,
    program: Program,
    graph: ReportGraph,
    samples: Sequence[Sample],
    spread: bool,
    progress: Progress,
    mask: str | None = None,
) -> Observed:
    """Run both programs on the samples and compare every kernel.

    `fused` is the float program with its regions, `graph` that of `program`. With `spread`, the float values are also
    counted. Nodes whose values cannot be matched by name and shape are left out, and positions where the input `mask`
    is 0.
    """
    runs, ops = len(samples), _matched(fused, graph)
    made = {graph.ops[node.id][-1]: _key(occurrence) for occurrence, node in graph.by_occurrence().items()}
    exactly = QuickestEngine(runs).prepare(observed_at(fused, {op: _key(occurrence) for occurrence, op in ops.items()}))
    integers = QuickestEngine(runs).prepare(observed_at(program, made))
    steps = _steps(ops, fused, graph, runs)
    sums = {step.node: NoiseSums() for step in steps}
    seen = {step.name: PercentileObserver(100.0) for step in steps} if spread else {}
    with np.errstate(all="ignore"):  # values that are not finite give noise that is not
        for sample in progress(samples, "kernels"):
            exact, given = dict(sample), dict(sample)
            (shown,) = masks_of([sample], mask) or [None]
            exactly(sample, observe=exact.__setitem__)
            integers(sample, observe=given.__setitem__)
            for step in steps:
                _compare(step, exact, given, sums[step.node], shown)
            for name, observer in seen.items():
                if name in exact and exact[name].dtype.kind == "f":
                    observer.update(_shown(exact[name], shown))
    noise = {node: found for node, one in sums.items() if (found := _noise(one)) is not None}
    names = {step.name: step.node for step in steps}
    counted = {names[name]: found for name, one in seen.items() if (found := Distribution.of(one)) is not None}
    return Observed(noise, counted)


def _compare(step: _Step, exact: Sample, given: Sample, sums: NoiseSums, mask: Array | None) -> None:
    """Add one sample of a kernel, where it is not padding, if all of its values exist with the same shape."""
    names = (step.name, *step.reads)
    if any(name not in exact or name not in given or exact[name].shape != given[name].shape for name in names):
        return
    (passed,) = step.run({str(n): given[name] for n, name in enumerate(step.reads)}).values()
    if passed.shape == given[step.name].shape:
        sums.add(*(_shown(array, mask) for array in (exact[step.name], passed, given[step.name])))


def _shown(array: Array, mask: Array | None) -> Array:
    return array if mask is None else unpadded(array, mask)
