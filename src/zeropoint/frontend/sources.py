"""Import a model in any form as a float program: a path, an ONNX model, StableHLO text, a PyTorch or JAX object."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from zeropoint.frontend import ConstantInputs, ModelError, Shapes, load_model
from zeropoint.frontend.constants import Constant, with_constants
from zeropoint.frontend.jax import has_symbolic_shapes, is_jax, jax_text, refined_text
from zeropoint.frontend.torch import is_module, is_torch, load_torch
from zeropoint.ir.masks import mark_masks
from zeropoint.ir.program import Port, Program, name_attributes
from zeropoint.ir.tensors import element_dtype
from zeropoint.numerics.arrays import plain

FORMS = (
    "a path, an onnx.ModelProto, StableHLO text, a torch.nn.Module with example=, a torch ExportedProgram, or "
    "jax.jit(f).lower(...)"
)


def load_source(
    source: Any, shapes: Shapes | None = None, constants: ConstantInputs | None = None, example: Any = None
) -> Program:
    """Load a model in any form. Inputs that are attention masks are marked (`mark_masks`).

    `shapes` and `constants` are as in `load_model`, `example` is as in `load_torch`. A string is StableHLO text if it
    has several lines or braces, else a path. Raises ModelError for any other object, and where the loaders do.
    """
    return mark_masks(_loaded(source, shapes, constants, example))


def _loaded(source: Any, shapes: Shapes | None, constants: ConstantInputs | None, example: Any) -> Program:
    shapes, constants = checked_shapes(shapes), checked_constants(constants)
    if is_jax(source):
        if has_symbolic_shapes(source) and shapes:
            return _refined(source, shapes, constants)
        source = jax_text(source)
    if is_torch(source):
        return load_torch(source, example, shapes, constants)
    if example is not None:
        raise ModelError(
            f"found example inputs for {type(source).__name__}, expected them for a torch.nn.Module only "
            "(shapes={...} fixes the shapes of inputs)"
        )
    if isinstance(source, str) and ("\n" in source or "{" in source):
        return _of_text(source, shapes, constants)
    if isinstance(source, str | os.PathLike):
        return load_model(Path(cast("str | os.PathLike[str]", source)), shapes, constants)
    if type(source).__name__ == "ModelProto":
        from zeropoint.frontend.onnx import load_onnx_model  # imports onnx, needed only here

        return load_onnx_model(source, shapes, constants)
    raise ModelError(f"found {type(source).__name__}, expected {FORMS}")


def _refined(exported: Any, shapes: Shapes, constants: ConstantInputs) -> Program:
    """The program of a function that JAX exported with symbolic shapes, at these shapes."""
    symbolic = _of_text(jax_text(exported), {}, {})
    names = [port.name for port in symbolic.inputs]
    program = _of_text(refined_text(exported, names, shapes), {}, {})
    program.main.arg_attrs = name_attributes(names)
    return with_constants(program, constants)


def checked_shapes(shapes: object) -> Shapes:
    """The shapes of inputs by name. Raises ModelError if `shapes` is not a mapping from names to sizes."""
    given = _by_name({} if shapes is None else shapes)
    found = {name: _sizes(sizes) for name, sizes in given.items()} if given is not None else {"": None}
    made = {name: sizes for name, sizes in found.items() if sizes is not None}
    if len(made) != len(found):
        raise ModelError(
            f"found shapes={shapes!r}, expected sizes by input name: {{'x': (1, 3, 224, 224)}}; "
            "for several shapes, use zp.Specializations.quantize"
        )
    return made


def _sizes(sizes: object) -> tuple[int, ...] | None:
    found = plain(sizes)
    listed = tuple(cast("Sequence[object]", found)) if isinstance(found, list) else (None,)
    return cast("tuple[int, ...]", listed) if all(type(size) is int for size in listed) else None


def _by_name(found: object) -> dict[str, object] | None:
    """The mapping if its keys are names; None for anything else."""
    given = dict(cast("Mapping[object, object]", found)) if isinstance(found, Mapping) else {None: None}
    return cast("dict[str, object]", given) if all(isinstance(name, str) for name in given) else None


def checked_constants(constants: object) -> ConstantInputs:
    """The constants by name: numbers unchanged, everything else as arrays.

    Raises ModelError if `constants` is not a mapping from names to such values.
    """
    given = _by_name({} if constants is None else constants)
    found = {} if given is None else {name: _constant(value) for name, value in given.items()}
    if given is None or any(np.asarray(value).dtype.kind not in "biuf" for value in found.values()):
        raise ModelError(f"found constants={constants!r:.200}, expected arrays by input name")
    return found


def _constant(value: object) -> Constant:
    return value if isinstance(value, bool | int | float) else np.asarray(value)


def load_alike(
    source: Any,
    ports: Sequence[Port],
    shapes: Shapes | None = None,
    constants: ConstantInputs | None = None,
    example: Any = None,
) -> Program:
    """Load a model to compare it with one that has the inputs `ports`, with their shapes if it takes them.

    A PyTorch module without an example is traced with zeros of these shapes. Raises ModelError like `load_source`.
    """
    shapes = checked_shapes(shapes)
    if example is None and is_module(source):
        example = tuple(np.zeros(port.type.get_shape(), element_dtype(port.type.element_type)) for port in ports)
    wanted = {port.name: tuple(port.type.get_shape()) for port in ports}
    try:
        found = load_source(source, shapes, constants, example)
        if shapes or all(wanted.get(port.name) == tuple(port.type.get_shape()) for port in found.inputs):
            return found
    except ModelError as error:
        if shapes:
            raise
        try:
            return load_source(source, wanted, constants, example)
        except ModelError:
            raise error from None
    try:
        return load_source(source, wanted, constants, example)
    except ModelError:
        return found


def _of_text(text: str, shapes: Shapes, constants: ConstantInputs) -> Program:
    from zeropoint.frontend.stablehlo import stablehlo_of_text

    return stablehlo_of_text(text, shapes, constants)
