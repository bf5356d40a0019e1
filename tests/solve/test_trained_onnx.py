"""A quantized ONNX file keeps the parameters it was trained or calibrated with, all the way to integers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from zeropoint.frontend import load_model
from zeropoint.interp import Interpreter
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.pipeline import Options, quantize
from zeropoint.report.counts import float_ops

RANDOM = np.random.default_rng(0)
CONSTANTS = {
    "sx": np.float32(0.02),
    "zx": np.uint8(120),
    "wq": RANDOM.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8),
    "sw": np.float32([0.01, 0.02, 0.005, 0.03]),
    "zw": np.zeros(4, np.int8),
    "sy": np.float32(0.05),
    "zy": np.uint8(0),
}


def quantized_model(path: Path) -> Path:
    """x, quantized to u8; a convolution by int8 weights, relu; quantized to u8."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "sx", "zx"], ["xq"], name="x_q"),
        helper.make_node("DequantizeLinear", ["xq", "sx", "zx"], ["xd"], name="x_d"),
        helper.make_node("DequantizeLinear", ["wq", "sw", "zw"], ["w"], name="w_d", axis=0),
        helper.make_node("Conv", ["xd", "w"], ["c"], name="conv"),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("QuantizeLinear", ["r", "sy", "zy"], ["rq"], name="r_q"),
        helper.make_node("DequantizeLinear", ["rq", "sy", "zy"], ["y"], name="r_d"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 6, 6))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 4, 4, 4))],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in CONSTANTS.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_the_parameters_of_a_quantized_file_are_those_of_its_integers(tmp_path: Path) -> None:
    program = load_model(quantized_model(tmp_path / "quantized.onnx"))
    samples = [{"x": RANDOM.uniform(-2, 2, (1, 3, 6, 6)).astype(np.float32)} for _ in range(3)]
    result = quantize(program, samples, Options(profile="exact"))
    (region,) = [op for op in result.propagated.entry.ops if isinstance(op, QuantizeRegionOp)]
    given, weight, *_ = region.input_specs
    made = region.output_specs.data[0]
    # i8 for u8: the zero point is 128 less, the real values are the same.
    assert (np.float32(given.scale), given.zero_point) == (CONSTANTS["sx"], 120 - 128)
    np.testing.assert_array_equal(weight.scales.astype(np.float32), CONSTANTS["sw"])
    assert (np.float32(made.scale), made.zero_point) == (CONSTANTS["sy"], -128)
    assert not float_ops(result.integer)
    reference, integers = Interpreter(program), Interpreter(result.integer)
    for sample in samples:
        steps = (integers(sample)["y"] - reference(sample)["y"]) / CONSTANTS["sy"]
        # The file's float sum is rounded in f32, the integer one is exact: a step apart at most, and rarely.
        assert np.abs(steps).max() < 1.5
        assert (np.abs(steps) > 0.5).mean() < 0.02
