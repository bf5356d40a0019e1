"""Values that a file rounds to several types, one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import zeropoint as zp
from export.quantized_graphs import Graph
from zeropoint.ir.tensors import Array

SHAPE = (1, 3, 4, 4)
KINDS = [(0.06537, 98), (0.05071, 128), (0.05519, 120), (0.04093, 131)]
"""No ratio of two scales puts a value in the middle of two steps, where runtimes differ."""


def unoptimized(model: onnx.ModelProto, sample: Mapping[str, Array]) -> list[Array]:
    """onnxruntime's results. Its optimizer would merge pairs of casts in a row."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    found = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, sample)
    return [np.asarray(each) for each in found]


@pytest.mark.parametrize("count", range(1, 5))
@pytest.mark.parametrize("target", ["onnxruntime", "litert", "openvino"])
def test_every_rounding_stays(target: str, count: int) -> None:
    """Three types in a row were refused: that of the first rescale was not known when the next pair was read."""
    graph = Graph()
    value = graph.node("Transpose", graph.input(SHAPE, KINDS[-1]), perm=[0, 2, 3, 1])
    for kind in KINDS[:count]:
        value = graph.cast(value, kind)
    model, sample = graph.model_of([value]), graph.sample()
    (expected,) = unoptimized(model, sample)
    (found,) = zp.quantize(model, target=target)(**sample).values()
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("kinds", [KINDS[:2], KINDS[:3]], ids=len)
@pytest.mark.parametrize("beside", ["nothing", "an output", "a transpose", "two outputs"])
@pytest.mark.parametrize("target", ["onnxruntime", "litert", "openvino"])
def test_the_last_cast_makes_an_output(target: str, beside: str, kinds: list[tuple[float, int]]) -> None:
    """It was refused: the type of the rescale before it was taken for that of the output."""
    graph = Graph()
    value = graph.input(SHAPE, KINDS[-1])
    for kind in kinds:
        value = graph.cast(value, kind)
    outputs = [graph.stored_output(value, (0.0587, 101))]
    if beside == "a transpose":
        moved = graph.node("Transpose", value, perm=[0, 3, 1, 2])
        outputs.append(graph.cast(moved, (0.0447, 111)))
    elif beside != "nothing":
        outputs.append(graph.stored_output(value, (0.0447, 111)))
        outputs += [value] if beside == "two outputs" else []
    model, sample = graph.model_of(outputs), graph.sample()
    expected = unoptimized(model, sample)
    found = zp.quantize(model, target=target)(**sample)
    for name, result in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(found[name], result, rtol=1e-6)


def test_a_concatenation_of_a_concatenation_is_read_again(tmp_path: Path) -> None:
    """LiteRT rescales the inner one twice: from the type of its operands to the file's, then to the outer one's."""
    graph = Graph()
    value = graph.input(SHAPE, (0.05, 120))
    weights = [graph.stored((3, 3, 1, 1), (0.01, 0), np.int8) for _ in range(2)]
    parts = [
        graph.cast(graph.node("Conv", value, each), (scale, 0))
        for each, scale in zip(weights, (0.03, 0.04), strict=True)
    ]
    inner = graph.cast(graph.node("Concat", *parts, axis=1), (0.05, 128))
    outer = graph.cast(graph.node("Concat", inner, value, axis=1), (0.055, 120))
    beside = graph.cast(graph.node("Concat", parts[0], value, axis=1), (0.07, 128))
    model, sample = graph.model_of([outer, beside]), graph.sample()
    made = zp.quantize(model, target="litert")
    made.export(tmp_path / "m.tflite")
    again = zp.quantize(tmp_path / "m.tflite", target="litert")
    for found, expected in zip(again(**sample).values(), made(**sample).values(), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("first", [True, False], ids=["integers first", "integers last"])
@pytest.mark.parametrize("target", ["onnxruntime", "litert", "openvino"])
def test_casts_in_a_row_beside_integers_that_are_returned(target: str, first: bool) -> None:
    """They were refused: the type of the value before both casts was taken for that of the first one's integers."""
    graph = Graph()
    value = graph.input(SHAPE, KINDS[-1])
    outputs = [graph.stored_output(value, KINDS[2])] if first else []
    chain = graph.cast(graph.cast(value, KINDS[0]), KINDS[1])
    outputs += [graph.node("MaxPool", chain, kernel_shape=[2, 2]), chain]
    outputs += [] if first else [graph.stored_output(value, KINDS[2])]
    model, sample = graph.model_of(outputs), graph.sample()
    expected, found = unoptimized(model, sample), zp.quantize(model, target=target)(**sample)
    for name, result in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(found[name], result, rtol=1e-6)


BY_CHANNEL = ((0.0307, 0.0511, 0.0449), (150, 255, 103))
"""A scale and a zero point for each channel."""


@pytest.mark.parametrize("then", ["", "Relu", "MaxPool", "Sigmoid", "cast", "others"])
@pytest.mark.parametrize("target", ["onnxruntime", "openvino", "litert", "cpu", "tosa"])
def test_a_scale_per_channel_after_one_scale(target: str, then: str) -> None:
    """A table, a rescale, or the choice between two rescales took the scales of all channels for one: an error."""
    graph = Graph()
    value = graph.input(SHAPE, KINDS[0])
    outputs = [last := graph.cast(value, BY_CHANNEL)]
    if then == "cast":
        outputs.append(last := graph.cast(last, KINDS[1]))
    elif then == "others":
        outputs += [graph.cast(graph.node("Add", value, value), KINDS[3]), graph.cast(value, KINDS[2])]
        outputs.append(graph.cast(graph.node("Transpose", outputs[-1], perm=[0, 1, 3, 2]), KINDS[2]))
    elif then:
        made = graph.node(then, last, **({"kernel_shape": [2, 2]} if then == "MaxPool" else {}))
        outputs.append(graph.cast(made, (0.0041, 3) if then == "Sigmoid" else KINDS[3]))
    model, sample = graph.model_of(outputs), graph.sample()
    quantized = zp.quantize(model, target=target)
    found, native = quantized(**sample), quantized.native()(**sample)
    for name, result in zip(outputs, unoptimized(model, sample), strict=True):
        np.testing.assert_array_equal(native[name], found[name])
        if target in ("onnxruntime", "openvino"):
            np.testing.assert_allclose(found[name], result, rtol=1e-6)
        else:  # they round otherwise, and may make one rounding of two
            np.testing.assert_allclose(found[name], result, atol=0.066)
