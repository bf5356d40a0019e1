"""Comparisons of quantized values are integer; those of floats stay float."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from onnx import helper, numpy_helper
from xdsl.ir import SSAValue

import zeropoint as zp
from networks import Network
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.annotations import FLOAT_REASON
from zeropoint.ir.program import Program
from zeropoint.ir.quant import UniformQuantizedType, stored_array
from zeropoint.ir.regions import regions_of
from zeropoint.ir.stablehlo import CompareOp, ComparisonDirection, DotDimensions, DotGeneralOp
from zeropoint.ir.tensors import Array, with_shape
from zeropoint.pipeline import Options, quantize
from zeropoint.report.counts import count_ops

RANDOM = np.random.default_rng(8)
SAMPLES = [{"x0": RANDOM.uniform(-1.5, 1.5, (40, 6)).astype(np.float32)} for _ in range(3)]
FIRST, SECOND = (RANDOM.normal(size=(6, 5)).astype(np.float32) for _ in range(2))


def product(net: Network, weight: Array) -> SSAValue:
    dims = DotDimensions((), (), (1,), (0,))
    return net.insert(DotGeneralOp(net.values[0], net.constant(weight), with_shape(net.values[0], [40, 5]), dims))


def network(direction: ComparisonDirection, other: float | None) -> Program:
    net = Network([(40, 6)])
    first = product(net, FIRST)
    second = product(net, SECOND / 3) if other is None else net.splat(other, first)
    return net.finish([first, second, net.insert(CompareOp(first, second, direction))][:: 1 if other is None else 2])


@pytest.mark.parametrize("direction", list(ComparisonDirection))
def test_two_products_are_compared_as_exact_real_numbers(direction: ComparisonDirection) -> None:
    result = quantize(network(direction, None), SAMPLES, Options(target="cpu"))
    assert count_ops(result.integer).floats == 0
    first, second, found = Interpreter(result.integer)(SAMPLES[0]).values()
    kinds = [spec for region in regions_of(result.propagated) for spec in region.output_specs]
    types = [kind for kind in kinds if isinstance(kind, UniformQuantizedType)]
    a, b = (exact(real, kind) for real, kind in zip((first, second), types, strict=True))
    relation = {"EQ": "__eq__", "NE": "__ne__", "LT": "__lt__", "LE": "__le__", "GT": "__gt__", "GE": "__ge__"}
    expected = [getattr(x, relation[direction.value])(y) for x, y in zip(a, b, strict=True)]
    np.testing.assert_array_equal(found.reshape(-1), expected)
    np.testing.assert_array_equal(NativeProgram(result.integer)(SAMPLES[0])["y2"], found)


def exact(real: Array, kind: UniformQuantizedType) -> list[Fraction]:
    stored = stored_array(real, kind).astype(np.int64).reshape(-1) - kind.zero_point
    return [int(q) * Fraction(float(np.float32(kind.scale))) for q in stored]


@pytest.mark.parametrize("number", [0.0, 0.75, -2.0])
def test_a_product_is_compared_with_a_number(number: float) -> None:
    result = quantize(network(ComparisonDirection.GT, number), SAMPLES, Options(target="cpu"))
    assert count_ops(result.integer).floats == 0
    first, found = Interpreter(result.integer)(SAMPLES[0]).values()
    np.testing.assert_array_equal(found, first > np.float32(number))
    np.testing.assert_array_equal(NativeProgram(result.integer)(SAMPLES[0])["y1"], found)


def test_a_comparison_of_an_input_stays_float() -> None:
    net = Network([(40, 6)])
    program = net.finish([net.insert(CompareOp(net.values[0], net.splat(0.5, net.values[0]), ComparisonDirection.LT))])
    result = quantize(program, SAMPLES, Options(target="cpu"))
    (region,) = regions_of(result.propagated)
    assert region.attributes[FLOAT_REASON].data == "a comparison of floats"
    x = SAMPLES[0]
    np.testing.assert_array_equal(Interpreter(result.integer)(x)["y0"], Interpreter(program)(x)["y0"])


def test_targets_that_do_not_compare_two_scales_keep_comparisons_float() -> None:
    result = quantize(network(ComparisonDirection.GT, None), SAMPLES, Options(target="litert"))
    assert all(region.logical_kernel.data != "compare" for region in regions_of(result.propagated))


def test_a_threshold_that_is_moved_from_a_float_op_is_compared_with_the_same_numbers() -> None:
    """The router of a mixture of experts: the least of the two greatest scores hid them both, and softmax gave NaN."""
    weight = numpy_helper.from_array(RANDOM.normal(size=(16, 8)).astype(np.float32), "w")
    numbers = [(np.array([2]), "two"), (np.array([-1]), "last"), (np.array(-np.inf, np.float32), "hidden")]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["v"]),
        helper.make_node("TopK", ["v", "two"], ["greatest", "places"], axis=-1),
        helper.make_node("ReduceMin", ["greatest", "last"], ["threshold"], keepdims=1),
        helper.make_node("Less", ["v", "threshold"], ["less"]),
        helper.make_node("Where", ["less", "hidden", "v"], ["kept"]),
        helper.make_node("Softmax", ["kept"], ["y"], axis=-1),
    ]
    ports = [helper.make_tensor_value_info(*port) for port in (("x", 1, [1, 32, 16]), ("y", 1, [1, 32, 8]))]
    arrays = [weight, *(numpy_helper.from_array(array, name) for array, name in numbers)]
    graph = helper.make_graph(nodes, "router", ports[:1], ports[1:], arrays)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    data = [{"x": RANDOM.normal(size=(1, 32, 16)).astype(np.float32)} for _ in range(8)]
    quantized = zp.quantize(model, data, target="cpu", effort="none")
    found = np.concatenate([quantized(**sample)["y"] for sample in data])
    assert (np.count_nonzero(found, axis=-1) >= 2).all()
    np.testing.assert_allclose(found.sum(-1), 1, atol=0.02)
