"""The column `differ` of the tables of accuracy: values whose bits native code and the interpreter do not share."""

from __future__ import annotations

import numpy as np

import zeropoint as zp
from same_bits import differing


class _Fixed(zp.Model):
    """A model whose interpreter and native code give stated outputs."""

    def __init__(self, interpreted: dict[str, np.ndarray], native: dict[str, np.ndarray]):
        self._interpreted, self._native = interpreted, native

    def interpreted(self) -> zp.Model:
        return _Called(self._interpreted)

    def native(self, *, threads: int = 1, callers: int = 1) -> zp.Model:
        return _Called(self._native)


class _Called(zp.Model):
    def __init__(self, outputs: dict[str, np.ndarray]):
        self._outputs = outputs

    def __call__(self, /, *arrays: object, **inputs: object) -> dict[str, np.ndarray]:
        return self._outputs


def test_values_are_compared_by_their_bits() -> None:
    first = {"y": np.float32([[1.0, 0.0, np.nan, 2.0]]), "z": np.int8([3])}
    other = {"y": np.float32([[1.0, -0.0, np.nan, np.nextafter(np.float32(2), np.float32(3))]]), "z": np.int8([3])}
    assert differing(_Fixed(first, first), [{}, {}]) == "0 of 10"
    assert differing(_Fixed(first, other), [{}]) == "2 of 5"


def test_other_types_differ_in_every_value() -> None:
    assert differing(_Fixed({"y": np.int8([1, 2])}, {"y": np.int16([1, 2])}), [{}]) == "2 of 2"


def test_a_quantized_network_has_the_same_bits_in_both() -> None:
    random = np.random.default_rng(0)
    weight = random.standard_normal((4, 3)).astype(np.float32)
    text = "\n".join(
        (
            "func.func @main(%x: tensor<2x3xf32>) -> tensor<2x4xf32> {",
            f"  %w = stablehlo.constant dense<{weight.T.tolist()}> : tensor<3x4xf32>",
            "  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]"
            " : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>",
            "  func.return %y : tensor<2x4xf32>",
            "}",
        )
    )
    feeds = [{"x": random.standard_normal((2, 3)).astype(np.float32)} for _ in range(3)]
    assert differing(zp.quantize(text, feeds, effort="none"), feeds) == "0 of 24"
