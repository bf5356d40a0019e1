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
from standard.exact_arithmetic import FORMS, INT32_MAX, INT32_MIN, Exact, requantized
from standard.fixed_point_programs import Case, accumulators, requantization
from standard.programs import PROGRAMS, arguments, signless
from zeropoint.frontend import load_model
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program
from zeropoint.lower import integer_io
from zeropoint.numerics import Multiplier, RequantizeBehaviour
from zeropoint.pipeline import Options, quantize
from zeropoint.standard import expand_fxpmath, lower_to_loops, lower_to_standard

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


WIDE = {
    "fixed16": [(32767, 0), (20000, 31), (16384, -6), (1, 7)],
    "fixed32": [(2**31 - 1, 0), (2**31 - 1, 30), (2**31 - 1, 31), (2**30 + 7, 62), (2**30 - 1, -2), (2**16, 40)],
    "fixed32-double": [(2**31 - 1, 30), (2**30, 0), (2**31 - 1, -31), (2**30 + 9, -7)],
    "tosa-double": [(2**31 - 1, 2), (2**30, 62), (2**30 + 5, 31), (2**30 + 5, 40)],
    "pot": [(1, -31), (1, 0), (1, 40), (1, 62)],
    "float32-rne": [(0.7, None), (2.0**-40, None)],
    "exact": [(0.7, None), (2.0**-30 / 3, None), (65536.0, None)],
}
"""Multipliers and shifts of each behaviour, one a channel."""


@pytest.mark.parametrize("behaviour", WIDE)
@pytest.mark.parametrize("loops", [False, True])
def test_requantized_accumulators_of_64_bits_have_our_bits(behaviour: str, loops: bool) -> None:
    factors = np.array([factor for factor, _ in WIDE[behaviour]])
    shifts = [shift for _, shift in WIDE[behaviour] if shift is not None]
    channels, width = len(factors), 8 if behaviour == "fixed16" else 16
    case = Case(
        Multiplier(RequantizeBehaviour(behaviour), factors, np.array(shifts) if shifts else None),
        *(64, width, -5, -(1 << (width - 1)), (1 << (width - 1)) - 1),
        count=20,
    )
    program, values = requantization(case), accumulators(case, np.random.default_rng(channels))
    assert np.abs(values).max() > 2**62
    (expected,) = Interpreter(program).run_values([values])
    lowered = (lower_to_loops if loops else lower_to_standard)(program)
    (found,) = mlir.ORACLE.call(lowered, [[values]], "func.func(lower-affine)," if loops else "")[0]
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)
    if behaviour not in FORMS:
        return
    for channel, (factor, shift) in enumerate(WIDE[behaviour]):
        of = Exact(lambda x, m=int(factor): x * m, lambda condition, one, other: one if condition else other)
        given = [int(x) for x in values[:, channel].reshape(-1)]
        if "double" in behaviour:
            given = [of.clamp(x, INT32_MIN, INT32_MAX) for x in given]
        exact = [requantized(behaviour, of, x, shift, -5, (case.low, case.high)) for x in given]
        assert expected[:, channel].reshape(-1).tolist() == exact


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
