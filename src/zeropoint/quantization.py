"""The result of quantization: the program after each stage, and the measurements made meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from xdsl.dialects.builtin import StringAttr

from zeropoint.bit_widths import Widths
from zeropoint.budget import Spent
from zeropoint.calibrate import DEFAULT_OBSERVER, Report, Work
from zeropoint.correct import Corrections
from zeropoint.errors import Error, OptionError
from zeropoint.ir.annotations import TARGET
from zeropoint.ir.files import save_program
from zeropoint.ir.outputs import made_folder
from zeropoint.ir.program import Program
from zeropoint.options import Options
from zeropoint.passes import QUANTIZING_PASSES, run_all
from zeropoint.report.counts import Ops, counted
from zeropoint.targets import target

_INTEGER, _EXTENDED = "cpu-integer", ("cpu", "cpu-wide")
"""Our target with integer kernels for attention, and those of our targets with fewer integer kernels."""


class FloatOpsLeft(Error, ValueError):
    """A program that must be integer-only has float ops."""


@dataclass(frozen=True)
class Quantization:
    """The program after each stage that may interest a user."""

    fused: Program
    calibrated: Program
    propagated: Program
    integer: Program
    calibration: Report
    corrections: Corrections
    decided: Program
    """The program with propagated parameters, before corrections."""
    widths: Widths | None = None
    """The result of the search for bit widths, if a minimum SQNR was requested."""
    spent: Spent | None = None
    """The result of the search under a budget, if there was one."""
    settings: Mapping[str, object] = field(default_factory=dict[str, object])
    """The settings of the passes: target, profile, ranges."""

    @property
    def quantized(self) -> Program:
        """The quantized StableHLO. Made when it is asked for, because few callers do."""
        return self._materialized

    @cached_property
    def _materialized(self) -> Program:
        return run_all(QUANTIZING_PASSES, self.propagated, self.settings)

    def emitted(self, name: str) -> Program:
        """The stage that `--emit` names: `integer`, `stablehlo` or `kernels`."""
        return self.integer if name == "integer" else self.quantized if name == "stablehlo" else self.propagated

    @property
    def stages(self) -> dict[str, Program]:
        """The programs by stage name, in order. docs/passes.md lists the passes between them."""
        names = ("fused", "calibrated", "propagated", "corrected", "quantized", "integer")
        found = (self.fused, self.calibrated, self.decided, self.propagated, self.quantized, self.integer)
        return dict(zip(names, found, strict=True))

    def save_stages(self, folder: str | Path) -> list[Path]:
        """Write every stage with its weights into a folder (`1-fused.mlir`, ...), and return the paths.

        Passes on OSError if they cannot be written.
        """
        folder = made_folder(Path(folder))
        written: list[Path] = []
        for number, (name, program) in enumerate(self.stages.items(), start=1):
            written += save_program(program, folder / f"{number}-{name}.mlir")
        return written

    @property
    def findings(self) -> list[str]:
        """One line each: the results of the search for widths, of the search under a budget, and of the corrections."""
        found = [str(one) for one in (self.widths, self.spent) if one is not None]
        return [*found, self.corrections.summary()] if self.corrections.attempts else found

    @property
    def warnings(self) -> list[str]:
        """Warnings of calibration, if the target leaves a parameter open, and about outputs that are far from float."""
        calibration = self.calibration.warnings if self.calibration.observations else []
        return [*calibration, *self.corrections.warnings()]


def require_integers(result: Quantization) -> None:
    """Raise FloatOpsLeft if the integer program has float ops. The message lists their kernels and reasons.

    It suggests `cpu-integer` if one of our targets lacks kernels that are integer there.
    """
    ops = Ops.of(result.integer)
    if ops.floats:
        raise FloatOpsLeft(
            f"found {counted(ops.counts.floats, 'float op')}, expected none with integer_only (--integer-only): "
            f"{'; '.join(map(str, ops.floats))}{_remedy(result.integer, ops)}"
        )


def _remedy(program: Program, ops: Ops) -> str:
    """The kernels that stay float but are integer on `cpu-integer`, as advice. Empty for targets of other runtimes."""
    name = program.module.attributes.get(TARGET)
    if not isinstance(name, StringAttr) or name.data not in _EXTENDED:
        return ""
    given, more = target(name.data).by_kernel, target(_INTEGER).by_kernel
    found = sorted({each.kernel for each in ops.floats if each.kernel in more and each.kernel not in given})
    return f"; target {_INTEGER} (--target {_INTEGER}) has {', '.join(found)} in integers" if found else ""


def check_used(result: Quantization, options: Options, work: Work | None = None, *, observer: bool = False) -> None:
    """Raise OptionError for options of calibration if no value was observed: an observer, workers or a journal.

    `observer` says that the user gave one, even if it is the default. A search uses a journal. It also uses workers,
    unless the budget has a latency, which is measured in this process alone.
    """
    if result.calibration.observations:
        return
    work = work or Work()
    is_timed = options.budget is not None and options.budget.latency is not None
    workers = 1 if options.is_searched and not is_timed else work.workers
    journal = None if options.is_searched else work.journal
    given = (
        (observer or options.observer != DEFAULT_OBSERVER, f"observer {options.observer} (--observer)"),
        (workers != 1, f"workers={workers} (--workers)"),
        (journal is not None, f"journal {journal}"),
    )
    for is_given, what in given:
        if is_given:
            raise OptionError(f"found {what} for {_unobserved(result)}, where it changes nothing; leave it out")


def _unobserved(result: Quantization) -> str:
    """A description of a model in which no value was observed."""
    counts = Ops.of(result.integer).counts
    is_quantized = counts.integer or counts.edges
    return "a model that states all its ranges" if is_quantized else "a program in which nothing is quantized"
