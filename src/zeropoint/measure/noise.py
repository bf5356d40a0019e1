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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation

from zeropoint.calibrate import PercentileObserver, Progress
from zeropoint.calibrate.distribution import Distribution
from zeropoint.engines import QuickestEngine
from zeropoint.interp import Runnable
from zeropoint.ir.isolation import activations, computing, float_form
from zeropoint.ir.locations import location_text, value_name
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.report.document import Graph, Noise
from zeropoint.report.layers import observed_layers

Sample = Mapping[str, Array]


@dataclass
class _Sums:
    signal: float = 0.0
    total: float = 0.0
    inherited: float = 0.0
    added: float = 0.0

    def add(self, exact: Array, passed: Array, given: Array) -> None:
        self.signal += _energy(exact)
        self.total += _energy(given - exact)
        self.inherited += _energy(passed - exact)
        self.added += _energy(given - passed)

    def noise(self) -> Noise | None:
        """Relative to the signal; None if that is 0 or not finite."""
        if not self.signal or not np.isfinite(self.signal):
            return None
        return Noise(self.total / self.signal, self.inherited / self.signal, self.added / self.signal)


def _energy(array: Array) -> float:
    return float(np.square(array, dtype=np.float64).sum())


@dataclass(frozen=True)
class _Step:
    """A float kernel alone, with the names of its inputs and of its result."""

    node: str
    name: str
    reads: tuple[str, ...]
    run: Runnable


@dataclass(frozen=True)
class Observed:
    """What the runs showed, by node: noise, and how the float values are spread."""

    noise: dict[str, Noise]
    distributions: dict[str, Distribution]


def _steps(fused: Program, graph: Graph, runs: int) -> list[_Step]:
    """The float kernels of the nodes that have the name of an op of the float program."""
    by_name: dict[str, Operation] = {}
    for op in computing(fused):
        name = location_text(op.location)
        if name is not None and len(op.results) == 1:
            by_name[name] = op
    found: list[_Step] = []
    for node in graph.nodes:
        op = by_name.get(node.name)
        if node.kind in ("kernel", "float", "other") and op is not None:
            reads = tuple(value_name(value) for value in activations(op))
            found.append(_Step(node.id, node.name, reads, QuickestEngine(runs).prepare(float_form(fused, op))))
    return found


def observe(
    fused: Program, program: Program, graph: Graph, samples: Sequence[Sample], spread: bool, progress: Progress
) -> Observed:
    """Run both programs on the samples and compare every kernel.

    `fused` is the float program with its regions. With `spread`, the float values are also counted. Nodes whose values
    cannot be matched by name and shape are left out.
    """
    runs = len(samples)
    exactly = QuickestEngine(runs).prepare(observed_layers(fused))
    integers = QuickestEngine(runs).prepare(observed_layers(program))
    steps = _steps(fused, graph, runs)
    sums = {step.node: _Sums() for step in steps}
    seen = {step.name: PercentileObserver(100.0) for step in steps} if spread else {}
    with np.errstate(all="ignore"):  # values that are not finite give noise that is not
        for sample in progress(samples, "kernels"):
            exact, given = dict(sample), dict(sample)
            exactly(sample, observe=exact.__setitem__)
            integers(sample, observe=given.__setitem__)
            for step in steps:
                _compare(step, exact, given, sums[step.node])
            for name, observer in seen.items():
                if name in exact and exact[name].dtype.kind == "f":
                    observer.update(exact[name])
    noise = {node: found for node, one in sums.items() if (found := one.noise()) is not None}
    names = {step.name: step.node for step in steps}
    counted = {names[name]: found for name, one in seen.items() if (found := Distribution.of(one)) is not None}
    return Observed(noise, counted)


def _compare(step: _Step, exact: Sample, given: Sample, sums: _Sums) -> None:
    """Add one sample of a kernel, if all of its values are there in one shape."""
    names = (step.name, *step.reads)
    if any(name not in exact or name not in given or exact[name].shape != given[name].shape for name in names):
        return
    (passed,) = step.run({str(n): given[name] for n, name in enumerate(step.reads)}).values()
    if passed.shape == given[step.name].shape:
        sums.add(exact[step.name], passed, given[step.name])
