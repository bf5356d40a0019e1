"""Exported files as arguments of commands: the runtime that runs them, and the program they were exported from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from zeropoint.cli.refusals import fail


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


def exported_program(model: Path) -> Any:
    """The stages of the program in an exported .onnx or .tflite file; None for other files.

    The file is imported and quantized again with the parameters in it, for the target and profile that it names.
    """
    from zeropoint.frontend import load_model
    from zeropoint.frontend.exported import origin_of
    from zeropoint.options import Options
    from zeropoint.pipeline import quantize
    from zeropoint.targets import named_in_file

    origin = origin_of(model) if model.suffix in (".onnx", ".tflite") and model.is_file() else None
    if origin is None:
        return None
    program = load_model(model)
    return quantize(program, None, Options(target=named_in_file(origin.target), profile=origin.profile, effort="none"))
