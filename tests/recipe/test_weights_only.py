"""`activations: float`: a kernel stays float, and its weights are stored in few bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import zeropoint as zp
from frontend.onnx.packed_products import packed_model
from zeropoint.codegen.kernels.contraction import Contraction
from zeropoint.codegen.kernels.dequantized import PackedFloats
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.ir.constants import constant_array
from zeropoint.ir.program import Program
from zeropoint.ir.quant import DequantizeCastOp, StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import UniformDequantizeOp
from zeropoint.ir.tensors import element_of, shape_of

RANDOM = np.random.default_rng(3)
X = RANDOM.normal(size=(4, 128)).astype(np.float32)
FLOAT = {"op": "fully_connected", "activations": "float"}


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """fc1 (128 x 256), bias, relu, fc2 (256 x 96), softmax."""
    constants = {
        "w1": RANDOM.normal(size=(128, 256)),
        "b1": RANDOM.normal(size=256),
        "w2": RANDOM.normal(size=(256, 96)) / 16,
    }
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w1"], ["a"], "fc1"),
            helper.make_node("Add", ["a", "b1"], ["b"], "bias"),
            helper.make_node("Relu", ["b"], ["r"], "relu"),
            helper.make_node("MatMul", ["r", "w2"], ["z"], "fc2"),
            helper.make_node("Softmax", ["z"], ["y"], "probabilities"),
        ],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 128])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 96])],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in constants.items()],
    )
    path = tmp_path_factory.mktemp("network") / "network.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), path)
    return path


def types_of(program: Program) -> list[UniformQuantizedType]:
    casts = [op for op in program.entry.ops if isinstance(op, DequantizeCastOp) and len(shape_of(op.input)) == 2]
    found = [element_of(op.input) for op in casts]
    assert all(isinstance(kind, UniformQuantizedType) for kind in found)
    return [kind for kind in found if isinstance(kind, UniformQuantizedType)]


def quantized(made: zp.Model) -> Program:
    """The program before its scales of blocks are tensors."""
    assert made.quantization is not None
    return made.quantization.quantized


def packed_bits(native: NativeProgram) -> list[int]:
    """The widths of the weights that kernels unpack."""
    kernels = [step.kernel for step in native.graph.steps]
    found = [kernel.arithmetic for kernel in kernels if isinstance(kernel, Contraction)]
    return [each.bits for each in found if isinstance(each, PackedFloats)]


def sqnr(network: Path, model: zp.Model) -> float:
    real = zp.load(network)(x=X)["y"]
    return float(10 * np.log10(np.square(real).sum() / np.square(real - model(x=X)["y"]).sum()))


RULES = [
    {"weight_bits": 4, "block_size": 32},
    {"weight_bits": 4, "block_size": 32, "weight_symmetric": False},
    {"weight_bits": 8, "block_size": 128},
    {"weight_bits": 8},
]


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_the_file_and_native_code_have_packed_weights(network: Path, tmp_path: Path, rule: dict[str, object]) -> None:
    made = zp.quantize(network, recipe=[{**FLOAT, **rule}])
    made.save(tmp_path / "made.mlir")
    bits = rule["weight_bits"]
    assert isinstance(bits, int)
    weights = (128 * 256 + 256 * 96) * bits // 8
    if isinstance(size := rule.get("block_size"), int):
        numbers = (128 * 256 + 256 * 96) // size
        weights += numbers * 4 + (0 if rule.get("weight_symmetric", True) else numbers * bits // 8)
    assert weights < (tmp_path / "made.safetensors").stat().st_size < weights + 3000
    assert (tmp_path / "made.mlir").stat().st_size < 20_000
    loaded = zp.load(tmp_path / "made.mlir")
    native = NativeProgram(loaded.program)
    assert packed_bits(native) == [bits, bits]
    np.testing.assert_array_equal(native({"x": X})["y"], made(x=X)["y"])
    np.testing.assert_array_equal(loaded(x=X)["y"], made(x=X)["y"])


def test_more_bits_are_closer_to_float(network: Path) -> None:
    figures = [sqnr(network, zp.quantize(network, recipe=[{**FLOAT, **rule}])) for rule in RULES]
    assert min(figures) > 10, figures
    assert min(figures[2:]) > max(figures[:2]) + 10, figures


def test_stored_weights_are_the_nearest_to_the_models(network: Path) -> None:
    """Except at the ends of a block's range, which may be cut."""
    made = zp.quantize(network, recipe=[{**FLOAT, "weight_bits": 4, "block_size": 32}])
    (first, _) = types_of(quantized(made))
    assert str(first).startswith("!quant.uniform<i4:f32:{0:32, 1:1}, {{")
    weight = numpy_helper.to_array(onnx.load(network).graph.initializer[0])
    scales = np.repeat(first.scales, 32, axis=0)
    greatest = np.abs(weight).reshape(4, 32, 256).max(axis=1)
    assert (first.scales <= greatest / 7 * (1 + 1e-6)).all()
    assert (first.scales >= 0.59 * greatest / 7).all()
    (stored, _) = [op for op in quantized(made).entry.ops if isinstance(op, StorageCastOp)]
    numbers = constant_array(stored.input, quantized(made).weights)
    assert numbers is not None
    error = np.abs(numbers.astype(float) * scales - weight)
    inside = np.abs(weight) <= 7 * scales
    assert (error[inside] <= scales[inside] * 0.5001).all()
    assert (np.abs(numbers.astype(float))[~inside] >= 7).all()


@pytest.mark.parametrize(
    "rules",
    [
        [{**FLOAT, "weight_bits": 8}, {"name": "fc1", "quantize": False}],
        [{"regex": ".*", "quantize": False}, {"name": "fc2", "activations": "float"}],
    ],
)
def test_of_float_and_only_weights_the_later_rule_holds(network: Path, rules: list[dict[str, object]]) -> None:
    made = zp.quantize(network, recipe=rules)
    casts = [op for op in made.program.entry.ops if isinstance(op, DequantizeCastOp | UniformDequantizeOp)]
    assert [shape_of(op.results[0]) for op in casts] == [(256, 96)]


def test_a_pinned_type_is_kept() -> None:
    """MatMulNBits: the model's own blocks, with zero points, in 4 bits."""
    model = packed_model(4, 32, 96, "integers")
    made = zp.quantize(model, recipe=[FLOAT])
    (kind,) = types_of(quantized(made))
    assert str(kind).startswith("!quant.uniform<i4:f32:{0:32, 1:1}, {{")
    assert kind.zero_points.any()
    x = RANDOM.normal(size=(2, 96)).astype(np.float32)
    np.testing.assert_array_equal(made(x=x)["y"], zp.load(model)(x=x)["y"])


def test_an_imported_product_stays_packed_in_native_code() -> None:
    loaded = zp.load(packed_model(4, 32, 96, "integers", bias=True))
    native = NativeProgram(loaded.program)
    assert packed_bits(native) == [4]
    x = RANDOM.normal(size=(2, 96)).astype(np.float32)
    np.testing.assert_array_equal(native({"x": x})["y"], loaded(x=x)["y"])


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"op": "softmax", "activations": "float"}, "expected a kernel with constant weights; 'softmax' here has none"),
        (
            {"op": "fully_connected", "activations": "int8"},
            "key 'activations': found 'int8', expected float, with only the weights",
        ),
        ({**FLOAT, "block_size": 48}, "terms a channel, expected a multiple of block_size 48"),
        ({"op": "fully_connected", "weight_symmetric": False}, "expected 'activations: float' with it"),
    ],
)
def test_rules_without_effect_are_refused(network: Path, rule: dict[str, object], message: str) -> None:
    with pytest.raises(zp.Error, match=message):
        zp.quantize(network, recipe=[rule])


def test_rows_of_a_table_are_stored_in_8_bits_with_a_scale_each(tmp_path: Path) -> None:
    table = RANDOM.normal(size=(50, 24)).astype(np.float32) * RANDOM.uniform(0.1, 10, (50, 1)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "ids"], ["y"], "words")],
        "graph",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [2, 7])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 7, 24])],
        [numpy_helper.from_array(table, "table")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    made = zp.quantize(model, recipe=[{"op": "gather", "activations": "float"}])
    made.save(tmp_path / "made.mlir")
    assert (tmp_path / "made.safetensors").stat().st_size < 50 * 24 + 50 * 4 + 1000
    ids = RANDOM.integers(0, 50, (2, 7))
    found = made(ids=ids)["y"]
    scales = (np.abs(table).max(axis=1) / 127).astype(np.float32)
    assert (np.abs(found - table[ids]) <= 0.5001 * scales[ids][..., None]).all()
    expected = np.rint(table / scales[:, None].astype(float)).astype(np.float32)[ids] * scales[ids][..., None]
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(made.native()(ids=ids)["y"], found)
