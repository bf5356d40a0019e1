"""C++ MLIR compiles the programs in standard form, and what it runs has the interpreter's bits.

`stablehlo-legalize-to-linalg`, on programs with expanded fixed-point ops, is the second opinion.
`python tests/standard/kernel_table.py` does the same for every kernel, profile and width.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from oracle import mlir
from standard.programs import PROGRAMS, arguments, signless
from zeropoint.frontend import load_model
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program
from zeropoint.lower import integer_io
from zeropoint.pipeline import Options, quantize
from zeropoint.standard import expand_fxpmath, lower_to_standard

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
LEGALIZE = "canonicalize,stablehlo-legalize-to-linalg,canonicalize,func.func(linalg-generalize-named-ops),"


@pytest.fixture(autouse=True)
def _oracle() -> None:
    mlir.require()


def assert_equal(program: Program, calls: list[list[Array]], second: bool) -> None:
    expected = [signless(Interpreter(program).run_values(values)) for values in calls]
    calls = [signless(values) for values in calls]
    found = [mlir.ORACLE.call(lower_to_standard(program), calls)]
    if second:
        found.append(mlir.ORACLE.call(expand_fxpmath(program), calls, LEGALIZE))
    for results in found:
        for one, other in zip(expected, results, strict=True):
            for ours, theirs in zip(one, other, strict=True):
                np.testing.assert_array_equal(theirs, ours)


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_programs_of_one_op_have_our_bits(name: str) -> None:
    program = parse_program(PROGRAMS[name])
    random = np.random.default_rng(0)
    assert_equal(program, [arguments(program, random) for _ in range(2)], second=False)


@pytest.fixture(scope="module")
def logits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The network of the demo without its softmax, which is float."""
    graph = onnx.load(DIGITS / "digits.onnx").graph
    path = tmp_path_factory.mktemp("standard") / "logits.onnx"
    onnx.utils.extract_model(DIGITS / "digits.onnx", path, [graph.input[0].name], [graph.node[-1].input[0]])
    return path


@pytest.mark.parametrize("profile", ["fixed16", "fixed32", "fixed32-double", "tosa-double"])
def test_the_digits_network_has_our_bits(logits: Path, profile: str) -> None:
    network = load_model(logits)
    images = np.load(DIGITS / "test.npz")["image"][:25].reshape(25, 1, 1, 28, 28).astype(np.float32)
    samples = [{"image": image} for image in images[:8]]
    program = integer_io(quantize(network, samples, Options(profile=profile)).integer)
    stored = np.rint(images * 255 - 128).clip(-128, 127).astype(np.int8)
    assert_equal(program, [[image] for image in stored], second=profile == "fixed16")
