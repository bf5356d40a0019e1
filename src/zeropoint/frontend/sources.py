"""Imports a model in any form as a float program: a path, an ONNX model, StableHLO text, a PyTorch or JAX object."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from xdsl.utils.exceptions import ParseError, VerifyException

from zeropoint.frontend import Constants, ModelError, Shapes, load_model
from zeropoint.frontend.constants import with_constants
from zeropoint.frontend.jax import is_jax, jax_text, named_as_in_jax
from zeropoint.frontend.torch import is_torch, load_torch
from zeropoint.ir.program import Port, Program

FORMS = (
    "a path, an onnx.ModelProto, StableHLO text, a torch.nn.Module with example=, a torch ExportedProgram, or "
    "jax.jit(f).lower(...)"
)


def load_source(
    source: Any, shapes: Shapes | None = None, constants: Constants | None = None, example: Any = None
) -> Program:
    """The program of a model in any form; `shapes` and `constants` as in `load_model`, `example` as in `load_torch`.

    A string is StableHLO text if it has several lines or braces, else a path. Raises ModelError for any other object,
    and as the loaders do.
    """
    if is_jax(source):
        source = jax_text(source)
    if is_torch(source):
        return load_torch(source, example, shapes or {}, constants or {})
    if example is not None:
        raise ModelError(f"found example inputs for {type(source).__name__}, expected them for a torch.nn.Module only")
    if isinstance(source, str) and ("\n" in source or "{" in source):
        return _of_text(source, constants or {})
    if isinstance(source, str | os.PathLike):
        return load_model(Path(cast("str | os.PathLike[str]", source)), shapes, constants)
    if type(source).__name__ == "ModelProto":
        from zeropoint.frontend.onnx import load_onnx_model  # imports onnx, needed only here

        return load_onnx_model(source, shapes or {}, constants)
    raise ModelError(f"found {type(source).__name__}, expected {FORMS}")


def load_alike(source: Any, ports: Sequence[Port], shapes: Shapes | None = None) -> Program:
    """The program of a model for comparison with a model of inputs `ports`, whose shapes fix its dynamic dimensions.

    Raises ModelError as `load_source`.
    """
    try:
        return load_source(source, shapes)
    except ModelError as error:
        if shapes:
            raise
        try:
            return load_source(source, {port.name: tuple(port.type.get_shape()) for port in ports})
        except ModelError:
            raise error from None


def _of_text(text: str, constants: Constants) -> Program:
    from zeropoint.ir.text import parse_program
    from zeropoint.quant_passes import legalize_chlo

    try:
        return with_constants(named_as_in_jax(legalize_chlo(parse_program(text))), constants)
    except (ParseError, VerifyException) as error:
        message = error.msg if isinstance(error, ParseError) else str(error)
        raise ModelError(f"text: {message}") from error
