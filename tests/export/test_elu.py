"""ELU of 8 bits is one operator of LiteRT, and every entry of its table is predicted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import zeropoint as zp
from export.quantized_graphs import Graph
from oracle.litert import Port, evaluate, evaluate_by_default, model, operators
from zeropoint.export import export_program
from zeropoint.export.litert.runtime import LiteRTFile
from zeropoint.frontend import load_model
from zeropoint.frontend.onnx import load_onnx_model
from zeropoint.interp import Interpreter
from zeropoint.ir.regions import regions_of
from zeropoint.pipeline import Options, Quantization, quantize
from zeropoint.report.counts import count_ops

EVERY = np.arange(-128, 128).reshape(1, 256)


def _foreign(given: float, zero: int, made: float, point: int) -> bytes:
    """An ELU of another tool, of every integer."""
    ports = Port(EVERY.shape, "int8", (given,), (zero,)), Port(EVERY.shape, "int8", (made,), (point,))
    return model("ELU", None, [ports[0]], [ports[1]], 1)


def _imported(content: bytes, folder: Path, profile: str | None = None) -> Quantization:
    (folder / "foreign.tflite").write_bytes(content)
    program = load_model(folder / "foreign.tflite")
    return quantize(program, None, Options(target="litert", profile=profile))


def _parameters(random: np.random.Generator) -> tuple[float, int, float, int]:
    """Scales at random or powers of two, whose results are often in the middle of two integers."""
    if random.random() < 0.5:
        scales = 2.0 ** random.integers(-9, 2, 2)
    else:
        scales = 2.0 ** random.uniform(-9, 2, 2).astype(np.float32)
    given, made = map(float, scales.astype(np.float32))
    zero, point = map(int, random.integers(-128, 128, 2))
    return given, zero, made, point


@pytest.mark.parametrize("profile", [None, "xnnpack"])
def test_every_entry_of_the_table_is_predicted(profile: str | None, tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    for _ in range(40):
        given, zero, made, point = _parameters(random)
        content = _foreign(given, zero, made, point)
        result = _imported(content, tmp_path, profile)
        reals = (EVERY - zero).astype(np.float32) * np.float32(given)
        (found,) = Interpreter(result.quantized)({result.quantized.inputs[0].name: reals}).values()
        (expected,) = (
            evaluate_by_default(content, EVERY.astype(np.int8))
            if profile
            else evaluate(content, EVERY.astype(np.int8), reference=False)
        )
        np.testing.assert_array_equal(found, (expected.astype(np.float32) - point) * np.float32(made))


def test_a_foreign_elu_is_one_operator_again(tmp_path: Path) -> None:
    content = _foreign(0.05, 12, 0.04, -100)
    result = _imported(content, tmp_path)
    assert [region.logical_kernel.data for region in regions_of(result.propagated)] == ["elu"]
    assert not count_ops(result.integer).floats
    export_program(result.propagated, tmp_path / "again.tflite")
    again = (tmp_path / "again.tflite").read_bytes()
    assert [name for name in operators(again) if name not in ("QUANTIZE", "DEQUANTIZE")] == ["ELU"]


def _of_floats() -> onnx.ModelProto:
    made = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 13]> g (float[1, 256] x) => (float[1, 256] y) { y = Elu (x) }'
    )
    made.graph.node[0].name = "elu"
    return made


SAMPLE = {"x": np.linspace(-5, 5, 256, dtype=np.float32).reshape(1, 256)}


def test_an_elu_of_a_float_model_is_one_operator(tmp_path: Path) -> None:
    result = quantize(load_onnx_model(_of_floats(), {}), [SAMPLE], Options(target="litert"))
    export_program(result.propagated, tmp_path / "elu.tflite")
    found = operators((tmp_path / "elu.tflite").read_bytes())
    assert [name for name in found if name not in ("QUANTIZE", "DEQUANTIZE")] == ["ELU"]


def test_an_elu_that_stays_float_is_one_operator(tmp_path: Path) -> None:
    rules = [{"name": "elu", "quantize": False}]
    result = zp.quantize(_of_floats(), [SAMPLE], target="litert", effort="none", recipe=rules).quantization
    assert result is not None
    export_program(result.propagated, tmp_path / "elu.tflite")
    assert operators((tmp_path / "elu.tflite").read_bytes()) == ["ELU"]
    expected = Interpreter(result.quantized)(SAMPLE)
    for name, found in LiteRTFile(tmp_path / "elu.tflite")(SAMPLE).items():
        np.testing.assert_allclose(found, expected[name], rtol=1e-5, atol=1e-6)


def test_a_float_elu_is_one_operator_of_onnx(tmp_path: Path) -> None:
    """The file had Exp and minus 1: 2 % of the floats differed in their last bit from the model's in onnxruntime, and
    8 % after an import."""
    graph, path = Graph(), tmp_path / "m.onnx"
    value = graph.node("Conv", graph.input((1, 3, 8, 8), (0.05, 120)), graph.stored((3, 3, 1, 1), (0.01, 0), np.int8))
    content = graph.model_of([graph.node("Elu", value)]).SerializeToString()
    program = zp.quantize(onnx.load_from_string(content), target="onnxruntime")
    program.export(path)
    assert onnx.load(path).graph.node[-1].op_type == "Elu"
    again = zp.quantize(path, target="onnxruntime")
    theirs, ours = (onnxruntime.InferenceSession(file) for file in (content, path))
    for _ in range(3):
        sample = graph.sample()
        np.testing.assert_array_equal(ours.run(None, sample)[0], theirs.run(None, sample)[0])
        (expected,), (found,) = program(**sample).values(), again(**sample).values()
        np.testing.assert_array_equal(found, expected)
