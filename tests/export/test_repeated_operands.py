"""Operands that a sum or product repeats: LiteRT's operators do so themselves."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper, parser

from zeropoint.export import ExportOptions, export_program
from zeropoint.export.litert.runtime import LiteRTFile
from zeropoint.frontend.litert.reader import read_model
from zeropoint.frontend.onnx import load_onnx_model
from zeropoint.frontend.sources import load_source
from zeropoint.interp import Interpreter
from zeropoint.pipeline import Options, quantize


@pytest.mark.parametrize("op", ["Mul", "Add", "Sub"])
@pytest.mark.parametrize(("target", "profile"), [("litert", None), ("litert", "xnnpack"), ("litert-16x8", None)])
def test_a_product_with_the_mean_of_each_channel_needs_no_broadcast(
    target: str, profile: str | None, op: str, tmp_path: Path
) -> None:
    """The file had a RESHAPE and a BROADCAST_TO before it."""
    proto = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[2,4,6,6] x) => (float[2,4,6,6] y) {
        p = MaxPool<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(x)
        m = GlobalAveragePool(p)  s = Sigmoid(m)  y = OP(p, s) }""".replace("OP", op)
    )
    samples = [{"x": np.random.default_rng(i).normal(0, 1, (2, 4, 6, 6)).astype(np.float32)} for i in range(2)]
    result = quantize(load_onnx_model(proto, {}), samples, Options(target=target, profile=profile, effort="none"))
    export_program(result.propagated, tmp_path / "m.tflite", ExportOptions())
    found = Counter(operator.name for operator in read_model((tmp_path / "m.tflite").read_bytes()).operators)
    assert not found.keys() & {"BROADCAST_TO", "TRANSPOSE"}
    file = LiteRTFile(tmp_path / "m.tflite", reference=profile is None)
    for sample in samples:
        np.testing.assert_array_equal(Interpreter(result.quantized)(sample)["y"], file(sample)["y"])


def test_two_operands_that_both_repeat_keep_the_shape_of_their_product(tmp_path: Path) -> None:
    proto = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]> g (float[1,4,5,6] x) => (float[1,4,5,6] y)
        <int64[1] rows = {2}, int64[1] columns = {3}, int64[4] whole = {1, 4, 5, 6}> {
        a = ReduceMax<axes = [2]>(x)  b = ReduceMax<axes = [3]>(x)  c = Expand(a, whole)  d = Expand(b, whole)
        y = Mul(c, d) }""")
    samples = [{"x": np.random.default_rng(i).normal(0, 1, (1, 4, 5, 6)).astype(np.float32)} for i in range(2)]
    result = quantize(load_onnx_model(proto, {}), samples, Options(target="litert", effort="none"))
    export_program(result.propagated, tmp_path / "m.tflite", ExportOptions())
    file = LiteRTFile(tmp_path / "m.tflite", reference=True)
    for sample in samples:
        np.testing.assert_array_equal(Interpreter(result.quantized)(sample)["y"], file(sample)["y"])


@pytest.mark.parametrize("op", ["Min", "Max"])
@pytest.mark.parametrize(("shape", "constant"), [("5", "5"), ("1,5", "1,5"), ("1", "1"), ("3,5", "5"), ("3,5", "")])
def test_a_constant_of_equal_numbers_may_have_the_shape_of_the_other_operand(
    shape: str, constant: str, op: str, tmp_path: Path
) -> None:
    """It was refused: "found an operand that the body computes"."""
    sizes = [tuple(map(int, filter(None, text.split(",")))) for text in (shape, constant)]
    count = int(np.prod(sizes[1]))
    proto = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]> g (float[{shape}] x) => (float[{shape}] y)
        <float{constant and f"[{constant}]"} c = {{{", ".join(["0.5"] * count)}}}> {{ r = Relu(x)  y = {op}(r, c) }}"""
    )
    samples = [{"x": np.random.default_rng(i).normal(0, 1, sizes[0]).astype(np.float32)} for i in range(3)]
    result = quantize(load_onnx_model(proto, {}), samples, Options(target="litert", effort="none"))
    export_program(result.propagated, tmp_path / "m.tflite", ExportOptions())
    file = LiteRTFile(tmp_path / "m.tflite", reference=True)
    for sample in samples:
        np.testing.assert_array_equal(Interpreter(result.quantized)(sample)["y"], file(sample)["y"])


@pytest.mark.parametrize("op", ["Add", "Mul", "Max"])
@pytest.mark.parametrize("constant", [(), (1,), (8,), (4, 1), (3, 4, 8), (1, 4, 8)])
def test_an_expanded_operand_beside_a_constant_of_any_shape(constant: tuple[int, ...], op: str, tmp_path: Path) -> None:
    """A file with a constant of fewer dimensions had a BROADCAST_TO, which a second export left out."""
    proto = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[3,8] x) => (float[3,4,8] y)
        <int64[3] whole = {3, 4, 8}, int64[1] middle = {1}> {
        s = Sigmoid(x)  u = Unsqueeze(s, middle)  e = Expand(u, whole)  y = OP(e, k) }""".replace("OP", op)
    )
    values = np.random.default_rng(9).normal(0.5, 0.1, constant).astype(np.float32)
    proto.graph.initializer.append(numpy_helper.from_array(np.asarray(values), "k"))
    samples = [{"x": np.random.default_rng(i).normal(0, 1, (3, 8)).astype(np.float32)} for i in range(2)]
    paths = [tmp_path / f"{which}.tflite" for which in ("first", "second")]
    first = quantize(load_onnx_model(proto, {}), samples, Options(target="litert", effort="none"))
    export_program(first.propagated, paths[0], ExportOptions())
    second = quantize(load_source(paths[0]), [], Options(target="litert"))
    export_program(second.propagated, paths[1], ExportOptions())
    assert paths[0].read_bytes() == paths[1].read_bytes()
    file = LiteRTFile(paths[0], reference=True)
    for sample in samples:
        for made in (first, second):
            np.testing.assert_array_equal(Interpreter(made.quantized)(sample)["y"], file(sample)["y"])
