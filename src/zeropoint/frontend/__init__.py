"""Import model files as float programs. `load_model` selects the format by the file's suffix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from zeropoint.errors import check_regular, reading
from zeropoint.frontend.constants import Constant
from zeropoint.frontend.errors import DynamicShapes, ModelError
from zeropoint.ir.masks import mark_masks
from zeropoint.ir.program import Program

__all__ = ["FORMATS", "ConstantInputs", "DynamicShapes", "ModelError", "Shapes", "load_model"]

Shapes = Mapping[str, tuple[int, ...]]
"""Maps input names to the shapes that fix their dynamic dimensions."""
ConstantInputs = Mapping[str, Constant]
"""Maps input names to arrays or numbers. These inputs become constants of the program."""


def _onnx(path: Path, shapes: Shapes, constants: ConstantInputs) -> Program:
    from zeropoint.frontend.onnx import load_onnx  # imports onnx, needed only here

    return load_onnx(path, shapes, constants)


def _stablehlo(path: Path, shapes: Shapes, constants: ConstantInputs) -> Program:
    from zeropoint.frontend.stablehlo import load_stablehlo

    return load_stablehlo(path, shapes, constants)


def _artifact(path: Path, shapes: Shapes, constants: ConstantInputs) -> Program:
    from zeropoint.frontend.artifact import load_artifact

    return load_artifact(path, shapes, constants)


def _litert(path: Path, shapes: Shapes, constants: ConstantInputs) -> Program:
    from zeropoint.frontend.litert import load_litert  # imports the schema, needed only here

    _refuse(constants, path)
    return load_litert(path, shapes)


def _refuse(constants: ConstantInputs, path: Path) -> None:
    if constants:
        raise ModelError(
            f"{path}: found a value for input '{next(iter(constants))}', expected values only for .onnx and .mlir files"
        )


FORMATS: Mapping[str, Callable[[Path, Shapes, ConstantInputs], Program]] = {
    ".mlir": _stablehlo,
    ".mlirbc": _artifact,
    ".onnx": _onnx,
    ".tflite": _litert,
}
"""Maps file suffixes to loaders."""


def load_model(path: Path | str, shapes: Shapes | None = None, constants: ConstantInputs | None = None) -> Program:
    """Load the program in a model file. Inputs that are attention masks are marked (`mark_masks`).

    `shapes` fixes dynamic dimensions of inputs: `{"x": (1, 3, 224, 224)}`. `constants` turns inputs into constants, by
    a number or an array: `{"sr": 16000}`. Shapes and axes may then depend on them.

    Raises ModelError for a file that is missing or broken, has an unknown suffix, or contains something unsupported.
    """
    path = Path(path)
    check_regular(path, ModelError)
    if not path.is_file():
        raise ModelError(f"{path}: {'found a directory' if path.is_dir() else 'no such file'}, expected a model file")
    if path.name.lower().endswith(".tosa.mlir"):
        raise ModelError(
            f"{path}: found TOSA, which zeropoint writes and does not read, expected another model file; the "
            f"command `zeropoint compare` runs it in TOSA's reference model"
        )
    loader = FORMATS.get(path.suffix.lower())
    if loader is None:
        raise ModelError(f"{path}: found suffix '{path.suffix}', expected one of: {', '.join(FORMATS)}")
    try:
        # Constants of the file may give NaN or infinity. NumPy's warnings are hidden, because checks report errors.
        with reading(path, ModelError), np.errstate(all="ignore"):
            return mark_masks(loader(path, {} if shapes is None else shapes, {} if constants is None else constants))
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from error
