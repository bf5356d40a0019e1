"""Observe values whose ranges are bounds: parts of values that a pass computes alone.

```mlir
%1 = "quant.stats"(%0) {layerStats = dense<[-16.0, 16.0]>, zeropoint.bounded} ...       loc("mean/conv1")
```
becomes, and then as after `collect`,
```mlir
%1 = "quant.stats_ref"(%0) {statsKey = "bounded mean/conv1"} ...                        loc("mean/conv1")
%1 = "quant.stats"(%0) {layerStats = dense<[-0.75, 0.5]>} ...                           loc("mean/conv1")
```
Calibration observes a program before such passes have its ranges. Their parts are bounded by computation, which is
exact for an elementwise function, but far too wide for a mean or a sum of many terms. So the float program of the
parts is calibrated once more, spread and recorded as the first calibration is, in a journal of its own.
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
    """Whether a range of a program is a bound."""
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
    """The program with observed ranges instead of bounds, and the report with them; both as they are without bounds.

    `work` is that of the first calibration. Raises CalibrationError if there are no samples, or if all values are NaN
    or infinite; with `work`, also JournalError and WorkerError.
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
    """The program with the ranges that `observe_bounded` found for it, or for it in another shape, if it did."""
    asked = _asked(program)
    keys = stats_keys(asked)
    return state_ranges(asked, report) if keys and report.observations.keys() >= {*keys} else program


def _asked(program: Program) -> Program:
    """A copy that requests statistics where it has bounds. The same program always gets the same keys."""
    program, names = program.clone(), Names()
    for op in [op for op in program.entry.ops if isinstance(op, StatisticsOp) and BOUNDED in op.attributes]:
        reference = StatisticsRefOp(op.arg, names.free(f"bounded {value_name(op.arg)}"))
        reference.location = op.location
        Rewriter.replace_op(op, reference)
    return program
