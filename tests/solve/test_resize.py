"""Resizing is integer: nearest neighbours are moved, interpolations are products with exact weights where possible."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.frontend.onnx import load_onnx_model
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.regions import regions_of
from zeropoint.ir.tensors import Array
from zeropoint.pipeline import Options, Quantization, quantize
from zeropoint.report.counts import count_ops
from zeropoint.solve.weights import exact_scales

SHAPE = (1, 2, 1, 12)
SAMPLES = [{"x": np.random.default_rng(seed).normal(size=SHAPE).astype(np.float32)} for seed in range(4)]


def resize(mode: str, width: int, **attributes: str) -> Program:
    nodes = [helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode=mode, name="resize", **attributes)]
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)]
    results = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    sizes = numpy_helper.from_array(np.array([*SHAPE[:3], width]), "sizes")
    graph = helper.make_graph(nodes, "g", ports, results, [sizes])
    return load_onnx_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), {})


def quantized(program: Program) -> Quantization:
    result = quantize(program, SAMPLES, Options(target="cpu"))
    assert count_ops(result.integer).floats == 0
    return result


def outputs(result: Quantization) -> Array:
    (found,) = Interpreter(result.integer)(SAMPLES[0]).values()
    np.testing.assert_array_equal(NativeProgram(result.integer)(SAMPLES[0])["y"], found)
    return found


def centred(kind: UniformQuantizedType) -> Array:
    """The first sample as stored integers less their zero point."""
    q = np.clip(np.rint(SAMPLES[0]["x"] / kind.scale) + kind.zero_point, -128, 127)
    return (q - kind.zero_point).astype(np.float32)


@pytest.mark.parametrize("width", [24, 17, 7])
def test_nearest_neighbours_are_moved(width: int) -> None:
    program = resize("nearest", width, nearest_mode="floor", coordinate_transformation_mode="half_pixel")
    result = quantized(program)
    kind = regions_of(result.propagated)[0].input_specs.data[0]
    assert isinstance(kind, UniformQuantizedType)
    expected = Interpreter(program)({"x": centred(kind) * np.float32(kind.scale)})["y"]
    np.testing.assert_allclose(outputs(result), expected, rtol=1e-6)


@pytest.mark.parametrize(("width", "exact"), [(24, True), (48, True), (6, True), (17, False)])
def test_linear_interpolation_is_within_its_bound(width: int, exact: bool) -> None:
    """Half a step, and for weights that have no common step, what rounding two of them to 1/254 may add."""
    program = resize("linear", width, coordinate_transformation_mode="half_pixel")
    result = quantized(program)
    (region,) = [each for each in regions_of(result.propagated) if each.logical_kernel.data == "fully_connected"]
    given, weights = region.input_specs.data[:2]
    (made,) = region.output_specs
    assert isinstance(given, UniformQuantizedType)
    assert isinstance(weights, UniformQuantizedType)
    assert isinstance(made, UniformQuantizedType)
    stored = Interpreter(program)({"x": centred(given)})["y"]
    ideal = np.clip(stored * given.scale, *((end - made.zero_point) * made.scale for end in (-128, 127)))
    steps = np.abs(outputs(result) - ideal) / made.scale
    added = 0 if exact else 2 * 255 / 254 * given.scale / made.scale
    assert steps.max() <= 0.5 + added + 1e-3


def test_weights_that_are_multiples_of_a_step_are_exact() -> None:
    channels = np.array([[0.75, 0.25, 0, 0], [1, 0, 0, 0], [0.3, 0.5, 0.11, 0.09], [5 / 6, 1 / 6, 0, 0], [0, 0, 0, 0]])
    channels = channels.astype(np.float32).astype(np.float64)
    usual = np.array([0.75, 1, 0.5, 5 / 6, 1]) / 127
    found = exact_scales(channels, usual, 127)
    np.testing.assert_allclose(found, [0.25, 1 / 127, 0.01, 1 / 6, 1 / 127], rtol=1e-6)
    assert Fraction(found[0]) == Fraction(1, 4)


def test_channels_of_many_weights_and_those_that_do_not_interpolate_keep_their_scale() -> None:
    usual = np.array([1 / 127])
    for channel in ([1 / 16] * 16, [0.75, 0.5]):
        np.testing.assert_array_equal(exact_scales(np.array([channel]), usual, 127), usual)
