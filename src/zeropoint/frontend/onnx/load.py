"""Load an ONNX file: make shapes static, inline functions, and convert the graph to a program."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from google.protobuf.message import DecodeError
from onnx import ModelProto, defs

from zeropoint.errors import reading
from zeropoint.frontend.constants import Constant
from zeropoint.frontend.errors import DynamicShapes, ModelError
from zeropoint.frontend.onnx.bodies import inline_bodies
from zeropoint.frontend.onnx.checks import (
    check_attributes,
    check_external_data,
    check_outputs,
    check_text,
    check_versions,
)
from zeropoint.frontend.onnx.converters import CONVERTERS
from zeropoint.frontend.onnx.differences import restore_differences
from zeropoint.frontend.onnx.functions import inline_functions
from zeropoint.frontend.onnx.fused_operators import with_fused_operators
from zeropoint.frontend.onnx.graph import import_graph, opset_of
from zeropoint.frontend.onnx.hard_sigmoids import restore_hard_sigmoids
from zeropoint.frontend.onnx.inline_data import model_of
from zeropoint.frontend.onnx.names import check_names
from zeropoint.frontend.onnx.nested_names import make_names_unique
from zeropoint.frontend.onnx.node_order import sort_nodes
from zeropoint.frontend.onnx.qoperators import expand_qoperators
from zeropoint.frontend.onnx.shapes import fix_input_shapes, fix_inputs, fold_shapes
from zeropoint.frontend.onnx.stated_ports import with_real_ports
from zeropoint.ir.program import Program
from zeropoint.ir.verification import InvalidProgram, verify
from zeropoint.progress import phase

OLDEST_OPSET = 1


def load_onnx(
    path: Path, shapes: Mapping[str, tuple[int, ...]], constants: Mapping[str, Constant] | None = None
) -> Program:
    """Load the float program of an ONNX file, with the file's layout (channels first) and names.

    Floats of every width become f32 in weights, inputs and outputs. `shapes` fixes dynamic dimensions, and `constants`
    turns inputs into constants.

    Raises ModelError, whose message is one line that starts with the path, and OSError if the file cannot be read.
    """
    with _naming(path):
        return _imported(_read(path), path.parent, shapes, constants or {})


def load_onnx_model(
    model: ModelProto, shapes: Mapping[str, tuple[int, ...]], constants: Mapping[str, Constant] | None = None
) -> Program:
    """Load the float program of an ONNX model in memory. External data is looked up in the current folder.

    The model is not changed. Raises ModelError, whose message is one line with the graph's name, and OSError if
    external data cannot be read.
    """
    name = model.graph.name or "model"
    # Constants of the model may give NaN or infinity. NumPy's warnings are hidden, because checks report errors.
    with reading(name, ModelError), _naming(name), np.errstate(all="ignore"):
        copied = ModelProto()
        copied.CopyFrom(model)
        _check_opset(copied)
        return _imported(copied, Path.cwd(), shapes, constants or {})


@contextmanager
def _naming(source: object) -> Generator[None]:
    """Prefix errors with the name of the model."""
    try:
        yield
    except DynamicShapes as error:
        raise DynamicShapes(f"{source}: {error.found}", error.inputs) from error
    except (ModelError, InvalidProgram) as error:
        raise ModelError(f"{source}: {error}", getattr(error, "inputs_to_fix", ())) from error
    except UnicodeDecodeError as error:
        raise ModelError(f"{source}: found text that is not UTF-8, expected an ONNX file; it is broken") from error


def _imported(
    model: ModelProto, folder: Path, shapes: Mapping[str, tuple[int, ...]], constants: Mapping[str, Constant]
) -> Program:
    with phase("check"):
        check_text(model)
        check_versions(model)
        check_attributes(model)
        check_outputs(model)
        check_names(model)
        model = inline_functions(model)
        model = inline_functions(with_fused_operators(model, opset_of(model)))
        sort_nodes(model.graph)
        make_names_unique(model.graph)
        check_external_data(model, folder)
        model = expand_qoperators(with_real_ports(model, folder), folder)
        restore_hard_sigmoids(model, folder)
        restore_differences(model)
        fix_inputs(model.graph, constants)
        fix_input_shapes(model.graph, shapes)
        model = inline_bodies(model, CONVERTERS)
    with phase("fold shapes"):
        model = fold_shapes(model, folder)
    program = import_graph(model, folder)
    with phase("verify"):
        verify(program.module)
    return program


def _read(path: Path) -> ModelProto:
    """The model in a file, without its external data.

    Raises ModelError if it is not an ONNX file, or if its opset is too old or too new.
    """
    size = path.stat().st_size
    try:
        with phase(f"read {path.name}"):
            model = model_of(path)
    except DecodeError as error:
        raise ModelError(
            f"found {size} bytes that are not an ONNX model, or a truncated one, expected an ONNX file"
        ) from error
    if not model.ir_version or not model.HasField("graph"):
        raise ModelError(
            f"found {size} bytes without a graph, expected an ONNX file; it is empty, truncated or of another format"
        )
    _check_opset(model)
    return model


def _check_opset(model: ModelProto) -> None:
    newest = defs.onnx_opset_version()
    if not OLDEST_OPSET <= opset_of(model) <= newest:
        raise ModelError(
            f"found opset {opset_of(model)}, expected {OLDEST_OPSET} to {newest}; convert the model with "
            f"onnx.version_converter or export it again"
        )
