"""Collect the data of a report about an integer program from the available sources."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
from xdsl.dialects.builtin import MemRefType, StringAttr

from zeropoint.calibrate import Kept, Progress, silent
from zeropoint.calibrate.distribution import Distribution
from zeropoint.errors import Error
from zeropoint.frontend import load_model
from zeropoint.interp import check_mask
from zeropoint.ir.annotations import FLOAT_REASON, TARGET
from zeropoint.ir.arguments import Sample, shape_text
from zeropoint.ir.locations import describe
from zeropoint.ir.program import Port, Program
from zeropoint.ir.quant import QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.quant.containers import element_or_self
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.measure.noise import observe
from zeropoint.measure.outputs import compare_outputs
from zeropoint.measure.times import times
from zeropoint.measure.trials import SAMPLES, Trials, worst_nodes
from zeropoint.measure.values import calibrated_values, observed_values
from zeropoint.passes import FLOAT_PASSES, INTEGER_PASSES, run_all
from zeropoint.quantization import Quantization
from zeropoint.report.counts import constant_bytes, is_edge
from zeropoint.report.document import Document, Header, ReportGraph, ReportParts, SectionNote, document, graph_of
from zeropoint.targets import named_in_file
from zeropoint.version import __version__

_LOG = logging.getLogger(__name__)

GIVEN = "data given in Python"
"""The name of data that does not come from a file."""
INSIDE = 16
"""The maximum number of samples for comparing every kernel."""
NEEDS = {
    "outputs": "the float model and data: zeropoint report MODEL --reference float.onnx --data test.npz",
    "noise": "the float model and data: zeropoint report MODEL --reference float.onnx --data test.npz",
    "values": "calibration (zeropoint quantize --report), or the float model and data (--reference, --data)",
    "weights": "the stages of quantization: zeropoint quantize --report, or --stages DIR of --save-stages",
    "before": "the float model: --reference float.onnx",
    "times": "native code, which was skipped (--no-timing)",
    "worst": "calibrated ranges and data: zeropoint quantize --report, or --stages DIR with --data",
}
"""The sources that a section needs. Shown if they are missing."""


class ReportError(Error, ValueError):
    """There is no report for the program, or the reference does not match it."""


@dataclass(frozen=True)
class ReportSources:
    """The sources of a report besides the integer program. Each of them may be missing.

    `reference` is the float program as imported. `fused`, `calibrated`, `propagated` and `quantized` are stages of
    quantization, and `settings` are those of its passes. `distributions` are the values that calibration saw, by
    statistics key. `data` has the samples of the comparison. `data_name` and `calibration` describe the samples. `mask`
    names an input that is 0 at padding, which the comparison leaves out. `table` is the file of the program's target,
    if that is not built in.
    """

    reference: Program | None = None
    fused: Program | None = None
    calibrated: Program | None = None
    propagated: Program | None = None
    quantized: Program | None = None
    settings: Mapping[str, object] = field(default_factory=dict[str, object])
    distributions: Mapping[str, Distribution] = field(default_factory=dict[str, Distribution])
    calibration: str | None = None
    data: Iterable[Sample] | None = None
    data_name: str = GIVEN
    mask: str | None = None
    table: str | None = None


def stages_of(
    made: Quantization,
    reference: Program | None = None,
    data: Iterable[Sample] | None = None,
    data_name: str = GIVEN,
    mask: str | None = None,
) -> ReportSources:
    """The sources for a program that was quantized in this process."""
    seen = made.calibration
    return ReportSources(
        reference,
        made.fused,
        made.calibrated,
        made.propagated,
        made.quantized,
        made.settings,
        seen.distributions,
        f"{seen.samples} samples" if seen.observations else None,
        data,
        data_name,
        mask,
    )


def saved_stages(folder: Path) -> ReportSources:
    """The sources for a program whose stages were saved by `quantize --save-stages`.

    Raises ReportError if the folder lacks one of them, and passes on the errors of the loader.
    """
    names = ("1-fused.mlir", "2-calibrated.mlir", "4-corrected.mlir", "5-quantized.mlir")
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise ReportError(f"{folder}: found no {missing[0]}, expected a folder that quantize --save-stages wrote")
    fused, calibrated, propagated, quantized = (load_model(folder / name) for name in names)
    return ReportSources(None, fused, calibrated, propagated, quantized)


def measured_report(
    program: Program,
    name: str,
    source: ReportSources,
    *,
    timing: bool = True,
    trials: bool = True,
    progress: Progress = silent,
) -> Document:
    """The document of an integer program. Sections whose sources are missing say what they need.

    `timing` compiles the program and times its kernels. `trials` measures recipe rules for the worst kernels. Raises
    ReportError for a float program, and for a reference with other inputs or outputs. Raises OptionError if no input
    has the name of the mask. Logs the time of each step.
    """
    profile = _check_integers(program, name)
    check_mask(program, source.mask)
    source = _with_fused(program, source)
    graph = graph_of(program)
    header = Header(name, __version__, _target(program), profile, source.calibration)
    found = _Measured(program, graph, source, header, timing, progress)
    for step, measure in (
        ("outputs and kernels", found.compare),
        ("times", found.time),
        ("recipe rules", partial(found.try_rules, trials)),
    ):
        _LOG.info("measure %s ...", step)
        start = perf_counter()
        measure()
        _LOG.info("measure %s: %.2f s", step, perf_counter() - start)
    start = perf_counter()
    made = document(program, graph, found.header, found.parts())
    _LOG.info("describe %d nodes: %.2f s", len(graph.nodes), perf_counter() - start)
    return made


def _check_integers(program: Program, name: str) -> str:
    """The profile of the program. Raises ReportError for a float program, and for stages before the integer program."""
    if program.profile is None:
        raise ReportError(f"{name}: found a float program, expected an integer program (zeropoint quantize writes one)")
    for op in program.entry.ops:
        if any(isinstance(value.type, MemRefType) for value in (*op.operands, *op.results)):
            raise ReportError(f"{name}: found {describe(op)} in memory, expected the integer program before 'layout'")
        quantized = any(isinstance(element_or_self(result.type), UniformQuantizedType) for result in op.results)
        lowered = isinstance(op, ConstantOp) or is_edge(op) or FLOAT_REASON in op.attributes
        if isinstance(op, QuantizeRegionOp) or (quantized and not lowered):
            raise ReportError(
                f"{name}: found {describe(op)} of quantized types, expected an integer program: quantize without --emit"
            )
    return program.profile


def _target(program: Program) -> str:
    attribute = program.module.attributes.get(TARGET)
    return attribute.data if isinstance(attribute, StringAttr) else "unknown"


def _with_fused(program: Program, source: ReportSources) -> ReportSources:
    """The sources with the float program in kernels, after a check against the integer program."""
    if source.reference is not None:
        _check_ports("inputs", source.reference.inputs, program.inputs)
        _check_ports("outputs", source.reference.outputs, program.outputs)
        if source.fused is None:
            fused = run_all(FLOAT_PASSES, source.reference, {"target": named_in_file(_target(program), source.table)})
            return replace(source, fused=fused)
    return source if source.fused is None or source.reference is not None else replace(source, reference=source.fused)


def _check_ports(kind: str, reference: Sequence[Port], program: Sequence[Port]) -> None:
    names = [[port.name for port in ports] for ports in (reference, program)]
    if names[0] != names[1]:
        raise ReportError(f"found {kind} {names[0]} of the reference and {names[1]} of the model, expected the same")
    for one, other in zip(reference, program, strict=True):
        # Element types may differ, because the program may have integers at its ports.
        shapes = [shape_of(port.type) for port in (one, other)]
        if shapes[0] != shapes[1]:
            first, second = map(shape_text, shapes)
            raise ReportError(
                f"{kind} '{one.name}': found {first} in the reference and {second} in the model, expected the same "
                f"shape; give the float model that was quantized"
            )


class _Measured:
    """The measured sections, one after the other."""

    def __init__(
        self,
        program: Program,
        graph: ReportGraph,
        source: ReportSources,
        header: Header,
        timing: bool,
        progress: Progress,
    ):
        self.program, self.graph, self.source, self.header = program, graph, source, header
        self.timing, self.progress = timing, progress
        self.kept = Kept(INSIDE)
        self.found = ReportParts(fused=source.fused, propagated=source.propagated)
        self.missing: dict[str, str] = {}
        if source.distributions:
            self.found = replace(self.found, values=calibrated_values(graph, source.distributions))

    def compare(self) -> None:
        """Compare the outputs on all samples, and the kernels on some."""
        source = self.source
        if source.reference is None or source.fused is None or source.data is None:
            return
        program = self._with_floats(source.reference)
        if program is None:
            self.missing |= dict.fromkeys(("outputs", "noise"), "float inputs and outputs (--io float), or --stages")
            return
        watched = self.kept.watch(source.data)
        count, outputs, parts = compare_outputs(source.reference, program, watched, self.progress, source.mask)
        if not count:
            raise ReportError(f"{source.data_name}: found no samples, expected one or more")
        data = f"{source.data_name}, {count} sample{'s' if count > 1 else ''}"
        self.header = replace(self.header, data=data, outputs=outputs, parts=parts)
        self.header = replace(self.header, float_bytes=constant_bytes(source.reference))
        spread = not self.found.values
        graph, own = graph_of(program), self.graph.by_occurrence()
        seen = observe(source.fused, program, graph, self.kept.in_order, spread, self.progress, source.mask)
        ids = {node.id: own[occurrence].id for occurrence, node in graph.by_occurrence().items() if occurrence in own}
        noise = {ids[node]: found for node, found in seen.noise.items() if node in ids}
        self.found = replace(self.found, noise=noise, noise_samples=len(self.kept.entries))
        if spread:
            distributions = {ids[node]: found for node, found in seen.distributions.items() if node in ids}
            self.found = replace(self.found, values=observed_values(self.graph, distributions, source.data_name))

    def _with_floats(self, reference: Program) -> Program | None:
        """The program if its inputs are those of the float program. Otherwise one with float inputs, if the stages are
        known."""
        if [port.type for port in reference.inputs] == [port.type for port in self.program.inputs]:
            return self.program
        quantized = self.source.quantized
        return None if quantized is None else run_all(INTEGER_PASSES, quantized, {})

    def time(self) -> None:
        """Time every kernel, if the program has a native form."""
        from zeropoint.codegen.llvm.machine import CodegenError

        if not self.timing:
            return
        sample = self.kept.in_order[0] if self.kept.entries else _zeros(self.program)
        try:
            timed = times(self.program, self.graph, sample, self.progress)
        except CodegenError as error:
            self.missing["times"] = f"native code: {error}"
            return
        self.found = replace(self.found, times=timed.times)
        self.header = replace(
            self.header,
            seconds=timed.seconds,
            arena_bytes=timed.arena_bytes,
            processor=timed.processor,
            peak=timed.peak,
        )

    def try_rules(self, wanted: bool) -> None:
        """Try recipe rules for the kernels that add most noise."""
        source = self.source
        if source.calibrated is None or not self.found.noise:
            return
        if not wanted:
            self.missing["worst"] = "runs of the network under other rules, which were skipped (--no-trials)"
            return
        samples = self.kept.in_order[:SAMPLES]
        settings = source.settings
        if not settings:
            name = named_in_file(_target(self.program), source.table)
            settings = {"target": name, "profile": self.program.profile}
        tried = Trials(source.calibrated, settings, samples, source.distributions, source.mask)
        worst = tried.run(worst_nodes(self.graph, self.found.noise), self.progress)
        self.found = replace(self.found, worst=worst, worst_samples=len(samples))

    def parts(self) -> ReportParts:
        """All sections, and what the missing ones need."""
        present = {
            "outputs": bool(self.header.outputs),
            "noise": bool(self.found.noise),
            "values": bool(self.found.values),
            "weights": self.found.propagated is not None,
            "before": self.found.fused is not None,
            "times": bool(self.found.times),
            "worst": bool(self.found.worst),
        }
        needs = {name: self.missing.get(name, NEEDS[name]) for name, there in present.items() if not there}
        return replace(self.found, notes=tuple(SectionNote(name, text) for name, text in needs.items()))


def _zeros(program: Program) -> dict[str, Array]:
    return {port.name: np.zeros(port.type.get_shape(), element_dtype(element_of(port.type))) for port in program.inputs}
