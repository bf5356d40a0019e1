"""Recipe rules that may help the kernels that add most noise. Each is tried alone and measured at the outputs.

Source: the candidates are the demands that a recipe can make for one kernel: a wider result (`bits: 16`) if the target
has the kernel in two widths, other ranges (`observer`), and float (`quantize: false`). Float always works, so it
measures the cost of quantizing the kernel.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf

from xdsl.rewriter import Rewriter

from zeropoint.bit_widths import least_output_sqnr
from zeropoint.calibrate import Progress
from zeropoint.calibrate.distribution import Distribution
from zeropoint.engines import QuickestEngine
from zeropoint.errors import Error
from zeropoint.interp import Engine, masked
from zeropoint.ir.annotations import EXTREMES, QUANTILES
from zeropoint.ir.arguments import Sample
from zeropoint.ir.locations import location_text
from zeropoint.ir.program import Program
from zeropoint.ir.quant import StatisticsOp
from zeropoint.passes import DECIDING_PASSES, INTEGER_PASSES, QUANTIZING_PASSES, run_all
from zeropoint.recipe import apply_recipe, recipe_of
from zeropoint.report.document import Noise, ReportGraph, RuleTrial, Worst
from zeropoint.report.document.graph import ReportNode
from zeropoint.targets import target as named_target

WORST = 5
"""The number of kernels that rules are tried for."""
SAMPLES = 8
"""The maximum number of samples for measuring rules."""
OTHER_OBSERVERS = ("minmax", "mse")
"""Observers whose ranges are tried if they differ from the present one."""
WIDE = 16
_FLOAT = "quantize: false"
_SUMS = "i32"
"""The element type of accumulators that only floats read. These are not rounded, so an observer changes nothing."""


def worst_nodes(graph: ReportGraph, noise: Mapping[str, Noise], count: int = WORST) -> list[ReportNode]:
    """The integer kernels that add most noise, the worst first."""
    kernels = [node for node in graph.nodes if node.kind == "kernel" and node.id in noise]
    ranked = sorted(kernels, key=lambda node: -noise[node.id].added)
    named = {
        node.name: node for node in reversed(ranked) if noise[node.id].added > 0
    }  # a rule applies to all kernels of a name
    return [node for node in ranked if named.get(node.name) is node][:count]


@dataclass(frozen=True)
class Trials:
    """Tries rules on a calibrated program, without corrections. `settings` are those of the passes."""

    calibrated: Program
    settings: Mapping[str, object]
    samples: Sequence[Sample]
    distributions: Mapping[str, Distribution]
    mask: str | None = None

    def run(self, nodes: Sequence[ReportNode], progress: Progress) -> list[Worst]:
        """The rules for every node, the best first. Rules without an effect at the outputs are left out."""
        engine = self._engine
        reference = engine.prepare(self.calibrated)
        expected = [reference(sample) for sample in self.samples]
        before = self._sqnr(self.calibrated, expected)
        found: list[Worst] = []
        for node in progress(nodes, "recipes"):
            trials = [self._trial(node, rule, before, expected) for rule in self._rules(node)]
            listed = [trial for trial in trials if trial.after != before or _FLOAT in trial.rule]
            found.append(Worst(node.id, tuple(sorted(listed, key=_gain, reverse=True))))
        return found

    @property
    def _engine(self) -> Engine:
        return masked(QuickestEngine(len(self.samples)), self.mask)

    def _rules(self, node: ReportNode) -> Iterator[tuple[str, Callable[[], Program]]]:
        """The rules for a node: the setting in the form that a user writes, and the calibrated program with it."""
        rows = named_target(str(self.settings["target"])).by_kernel.get(node.kernel, ())
        widths = {width for row in rows for width in row.output.widths}
        if WIDE in widths and len(widths) > 1:
            yield f"bits: {WIDE}", lambda: self._demanded(node, {"bits": WIDE})
        found = _statistics(self.calibrated, node.name) if node.element != _SUMS else None
        if found is not None and node.name in self.distributions:
            ranges = self.distributions[node.name].ranges()
            for observer in OTHER_OBSERVERS:
                if ranges[observer] != tuple(found.layer_stats.get_values()):
                    yield f"observer: {observer}", partial(_with_range, self.calibrated, node.name, ranges[observer])
        yield _FLOAT, lambda: self._demanded(node, {"quantize": False})

    def _demanded(self, node: ReportNode, setting: Mapping[str, object]) -> Program:
        return apply_recipe(self.calibrated, recipe_of([{"name": node.name, **setting}]))

    def _trial(
        self, node: ReportNode, rule: tuple[str, Callable[[], Program]], before: float, expected: Sequence[Sample]
    ) -> RuleTrial:
        setting, made = rule
        written = f"- {{name: {json.dumps(node.name)}, {setting}}}"
        try:
            return RuleTrial(written, before, self._sqnr(made(), expected))
        except Error as error:
            return RuleTrial(written, None, None, str(error))

    def _sqnr(self, calibrated: Program, expected: Sequence[Sample]) -> float:
        passes = (*DECIDING_PASSES, *QUANTIZING_PASSES, *INTEGER_PASSES)
        run = self._engine.prepare(run_all(passes, calibrated, self.settings))
        return least_output_sqnr(zip(expected, map(run, self.samples), strict=True))


def _gain(trial: RuleTrial) -> float:
    return -inf if trial.after is None else trial.after


def _statistics(program: Program, name: str) -> StatisticsOp | None:
    """The statistics of a value; None if it has none or shares its name with another value."""
    named = [op for op in program.entry.ops if isinstance(op, StatisticsOp) and location_text(op.location) == name]
    return named[0] if len(named) == 1 else None


def _with_range(calibrated: Program, name: str, limits: tuple[float, float]) -> Program:
    """The program with another observed range for a value."""
    program = calibrated.clone()
    old = _statistics(program, name)
    assert old is not None
    new = StatisticsOp(old.arg, limits)
    new.location = old.location
    observed = old.attributes.get(EXTREMES, old.layer_stats)
    new.attributes |= {name: old.attributes[name] for name in (QUANTILES,) if name in old.attributes}
    if observed != new.layer_stats:
        new.attributes[EXTREMES] = observed  # 16 bits hold all observed values, whatever the range for 8 bits clips
    Rewriter.replace_op(old, new)
    return program
