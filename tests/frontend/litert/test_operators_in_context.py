"""Operators of a file beside others: what LiteRT computes in floats stays float, what it rounds is rounded there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zeropoint.export import export_program
from zeropoint.export.litert.builder import ModelBuilder
from zeropoint.export.litert.runtime import LiteRTFile
from zeropoint.frontend import ModelError, load_model
from zeropoint.frontend.litert.reader import read_model
from zeropoint.interp import Interpreter
from zeropoint.ir.quant import Storage, UniformQuantizedType
from zeropoint.ir.regions import regions_of
from zeropoint.litert_schema import schema
from zeropoint.pipeline import Options, quantize


def kind(scale: float, zero_point: int = 0, dtype: str = "i8") -> UniformQuantizedType:
    return UniformQuantizedType.per_layer(Storage.of(dtype), float(np.float32(scale)), zero_point)


class File:
    """A file with one input `x`, to which operators are added one after the other."""

    def __init__(self, shape: Sequence[int], given: UniformQuantizedType | None, dtype: str = "int8"):
        self.build, self.dtype, self.given = ModelBuilder(), dtype, given
        self.first = self.last = self.build.tensor("x", shape, dtype, given)

    def then(
        self,
        op: str,
        shape: Sequence[int],
        made: UniformQuantizedType | None,
        options: tuple[str, dict[str, Any]] | None = None,
        constants: Sequence[int] = (),
        version: int = 1,
    ) -> None:
        dtype = self.dtype if made is not None else "float32"
        result = self.build.tensor(op.lower(), shape, dtype, made)
        self.build.operator(op, [self.last, *constants], [result], options, version)
        self.last = result

    def content(self) -> bytes:
        return self.build.finish({"x": self.first}, {"y": self.last}, "", {})


def check(
    file: File, stored: np.ndarray, tmp_path: Path, *, profile: str | None = None, has_floats: bool = False
) -> None:
    """The file, imported without data, gives LiteRT's integers, by kernels of integers unless it has floats."""
    path = tmp_path / "m.tflite"
    path.write_bytes(file.content())
    target = "litert" if file.dtype == "int8" else "litert-16x8"
    result = quantize(load_model(path), None, Options(target=target, profile=profile))
    assert all(region.is_quantized for region in regions_of(result.propagated)) is not has_floats
    assert file.given is not None
    real = ((stored.astype(np.float64) - file.given.zero_point) * file.given.scale).astype(np.float32)
    theirs = LiteRTFile(path, reference=profile is None)({"x": real})["y"]
    for program in (result.quantized, result.integer):
        np.testing.assert_array_equal(Interpreter(program)({"x": real})["y"], theirs)


def integers(shape: Sequence[int], dtype: str = "int8") -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.random.default_rng(0).integers(limits.min, limits.max + 1, shape).astype(dtype)


@pytest.mark.parametrize("profile", [None, "xnnpack"])
def test_an_operator_of_floats_between_two_casts_is_computed_in_floats(profile: str | None, tmp_path: Path) -> None:
    """Between two casts, it looks like an operator on integers, whose kernel rounds otherwise."""
    file = File((1, 300), kind(0.031, 3))
    file.then("DEQUANTIZE", (1, 300), None)
    file.then("LEAKY_RELU", (1, 300), None, ("LeakyReluOptions", {"alpha": 0.013}))
    file.then("QUANTIZE", (1, 300), kind(0.0171, -119))
    check(file, integers((1, 300)), tmp_path, profile=profile, has_floats=True)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_a_pool_with_a_fused_clamp_is_a_pool_of_integers(dtype: str, tmp_path: Path) -> None:
    """The mean had no type before the clamp, so that both became floats, with other roundings."""
    given = kind(0.031, 3) if dtype == "int8" else kind(0.0003, 0, "i16")
    file = File((1, 6, 6, 8), given, dtype)
    window = {
        "padding": 1,
        "strideW": 1,
        "strideH": 1,
        "filterWidth": 3,
        "filterHeight": 3,
        "fusedActivationFunction": 1,
    }
    file.then("AVERAGE_POOL_2D", (1, 4, 4, 8), given, ("Pool2DOptions", {**window, "fusedActivationFunction": 1}))
    check(file, integers((1, 6, 6, 8), dtype), tmp_path)


def test_padding_of_channels_before_a_convolution_is_a_kernel_of_integers(tmp_path: Path) -> None:
    """It had no type, because a convolution may absorb padding, but not that of channels."""
    random = np.random.default_rng(1)
    given = kind(0.031, 3)
    file = File((1, 6, 6, 2), given)
    pairs = file.build.constant("pairs", np.array([[0, 0], [1, 1], [1, 1], [0, 2]], np.int32))
    file.then("PAD", (1, 8, 8, 4), given, ("PadOptions", {}), [pairs])
    weights = random.integers(-127, 128, (3, 3, 3, 4)).astype(np.int8)
    scales = np.float32([0.01, 0.013, 0.0171])
    wide = UniformQuantizedType.per_channel(Storage.of("i8", -127, 127), 0, scales.astype(float), np.zeros(3, np.int64))
    constants = [file.build.constant("w", weights, wide)]
    biases = UniformQuantizedType.per_channel(
        Storage.of("i32"), 0, (scales * np.float32(given.scale)).astype(float), np.zeros(3, np.int64)
    )
    constants.append(file.build.constant("bias", np.array([5, -9, 100], np.int32), biases))
    window = {"padding": 1, "strideW": 1, "strideH": 1, "dilationWFactor": 1, "dilationHFactor": 1}
    file.then("CONV_2D", (1, 6, 6, 3), kind(0.113, 7), ("Conv2DOptions", window), constants, 3)
    check(file, integers((1, 6, 6, 2)), tmp_path)


def test_a_clamp_that_changes_a_16_bit_scale_divides_the_scales_in_f32(tmp_path: Path) -> None:
    """The ratio in f64 gave another integer for a few values near the middle of two."""
    file = File((65536,), kind(0.00024553033290430903, 0, "i16"), "int16")
    file.then("RELU", (65536,), kind(0.00023538130335509777, 0, "i16"))
    check(file, np.arange(-32768, 32768).astype(np.int16), tmp_path)


@pytest.mark.parametrize("profile", [None, "xnnpack"])
@pytest.mark.parametrize("fields", [{"halfPixelCenters": True}, {"alignCorners": True}, {}])
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_a_linear_resize_weighs_stored_integers(
    dtype: str, fields: dict[str, Any], profile: str | None, tmp_path: Path
) -> None:
    """It was computed in floats, whose products with other weights round otherwise."""
    given = kind(0.031, 3) if dtype == "int8" else kind(0.0003, 0, "i16")
    file = File((2, 5, 7, 3), given, dtype)
    size = file.build.constant("size", np.array([8, 15], np.int32))
    file.then("RESIZE_BILINEAR", (2, 8, 15, 3), given, ("ResizeBilinearOptions", fields), [size], 3)
    check(file, integers((2, 5, 7, 3), dtype), tmp_path, profile=profile)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("profile", [None, "xnnpack"])
def test_a_convolution_with_4_bit_weights_is_litert_s_own_in_both_modes(
    profile: str | None, groups: int, tmp_path: Path
) -> None:
    """XNNPACK does not execute it. With its arithmetic, up to 7 % of the results differed by a step.

    If it has groups, LiteRT's reference kernel executes it in both modes.
    """
    random = np.random.default_rng(2)
    given, scales = kind(0.031, 3), np.float32([0.1, 0.13, 0.171, 0.9])
    file = File((1, 40, 40, 8), given)
    weights = random.integers(-7, 8, (4, 1, 1, 8 // groups)).astype(np.int8)
    nibbles = (weights & 15).reshape(-1, 2)
    zeros = np.zeros(4, np.int64)
    narrow = UniformQuantizedType.per_channel(Storage.of("i8", -8, 7), 0, scales.astype(float), zeros)
    packed = file.build.constant("w", nibbles[:, 0] | nibbles[:, 1] << 4, narrow)
    file.build.tensors[packed].shape, file.build.tensors[packed].type = weights.shape, schema().TensorType.INT4
    sums = UniformQuantizedType.per_channel(Storage.of("i32"), 0, (scales * np.float32(0.031)).astype(float), zeros)
    bias = file.build.constant("bias", np.array([5, -9, 100, 0], np.int32), sums)
    window = {"padding": 1, "strideW": 1, "strideH": 1, "dilationWFactor": 1, "dilationHFactor": 1}
    file.then("CONV_2D", (1, 40, 40, 4), kind(0.0213, 7), ("Conv2DOptions", window), [packed, bias], 7)
    check(file, integers((1, 40, 40, 8)), tmp_path, profile=profile)


@pytest.mark.parametrize(("operator", "ratio"), [("MEAN", 1.0), ("MEAN", 2.0), ("MEAN", 0.731), ("SUM", 0.0625)])
@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("points", [(-7, -7), (3, -120), (60, 67)])
def test_means_in_the_middle_of_two_integers_are_those_of_xnnpack(
    operator: str, ratio: float, axis: int, points: tuple[int, int], tmp_path: Path
) -> None:
    """XNNPACK adds the zero points before it rounds half to even."""
    made = [12, 8, 16]
    file = File(made, kind(0.97491997, points[0]))
    del made[axis]
    axes = file.build.part("axes", np.array([axis], np.int32))
    file.then(operator, made, kind(0.97491997 / ratio, points[1]), ("ReducerOptions", {"keepDims": False}), [axes], 2)
    check(file, integers((12, 8, 16)), tmp_path, profile="xnnpack")


@pytest.mark.parametrize("profile", [None, "xnnpack"])
def test_a_fully_connected_layer_with_2_bit_weights_is_that_of_litert(profile: str | None, tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    given, scales = kind(0.031, 3), np.float32([0.1, 0.13, 0.171, 0.9, 0.33])
    file = File((1500, 10), given)
    weights = random.integers(-2, 2, (5, 10)).astype(np.int8)
    fields = np.resize(weights & 3, (13, 4))
    zeros = np.zeros(5, np.int64)
    narrow = UniformQuantizedType.per_channel(Storage.of("i8", -2, 1), 0, scales.astype(float), zeros)
    packed = file.build.constant("w", (fields << np.arange(0, 8, 2)).sum(axis=1).astype(np.uint8), narrow)
    file.build.tensors[packed].shape, file.build.tensors[packed].type = weights.shape, schema().TensorType.INT2
    sums = UniformQuantizedType.per_channel(Storage.of("i32"), 0, (scales * np.float32(0.031)).astype(float), zeros)
    bias = file.build.constant("bias", np.array([5, -9, 100, 0, 7], np.int32), sums)
    file.then("FULLY_CONNECTED", (1500, 5), kind(0.0213, 7), ("FullyConnectedOptions", {}), [packed, bias], 12)
    check(file, integers((1500, 10)), tmp_path, profile=profile)


@pytest.mark.parametrize(
    ("operator", "dtype"),
    [
        ("ATAN2", "float32"),
        ("FLOOR_DIV", "float32"),
        ("FLOOR_DIV", "int32"),
        ("FLOOR_MOD", "float32"),
        ("FLOOR_MOD", "int32"),
        ("BITWISE_XOR", "int32"),
        ("RIGHT_SHIFT", "int32"),
    ],
)
def test_an_operator_that_exports_use_is_imported(operator: str, dtype: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    first = (random.normal(0, 9, 400) if dtype == "float32" else random.integers(-99, 99, 400)).astype(dtype)
    second = random.permutation(np.where(first == 0, 1, first)).astype(dtype)
    if (operator, dtype) == ("FLOOR_DIV", "float32"):  # also next to whole quotients, which f32 would round to them
        first[200:] = second[200:] * random.integers(-9, 10, 200).astype(dtype)
    if operator == "RIGHT_SHIFT":
        second = np.abs(second) % 32
    build = ModelBuilder()
    inputs = {name: build.tensor(name, (400,), dtype, None) for name in ("a", "b")}
    result = build.tensor("y", (400,), dtype, None)
    build.operator(operator, list(inputs.values()), [result], None, 1)
    path = tmp_path / "m.tflite"
    path.write_bytes(build.finish(inputs, {"y": result}, "", {}))
    sample = {"a": first, "b": second}
    found = Interpreter(load_model(path))(sample)["y"]
    np.testing.assert_allclose(found, LiteRTFile(path, reference=True)(sample)["y"], rtol=1e-6)


@pytest.mark.parametrize(("operator", "shape"), [("RANGE", (4,)), ("RANK", ()), ("ZEROS_LIKE", (2, 3))])
def test_an_operator_that_makes_a_constant_is_imported(operator: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    build = ModelBuilder()
    x = build.tensor("x", (2, 3), "int32", None)
    ends = [build.part("ends", np.array(end, np.int32)) for end in (3, -5, -2)]
    result = build.tensor("y", shape, "int32", None)
    build.operator(operator, ends if operator == "RANGE" else [x], [result], None, 1)
    path, sample = tmp_path / "m.tflite", {"x": np.ones((2, 3), np.int32)}
    path.write_bytes(build.finish({"x": x}, {"y": result}, "", {}))
    expected = LiteRTFile(path, reference=True)(sample)["y"]
    np.testing.assert_array_equal(Interpreter(load_model(path))(sample)["y"], expected)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize(("exclusive", "reverse"), [(False, False), (True, False), (False, True), (True, True)])
def test_running_sums_are_imported(exclusive: bool, reverse: bool, dtype: str, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(0, 9, (3, 7, 2)).astype(dtype)
    build = ModelBuilder()
    inputs, result = {"x": build.tensor("x", x.shape, dtype, None)}, build.tensor("y", x.shape, dtype, None)
    options = ("CumsumOptions", {"exclusive": exclusive, "reverse": reverse})
    build.operator("CUMSUM", [inputs["x"], build.part("axis", np.array(1, np.int32))], [result], options)
    path = tmp_path / "m.tflite"
    path.write_bytes(build.finish(inputs, {"y": result}, "", {}))
    found, expected = Interpreter(load_model(path))({"x": x})["y"], LiteRTFile(path, reference=True)({"x": x})["y"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("profile", [None, "xnnpack"])
@pytest.mark.parametrize("point", [0, 3, -77])
@pytest.mark.parametrize("scale", [2.3, 0.31, 0.117, 0.0131])
def test_a_fully_connected_layer_whose_weights_are_computed_rounds_as_one(
    scale: float, point: int, profile: str | None, tmp_path: Path
) -> None:
    """It was rounded like BATCH_MATMUL: up to 5 of 1,000 values differed. Its own export has the same bits."""
    file = File((40, 16), kind(0.031, point))
    build = file.build
    sides = [build.tensor(name, (rows, 16), "int8", file.given) for name, rows in (("left", 16), ("right", 24))]
    for side, (first, last) in zip(sides, ((0, 16), (16, 40)), strict=True):
        ends = [build.part("slice", np.array(end, np.int32)) for end in ((first, 0), (last, 16), (1, 1))]
        build.operator("STRIDED_SLICE", [file.first, *ends], [side], ("StridedSliceOptions", {}), 4)
    file.last = build.tensor("y", (16, 24), "int8", kind(scale, -7))
    build.operator("FULLY_CONNECTED", [*sides, -1], [file.last], ("FullyConnectedOptions", {}), 5)
    stored = integers((40, 16))
    check(file, stored, tmp_path, profile=profile)
    result = quantize(load_model(tmp_path / "m.tflite"), None, Options(target="litert", profile=profile))
    export_program(result.propagated, tmp_path / "again.tflite")
    assert "FULLY_CONNECTED" in [op.name for op in read_model((tmp_path / "again.tflite").read_bytes()).operators]
    real = ((stored.astype(np.float64) - point) * np.float64(np.float32(0.031))).astype(np.float32)
    paths = [tmp_path / name for name in ("again.tflite", "m.tflite")]
    ours, theirs = (LiteRTFile(path, reference=profile is None)({"x": real})["y"] for path in paths)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("stored", ["int8", "float16"])
def test_a_transposed_convolution_dequantizes_its_constant_weights(stored: str, tmp_path: Path) -> None:
    """It was refused, because another operator made its weights: those of ai-edge-quantizer's `weight_only_wi8`."""
    random, build = np.random.default_rng(2), ModelBuilder()
    first = build.tensor("x", (1, 4, 4, 3), "float32", None)
    scales = UniformQuantizedType.per_channel(Storage.of("i8", -127, 127), 0, [0.01, 0.02], [0, 0])
    whole = random.integers(-127, 128, (2, 2, 2, 3)).astype(np.int8)
    weights = (
        build.constant("weights", whole, scales) if stored == "int8" else build.constant("weights", whole.astype("f2"))
    )
    read = build.tensor("read", whole.shape, "float32", None)
    build.operator("DEQUANTIZE", [weights], [read], None)
    sizes = build.constant("sizes", np.array([1, 8, 8, 2], np.int32))
    result = build.tensor("y", (1, 8, 8, 2), "float32", None)
    options = ("TransposeConvOptions", {"padding": 1, "strideW": 2, "strideH": 2})
    build.operator("TRANSPOSE_CONV", [sizes, read, first], [result], options, 1)
    path = tmp_path / "m.tflite"
    path.write_bytes(build.finish({"x": first}, {"y": result}, "", {}))
    x = random.normal(0, 1, (1, 4, 4, 3)).astype(np.float32)
    theirs = LiteRTFile(path, reference=True)({"x": x})["y"]
    program = load_model(path)
    np.testing.assert_allclose(Interpreter(program)({"x": x})["y"], theirs, rtol=1e-5, atol=1e-5)
    assert ("quant.qcast" in str(program.module)) == (stored == "int8")


@pytest.mark.parametrize("channels", [1, 4])
def test_a_16_bit_result_of_8_bit_data_is_what_litert_computes(channels: int, tmp_path: Path) -> None:
    """It has no such kernel. ai-edge-quantizer's 16x8 LSTMs have one: a third of their outputs differed by a step."""
    file, random = File((3, 6), kind(0.031, 3)), np.random.default_rng(1)
    scales, zeros = [0.01, 0.02, 0.03, 0.04][:channels], [0] * channels
    parts = [UniformQuantizedType.per_channel(Storage.of("i8"), 0, scales, zeros), kind(0.01)]
    weights = file.build.constant("w", random.integers(-127, 128, (4, 6)).astype(np.int8), parts[channels == 1])
    sums = UniformQuantizedType.per_channel(Storage.of("i32"), 0, [0.031 * s for s in scales], zeros)
    bias = file.build.constant("b", np.array([9000, -77, 12, 5], np.int32), sums if channels > 1 else None)
    file.dtype = "int16"
    file.then("FULLY_CONNECTED", (3, 4), kind(0.001, 0, "i16"), ("FullyConnectedOptions", {}), [weights, bias], 5)
    file.dtype = "int8"
    if channels > 1:
        check(file, integers((3, 6)), tmp_path)
        return
    (tmp_path / "m.tflite").write_bytes(file.content())
    with pytest.raises(ModelError, match="found i8 data and a result of i16, for which LiteRT reads"):
        load_model(tmp_path / "m.tflite")


SLICES = [
    ({"ellipsisMask": 1}, ((0, 1), (0, 3), (1, 1)), (2, 3, 2)),
    ({"ellipsisMask": 2}, ((1, 0, 0), (2, 0, 3), (1, 1, 2)), (1, 3, 2)),
    ({"newAxisMask": 1}, ((0, 1, 0), (1, 2, 3), (1, 1, 1)), (1, 1, 3, 4)),
    ({"newAxisMask": 2}, ((0, 0, 1), (2, 0, 3), (1, 1, 1)), (2, 1, 2, 4)),
    ({"ellipsisMask": 1, "newAxisMask": 2}, ((0, 0), (0, 0), (1, 1)), (2, 3, 4, 1)),
    ({"ellipsisMask": 1, "newAxisMask": 2, "shrinkAxisMask": 4}, ((0, 0, -1), (0, 0, 0), (1, 1, 1)), (2, 3, 1)),
    ({"newAxisMask": 1, "beginMask": 2, "endMask": 2}, ((0, 5, 1), (0, 5, 3), (1, 1, 1)), (1, 2, 2, 4)),
    ({"ellipsisMask": 4}, ((0, 1, 0), (1, 3, 0), (1, 1, 1)), (1, 2, 4)),
]


@pytest.mark.parametrize(("masks", "parts", "shape"), SLICES)
def test_slices_with_an_ellipsis_or_a_new_axis(
    masks: dict[str, int], parts: Sequence[Sequence[int]], shape: tuple[int, ...], tmp_path: Path
) -> None:
    file = File((2, 3, 4), kind(0.1, 3))
    constants = [file.build.constant(f"c{n}", np.array(part, np.int32)) for n, part in enumerate(parts)]
    file.then("STRIDED_SLICE", shape, kind(0.1, 3), ("StridedSliceOptions", masks), constants, 4)
    check(file, np.arange(24, dtype=np.int8).reshape(2, 3, 4), tmp_path)


@pytest.mark.parametrize(
    ("axis", "batch", "places", "shape"),
    [
        (1, 1, [[0, 2], [1, 1]], (2, 2, 4)),
        (2, 1, [[3, 0, 1], [2, 2, 1]], (2, 3, 3)),
        (-1, -1, [[3, 0], [2, 2]], (2, 3, 2)),
        (1, 1, [2, 0], (2, 4)),
        (2, 2, [[3, 0, 1], [2, 2, 1]], (2, 3)),
    ],
)
def test_positions_of_each_batch(
    axis: int, batch: int, places: list[Any], shape: tuple[int, ...], tmp_path: Path
) -> None:
    file = File((2, 3, 4), kind(0.1, 3))
    options = ("GatherOptions", {"axis": axis, "batchDims": batch})
    file.then("GATHER", shape, kind(0.1, 3), options, [file.build.constant("places", np.array(places, np.int32))], 5)
    path = tmp_path / "m.tflite"
    path.write_bytes(file.content())
    x = (np.random.default_rng(0).integers(-128, 128, (2, 3, 4)) - 3) * np.float32(0.1)
    (found,) = Interpreter(load_model(path))({"x": x.astype(np.float32)}).values()
    np.testing.assert_array_equal(found, LiteRTFile(path, reference=True)({"x": x.astype(np.float32)})["y"])
    quantize(load_model(path), None, Options(target="litert"))
