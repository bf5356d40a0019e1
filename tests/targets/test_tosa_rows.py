"""Every row of `tosa.toml`, against TOSA's reference model: the kernel as TOSA's integer operators, made by the row.

It must take the program and compute what our interpreter computes of the quantized program under the table's profile.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from oracle import tosa
from targets import tosa_programs as programs
from targets.confirmation import confirming
from targets.one_op import float_program, kernels, regions_of, variants
from targets.tosa_programs import Function, Program
from zeropoint.check_target.models import Built, Case
from zeropoint.interp import run
from zeropoint.materialize import materialize
from zeropoint.targets import KernelRow

NAME, PACKAGE = "tosa", "tosa-tools"
INDICES = np.random.default_rng(0).integers(0, 24, (2, 10))
MOVED = {
    "gather": (Case("Gather", ((2, 24, 3),)), lambda x: np.take_along_axis(x, INDICES[..., None], 1)),
    "reverse": (Case("Reverse", ((2, 24, 3),)), lambda x: x[:, ::-1]),
}
"""Kernels that our importer makes of other ops: TOSA's against NumPy."""
CASES = kernels(NAME) | {kernel: (case,) for kernel, (case, _) in MOVED.items()}
PROGRAMS: dict[str, Program] = {
    "Conv": programs.convolution,
    "ConvTranspose": programs.transposed_convolution,
    "Gemm": programs.fully_connected,
    "MatMul": programs.batch_matmul,
    "Mul": programs.multiply,
    "Add": programs.sum_of_two("add"),
    "Sub": programs.sum_of_two("sub"),
    "Exp": programs.table(np.exp),
    "Elu": programs.table(lambda x: np.where(x > 0, x, np.expm1(x))),
    "Sigmoid": programs.table(lambda x: 1 / (1 + np.exp(-x))),
    "Tanh": programs.table(np.tanh),
    "AveragePool": programs.pool("avg_pool2d", 2, 4),
    "MaxPool": programs.pool("max_pool2d", 2, 2),
    "ReduceMean": programs.total(True),
    "ReduceSum": programs.total(False),
    "Reshape": programs.moved("reshape", (6, 132), (6, 132)),
    "Transpose": programs.moved("transpose", (2, 12, 11, 3), attributes="perms = array<i32: 0, 2, 3, 1>"),
    "Slice": programs.moved("slice", (2, 3, 8, 8), (0, 0, 1, 2), (2, 3, 8, 8)),
    "Pad": programs.moved("pad", (2, 3, 14, 13), (0, 0, 0, 0, 1, 1, 1, 1)),
    "Concat": programs.moved("concat", (2, 6, 12, 11), attributes="axis = 1 : i32"),
    "Expand": programs.moved("tile", (2, 3, 12, 4), (1, 1, 1, 4)),
    "Gather": programs.gather(INDICES),
    "Reverse": programs.moved("reverse", (2, 24, 3), attributes="axis = 1 : i32"),
}
STEPS = {"average_pool": 1}
"""AVG_POOL2D divides by a reciprocal of its own and rounds once; we rescale the sum."""


def expected(row: KernelRow, made: Built, folder: Path) -> np.ndarray:
    """The stored integers of the result."""
    if row.kernel in MOVED:
        return MOVED[row.kernel][1](made.stored[0])
    before, inputs = float_program(made, folder)
    (real,) = run(materialize(regions_of(NAME, row, before, made)), inputs).values()
    return np.rint(real / np.float32(made.results[0].scale)).astype(np.int64) + made.results[0].zero_point


@pytest.mark.parametrize(("row", "made"), variants(NAME, CASES))
def test_the_reference_model_computes_the_row(row: KernelRow, made: Built, tmp_path: Path) -> None:
    tosa.require()
    with confirming(NAME, row, PACKAGE, tosa.version()):
        mine = expected(row, made, tmp_path)
        nhwc = made.case.op.startswith("Conv")
        inputs = [np.moveaxis(x, 1, -1) if nhwc else x for x in made.stored.values()]
        function = Function(*(array.shape for array in inputs))
        build = programs.depthwise if row.kernel == "depthwise_convolution" else PROGRAMS[made.case.op]
        text = function.text(build(function, made))
        arrays = [x.astype(np.int8).reshape(value.shape) for x, value in zip(inputs, function.arguments, strict=True)]
        (theirs,) = tosa.evaluate(text, *arrays)
        difference = theirs.astype(np.int64).reshape(mine.shape) - mine
        assert len(np.unique(mine)) > 7, "the result says nothing"
        assert np.abs(difference).max() <= STEPS.get(row.kernel, 0), (difference != 0).mean()
