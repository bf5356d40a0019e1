"""Recipes set the parameters of weights and other constants by their names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import zeropoint as zp
from zeropoint.calibrate import collect, instrument, state_ranges
from zeropoint.fuse import fuse
from zeropoint.interp import Interpreter
from zeropoint.ir.constants import elements
from zeropoint.ir.locations import location_text
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, Storage, UniformQuantizedType
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.ir.text import parse_program
from zeropoint.lower import integer_program
from zeropoint.materialize import materialize
from zeropoint.recipe import RecipeError, apply_recipe, recipe_of
from zeropoint.simplify import simplify
from zeropoint.solve import propagate
from zeropoint.solve.check import check_kernels
from zeropoint.targets import target

NARROW, I8 = Storage.of("i8", -127), Storage.of("i8")
SAMPLES = [{"arg0": np.random.default_rng(seed).uniform(-1, 1, (1, 4)).astype(np.float32)} for seed in range(3)]
WEIGHT = [[0.5, 0.2, -0.1], [0.4, -0.1, 0.2], [0.3, 0.1, 0.5], [-0.6, 0.4, 0.2]]


def model(weight: str = "fc.weight") -> Program:
    return parse_program(f"""func.func @main(%x: tensor<1x4xf32>) -> tensor<1x3xf32> {{
      %w = stablehlo.constant dense<{WEIGHT}> : tensor<4x3xf32> loc("{weight}")
      %b = stablehlo.constant dense<[0.1, 0.2, 0.3]> : tensor<3xf32> loc("fc.bias")
      %o = stablehlo.constant dense<[[0.5, -0.5, 0.25]]> : tensor<1x3xf32> loc("offset")
      %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
        : (tensor<1x4xf32>, tensor<4x3xf32>) -> tensor<1x3xf32> loc("fc")
      %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<3xf32>) -> tensor<1x3xf32>
      %2 = stablehlo.add %0, %1 : tensor<1x3xf32> loc("fc")
      %3 = stablehlo.tanh %2 : tensor<1x3xf32> loc("tanh")
      %4 = stablehlo.add %3, %o : tensor<1x3xf32> loc("sum")
      return %4 : tensor<1x3xf32>
    }}""")


def decided(*rules: dict[str, Any], on: str = "cpu") -> tuple[Program, dict[str, QuantizeRegionOp]]:
    fused = apply_recipe(fuse(simplify(model())), recipe_of(rules))
    asked = instrument(fused)
    calibrated = state_ranges(asked, collect(asked, SAMPLES))
    found = propagate(calibrated, target(on))
    check_kernels(found, target(on))
    regions = [op for op in found.entry.ops if isinstance(op, QuantizeRegionOp)]
    return found, {region.logical_kernel.data: region for region in regions}


def weight(*rules: dict[str, Any]) -> UniformQuantizedType:
    found = decided(*rules)[1]["fully_connected"].input_specs.data[1]
    assert isinstance(found, UniformQuantizedType)
    return found


def test_a_rule_sets_the_scale_of_a_weight_and_the_bias_follows() -> None:
    program, regions = decided({"name": "fc.weight", "scale": 0.0078125})
    given, made, bias = regions["fully_connected"].input_specs
    assert made == UniformQuantizedType.per_layer(NARROW, 0.0078125)
    assert bias.scales.tolist() == [given.scale * 0.0078125]
    stored = np.clip(np.rint(np.array(WEIGHT) / 0.0078125), -127, 127)
    integers = integer_program(materialize(program))
    x = SAMPLES[0]["arg0"]
    expected = Interpreter(materialize(program))({"arg0": x})["result0"]
    np.testing.assert_array_equal(Interpreter(integers)({"arg0": x})["result0"], expected)
    assert any(np.array_equal(array, stored) for array in constants(integers))


def test_a_list_sets_one_scale_per_output_channel() -> None:
    made = weight({"name": "fc.weight", "scale": [0.01, 0.02, 0.03]})
    assert made == UniformQuantizedType.per_channel(NARROW, 1, [0.01, 0.02, 0.03])


def test_a_range_is_symmetric_for_a_weight_and_not_for_other_constants() -> None:
    assert weight({"name": "fc.weight", "range": [-0.254, 0.1]}) == UniformQuantizedType.per_layer(NARROW, 0.002)
    made = decided({"name": "offset", "range": [-1.0, 0.9921875]})[1]["add"].input_specs.data[1]
    assert made == UniformQuantizedType.per_layer(I8, 1 / 128)


def test_a_later_rule_replaces_an_earlier_one_and_a_pattern_selects_many() -> None:
    first = {"regex": r"fc\.(weight|bias)", "scale": 0.5}
    assert weight(first).scale == 0.5
    assert weight(first, {"name": "fc.weight", "range": [-1.27, 1.27]}).scale == pytest.approx(0.01)
    assert weight({"name": "fc.weight", "range": [-1, 1]}, first).scale == 0.5


def test_a_rule_that_selects_ops_does_not_touch_constants_of_their_names() -> None:
    asked = apply_recipe(fuse(simplify(model("fc"))), recipe_of([{"name": "fc", "range": [-4, 4]}]))
    assert not [op for op in asked.entry.ops if "zeropoint.pinned" in op.attributes]


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ({"name": "fc.bias", "scale": 0.5}, "selects only biases, which have the scales of the products"),
        ({"name": "fc.weight", "scale": [0.1, 0.2]}, "found 2 scales, expected 1 or 3, one per output channel"),
        ({"name": "offset", "scale": [0.1, 0.2]}, "found 2 scales, expected 1"),
        ({"name": "sum", "scale": [0.1, 0.2]}, "found 2 scales, expected one: only weights have one per channel"),
        ({"name": "arg0", "scale": [0.1, 0.2]}, "found 2 scales, expected one: only weights have one per channel"),
        (
            {"name": "fc.weight", "quantize": False},
            "selects only constants, for which range, scale, zero_point can be set",
        ),
        (
            {"name": "fc.weight", "scale": 1, "symmetric": True},
            "key 'symmetric': the rule selects a constant, expected",
        ),
        ({"name": "fc.weight", "bits": 4}, "selects only constants, for which range, scale, zero_point can be set"),
        ({"name": "fc.weight", "scale": 1, "zero_point": 200}, "found 200, expected one from -127 to 127"),
        ({"name": "fc.weight", "scale": []}, r"key 'scale': found \[\], expected a number above 0"),
        ({"name": "fc.weight", "scale": [1, 0]}, r"key 'scale': found \[1, 0\], expected a number above 0"),
        ({"name": "fc.weight", "scale": 1e-300}, "key 'scale': found 1e-300, expected from 1.*, the numbers of f32"),
        ({"name": "fc.weight", "range": [-1e39, 1]}, r"key 'range': found -1e\+39, expected from -3"),
        ({"name": "fc.weigth", "scale": 1}, "matches nothing in the model"),
    ],
)
def test_a_rule_that_cannot_be_followed_is_refused(rule: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RecipeError, match=sentence):
        decided(rule)


def test_a_rule_sets_a_zero_point_of_a_weight() -> None:
    assert weight({"name": "fc.weight", "scale": 0.01, "zero_point": 3}).zero_points.tolist() == [3]


def test_a_zero_point_that_no_kernel_takes_keeps_the_layer_float_with_the_reason() -> None:
    found = decided({"name": "fc.weight", "scale": 0.01, "zero_point": 3}, on="litert")[1]["fully_connected"]
    assert "requires zero point 0, its weight is pinned to" in found.attributes["zeropoint.float_reason"].data


def test_the_weights_of_a_model_file_have_their_names() -> None:
    given = zp.load("examples/digits/digits.onnx")
    data = np.load("examples/digits/calib.npz")
    rules = [{"name": "classifier.weight", "scale": 0.0078125}]
    made = zp.quantize(given, {name: data[name][:8] for name in data.files}, recipe=rules, effort="none").program
    weights = next(array for array in constants(given.program, "classifier.weight"))
    stored = np.clip(np.rint(weights.astype(np.float64) / 0.0078125), -127, 127)
    assert any(np.array_equal(array, stored) for array in constants(made))


def constants(program: Program, name: str | None = None) -> list[Any]:
    ops = [op for op in program.entry.ops if isinstance(op, ConstantOp)]
    return [elements(op, program.weights) for op in ops if name in (None, location_text(op.location))]


@pytest.mark.parametrize("name", ["fc.weight", "offset"])
def test_a_range_of_a_constant_holds_on_a_target_of_powers_of_two(name: str) -> None:
    rule = {"name": name, "range": [-2.0, 2.0]}  # four times what the values need
    fused = apply_recipe(fuse(simplify(model())), recipe_of([rule]))
    asked = instrument(fused)
    found = propagate(state_ranges(asked, collect(asked, SAMPLES)), target("shift_only"))
    check_kernels(found, target("shift_only"))
    specs = {str(op.logical_kernel.data): op.input_specs for op in found.entry.ops if isinstance(op, QuantizeRegionOp)}
    made = specs["fully_connected" if name == "fc.weight" else "add"].data[1]
    assert isinstance(made, UniformQuantizedType)
    assert made.scales.tolist() == [2.0**-5]  # 2 / 127, rounded up; 2^-8 without the rule
