"""Weights of 4 bits, with a scale per channel or per block of a channel's terms: chosen, computed and stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

from networks import Network
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.files import load_program, save_program
from zeropoint.ir.program import Program
from zeropoint.ir.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    QuantizeRegionOp,
    Storage,
    UniformQuantizedType,
)
from zeropoint.ir.regions import regions_of
from zeropoint.ir.stablehlo import AddOp, DotDimensions, DotGeneralOp, TanhOp
from zeropoint.ir.tensors import Array, with_element, with_shape
from zeropoint.pipeline import Options, Quantization, quantize
from zeropoint.recipe import RecipeError, recipe_of

K, N, SIZE = 64, 5, 16
RANDOM = np.random.default_rng(5)
WEIGHT = RANDOM.normal(size=(K, N)).astype(np.float32) / 10
WEIGHT[range(SIZE, SIZE + N), range(N)] = 1.0  # an outlier in one block of each column
BIAS = RANDOM.normal(size=N).astype(np.float32)
Shape = tuple[int, ...]
RULES = [{"op": "fully_connected", "weight_bits": 4, "block_size": SIZE}]
FLOAT_READER = {"op": "stablehlo.tanh", "quantize": False}


def network(shape: Shape = (3, K), *, turned: bool = False, bias: Array = BIAS, reader: bool = False) -> Program:
    net = Network([shape])
    weight = net.constant(np.ascontiguousarray(WEIGHT.T) if turned else WEIGHT)
    dims = DotDimensions((), (), (len(shape) - 1,), (1 if turned else 0,))
    product = net.insert(DotGeneralOp(net.values[0], weight, with_shape(net.values[0], [*shape[:-1], N]), dims))
    total = net.insert(AddOp(product, net.along(bias, product, len(shape) - 1)))
    return net.finish([net.insert(TanhOp(total)) if reader else total])


def samples(shape: Shape = (3, K)) -> list[dict[str, Array]]:
    random = np.random.default_rng(6)
    return [{"x0": random.uniform(-1.5, 1.5, shape).astype(np.float32)} for _ in range(4)]


def quantized(
    program: Program, rules: list[dict[str, Any]] | None = RULES, name: str = "cpu", shape: Shape = (3, K)
) -> Quantization:
    chosen = Options(target=name, recipe=None if rules is None else recipe_of(rules))
    return quantize(program, samples(shape), chosen)


def region(result: Quantization) -> QuantizeRegionOp:
    return next(each for each in regions_of(result.propagated) if each.logical_kernel.data == "fully_connected")


def specs(result: Quantization) -> list[UniformQuantizedType]:
    return [each for each in region(result).input_specs if isinstance(each, UniformQuantizedType)]


def test_a_recipe_gives_each_block_the_scale_of_its_greatest_weight() -> None:
    kind = specs(quantized(network()))[1]
    assert kind.storage == Storage.of("i4", -7)
    assert kind.blocks == ((0, SIZE), (1, 1))
    expected = np.abs(WEIGHT.reshape(-1, SIZE, N)).max(axis=1) / 7
    np.testing.assert_allclose(kind.scales, expected, rtol=1e-6)


@pytest.mark.parametrize("shape", [(3, K), (1, 3, K)])
@pytest.mark.parametrize("turned", [False, True])
def test_the_integer_program_keeps_four_bits_and_native_code_has_its_bits(shape: Shape, turned: bool) -> None:
    result = quantized(network(shape, turned=turned), shape=shape)
    assert "i4" in str(result.integer.module)
    sample = samples(shape)[0]
    (expected,) = Interpreter(result.quantized)(sample).values()
    np.testing.assert_array_equal(Interpreter(result.integer)(sample)["y0"], expected)
    np.testing.assert_array_equal(NativeProgram(result.integer)(sample)["y0"], expected)


def test_the_orientation_of_the_weights_does_not_matter() -> None:
    sample = samples()[0]
    found = [Interpreter(quantized(network(turned=turned)).integer)(sample)["y0"] for turned in (False, True)]
    np.testing.assert_allclose(*found, atol=1e-9)


def noise(result: Quantization, program: Program) -> float:
    sample = samples()[0]
    exact = Interpreter(program)(sample)["y0"].astype(np.float64)
    return float(np.mean((Interpreter(result.integer)(sample)["y0"] - exact) ** 2))


def test_blocks_are_nearer_to_float_than_channels_if_their_weights_differ_in_size() -> None:
    program = network(reader=True)
    channels = quantized(program, [{"op": "fully_connected", "weight_bits": 4}, FLOAT_READER])
    assert specs(channels)[1].axis == 1
    assert noise(quantized(program, [*RULES, FLOAT_READER]), program) < 0.5 * noise(channels, program)


def test_accumulators_that_only_floats_read_are_not_rounded_to_bytes() -> None:
    result = quantized(network(reader=True), [*RULES, FLOAT_READER])
    (output,) = region(result).output_specs
    assert isinstance(output, UniformQuantizedType)
    assert output.storage == Storage.of("i32")


def test_a_bias_beyond_the_accumulator_makes_all_blocks_of_its_column_grow() -> None:
    plain, large = (specs(quantized(network(bias=bias)))[1].scales for bias in (BIAS, np.array([1e9, 0, 0, 0, 0])))
    factors = large / plain
    assert factors[0, 0] > 1
    np.testing.assert_allclose(factors[:, 0], factors[0, 0], rtol=1e-6)
    np.testing.assert_allclose(factors[:, 1:], 1.0, rtol=1e-6)


def test_a_file_holds_two_weights_a_byte(tmp_path: Path) -> None:
    result = quantized(network())
    save_program(result.integer, tmp_path / "m.mlir")
    with safe_open(tmp_path / "m.safetensors", "numpy") as file:
        names = file.keys()  # a safetensors file itself cannot be iterated
        assert K * N // 2 in {file.get_slice(name).get_shape()[0] for name in names}
    again, sample = load_program(tmp_path / "m.mlir"), samples()[0]
    np.testing.assert_array_equal(Interpreter(again)(sample)["y0"], Interpreter(result.integer)(sample)["y0"])


@pytest.mark.parametrize("storage", ["i4", "u4", "i8"])
def test_blocks_that_the_model_pins_are_integers(storage: str) -> None:
    scales = np.abs(WEIGHT.reshape(-1, SIZE, N)).max(axis=1) / (127 if storage == "i8" else 7)
    points = np.full(scales.shape, 8 if storage == "u4" else 0)
    kind = UniformQuantizedType.sub_channel(Storage.of(storage), [(0, SIZE), (1, 1)], scales, points)
    net = Network([(3, K)])
    weight = net.constant(WEIGHT)
    pinned = net.insert(QuantizeCastOp(weight, with_element(weight, kind)))
    again = net.insert(DequantizeCastOp(pinned, weight.type))
    dims = DotDimensions((), (), (1,), (0,))
    product = net.insert(DotGeneralOp(net.values[0], again, with_shape(net.values[0], [3, N]), dims))
    program = net.finish([product])
    result = quantized(program, None)
    made = specs(result)[1]
    np.testing.assert_array_equal(made.scales, kind.scales)
    assert made.storage.type.signed
    step = region(result).output_specs.data[0]
    assert isinstance(step, UniformQuantizedType)
    assert noise(result, program) < step.scale**2


@pytest.mark.parametrize(
    ("rule", "name", "message"),
    [
        ({"block_size": 24}, "cpu", "its weights have 64 terms a channel, expected a multiple of block_size 24"),
        ({"block_size": 16}, "litert", "'fully_connected' does not on target litert"),
        ({"weight_bits": 4}, "onnxruntime", "found 4, expected 8, for kernel 'fully_connected' on target onnxruntime"),
        ({"block_size": 1}, "cpu", "key 'block_size': found 1, expected an integer of at least 2"),
        ({"weight_bits": 3}, "cpu", "key 'weight_bits': found 3, expected 4 or 8"),
    ],
)
def test_blocks_and_widths_that_a_target_does_not_have_are_refused(
    rule: dict[str, Any], name: str, message: str
) -> None:
    with pytest.raises(RecipeError, match=message):
        quantized(network(), [{"op": "fully_connected", **rule}], name)
