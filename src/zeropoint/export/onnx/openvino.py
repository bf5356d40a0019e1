"""Run exported .onnx files with OpenVINO's CPU plugin."""

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

SETTINGS = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
"""Without the precision hint, OpenVINO computes float ops in bf16 on processors that support it."""


class OpenVinoFile:
    """A file with named inputs and outputs. It runs on one thread, with f32 for ops that are not quantized."""

    def __init__(self, path: Path):
        """Raises ExportError for a file that OpenVINO rejects, or if OpenVINO is not installed."""
        self._path = path
        core = _runtime().Core()
        try:
            model: Any = core.read_model(str(path))
            # Compilation gives some inputs and outputs the names of other tensors, too, and keeps their order.
            self._names = [tuple(port.get_any_name() for port in ports) for ports in (model.inputs, model.outputs)]
            self.compiled: Any = core.compile_model(model, "CPU", SETTINGS)
        except RuntimeError as error:
            reason = " ".join(str(error).split())
            raise ExportError(f"{path}: found a file that OpenVINO refuses: {reason}") from error

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return self._names[0]

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs."""
        return self._names[1]

    @property
    def dtypes(self) -> Mapping[str, np.dtype[Any]]:
        """The dtypes of the inputs by name."""
        kinds = (np.dtype(port.get_element_type().to_dtype()) for port in self.compiled.inputs)
        return dict(zip(self.inputs, kinds, strict=True))

    def __call__(self, inputs: Mapping[str, Array], *, observe: object = None) -> dict[str, Array]:
        """The outputs for one sample, by name. `observe` is ignored, because a runtime does not show inner values."""
        missing = [name for name in self.inputs if name not in inputs]
        if missing:
            raise ExportError(f"found no array for input '{missing[0]}', expected arrays for {', '.join(self.inputs)}")
        for name, dtype in self.dtypes.items():
            check_dtype(name, inputs[name], dtype)
        try:
            found = self.compiled([inputs[name] for name in self.inputs])
        except RuntimeError as error:
            reason = " ".join(str(error).split())
            raise ExportError(f"{self._path}: OpenVINO failed on this sample: {reason}") from error
        return {name: found[port] for name, port in zip(self.outputs, self.compiled.outputs, strict=True)}


@dataclass(frozen=True)
class OpenVinoEngine:
    """An engine that runs a program from its exported file with OpenVINO."""

    path: Path

    def prepare(self, program: Program) -> RealPorts:
        """The file, ready to run. Raises ExportError if its input or output names differ from the program's."""
        file = RealPorts(OpenVinoFile(self.path), file_metadata(self.path))
        check_ports(self.path, file, program)
        return file


def _runtime() -> Any:
    try:
        return importlib.import_module("openvino")
    except ImportError as error:
        raise ExportError(
            "found no package 'openvino', expected it to run .onnx files; pip install 'zeropoint[openvino]'"
        ) from error
