"""Run exported .onnx files with onnxruntime."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zeropoint.export.errors import ExportError
from zeropoint.export.onnx.graph import file_metadata
from zeropoint.export.ports import RealPorts, check_dtype, check_ports
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array

ELEMENTS = {
    "tensor(float)": np.dtype(np.float32),
    "tensor(int8)": np.dtype(np.int8),
    "tensor(int16)": np.dtype(np.int16),
    "tensor(uint8)": np.dtype(np.uint8),
    "tensor(uint16)": np.dtype(np.uint16),
}


class OnnxFile:
    """A file with named inputs and outputs."""

    def __init__(self, path: Path):
        """Raises ExportError for a file that onnxruntime rejects, or if onnxruntime is not installed."""
        self._path = path
        runtime = _runtime()
        options = runtime.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = 4, 1
        # Without this option, onnxruntime on x64 computes i8 sums and some i8 convolutions between casts in float.
        options.add_session_config_entry("session.qdqisint8allowed", "1")
        try:
            self._session: Any = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's errors have no common base class
            raise ExportError(f"{path}: found a file that onnxruntime refuses: {error}") from error

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return tuple(port.name for port in self._session.get_inputs())

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs."""
        return tuple(port.name for port in self._session.get_outputs())

    @property
    def dtypes(self) -> Mapping[str, np.dtype[Any]]:
        """The dtypes of the inputs by name, of floats and stored integers."""
        ports = [port for port in self._session.get_inputs() if port.type in ELEMENTS]
        return {port.name: ELEMENTS[port.type] for port in ports}

    def __call__(self, inputs: Mapping[str, Array], *, observe: object = None) -> dict[str, Array]:
        """The outputs for one sample, by name. `observe` is ignored, because a runtime does not show inner values."""
        for port in self._session.get_inputs():
            if port.name not in inputs:
                raise ExportError(
                    f"found no array for input '{port.name}', expected arrays for {', '.join(self.inputs)}"
                )
        for name, dtype in self.dtypes.items():
            check_dtype(name, inputs[name], dtype)
        try:
            found = self._session.run(None, {name: inputs[name] for name in self.inputs})
        except Exception as error:  # onnxruntime's errors have no common base class
            reason = " ".join(str(error).split())
            raise ExportError(f"{self._path}: onnxruntime failed on this sample: {reason}") from error
        return dict(zip(self.outputs, found, strict=True))


@dataclass(frozen=True)
class OnnxEngine:
    """An engine that runs a program from its exported file with onnxruntime."""

    path: Path

    def prepare(self, program: Program) -> RealPorts:
        """The file, ready to run. Raises ExportError if its input or output names differ from the program's."""
        file = RealPorts(OnnxFile(self.path), file_metadata(self.path))
        check_ports(self.path, file, program)
        return file


def _runtime() -> Any:
    try:
        return importlib.import_module("onnxruntime")
    except ImportError as error:
        raise ExportError(
            "found no package 'onnxruntime', expected it to run .onnx files; pip install 'zeropoint[onnxruntime]'"
        ) from error
