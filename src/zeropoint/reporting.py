"""The report of a model in Python: its sources, from the arguments of `Model.report`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from zeropoint.calibrate import Progress, samples
from zeropoint.errors import OptionError
from zeropoint.ir.program import Program
from zeropoint.measure import (
    ReportSources,
    check_suffix,
    measured_report,
    saved_stages,
    stages_of,
    write_model_explorer,
    write_report,
)
from zeropoint.options import check_masked
from zeropoint.quantization import Quantization


@dataclass(frozen=True)
class ReportArguments:
    """The arguments of `Model.report`. `reference` is the float program."""

    name: str | None
    reference: Program | None
    data: Any
    mask: str | None
    target: str | Path | None
    stages: str | Path | None
    model_explorer: str | Path | None
    timing: bool
    trials: bool


def write(
    program: Program, quantization: Quantization | None, path: Path, given: ReportArguments, progress: Progress
) -> Path:
    """Write the report of a program, and the files for Model Explorer if requested.

    Raises OptionError for another suffix and for arguments without an effect, and the errors of `Model.report`.
    """
    check_suffix(path)
    _check_idle(given, is_saved=quantization is None)
    source = _sources(quantization, given)
    if given.target is not None:
        source = replace(source, table=str(given.target))
    if given.data is not None:
        found = samples(given.data, (source.reference or source.fused or program).inputs)
        check_masked(found, program, given.mask)
        source = replace(source, data=found, mask=given.mask)
        if isinstance(given.data, str | Path):
            source = replace(source, data_name=Path(given.data).name)
    document = measured_report(
        program, given.name or path.stem, source, timing=given.timing, trials=given.trials, progress=progress
    )
    write_report(document, path)
    if given.model_explorer is not None:
        write_model_explorer(document, program, Path(given.model_explorer))
    return path


def _sources(quantization: Quantization | None, given: ReportArguments) -> ReportSources:
    if quantization is not None:
        return stages_of(quantization, given.reference)
    if given.stages is None:
        return ReportSources(given.reference)
    source = saved_stages(Path(given.stages))
    return source if given.reference is None else replace(source, reference=given.reference)


def _check_idle(given: ReportArguments, *, is_saved: bool) -> None:
    """Raise OptionError for arguments that have no effect. `is_saved` says that no stages are in this process."""
    has_data, has_stages = given.data is not None, not is_saved or given.stages is not None
    has_float = given.reference is not None or has_stages
    needs_table = is_saved and (given.reference is not None or (has_stages and has_data))
    idle = (
        ("stages for a model that was quantized in this process", given.stages is not None and not is_saved, "none"),
        ("a target", given.target is not None and not needs_table, "reference= of a saved model, too"),
        ("data without a float model", has_data and not has_float, "reference= or stages=, too"),
        ("a mask without data", given.mask is not None and not has_data, "data=, too"),
        ("trials=False without data", not given.trials and not has_data, "data=, too"),
        ("trials=False without the stages of quantization", not given.trials and not has_stages, "stages=, too"),
    )
    for what, has_no_effect, expected in idle:
        if has_no_effect:
            raise OptionError(f"found {what}, where it changes nothing, expected {expected}")
