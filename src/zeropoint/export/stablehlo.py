"""Export a quantized program as plain StableHLO: text, or a portable artifact in MLIR bytecode.

Quantized ops have the forms that C++ StableHLO's interpreter evaluates (`quant_passes/reference_forms/`).
Attributes that only zeropoint reads (facts, targets) are dropped, and constants are inlined. Inputs and outputs keep
`zeropoint.name`, because C++ StableHLO preserves such attributes, as it does JAX's `jax.result_info`. Programs with ops
that StableHLO does not have (`fxpmath`, casts to storage) are rejected.

Source: the StableHLO document "Compatibility", section "APIs": artifacts are versioned VHLO in bytecode.
"""

from __future__ import annotations

import importlib
import re
from contextlib import suppress
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from zeropoint.expand import expand_functions
from zeropoint.export.dense import dense_text
from zeropoint.export.errors import ExportError
from zeropoint.ir.annotations import NAME, ORIGIN, PROFILE, TARGET, has_row_scales
from zeropoint.ir.program import Program
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.tensors import element_of
from zeropoint.ir.text import ResourceArrays, print_program
from zeropoint.quant_passes import to_reference_forms

OURS = "zeropoint."
DIALECTS = frozenset({"builtin", "func", "stablehlo"})
_HANDLE = re.compile(r"dense_resource<(\"?)([^\">]+)\1>")


def stablehlo_text(program: Program) -> str:
    """The text of a quantized program with all constants inlined. Functions of chlo are arithmetic.

    Raises ExportError for an op of another dialect than StableHLO and func, and for one that rounds rows.
    """
    kept = {type(op) for op in program.module.walk() if op.name.partition(".")[0] in DIALECTS}
    program = to_reference_forms(expand_functions(program.clone(), kept, in_double=True))
    origin = {"target": program.module.attributes.get(TARGET), "profile": program.module.attributes.get(PROFILE)}
    for op in program.module.walk():
        _plain(op)
    if stated := {name: found for name, found in origin.items() if found is not None}:
        program.module.attributes[ORIGIN] = DictionaryAttr(stated)
    arrays = ResourceArrays(program)
    return _HANDLE.sub(lambda found: dense_text(arrays[found[2]]), print_program(program, locations=True))


def _plain(op: Operation) -> None:
    dialect = op.name.partition(".")[0]
    if dialect == "chlo":
        raise ExportError(
            f"found {op.name}, expected a function that StableHLO has; replace it in the model, or run the model with "
            "--target cpu",
            op,
        )
    if any(_is_in_blocks(value) for value in (*op.operands, *op.results)):
        raise ExportError(
            "found weights in blocks, which quantized StableHLO does not express; leave out block_size of the recipe",
            op,
        )
    if dialect not in DIALECTS:
        raise ExportError(
            f"found {op.name}, expected quantized StableHLO; quantize for target stablehlo or cpu, whose profiles need "
            "no other ops",
            op,
        )
    if has_row_scales(op):
        raise ExportError(
            "found a product of activations that are rounded by rows, which quantized StableHLO does not express; "
            "quantize with a recipe, activation_scales: per_tensor, or pass the integer program to lower-to-standard",
            op,
        )
    for name in [name for name in op.attributes if name.startswith(OURS)]:
        del op.attributes[name]
    if isinstance(op, FuncOp):
        op.arg_attrs, op.res_attrs = _names_of_ours(op.arg_attrs), _names_of_ours(op.res_attrs)


def _is_in_blocks(value: SSAValue) -> bool:
    kind = element_of(value) if isinstance(value.type, TensorType) else None
    return isinstance(kind, UniformQuantizedType) and kind.is_sub_channel


def _names_of_ours(listed: ArrayAttr[DictionaryAttr] | None) -> ArrayAttr[DictionaryAttr] | None:
    if listed is None:
        return None
    kept: list[dict[str, Attribute]] = [
        {name: value for name, value in entry.data.items() if name == NAME or not name.startswith(OURS)}
        for entry in listed.data
    ]
    return ArrayAttr([DictionaryAttr(entry) for entry in kept]) if any(kept) else None


def portable_artifact(program: Program) -> bytes:
    """The program as VHLO bytecode of the StableHLO version of 12 weeks ago, or of the current one if it needs that.

    Readers of that version and of later ones take it. Raises ExportError if StableHLO rejects the text, or if the
    package with its serializer is not installed.
    """
    library, text = _library(), stablehlo_text(program)
    weeks = library.StablehloCompatibilityRequirement.WEEK_12
    try:
        with suppress(RuntimeError, ValueError):
            version = library.get_version_from_compatibility_requirement(weeks)
            return library.serialize_portable_artifact_str(text, version)
        return library.serialize_portable_artifact_str(text, library.get_current_version())
    except (RuntimeError, ValueError) as error:
        raise ExportError(f"found a program that StableHLO does not serialize: {error}") from error


def _library() -> Any:
    try:
        return importlib.import_module("torch_mlir._mlir_libs._stablehlo")
    except ImportError as error:
        raise ExportError(
            "found no package 'torch-mlir', expected it for portable artifacts; pip install 'zeropoint[stablehlo]'"
        ) from error
