"""Demands on ranges, widths and weights that leave every type as it is without them are refused, with the reason."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zeropoint as zp
from zeropoint.ir.locations import location_text
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.solve import is_rescale

WEIGHT = "[[0.5, -1.0, 0.25, 0.7], [1.5, 0.3, -0.6, 0.2], [-0.4, 0.9, 0.1, -1.2], [0.8, -0.5, 0.6, 0.4]]"
CHAIN = f"""func.func @main(%x: tensor<2x4xf32> {{zeropoint.name = "x"}}) -> tensor<2x4xf32> {{
  %w = stablehlo.constant dense<{WEIGHT}> : tensor<4x4xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32> loc("first")
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0]
    : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32> loc("second")
  return %1 : tensor<2x4xf32>
}}
"""
ROWS = (np.random.default_rng(0).standard_normal((8, 2, 4)) ** 3).astype(np.float32)


def made(text: str, *rules: dict[str, Any], target: str = "cpu", **options: Any) -> zp.Model:
    return zp.quantize(text, ROWS, target=target, effort="none", recipe=[*rules] or None, **options)


def types(model: zp.Model) -> dict[str, str]:
    """The types that kernels make, by name."""
    assert model.quantization is not None
    regions = [op for op in model.quantization.propagated.entry.ops if isinstance(op, QuantizeRegionOp)]
    return {location_text(op.location) or "": str(op.output_specs.data[0]) for op in regions if not is_rescale(op)}


def refused(text: str, rule: dict[str, Any], message: str, target: str = "cpu") -> None:
    with pytest.raises(zp.RecipeError, match=message):
        made(text, rule, target=target)


def test_an_observer_of_a_16_bit_result_is_refused() -> None:
    refused(
        CHAIN,
        {"name": "first", "observer": "percentile:90"},
        r"^recipe: rule 1 \(name 'first'\): key 'observer': found percentile:90, expected a result of 8 bits or fewer; "
        r"'first' has 16 bits in kernel fully_connected of target litert-16x8, which hold all observed values; it "
        r"would change nothing$",
        "litert-16x8",
    )


def test_the_same_rule_is_taken_where_the_result_has_8_bits_or_a_range_decides() -> None:
    plain = types(made(CHAIN, target="litert"))["first"]
    assert types(made(CHAIN, {"name": "first", "observer": "percentile:90"}, target="litert"))["first"] != plain
    plain = types(made(CHAIN, target="litert-16x8"))["first"]
    assert types(made(CHAIN, {"name": "first", "range": [-1, 1]}, target="litert-16x8"))["first"] != plain


def test_a_rule_with_the_observer_of_all_values_restates_a_default() -> None:
    rules = {"regex": ".*", "bits": 16}, {"name": "first", "observer": "output"}
    assert types(made(CHAIN, *rules, target="litert-16x8")) == types(made(CHAIN, target="litert-16x8"))


RESHAPED = f"""func.func @main(%x: tensor<2x4xf32> {{zeropoint.name = "x"}}) -> tensor<2x4xf32> {{
  %w = stablehlo.constant dense<{WEIGHT}> : tensor<4x4xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32> loc("first")
  %1 = stablehlo.logistic %0 : tensor<2x4xf32> loc("gate")
  %2 = stablehlo.multiply %1, %0 : tensor<2x4xf32> loc("product")
  %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<2x4xf32>) -> tensor<4x2xf32> loc("turned")
  %4 = stablehlo.reverse %3, dims = [0] : tensor<4x2xf32> loc("reversed")
  %5 = stablehlo.reshape %4 : (tensor<4x2xf32>) -> tensor<2x4xf32> loc("flat")
  %6 = stablehlo.dot_general %5, %w, contracting_dims = [1] x [0]
    : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32> loc("second")
  return %6 : tensor<2x4xf32>
}}
"""


@pytest.mark.parametrize("target", ["cpu", "litert-16x8", "tosa"])
def test_a_demanded_range_holds_for_what_only_moves_the_elements(target: str) -> None:
    found = types(made(RESHAPED, {"name": "product", "range": [-0.5, 0.5]}, target=target))
    whole = types(made(RESHAPED, {"regex": "product|turned|reversed|flat", "range": [-0.5, 0.5]}, target=target))
    assert found["product"] == found["turned"] == whole["product"]


def test_the_observer_of_a_value_holds_for_what_only_moves_its_elements() -> None:
    rule = {"observer": "percentile:80"}
    found = types(made(RESHAPED, {"name": "product", **rule}, target="tosa"))
    whole = types(made(RESHAPED, {"regex": "product|turned|reversed|flat", **rule}, target="tosa"))
    assert found == whole
    with pytest.raises(zp.RecipeError, match=r"of 'product'; it follows from \[-20, 20\] \(recipe: rule 2 \(name 'fl"):
        made(RESHAPED, {"name": "product", **rule}, {"name": "flat", "range": [-20, 20]}, target="tosa")


def test_a_zero_point_of_0_is_kept_before_a_value_that_has_another() -> None:
    """The rescale between both is neither merged with the kernel before it, nor moved behind the kernel after it."""
    for name in ("product", "turned"):
        (before,) = re.findall(r":(-?\d+)>$", types(made(RESHAPED, target="tosa"))[name])
        found = types(made(RESHAPED, {"name": name, "symmetric": True}, target="tosa"))[name]
        assert int(before) != 0
        assert not re.search(r":-?\d+>$", found)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            {"observer": "percentile:90"},
            r"found observer percentile:90 \(--observer\) for a model without a type that it",
        ),
        (
            {"ranges": "minmax-nudged"},
            "found ranges 'minmax-nudged' for a model in which no range gets another type",
        ),
    ],
)
def test_an_option_that_decides_no_type_is_refused(option: dict[str, str], message: str) -> None:
    with pytest.raises(zp.OptionError, match=message):
        made(CHAIN, target="litert-16x8", **option)
    assert types(made(CHAIN, target="litert", **option)) != types(made(CHAIN, target="litert"))
    assert types(made(CHAIN, target="litert-16x8", observer="output", ranges="asymmetric"))


def test_the_observer_of_all_values_is_taken_if_one_of_them_has_8_bits() -> None:
    made(CHAIN, {"name": "second", "bits": 16}, target="litert", observer="percentile:90")
    with pytest.raises(zp.OptionError, match="found observer percentile:90"):
        made(CHAIN, {"regex": ".*", "bits": 16}, target="litert", observer="percentile:90")


def test_fewer_bits_than_those_of_the_kernel_are_refused() -> None:
    message = (
        r"'bits': found 8, expected 16, the width of kernel 'fully_connected' on target litert-16x8; it would change"
    )
    refused(CHAIN, {"name": "first", "bits": 8}, message, "litert-16x8")
    made(CHAIN, {"name": "first", "bits": 16}, target="litert-16x8")


SOFTMAX_AT_THE_END = RESHAPED.replace(
    "  return %6",
    """  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %7 = stablehlo.reduce(%6 init: %least) applies stablehlo.maximum across dimensions = [1]
    : (tensor<2x4xf32>, tensor<f32>) -> tensor<2xf32>
  %8 = stablehlo.broadcast_in_dim %7, dims = [0] : (tensor<2xf32>) -> tensor<2x4xf32>
  %9 = stablehlo.subtract %6, %8 : tensor<2x4xf32>
  %10 = stablehlo.exponential %9 : tensor<2x4xf32>
  %11 = stablehlo.reduce(%10 init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<2x4xf32>, tensor<f32>) -> tensor<2xf32>
  %12 = stablehlo.broadcast_in_dim %11, dims = [0] : (tensor<2xf32>) -> tensor<2x4xf32>
  %13 = stablehlo.divide %10, %12 : tensor<2x4xf32> loc("last")
  return %13""",
)


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ("range", [-1, 1], "a value that is quantized; 'softmax' stays float: target cpu has no kernel 'softmax'"),
        ("observer", "percentile:90", "a value whose range is observed"),
    ],
)
def test_a_demand_on_a_float_that_no_integer_kernel_reads_is_refused(key: str, value: object, found: str) -> None:
    message = rf"key '{key}': .*expected {found}; it would change nothing$"
    refused(SOFTMAX_AT_THE_END, {"name": "last", key: value}, message)


GATED = f"""func.func @main(%x: tensor<2x4xf32> {{zeropoint.name = "x"}}) -> tensor<2x4xf32> {{
  %w = stablehlo.constant dense<{WEIGHT}> : tensor<4x4xf32>
  %many = stablehlo.constant dense<40.0> : tensor<4x4xf32>
  %more = stablehlo.multiply %w, %many : tensor<4x4xf32>
  %0 = stablehlo.dot_general %x, %more, contracting_dims = [1] x [0]
    : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32> loc("first")
  %1 = stablehlo.logistic %0 : tensor<2x4xf32> loc("gate")
  %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0]
    : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32> loc("second")
  return %2 : tensor<2x4xf32>
}}
"""


@pytest.mark.parametrize(("key", "value"), [("symmetric", True), ("granularity", "per_tensor"), ("weight_bits", 4)])
def test_a_demand_on_a_kernel_that_stays_float_for_accuracy_is_refused(key: str, value: object) -> None:
    assert types(made(GATED))["first"] == "f32"
    message = (
        rf"key '{key}': found .*, expected a kernel that is quantized; 'first' stays float: its result must not be"
    )
    refused(GATED, {"name": "first", key: value}, message)


JOINED = f"""func.func @main(%x: tensor<2x4xf32> {{zeropoint.name = "x"}}) -> tensor<4x4xf32> {{
  %w = stablehlo.constant dense<{WEIGHT}> : tensor<4x4xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32> loc("first")
  %1 = stablehlo.negate %0 : tensor<2x4xf32> loc("negative")
  %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32> loc("joined")
  %3 = stablehlo.dot_general %2, %w, contracting_dims = [1] x [0]
    : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("second")
  return %3 : tensor<4x4xf32>
}}
"""


def test_a_range_that_a_wider_one_of_the_same_type_hides_is_refused() -> None:
    rule = {"name": "negative", "observer": "percentile:97"}
    refused(
        JOINED, rule, r"expected a range that decides the type of 'negative'; it follows from .*quant.stats 'joined'"
    )


STATED = """func.func @main(%x: tensor<2x4xf32> {zeropoint.name = "x"}) -> tensor<2x4xf32> {
  %0 = stablehlo.negate %x : tensor<2x4xf32> loc("negative")
  %1 = "quant.qcast"(%0) : (tensor<2x4xf32>) -> tensor<2x4x!quant.uniform<i8:f32, 0.01:3>>
  %2 = "quant.dcast"(%1) : (tensor<2x4x!quant.uniform<i8:f32, 0.01:3>>) -> tensor<2x4xf32> loc("cast")
  %3 = stablehlo.abs %2 : tensor<2x4xf32> loc("positive")
  return %3 : tensor<2x4xf32>
}
"""


@pytest.mark.parametrize(("key", "value"), [("range", [-1, 1]), ("bits", 16)])
def test_a_demand_on_a_type_that_the_model_states_is_refused(key: str, value: object) -> None:
    refused(
        STATED, {"name": "negative", key: value}, rf"key '{key}': .*; quant.dcast 'cast' fixes that of 'negative'; it"
    )


def test_a_scale_that_every_reader_passes_over_is_refused() -> None:
    """Its readers take the type that the kernel fixes, so that there is no rescale to the one of the rule."""
    tanh = '%gate = stablehlo.tanh %0 : tensor<2x4xf32> loc("gate")'
    text = CHAIN.replace("%1 = stablehlo.dot_general %0,", f"{tanh}\n  %1 = stablehlo.dot_general %gate,")
    message = r"key 'scale': found 0.0625, expected a result whose type is free; kernel tanh 'gate' of target cpu fixes"
    refused(text, {"name": "gate", "scale": 0.0625}, message)


TABLE = """func.func @main(%i: tensor<3xi32> {zeropoint.name = "i"}, %x: tensor<3x2xf32> {zeropoint.name = "x"})
    -> tensor<6x2xf32> {
  %t = stablehlo.constant dense<[[0.5, -1.0], [0.25, 0.7], [1.5, 0.3], [-0.6, 0.2]]> : tensor<4x2xf32> loc("table")
  %c = stablehlo.constant dense<0.25> : tensor<3x2xf32> loc("other")
  %0 = "stablehlo.gather"(%t, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0],
    start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 2>}>
    : (tensor<4x2xf32>, tensor<3xi32>) -> tensor<3x2xf32> loc("rows")
  %1 = stablehlo.multiply %0, %x : tensor<3x2xf32> loc("product")
  %2 = stablehlo.concatenate %1, %c, dim = 0 : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<6x2xf32> loc("joined")
  %3 = stablehlo.negate %2 : tensor<6x2xf32> loc("negative")
  return %3 : tensor<6x2xf32>
}
"""
INDICES = [{"i": np.arange(3, dtype=np.int32), "x": rows[:, :2].repeat(2, 0)[:3]} for rows in ROWS]


def test_rows_of_a_table_have_the_type_that_a_rule_states_for_the_table() -> None:
    found = zp.quantize(TABLE, INDICES, target="tosa", effort="none", recipe=[{"name": "table", "scale": 0.0625}])
    assert types(found)["rows"] == "!quant.uniform<i8:f32, 6.250000e-02>"


def test_a_type_of_a_constant_that_its_kernel_does_not_take_is_refused() -> None:
    message = r"key 'scale': found 0.0625, expected a constant whose type is free; joined of target tosa reads it as"
    with pytest.raises(zp.RecipeError, match=message):
        zp.quantize(TABLE, INDICES, target="tosa", effort="none", recipe=[{"name": "other", "scale": 0.0625}])


@pytest.mark.parametrize("demand", [{"quantize": False}, {"bits": 16}, {"range": [-3, 3]}])
def test_rules_for_ops_that_a_file_has_quantized_already(demand: dict[str, Any], tmp_path: Path) -> None:
    """`quantize: false` was ignored, and others were said to match ops that stay float."""
    made(CHAIN, target="stablehlo").export(tmp_path / "m.stablehlo.mlir")
    with pytest.raises(zp.Error, match="matches only ops that the file has quantized already, which no recipe changes"):
        zp.quantize(tmp_path / "m.stablehlo.mlir", target="stablehlo", recipe=[{"name": "first", **demand}])
