"""Unsigned integers at inputs and outputs of TOSA files, whose types have no sign."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, numpy_helper, parser

import zeropoint as zp
from zeropoint.export import ExportError
from zeropoint.export.tosa.runtime import TosaFile, tools

runs = pytest.mark.skipif(
    tools() is None, reason="tosa-tools (in the environment that ZEROPOINT_TOSA names) are missing"
)
BODIES = {
    "an input": ("float[1,4,6,6] y", "f = Cast<to=1>(x) g = Div(f, k) y = Conv(g, w)"),
    "a moved input": (
        "float[1,4,6,6] y",
        "s = Constant<value_ints=[0]>() e = Constant<value_ints=[3]>() a = Constant<value_ints=[1]>() "
        "z = Concat<axis=1>(x, x) p = Slice(z, s, e, a) f = Cast<to=1>(p) g = Div(f, k) y = Conv(g, w)",
    ),
    "an input that is an output": (
        "float[1,4,6,6] y, T[1,3,6,6] z",
        "f = Cast<to=1>(x) g = Div(f, k) y = Conv(g, w) z = Identity(x)",
    ),
    "an output": (
        "T[1,4,6,6] y",
        "f = Cast<to=1>(x) g = Div(f, k) c = Conv(g, w) r = Relu(c) m = Mul(r, k) n = Min(m, k) y = Cast<to=N>(n)",
    ),
}
KINDS: list[Any] = [np.uint8, np.uint16, np.int8, np.int16]
NUMBERS = {"uint8": 2, "int8": 3, "uint16": 4, "int16": 5}
"""Of the types in ONNX."""


def network(dtype: Any, outputs: str, body: str) -> tuple[ModelProto, list[dict[str, Any]]]:
    kind, limits = np.dtype(dtype).name, np.iinfo(dtype)
    text = f"({kind}[1,3,6,6] x) => ({outputs}) {{ {body} }}".replace("T[", f"{kind}[")
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {text.replace("=N", f"={NUMBERS[kind]}")}')
    random = np.random.default_rng(0)
    for name, array in {"w": random.normal(0, 0.5, (4, 3, 1, 1)), "k": np.array(float(limits.max))}.items():
        model.graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), name))
    shape = (1, 3, 6, 6)
    return model, [{"x": random.integers(limits.min, limits.max, shape, dtype, endpoint=True)} for _ in range(3)]


@runs
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("name", BODIES)
def test_the_reference_model_gives_our_results(name: str, dtype: Any, tmp_path: Path) -> None:
    """Unsigned types were refused."""
    model, samples = network(dtype, *BODIES[name])
    made = zp.quantize(model, samples, target="tosa", effort="none")
    made.export(tmp_path / "m.tosa.mlir")
    run = TosaFile(tmp_path / "m.tosa.mlir")
    for sample in samples:
        theirs = run(sample)
        for output, array in made.interpreted()(**sample).items():
            np.testing.assert_array_equal(theirs[output], array)
            assert theirs[output].dtype == array.dtype


def test_arithmetic_of_unsigned_integers_is_refused(tmp_path: Path) -> None:
    """It wraps around, and would be computed in 32 bits."""
    body = "a = Add(x, x) f = Cast<to=1>(a) g = Div(f, k) y = Conv(g, w)"
    model, samples = network(np.uint8, "float[1,4,6,6] y", body)
    made = zp.quantize(model, samples, target="tosa", effort="none")
    with pytest.raises(ExportError, match="'a': found a tensor of uint8, expected one of"):
        made.export(tmp_path / "m.tosa.mlir")
    assert not list(tmp_path.iterdir())
