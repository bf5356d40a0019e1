"""Terms of a softmax's operand that go far down and are no masks: biases, distances, likelihoods and shared offsets."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import zeropoint as zp
from zeropoint.solve.masks.mask_evidence import least_visible

Draw = Callable[[np.random.Generator], np.ndarray]
SHAPE = (2, 8, 8)
TABLES = np.random.default_rng(3)
PLACE = np.arange(8)
CAUSAL = np.where(PLACE[:, None] >= PLACE, 0, -1e9)
SLOPES = np.array([8, 2]).reshape(2, 1, 1)
AWAY = "w = Unsqueeze(x, one) d = Sub(w, centres) e = Mul(d, d) f = ReduceSum<keepdims=0>(e, two) q = Neg(f) "

CONSTANTS: dict[str, tuple[str, Mapping[str, np.ndarray], float]] = {
    "slopes of keys, causal": (
        "t = Add(s, b) z = Add(t, k)", {"b": SLOPES * (PLACE - 7).reshape(1, 1, 8), "k": CAUSAL}, 28.0
    ),
    "slopes in the mask": ("z = Add(s, b)", {"b": SLOPES * (PLACE - 7).reshape(1, 1, 8) + CAUSAL}, 28.0),
    "far": ("z = Add(s, b)", {"b": TABLES.uniform(-200, 0, SHAPE)}, 24.0),
    "farther": ("z = Add(s, b)", {"b": TABLES.uniform(-200, -100, SHAPE)}, 22.0),
    "rows apart": ("z = Add(s, b)", {"b": TABLES.uniform(-4, 0, (8, 8)) - 50 * PLACE[:, None]}, 9.0),
    "all about -50": ("z = Add(s, b)", {"b": np.array([-50, -51, -52, -50, -49, -50, -50, -51])}, 26.0),
    "two masks": ("z = Add(s, b)", {"b": np.where(PLACE[:, None] // 4 == PLACE // 4, -100, -200)}, 16.0),
    "before a maximum": ("z = Add(s, b)", {"b": TABLES.uniform(-2000, 0, SHAPE)}, 36.0),
}  # fmt: skip
"""Nodes, constants, and the least SQNR with 8 bits. The range of the bias sets it."""

RUNTIME: dict[str, tuple[Draw, float]] = {
    "far": (lambda random: random.uniform(-200, 0, SHAPE), 24.0),
    "all about -50": (lambda random: random.uniform(-60, -40, SHAPE), 26.0),
    "rows apart": (lambda random: random.uniform(-4, 0, SHAPE) - 50 * PLACE[:, None], 9.0),
    "likelihoods": (lambda random: random.normal(0, 3, SHAPE) + random.uniform(-300, -50, (2, 8, 1)), 11.0),
    "shared by the keys": (lambda random: np.broadcast_to(random.uniform(-200, -100, (2, 8, 1)), SHAPE), 16.0),
}


def made(ports: str, body: str, constants: Mapping[str, np.ndarray], result: str = "float[2,8,8]") -> onnx.ModelProto:
    """A model of the nodes in `body`, with float constants and two axes."""
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["":17]> g ({ports}) => ({result} y) {{ {body} }}')
    arrays = {name: np.asarray(array, np.float32) for name, array in constants.items()}
    axes = {"one": np.array([1]), "two": np.array([2])}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in {**arrays, **axes}.items())
    return model


def _single(array: np.ndarray) -> np.ndarray:
    return array if array.dtype == bool else array.astype(np.float32)


def sqnr(model: onnx.ModelProto, draws: Mapping[str, Draw], target: str) -> float:
    """The SQNR on samples that calibration has not seen."""
    random = np.random.default_rng(7)
    data = [{name: _single(draw(random)) for name, draw in draws.items()} for _ in range(16)]
    quantized = zp.quantize(model, data[:10], target=target, effort="none")
    native = quantized.native()
    for sample in data:
        np.testing.assert_array_equal(native(**sample)["y"], quantized(**sample)["y"])
    (output,) = zp.compare(model, quantized, data[10:]).outputs
    return output.sqnr


def scores(random: np.random.Generator) -> np.ndarray:
    """Scores as of queries and keys."""
    return random.normal(0, 2, SHAPE)


@pytest.mark.parametrize("target", ["cpu-integer", "litert", "onnxruntime"])
@pytest.mark.parametrize("name", CONSTANTS)
def test_a_constant_bias_keeps_its_range(name: str, target: str) -> None:
    """0.2 to 4 dB were left: numbers below the range of the scores were clamped, in rows that have no others."""
    body, constants, least = CONSTANTS[name]
    read = " y = ReduceMax<axes=[2]>(z)" if name == "before a maximum" else " y = Softmax<axis=-1>(z)"
    result = "float[2,8,1]" if name == "before a maximum" else "float[2,8,8]"
    assert sqnr(made("float[2,8,8] s", body + read, constants, result), {"s": scores}, target) > least


@pytest.mark.parametrize("target", ["cpu-integer", "litert", "onnxruntime"])
@pytest.mark.parametrize("name", RUNTIME)
def test_a_bias_that_is_an_input_keeps_its_range(name: str, target: str) -> None:
    """0.7 to 3 dB were left."""
    draw, least = RUNTIME[name]
    model = made("float[2,8,8] s, float[2,8,8] b", "z = Add(s, b) y = Softmax<axis=-1>(z)", {})
    assert sqnr(model, {"s": scores, "b": draw}, target) > least


@pytest.mark.parametrize("target", ["cpu", "cpu-integer", "litert", "onnxruntime"])
@pytest.mark.parametrize("shift", [0.0, 6.0])
def test_distances_beside_a_constant_prior_keep_their_range(shift: float, target: str) -> None:
    """0 to 1 dB were left."""
    centres, prior = TABLES.normal(shift, 4, (8, 4)), np.log(TABLES.dirichlet(np.ones(8)))
    body = AWAY + "z = Add(q, prior) y = Softmax<axis=-1>(z)"
    model = made("float[8,4] x", body, {"centres": centres, "prior": prior}, "float[8,8]")
    assert sqnr(model, {"x": lambda random: random.normal(0, 2, (8, 4))}, target) > 12


INSERTED = {
    "selected rows": ("z = Where(r, s, table)", (2, 8, 8), "float[2,8,8]", 24.0),
    "selected rows and a sum": ("t = Where(r, s, table) z = Add(t, keys)", (2, 8, 8), "float[2,8,8]", 20.0),
    "concatenated rows": ("z = Concat<axis=1>(s, table)", (2, 4, 8), "float[2,12,8]", 20.0),
}


@pytest.mark.parametrize("target", ["cpu-integer", "litert", "onnxruntime"])
@pytest.mark.parametrize("name", INSERTED)
def test_rows_of_a_table_beside_scores_keep_their_differences(name: str, target: str) -> None:
    """2 to 4 dB were left."""
    body, shape, result, least = INSERTED[name]
    tables = np.random.default_rng(4)
    constants = {"table": tables.uniform(-80, -20, shape), "keys": tables.normal(0, 2, 8)}
    draws: dict[str, Draw] = {"s": scores, "r": lambda random: random.random((2, 8, 1)) < 0.5}
    ports = "float[2,8,8] s, bool[2,8,1] r"
    if "Where" not in body:
        ports, draws = "float[2,8,8] s", {"s": scores}
    assert sqnr(made(ports, body + " y = Softmax<axis=-1>(z)", constants, result), draws, target) > least


@pytest.mark.parametrize(
    ("numbers", "least"),
    [
        ([0, -100], 0),
        ([0, -1e9], 0),
        ([-3, 2, -1e9, -2e9], -3),
        ([-7, 0, -1e9], -7),
        ([0, -10, -100], -10),
        ([0, -40, -90], None),
        ([-1e4], None),
        ([-100, -200], None),
        ([-900, -1100], None),
        ([0, -10], None),
    ],
)
def test_numbers_of_a_mask_are_far_from_the_others(numbers: list[float], least: float | None) -> None:
    assert least_visible(np.array(numbers, np.float32), -17.0) == least
