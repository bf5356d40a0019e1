"""Export quantized programs to the file formats of other runtimes. The file suffix selects the format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from xdsl.dialects.builtin import AnyFloat, Float32Type

from zeropoint.export.errors import ExportError
from zeropoint.export.exact_contractions import contracts_integers
from zeropoint.export.kernels import check_stored_outputs
from zeropoint.export.onnx.origins import TARGETS as ONNX_TARGETS
from zeropoint.ir.annotations import TARGET
from zeropoint.ir.locations import named_kernel
from zeropoint.ir.outputs import write_together
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.regions import regions_of
from zeropoint.ir.stated_kernels import states_kernels
from zeropoint.ir.tensors import element_of
from zeropoint.materialize import materialize
from zeropoint.materialize.stored_tables import table_of
from zeropoint.materialize.stored_weights import weights_of
from zeropoint.materialize.weights_only import weights_only_kernels, with_stated_weights, with_stored_weights
from zeropoint.progress import Progress, silent
from zeropoint.targets.bodies import misfit

__all__ = ["FORMATS", "ExportError", "ExportOptions", "check_target", "export_program", "format_suffix"]


@dataclass(frozen=True)
class ExportOptions:
    """Options for the exported file.

    With `integer_io`, inputs and outputs are storage integers instead of floats. With `channels_last`, images at inputs
    and outputs may be [batch, height, width, channels] if the format uses this layout internally. `onnx_format` is
    `qdq` (float ops between quantize and dequantize ops, which runtimes fuse) or `qoperator` (operators on integers).
    `onnx_weights` is the storage of 8-bit weights: `exact`, `i8`, `u8`, or `auto`, which depends on the target
    (`export/onnx/weight_forms.py`).
    """

    integer_io: bool = False
    channels_last: bool = True
    onnx_format: str = "qdq"
    onnx_weights: str = "auto"


@dataclass(frozen=True)
class Format:
    """A file format: the targets whose kernels its runtime implements (empty: any), and its encoder.

    `encode` takes the program, the file name, the options and the progress. It returns the bytes of each file by name,
    the main file last.
    """

    name: str
    targets: tuple[str, ...]
    encode: Callable[[Program, str, ExportOptions, Progress], Mapping[str, bytes]]


def _tflite(program: Program, name: str, options: ExportOptions, progress: Progress) -> Mapping[str, bytes]:
    from zeropoint.export.litert.model import litert_model  # lazy: imports flatbuffers

    kept = {"integer_io": options.integer_io, "channels_last": options.channels_last}
    return {name: litert_model(with_stated_weights(program), **kept, progress=progress)}


def _onnx(program: Program, name: str, options: ExportOptions, progress: Progress) -> Mapping[str, bytes]:
    from zeropoint.export.onnx.graph import files_of  # lazy: imports onnx
    from zeropoint.export.onnx.model import onnx_model

    qoperators = options.onnx_format == "qoperator"
    made = onnx_model(
        with_stored_weights(program),
        integer_io=options.integer_io,
        qoperators=qoperators,
        weight_form=options.onnx_weights,
        progress=progress,
    )
    return files_of(made, name)


def _stablehlo(program: Program, name: str, options: ExportOptions, progress: Progress) -> Mapping[str, bytes]:
    from zeropoint.export.stablehlo import stablehlo_text

    _refuse_integer_io(options)
    return {name: stablehlo_text(materialize(program)).encode()}


def _artifact(program: Program, name: str, options: ExportOptions, progress: Progress) -> Mapping[str, bytes]:
    from zeropoint.export.stablehlo import portable_artifact

    _refuse_integer_io(options)
    return {name: portable_artifact(materialize(program))}


def _tosa(program: Program, name: str, options: ExportOptions, progress: Progress) -> Mapping[str, bytes]:
    from zeropoint.export.tosa.model import tosa_text

    _refuse_stored_weights(program, "TOSA")
    kept = {"integer_io": options.integer_io, "channels_last": options.channels_last}
    return {name: tosa_text(program, **kept, progress=progress).encode()}


def _refuse_integer_io(options: ExportOptions) -> None:
    if options.integer_io:
        raise ExportError("found io integer (--io), expected floats at inputs and outputs of quantized StableHLO")


def _refuse_stored_weights(program: Program, name: str) -> None:
    """Raise ExportError for a weights-only kernel, because its weights would be floats in the file."""
    for region in weights_only_kernels(program):
        if weights_of(region) is not None or table_of(region) is not None:
            raise ExportError(
                f"found a float kernel whose weights a recipe stores in few bits, expected kernels that {name} has; "
                "export to .onnx, or run the program with --engine native",
                region,
            )


FORMATS: Mapping[str, Format] = {
    ".mlirbc": Format("StableHLO", (), _artifact),
    ".onnx": Format("ONNX", ONNX_TARGETS, _onnx),
    ".stablehlo.mlir": Format("StableHLO", (), _stablehlo),
    ".tflite": Format("LiteRT", ("litert", "litert-16x8"), _tflite),
    ".tosa.mlir": Format("TOSA", ("tosa",), _tosa),
}
"""The formats by file suffix."""
STABLEHLO = (".stablehlo.mlir", ".mlirbc")
"""The formats of quantized ops, which need no kernels."""
EFFECTIVE: Mapping[str, tuple[str, ...]] = {
    "layout": (".tflite", ".tosa.mlir"),
    "onnx_format": (".onnx",),
    "onnx_weights": (".onnx",),
}
"""The formats that each option has an effect on."""


def format_suffix(path: Path) -> str | None:
    """The suffix of a file name that selects a format, else None (`model.mlir` is not an export format)."""
    return next((suffix for suffix in FORMATS if path.name.endswith(suffix) and path.name != suffix), None)


def export_program(
    program: Program, path: Path, options: ExportOptions | None = None, progress: Progress = silent
) -> list[Path]:
    """Write a program whose regions have types (the result of `propagate`) to a file.

    Returns the files written, the model first. Large constants of an ONNX model go to a second file beside it.
    `progress` counts the kernels, if the format emits them one by one. Raises ExportError, and writes no file, for a
    suffix without a format, a program of another stage or target, and an op that the format has no operator for.
    """
    suffix = format_suffix(path)
    if suffix is None:
        raise ExportError(f"{path}: found suffix '{path.suffix}', expected one of: {', '.join(FORMATS)}")
    found, options = FORMATS[suffix], options or ExportOptions()
    _check_effective(options, path)
    _check_stage(program, path)
    if found.targets:
        _check_floats(program, found.name)
        if options.integer_io:
            check_stored_outputs(program)
    encoded = found.encode(program, path.name, options, progress)
    written = {path.with_name(name): partial(Path.write_bytes, data=data) for name, data in encoded.items()}
    write_together(written)
    return list(reversed(written))


def _check_effective(options: ExportOptions, path: Path) -> None:
    """Raise ExportError for an option that has no effect on this format, unless it has its default."""
    layout = "channels-last" if options.channels_last else "model"
    given = (
        ("layout", layout, "channels-last"),
        ("onnx_format", options.onnx_format, ExportOptions.onnx_format),
        ("onnx_weights", options.onnx_weights, ExportOptions.onnx_weights),
    )
    for name, found, default in given:
        if found != default and format_suffix(path) not in EFFECTIVE[name]:
            option = name.replace("_", "-")
            raise ExportError(
                f"found {name} '{found}' (--{option}) with {path.name}, where it changes nothing; leave out one of them"
            )


def check_target(path: Path, target: object) -> None:
    """Raise ExportError if the file's runtime does not implement the kernels of `target`."""
    suffix = format_suffix(path)
    found = None if suffix is None else FORMATS[suffix]
    if found is not None and found.targets and target not in found.targets:
        made = "a program that was not quantized" if target is None else f"a program for target {target!r}"
        raise ExportError(
            f"{path}: found {made}, expected one for {' or '.join(found.targets)}; "
            f"quantize for target {found.targets[0]} (--target)"
        )


def _check_stage(program: Program, path: Path) -> None:
    check_target(path, getattr(program.module.attributes.get(TARGET), "data", None))
    if not any(isinstance(op, QuantizeRegionOp) for op in program.entry.ops):
        if states_kernels(program):
            _check_quantized_ops(path)
            return
        if any(map(contracts_integers, program.entry.ops)):
            return  # as a runtime quantized it, with results of 32 bits
        raise ExportError(
            "found a program without quantized kernels, expected at least one quant.region; write it with quantize "
            "--emit kernels, and see zeropoint explain if every op stays float"
        )
    for region in regions_of(program):
        reason = misfit(region, program.weights) if region.is_quantized else None
        if reason is not None:
            name = named_kernel(region.logical_kernel.data, region.outputs[0])
            raise ExportError(f"{name}: {reason}; name the kernel that computes its ops", region)


def _check_quantized_ops(path: Path) -> None:
    """Raise ExportError for a program imported from StableHLO whose format needs kernels, not quantized ops."""
    if format_suffix(path) not in STABLEHLO:
        raise ExportError(
            f"found a program of quantized StableHLO, expected kernels; export it to {' or '.join(STABLEHLO)}, or "
            f"quantize the float model for {path.name}"
        )


def _check_floats(program: Program, name: str) -> None:
    """Raise ExportError for a quantized kernel on floats other than f32, because casts of runtimes support only f32."""
    for op in program.entry.ops:
        specs = (*op.input_specs, *op.output_specs) if isinstance(op, QuantizeRegionOp) else ()
        if not isinstance(op, QuantizeRegionOp) or not any(isinstance(spec, UniformQuantizedType) for spec in specs):
            continue
        for value in (*op.inputs, *op.outputs):
            element = element_of(value)
            if isinstance(element, AnyFloat) and not isinstance(element, Float32Type):
                raise ExportError(
                    f"found values of {element}, expected f32, which {name} quantizes; cast the model", op
                )
