"""The public StableHLO interpreter tests, read from a folder outside of the project.

Each of their functions ends in checks of computed values against constants. Here it returns both, and is run.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

from zeropoint.interp import Interpreter
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program

BESIDE = Path(__file__).parents[2] / ".." / "shared" / "conformance"
FOLDER = Path(os.environ.get("ZEROPOINT_CONFORMANCE", BESIDE)).resolve() / "stablehlo"
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"no conformance data at {FOLDER.parent} (set ZEROPOINT_CONFORMANCE)"
)

OPS = [
    "abs",
    "add",
    "and",
    "atan2",
    "broadcast_in_dim",
    "cbrt",
    "ceil",
    "clamp",
    "compare",
    "concatenate",
    "constant",
    "convert",
    "convolution",
    "cosine",
    "count_leading_zeros",
    "divide",
    "dot_general",
    "dynamic_slice",
    "dynamic_update_slice",
    "exponential",
    "exponential_minus_one",
    "floor",
    "gather",
    "iota",
    "is_finite",
    "log",
    "log_plus_one",
    "logistic",
    "maximum",
    "minimum",
    "multiply",
    "negate",
    "not",
    "or",
    "pad",
    "popcnt",
    "power",
    "quantized_ops",
    "reduce",
    "reduce_window",
    "remainder",
    "reshape",
    "reverse",
    "round_nearest_afz",
    "round_nearest_even",
    "rsqrt",
    "scatter",
    "select",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "sign",
    "sine",
    "slice",
    "sort",
    "sqrt",
    "subtract",
    "tan",
    "tanh",
    "transpose",
    "xor",
]
NOT_OURS = re.compile(r"complex<|f8E|f4E|f6E|algorithm =|precision = \[DEFAULT, DEFAULT\],")
"""Element types that the interpreter does not hold, and syntax that the parser leaves out."""
NAN = {
    "ceil_qi8": ([8], 0.0),
    "cosine_qi8": ([8], 0.999999821),
    "div_singularity_negative_by_0_lhs_float32_2__rhs_float32_2_qi8": ([0, 1], 0.0),
    "negate_qi8": ([8], 0.0),
    "sine_qi8": ([8], 0.0),
    "tanh_qi8": ([8], 0.0),
}
"""Where a NaN is quantized upstream's interpreter stores 0, and ours the zero point, real 0: what comes of it."""

_CHECK = re.compile(
    r'(?:check\.(?P<kind>\w+)\s+(?P<value>%[\w#]+)\s*,\s*|"check\.(?P<kind2>\w+)"\((?P<value2>%\w+)\) <\{value = )'
    r"(?P<constant>dense<[^>]*>)\s*:\s*(?P<type>tensor<[^<>]*>)(?:\}> : \([^)]*\) -> \(\))?"
)
_CALL = re.compile(r"%\w+ = stablehlo\.custom_call @check\.eq\((%\w+), (%\w+)\) : \((.*), (.*)\) -> tensor<i1>")
_RETURN = re.compile(r"(?<!stablehlo\.)\b(?:func\.)?return\b[^\n]*")
_SIGNATURE = re.compile(r"func\.func (?:public )?@\w+\(\)(?: -> tensor<\w+>)?")


def _returning_what_is_checked(text: str) -> tuple[str, list[bool]]:
    """The program with pairs of results, computed and expected, and whether each pair has to be equal bit for bit."""
    values: list[str] = []
    types: list[str] = []
    exact: list[bool] = []
    constants: list[str] = []
    for number, check in enumerate(_CHECK.finditer(text)):
        constants.append(f"%expected{number} = stablehlo.constant {check['constant']} : {check['type']}")
        values += [check["value"] or check["value2"], f"%expected{number}"]
        types += [check["type"]] * 2
        exact.append((check["kind"] or check["kind2"]) == "expect_eq_const")
    for call in _CALL.finditer(text):
        expected, value, *call_types = call.groups()
        values += [value, expected]
        types += reversed(call_types)
        exact.append(True)
    body = _RETURN.sub("", _CALL.sub("", _CHECK.sub("", text))).replace('"stablehlo.bitcast_convert"', '"quant.scast"')
    body = _SIGNATURE.sub(f"func.func @main() -> ({', '.join(types)})", body, count=1)
    end = body.rindex("}", 0, body.rindex("}")) if re.search(r"^module", body, re.MULTILINE) else body.rindex("}")
    tail = "\n".join([*constants, f"return {', '.join(values)} : {', '.join(types)}\n"])
    return body[:end] + tail + body[end:], exact


def _assert_equal(computed: Array, expected: Array, exact: bool) -> None:
    if exact:
        assert np.array_equal(computed, expected, equal_nan=computed.dtype.kind not in "iub")
    else:
        tolerance = 1e-2 if computed.dtype.itemsize == 2 else 1e-5  # the constants have six digits
        np.testing.assert_allclose(
            computed.astype(np.float64), expected.astype(np.float64), rtol=tolerance, atol=tolerance
        )


def _run_cases(path: Path) -> int:
    count = 0
    for case in path.read_text().split("// -----"):
        if NOT_OURS.search(case) or not (_CHECK.search(case) or _CALL.search(case)):
            continue
        text, exact = _returning_what_is_checked(case)
        results = Interpreter(parse_program(text)).run_values([])
        for computed, expected, bits in zip(results[::2], results[1::2], exact, strict=True):
            if path.stem in NAN and _CALL.search(case):
                places, value = NAN[path.stem]
                assert (computed[places] == np.float32(value)).all()
                computed, expected = (np.delete(array, places) for array in (computed, expected))
            _assert_equal(computed, expected, bits)
        count += 1
    return count


@pytest.mark.parametrize("op", OPS)
def test_stablehlo_interpreter_tests(op: str):
    assert _run_cases(FOLDER / "interpret" / f"{op}.mlir") > 0


QUANTIZED = sorted((FOLDER / "quantized").glob("*.mlir")) if FOLDER.is_dir() else []


@pytest.mark.parametrize("path", QUANTIZED, ids=[path.stem[:60] for path in QUANTIZED])
def test_stablehlo_quantized_tests(path: Path):
    assert _run_cases(path) > 0
