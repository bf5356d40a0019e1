"""LiteRT's flatbuffers schema, from an optional package. Every package may import this module."""

from __future__ import annotations

import importlib
from typing import Any

from zeropoint.errors import Error


class MissingPackage(Error, ImportError):
    """A package of the extra `litert` is not installed."""


def schema() -> Any:
    """The generated schema: readers (`Model`, `Tensor`, ...) and their object API (`ModelT`, `TensorT`, ...).

    Raises MissingPackage, which names the extra, if the package is not installed.
    """
    return _module("ai_edge_litert.schema_py_generated")


def flatbuffers() -> Any:
    """The flatbuffers package. Raises MissingPackage, which names the extra, if it is not installed."""
    return _module("flatbuffers")


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0].replace("_", "-")
        raise MissingPackage(
            f"found no package '{package}', expected it for .tflite files; pip install 'zeropoint[litert]'"
        ) from error
