"""Observe values whose ranges are only bounds: parts of values that a pass computes separately.

```mlir
%1 = "quant.stats"(%0) {layerStats = dense<[-16.0, 16.0]>, zeropoint.bounded} ...       loc("mean/conv1")
```
becomes the first of the following lines, and the second one after calibration:
```mlir
%1 = "quant.stats_ref"(%0) {statsKey = "bounded mean/conv1"} ...                        loc("mean/conv1")
%1 = "quant.stats"(%0) {layerStats = dense<[-0.75, 0.5]>} ...                           loc("mean/conv1")
```
Passes create such parts after calibration, from the observed ranges. They compute bounds for the parts, which are exact
for an elementwise function, but far too wide for a mean or a sum of many terms. So the float program of the parts is
calibrated again. This second calibration may use workers like the first one, and has its own journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from xdsl.rewriter import Rewriter

from zeropoint.calibrate.collect import collect, state_ranges, stats_keys
from zeropoint.calibrate.report import Report
from zeropoint.calibrate.spread import Work
from zeropoint.interp import Engine
from zeropoint.ir.annotations import BOUNDED
from zeropoint.ir.locations import value_name
from zeropoint.ir.program import Program
from zeropoint.ir.quant import StatisticsOp, StatisticsRefOp
from zeropoint.ir.tensors import Array
from zeropoint.ir.value_names import Names
from zeropoint.progress import Progress

PARTS = "parts"
"""The suffix of the journal of the second calibration."""


def has_bounded(program: Program) -> bool:
    """Whether a range of the program is only a bound."""
    return any(BOUNDED in op.attributes for op in program.entry.ops)


def observe_bounded(
    program: Program,
    report: Report,
    samples: Iterable[Mapping[str, Array]],
    observer: str,
    engine: Engine,
    progress: Progress | None = None,
    work: Work | None = None,
) -> tuple[Program, Report]:
    """The program with observed ranges instead of bounds, and the report with these ranges. Unchanged without bounds.

    `work` is that of the first calibration. Raises CalibrationError if there are no samples, or if all values are NaN
    or infinite. With `work`, also raises JournalError and WorkerError.
    """
    if not has_bounded(program):
        return program, report
    asked = _asked(program)
    again = None if work is None else work.part(PARTS)
    found = collect(asked, samples, observer=observer, engine=engine, progress=progress, work=again)
    both = {**report.observations, **found.observations}
    spread = {**report.distributions, **found.distributions}
    return state_ranges(asked, found), replace(report, observations=both, distributions=spread)


def state_bounded(program: Program, report: Report) -> Program:
    """The program with the ranges that `observe_bounded` found, for this program or for its form in another shape.

    Unchanged if `observe_bounded` was not used.
    """
    asked = _asked(program)
    keys = stats_keys(asked)
    return state_ranges(asked, report) if keys and report.observations.keys() >= {*keys} else program


def _asked(program: Program) -> Program:
    """A copy that requests statistics instead of bounds. The same program always gets the same keys."""
    program, names = program.clone(), Names()
    for op in [op for op in program.entry.ops if isinstance(op, StatisticsOp) and BOUNDED in op.attributes]:
        reference = StatisticsRefOp(op.arg, names.free(f"bounded {value_name(op.arg)}"))
        reference.location = op.location
        Rewriter.replace_op(op, reference)
    return program
