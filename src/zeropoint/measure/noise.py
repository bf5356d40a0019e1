"""The noise of every kernel of an integer program, measured in runs next to the float program.

Let y be the float result of a kernel, q its result in the integer program, and f(x) the result of the float kernel on
the integer program's inputs, all as real numbers. The noises are

    total      E (q - y)^2       noise of the result
    inherited  E (f(x) - y)^2    noise of the inputs, as passed on by the kernel
    added      E (q - f(x))^2    noise of rounding the weights and the result, and of clipping its range

relative to E y^2. `zeropoint.correct.sensitivity` has the same figures. Here they are measured on the lowered program,
so a saved program and the float model suffice.
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
    """The noise relative to the signal; None if the signal is 0 or not finite."""
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
    """The float kernels of the nodes. A kernel is left out if it reads a value without a name."""
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
    """The float op of every node, by name and number. Names that occur a different number of times are left out.

    A float island of several ops ends with the last float op of its name.
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

    `fused` is the float program with its regions, and `graph` is that of `program`. With `spread`, the distributions of
    the float values are measured as well. Nodes whose values cannot be matched by name and shape are left out.
    Positions where the input `mask` is 0 do not count.
    """
    runs, ops = len(samples), _matched(fused, graph)
    made = {graph.ops[node.id][-1]: _key(occurrence) for occurrence, node in graph.by_occurrence().items()}
    exactly = QuickestEngine(runs).prepare(observed_at(fused, {op: _key(occurrence) for occurrence, op in ops.items()}))
    integers = QuickestEngine(runs).prepare(observed_at(program, made))
    steps = _steps(ops, fused, graph, runs)
    sums = {step.node: NoiseSums() for step in steps}
    seen = {step.name: PercentileObserver(100.0) for step in steps} if spread else {}
    with np.errstate(all="ignore"):  # non-finite values give non-finite noise
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
    """Add one sample of a kernel, without padding, if all of its values exist with the same shape."""
    names = (step.name, *step.reads)
    if any(name not in exact or name not in given or exact[name].shape != given[name].shape for name in names):
        return
    (passed,) = step.run({str(n): given[name] for n, name in enumerate(step.reads)}).values()
    if passed.shape == given[step.name].shape:
        sums.add(*(_shown(array, mask) for array in (exact[step.name], passed, given[step.name])))


def _shown(array: Array, mask: Array | None) -> Array:
    return array if mask is None else unpadded(array, mask)
