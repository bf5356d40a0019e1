"""Files that sort stored integers, imported without data, are the program that was exported, in as many operators."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import zeropoint as zp
from export.text_networks import text_network
from zeropoint.frontend.litert.reader import read_model

WEIGHTS = {"w": (6, 6, 1, 1)}
TOP = "k = Constant<value_ints=[3]>()  c = Conv(x, w)  v, i = TopK<axis=1>(c, k)"
NETWORKS = {
    "values and positions": ("(float[1,6,4,4] x) => (float[1,3,4,4] v, int64[1,3,4,4] i)", WEIGHTS, TOP),
    "positions": ("(float[1,6,4,4] x) => (int64[1,3,4,4] i)", WEIGHTS, TOP),
    "sorted and read otherwise": (
        "(float[1,6,4,4] x) => (float[1,3,4,4] v, int64[1,3,4,4] i, int64[1,1,4,4] y)",
        WEIGHTS,
        f"{TOP}  y = ArgMax<axis=1>(c)",
    ),
    "values that a convolution reads": (
        "(float[1,6,4,4] x) => (float[1,6,4,4] y)",
        {**WEIGHTS, "u": (6, 3, 1, 1)},
        f"{TOP}  y = Conv(v, u)",
    ),
}
FILES = [
    ("litert", None, "tflite"), ("litert", "xnnpack", "tflite"), ("onnxruntime", None, "onnx"),
    ("openvino", None, "onnx"),
]  # fmt: skip


def operators(path: Path) -> list[str]:
    if path.suffix == ".onnx":
        return sorted(node.op_type for node in onnx.load(path).graph.node)
    return sorted(operator.name for operator in read_model(path.read_bytes()).operators)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(("target", "profile", "suffix"), FILES)
def test_sorted_integers_are_the_same_program_after_an_import(
    name: str, target: str, profile: str | None, suffix: str, tmp_path: Path
) -> None:
    model, samples = text_network(*NETWORKS[name])
    paths = [tmp_path / f"{which}.{suffix}" for which in ("first", "second")]
    first = zp.quantize(model, samples, target=target, profile=profile, effort="none")
    first.export(paths[0])
    second = zp.quantize(paths[0], target=target, profile=profile)
    second.export(paths[1])
    for sample in samples:
        expected, found = (made.interpreted()(**sample) for made in (first, second))
        for output, array in expected.items():
            np.testing.assert_array_equal(found[output], array)
    assert operators(paths[0]) == operators(paths[1])
    if suffix == "tflite":
        first_parts, second_parts = (
            {tensor.name for tensor in read_model(path.read_bytes()).tensors if "/" in tensor.name} for path in paths
        )
        assert first_parts == second_parts
