"""Exported files as arguments of commands: the runtime that runs them, and the program they were exported from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from zeropoint.cli.refusals import fail

RUNTIMES = {".onnx": "onnxruntime", ".tflite": "litert"}
"""The target of a file that another tool quantized; `stablehlo` for other files."""


def runtime_of(model: Path, layers: bool) -> Any:
    """The runtime of an exported file, as an engine; None for other files.

    Any .tflite file runs in LiteRT, whoever wrote it. Its tables are checked first, because LiteRT trusts them.
    """
    from zeropoint.export import format_suffix

    suffix = format_suffix(model)
    if suffix not in (".onnx", ".tflite", ".tosa.mlir"):
        return None
    from zeropoint.export.litert.runtime import LiteRTEngine
    from zeropoint.export.onnx.openvino import OpenVinoEngine
    from zeropoint.export.onnx.origins import OPENVINO
    from zeropoint.export.onnx.runtime import OnnxEngine
    from zeropoint.export.tosa.runtime import TosaEngine
    from zeropoint.frontend import load_model
    from zeropoint.frontend.exported import origin_of

    origin = origin_of(model) if suffix != ".tosa.mlir" else None
    if suffix == ".onnx" and origin is None:
        return None
    of_onnx = OpenVinoEngine if origin is not None and origin.target in OPENVINO else OnnxEngine
    if layers:
        fail(f"found --layers with {model.name}, expected a program; a runtime does not show inner values")
    if origin is not None:
        load_model(model)  # rejects malformed files, which can crash a runtime
    engines = {".onnx": of_onnx, ".tflite": LiteRTEngine, ".tosa.mlir": TosaEngine}
    return engines[suffix](model)


def quantized_stages(model: Path, program: Any, target: str | None = None) -> Any:
    """The stages of the program in a quantized file, loaded as `program`; None for float models and saved programs.

    What zeropoint exported, and what other tools quantized, is quantized again with the parameters in the file: for the
    target and profile that an exported file names, otherwise for `target`, or that of the file's runtime.

    Raises MissingStatistics for a file that does not state all types.
    """
    from zeropoint.frontend.exported import origin_in, origin_of
    from zeropoint.ir.stated_kernels import states_kernels
    from zeropoint.options import Options
    from zeropoint.pipeline import quantize
    from zeropoint.solve.quantized_files.keep_unquantized import is_quantized_by_types
    from zeropoint.targets import named_in_file

    suffix = model.suffix.lower()
    stated = states_kernels(program) or (suffix in (".onnx", ".tflite") and is_quantized_by_types(program))
    if program.profile is not None or not (stated or origin_of(model) is not None):
        return None
    origin = origin_in(program) or origin_of(model)
    if origin is None:
        options = Options(target=target or RUNTIMES.get(suffix, "stablehlo"), effort="none")
    else:
        table = None if target == origin.target else target
        options = Options(target=named_in_file(origin.target, table), profile=origin.profile, effort="none")
    return quantize(program, None, options)
