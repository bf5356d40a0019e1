"""LiteRT's schema, from the package that carries it."""

from __future__ import annotations

import importlib
from typing import Any

from zeropoint.export.errors import ExportError


def schema() -> Any:
    """The generated schema with its object API (`ModelT`, `TensorT`, ...).

    Raises ExportError, which names the extra, where the package is not installed.
    """
    return _module("ai_edge_litert.schema_py_generated")


def flatbuffers() -> Any:
    """The flatbuffers package. Raises ExportError, which names the extra, where it is not installed."""
    return _module("flatbuffers")


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0].replace("_", "-")
        raise ExportError(
            f"found no package '{package}', expected it for .tflite files; pip install 'zeropoint[litert]'"
        ) from error
