"""A very negative number that is added before a relu hides a value, and costs no other value its scale."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper

import zeropoint as zp

SUMS = {
    "a bias": ("a = MatMul(x, w)", (16,)),
    "a mask": ("a = MatMul(x, w)", (4, 16)),
    "a mask of an input": ("a = Identity(x)", (4, 16)),
}


def model(first: str, function: str, term: np.ndarray) -> onnx.ModelProto:
    made = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[4,16] x, float[16,16] w, float[16,8] v, float{list(term.shape)} t) => (float[4,8] y) {{
          {first}
          b = Add(a, t)
          c = {function}(b)
          y = MatMul(c, v)
        }}""")
    random = np.random.default_rng(0)
    arrays = {"w": random.normal(0, 0.25, (16, 16)), "v": random.normal(0, 0.25, (16, 8)), "t": term}
    made.graph.initializer.extend(
        numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()
    )
    del made.graph.input[1:]
    return made


@pytest.mark.parametrize("far", [-1e9, -np.inf])
@pytest.mark.parametrize("function", ["Relu", "Softplus"])
@pytest.mark.parametrize("name", SUMS)
def test_a_term_far_below_a_relu_costs_the_others_nothing(name: str, function: str, far: float) -> None:
    """It was 0 dB for -1e9: the sum had its scale. -inf was refused."""
    first, shape = SUMS[name]
    random = np.random.default_rng(1)
    term = np.where(random.random(shape) < 0.3, far, random.normal(0, 0.2, shape))
    data = {"x": random.normal(size=(32, 4, 16)).astype(np.float32)}
    program = model(first, function, term)
    (output,) = zp.compare(program, zp.quantize(program, data, effort="none"), data).outputs
    assert output.sqnr > 30


def test_terms_that_show_are_left_alone() -> None:
    """-3 is below zero, but sums with it are not."""
    random = np.random.default_rng(1)
    term = np.where(np.arange(16) < 4, -3.0, 0.2)
    data = {"x": random.normal(size=(32, 4, 16)).astype(np.float32) * 4}
    program = model("a = MatMul(x, w)", "Relu", term)
    (output,) = zp.compare(program, zp.quantize(program, data, effort="none"), data).outputs
    assert output.sqnr > 30
