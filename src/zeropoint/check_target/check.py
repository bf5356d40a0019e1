"""Test each row of a kernel table with models of one op.

A model is quantized, exported and run by the runtime. Its results are compared bit for bit with our interpreter's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from types import MappingProxyType

import numpy as np

from zeropoint.check_target.cases import CASES, WITH_FLOATS
from zeropoint.check_target.causes import cause_of
from zeropoint.check_target.models import Built, Case, ModelPort, built, signatures, width_of
from zeropoint.check_target.runtimes import Runtime, runtimes_of
from zeropoint.errors import Error
from zeropoint.export import ExportOptions, export_program
from zeropoint.frontend.onnx import load_onnx_model
from zeropoint.interp import Interpreter
from zeropoint.ir.annotations import FLOAT_REASON
from zeropoint.ir.outputs import temporary_folder
from zeropoint.ir.program import Program
from zeropoint.ir.quant import Storage
from zeropoint.ir.regions import regions_of
from zeropoint.ir.tensors import Array
from zeropoint.pipeline import Options, quantize
from zeropoint.targets import KernelRow, Target, target

ENDS = MappingProxyType({0: "", -1: "least zero points", 1: "greatest zero points"})
OTHER_NAMES = MappingProxyType(
    {"squeeze": "reshape", "expand_dims": "reshape", "flatten": "reshape", "strided_slice": "slice", "split": "slice"}
)
"""Kernels of tables that our programs name differently."""


class CheckError(Error, ValueError):
    """The target has no runtime to compare with, the runtime is not installed, or no row has the kernel."""


@dataclass(frozen=True)
class Finding:
    """The result of one runtime for one row, one case and one set of parameters.

    `values` is the number of values compared, `equal` the number of equal ones. `steps` is the largest difference, in
    units of the result's scale. `problem` is the reason why nothing was compared.
    """

    row: KernelRow
    case: Case | None
    variant: str
    runtime: str
    values: int = 0
    equal: int = 0
    steps: float = 0
    problem: str = ""

    @property
    def is_explained(self) -> bool:
        """Whether no value differs, or the cause is known."""
        return self.outcome != "differs" or bool(self.cause)

    @property
    def cause(self) -> str:
        """The cause of the difference; empty if unknown."""
        return cause_of(self.runtime.partition(" ")[0], self.row)

    @property
    def outcome(self) -> str:
        """`equal`, `differs` or `not compared`."""
        if not self.values:
            return "not compared"
        return "equal" if self.equal == self.values else "differs"


def check_rows(name: str, kernels: Sequence[str] = ()) -> Iterator[Finding]:
    """Check the rows of the built-in target `name`, in the order of its table; only those of `kernels`, if not empty.

    Raises CheckError if the target has no runtime, the runtime is not installed, or no row has one of `kernels`.
    """
    table, found = target(name), runtimes_of(name)
    if not found:
        raise CheckError(
            f"found target '{name}', expected one whose exported files a runtime runs: litert, litert-16x8, "
            "onnxruntime, onnxruntime-vnni, openvino, openvino-vnni, tosa"
        )
    for runtime in found:
        if not runtime.version:
            raise CheckError(f"found no package '{runtime.package}', expected it to check target '{name}'; install it")
    unknown = set(kernels) - set(table.by_kernel)
    if unknown:
        raise CheckError(f"found kernel '{min(unknown)}', expected one of: {', '.join(table.by_kernel)}")
    for row in table.rows:
        if not kernels or row.kernel in kernels:
            for runtime in found:
                if width_of(row) in runtime.widths:
                    yield from _check_row(row, table, runtime)


def _check_row(row: KernelRow, table: Target, runtime: Runtime) -> Iterator[Finding]:
    cases = [*(case for case in CASES.get(row.kernel, ()) if case.loaded), *_with_floats(row, table)]
    if not cases:
        yield Finding(row, None, "", runtime.name, problem="zeropoint has no program of this kernel alone")
    for case in cases:
        for storages in signatures(row):
            for end, zero_points in ENDS.items():
                for per_channel in (True, False) if case.weight else (True,):
                    made = built(row, case, storages, per_channel, end)
                    yield _finding(row, table, runtime, made, _variant(storages, case, per_channel, zero_points))


def _with_floats(row: KernelRow, table: Target) -> Sequence[Case]:
    """The cases with a float result. Their weights have zero point 0."""
    returns = row.kernel in table.unrounded_results and len(row.inputs) > 1 and row.inputs[1].zero_point == 0
    return WITH_FLOATS.get(row.kernel, ()) if returns else ()


def _form(row: KernelRow) -> str:
    """`u8` or `i8`: the storage of the row's weights, which selects the kernel that is run."""
    return "u8" if len(row.inputs) > 1 and not row.inputs[1].storage.type.signed else "i8"


def _variant(storages: Sequence[Storage], case: Case, per_channel: bool, zero_points: str) -> str:
    parts = [
        "f32" if case.real else str(storages[-1]),
        ("per channel" if per_channel else "per tensor") if case.weight else "",
        zero_points,
    ]
    return ", ".join(part for part in parts if part)


def _finding(row: KernelRow, table: Target, runtime: Runtime, made: Built, variant: str) -> Finding:
    path = Path()
    try:
        result = quantize(load_onnx_model(made.proto, {}), None, Options(target=table.name, profile=runtime.profile))
        problem = _other_kernel(result.propagated, row)
        if problem:
            return Finding(row, made.case, variant, runtime.name, problem=problem)
        with temporary_folder() as folder:
            path = Path(folder) / f"row{runtime.suffix}"
            options = ExportOptions(onnx_weights=_form(row)) if path.suffix == ".onnx" else ExportOptions()
            export_program(result.propagated, path, options)
            theirs = runtime.open(path)(made.inputs)
        ours = Interpreter(result.quantized)(made.inputs)
    except Error as error:
        said = " ".join(str(error).split()).removeprefix(f"{path}: ")
        return Finding(row, made.case, variant, runtime.name, problem=said)
    values = equal = 0
    steps = 0.0
    for port, name in zip(made.results or (None,), ours, strict=True):
        difference = _difference(port, theirs[name], ours[name])
        values, equal = values + difference.size, equal + int((difference == 0).sum())
        steps = max(steps, float(difference.max(initial=0)))
    return Finding(row, made.case, variant, runtime.name, values, equal, steps)


def _difference(port: ModelPort | None, theirs: Array, ours: Array) -> Array:
    """The difference of each value, in units of the result's scale; without `port`, the difference of positions, or of
    floats in units of the last place."""
    if theirs.shape != ours.shape:
        return np.full(ours.shape, inf)
    if port is None and ours.dtype.kind == "f":
        return np.abs(theirs.astype(np.float64) - ours) / np.spacing(np.abs(ours))
    if port is None:
        return np.abs(theirs.astype(np.int64) - ours.astype(np.int64))
    pair = [np.rint(real.astype(np.float64) / np.float32(port.scale)) for real in (theirs, ours)]
    return np.abs(pair[0] - pair[1])


def _other_kernel(program: Program, row: KernelRow) -> str:
    """The reason why the program does not use the row's kernel; empty if it does."""
    regions = regions_of(program)
    for op in regions:
        if not op.is_quantized:
            reason = op.attributes.get(FLOAT_REASON)
            return f"stays float: {getattr(reason, 'data', 'no reason stated')}"
    names = {op.logical_kernel.data for op in regions}
    expected = OTHER_NAMES.get(row.kernel, row.kernel)
    return "" if expected in names else f"zeropoint uses {' and '.join(sorted(names)) or 'no kernel'} instead"
