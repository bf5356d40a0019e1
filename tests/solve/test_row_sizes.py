"""A layer normalization of rows of very different size keeps its operand out of 8 bits."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import zeropoint as zp
from zeropoint.ir.annotations import FLOAT_REASON
from zeropoint.ir.quant import QuantizeRegionOp

ROWS, WIDTH = 16, 64
EVEN = np.ones(ROWS)
UNEVEN = 10 ** np.linspace(-2, 1, ROWS)
SOME_ZERO = np.where(np.arange(ROWS) < 4, 0.0, 1.0)


def normalization(form: str, sizes: np.ndarray) -> onnx.ModelProto:
    """Rows of the given sizes, normalized and multiplied by a matrix."""
    random = np.random.default_rng(0)
    constants = {
        "w": random.normal(0, 0.125, (WIDTH, WIDTH)),
        "sizes": sizes.reshape(1, ROWS, 1),
        "v": random.normal(0, 0.125, (WIDTH, 16)),
        "scale": np.ones(WIDTH),
        "bias": np.zeros(WIDTH),
        "epsilon": np.array(1e-6),
    }
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Mul", ["h", "sizes"], ["g"], name="g")]
    if form == "fused":
        nodes.append(helper.make_node("LayerNormalization", ["g", "scale", "bias"], ["n"], axis=-1, name="n"))
    else:
        mean = {"axes": [-1], "keepdims": 1}
        nodes += [
            helper.make_node("ReduceMean", ["g"], ["mean"], **mean),
            helper.make_node("Sub", ["g", "mean"], ["centred"]),
            helper.make_node("Mul", ["centred", "centred"], ["squares"]),
            helper.make_node("ReduceMean", ["squares"], ["variance"], **mean),
            helper.make_node("Add", ["variance", "epsilon"], ["shifted"]),
            helper.make_node("Sqrt", ["shifted"], ["deviation"]),
            helper.make_node("Div", ["centred", "deviation"], ["n"], name="n"),
        ]
    nodes.append(helper.make_node("MatMul", ["n", "v"], ["y"]))
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, ROWS, WIDTH])]
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, ROWS, 16])]
    arrays = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", ports, made, arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def samples(seed: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(seed).normal(0, 1, (16, ROWS, WIDTH)).astype(np.float32)}


def reason_of(model: zp.Model, name: str) -> str | None:
    """Why the region of an op stays float; None if it is quantized."""
    assert model.quantization is not None
    regions = [op for op in model.quantization.propagated.entry.ops if isinstance(op, QuantizeRegionOp)]
    found = next(op for op in regions if f'"{name}"' in str(op.location))
    reason = found.attributes.get(FLOAT_REASON)
    return None if reason is None else reason.data


@pytest.mark.parametrize("target", ["cpu", "litert", "onnxruntime", "cpu-integer"])
@pytest.mark.parametrize("form", ["written out", "fused"])
def test_rows_of_very_different_size_are_not_rounded_to_one_scale(form: str, target: str) -> None:
    model = normalization(form, UNEVEN)
    quantized = zp.quantize(model, samples(0), target=target, effort="none")
    (output,) = zp.compare(model, quantized, samples(1)).outputs
    assert output.sqnr > 26
    if target != "cpu-integer":  # has 16 bits for it
        assert "i8 is too coarse for the operand of layer_norm" in str(reason_of(quantized, "g"))


@pytest.mark.parametrize("sizes", [EVEN, SOME_ZERO], ids=["even", "some rows are zero"])
def test_rows_of_one_size_are_rounded(sizes: np.ndarray) -> None:
    quantized = zp.quantize(normalization("fused", sizes), samples(0), effort="none")
    assert reason_of(quantized, "g") is None


def quotient() -> onnx.ModelProto:
    """x / y of numbers whose sizes span decades together."""
    random = np.random.default_rng(0)
    sizes = 10 ** random.uniform(-2, 1, (1, WIDTH))
    constants = {name: random.normal(0, 0.125, (WIDTH, WIDTH)) for name in ("v", "w")}
    constants |= {"sizes": sizes, "least": sizes * 0.3, "u": random.normal(0, 0.125, (WIDTH, 16))}
    nodes = [
        helper.make_node("MatMul", ["x", "v"], ["a"]),
        helper.make_node("MatMul", ["x", "w"], ["b"]),
        helper.make_node("Mul", ["a", "sizes"], ["above"]),
        helper.make_node("Mul", ["b", "sizes"], ["c"]),
        helper.make_node("Abs", ["c"], ["d"]),
        helper.make_node("Add", ["d", "least"], ["below"]),
        helper.make_node("Div", ["above", "below"], ["q"]),
        helper.make_node("MatMul", ["q", "u"], ["y"]),
    ]
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, WIDTH])]
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16])]
    arrays = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", ports, made, arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


@pytest.mark.parametrize("target", ["cpu", "litert", "onnxruntime"])
def test_the_numerator_of_a_quotient_of_very_different_sizes_is_not_rounded_to_one_scale(target: str) -> None:
    data = [{"x": np.random.default_rng(seed).normal(0, 1, (24, WIDTH)).astype(np.float32)} for seed in (0, 1)]
    model = quotient()
    quantized = zp.quantize(model, data[0], target=target, effort="none")
    (output,) = zp.compare(model, quantized, data[1]).outputs
    assert output.sqnr > 26


@pytest.mark.parametrize("function", ["Sigmoid", "Tanh", "Atan", "Clip"])
def test_a_bounded_function_of_a_quotient_does_not_hide_that_its_divisor_comes_near_zero(function: str) -> None:
    """On cpu, |b| + 0.01 was rounded to 0 in small rows, and 0 / 0 gave NaN."""
    random = np.random.default_rng(1)
    weights = {name: random.normal(0, 0.125, (WIDTH, WIDTH)) for name in ("v", "w")}
    arrays = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()]
    numbers = {"least": 0.01, "low": -3.0, "high": 3.0}
    arrays += [numpy_helper.from_array(np.float32(number), name) for name, number in numbers.items()]
    nodes = [
        helper.make_node("MatMul", ["x", "v"], ["a"]),
        helper.make_node("MatMul", ["x", "w"], ["b"]),
        helper.make_node("Abs", ["b"], ["c"]),
        helper.make_node("Add", ["c", "least"], ["below"]),
        helper.make_node("Div", ["a", "below"], ["q"]),
        helper.make_node(function, ["q", *(["low", "high"] if function == "Clip" else [])], ["y"]),
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, WIDTH]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], arrays)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    sizes = np.exp(random.normal(0, 1.2, (24, 1)))
    data = {"x": (random.normal(0, 1, (24, WIDTH)) * sizes).astype(np.float32)}
    (output,) = zp.compare(model, zp.quantize(model, data, effort="none"), data).outputs
    assert output.sqnr > 26


def rms_normalization(form: str, spread: float) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Rows that are divided by their RMS, between two products, and data whose rows have sizes of e^normal(spread)."""
    random = np.random.default_rng(2)
    weights = {name: random.normal(0, 0.125, (WIDTH, WIDTH)) for name in ("v", "u")}
    numbers = {**weights, "least": 1e-6, "two": 2.0, "half": -0.5}
    arrays = [numpy_helper.from_array(np.asarray(a, np.float32), name) for name, a in numbers.items()]
    arrays.append(numpy_helper.from_array(np.array([-1]), "last"))
    inverse = {
        "Reciprocal": [("Sqrt", ["sum"], ["rms"]), ("Reciprocal", ["rms"], ["factor"])],
        "Pow": [("Pow", ["sum", "half"], ["factor"])],
        "Div": [("Sqrt", ["sum"], ["rms"])],
    }[form]
    steps = [
        ("MatMul", ["x", "v"], ["a"]),
        ("Pow", ["a", "two"], ["square"]),
        ("ReduceMean", ["square", "last"], ["mean"]),
        ("Add", ["mean", "least"], ["sum"]),
        *inverse,
        ("Div", ["a", "rms"], ["row"]) if form == "Div" else ("Mul", ["a", "factor"], ["row"]),
        ("MatMul", ["row", "u"], ["y"]),
    ]
    nodes = [helper.make_node(*step, name=step[2][0]) for step in steps]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, WIDTH]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], arrays)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    sizes = np.exp(random.normal(0, spread, (48, 1)))
    return model, {"x": (random.normal(0, 1, (48, WIDTH)) * sizes).astype(np.float32)}


@pytest.mark.parametrize("form", ["Reciprocal", "Pow"])
@pytest.mark.parametrize("target", ["cpu", "litert"])
def test_a_row_that_is_multiplied_by_the_reciprocal_of_its_size_is_not_rounded_to_one_scale(
    form: str, target: str
) -> None:
    """RMSNorm as transformers export it, x * (1 / rms(x)): 8 dB were left, because small rows became 0."""
    model, data = rms_normalization(form, 1.2)
    (output,) = zp.compare(model, zp.quantize(model, data, target=target, effort="none"), data).outputs
    assert output.sqnr > 24


@pytest.mark.parametrize("target", ["cpu", "litert"])
@pytest.mark.parametrize("spread", [0.0, 0.3, 0.6, 1.2])
def test_rows_that_are_divided_by_their_size_keep_it_whatever_its_spread(spread: float, target: str) -> None:
    """With a spread of 0.5, each rounding alone is tolerable, but the rows and their sizes have several."""
    model, data = rms_normalization("Div", spread)
    quantized = zp.quantize(model, data, target=target, effort="none")
    (output,) = zp.compare(model, quantized, data).outputs
    assert output.sqnr > 25
    assert spread or not any("rows of different size" in line for line in str(quantized).splitlines())


@pytest.mark.parametrize("form", ["Reciprocal", "Div"])
@pytest.mark.parametrize("target", ["litert", "onnxruntime", "openvino", "cpu"])
def test_the_product_before_an_rms_norm_computes_integers(form: str, target: str) -> None:
    """The norm is one kernel, which reads 8 bits. Squares in 8 bits were too coarse, and the product stayed float."""
    model, data = rms_normalization(form, 0.6)
    quantized = zp.quantize(model, data, target=target, effort="none")
    assert quantized.quantization is not None
    ops = quantized.quantization.decided.entry.ops
    left = [op.logical_kernel.data for op in ops if isinstance(op, QuantizeRegionOp) and FLOAT_REASON in op.attributes]
    assert left == ["rms_norm"]
    (output,) = zp.compare(model, quantized, data).outputs
    assert output.sqnr > 26


def sized(*shape: int) -> np.ndarray:
    """Rows of normal numbers with sizes of e^normal(0, 1.2)."""
    random = np.random.default_rng(3)
    return (random.normal(size=shape) * np.exp(random.normal(0, 1.2, (*shape[:-1], 1)))).astype(np.float32)


def matrices(*names: str) -> list[onnx.TensorProto]:
    random = np.random.default_rng(4)
    return [numpy_helper.from_array(random.normal(0, 0.25, (16, 16)).astype(np.float32), name) for name in names]


POWERS = {
    "power": [("Pow", ["sum", "exponent"], ["p"])],
    "exponential": [("Log", ["sum"], ["l"]), ("Mul", ["l", "exponent"], ["e"]), ("Exp", ["e"], ["p"])],
    "quotient": [("Pow", ["sum", "rest"], ["n"]), ("Sqrt", ["sum"], ["s"]), ("Div", ["n", "s"], ["p"])],
}


@pytest.mark.parametrize("target", ["cpu", "litert", "onnxruntime"])
@pytest.mark.parametrize("form", list(POWERS))
def test_a_product_with_a_negative_power_of_its_size_is_judged_as_the_quotient(form: str, target: str) -> None:
    """The compressed spectrum X * |X|^-0.7 of speech enhancement: 8 dB were left, because small numbers became 0."""
    numbers = {"least": 1e-9, "exponent": -0.35, "rest": 0.15}
    arrays = [numpy_helper.from_array(np.float32(number), name) for name, number in numbers.items()]
    steps = [
        ("MatMul", ["x", "v"], ["re"]),
        ("MatMul", ["x", "w"], ["im"]),
        ("Mul", ["re", "re"], ["a"]),
        ("Mul", ["im", "im"], ["b"]),
        ("Add", ["a", "b"], ["c"]),
        ("Add", ["c", "least"], ["sum"]),
        *POWERS[form],
        ("Mul", ["re", "p"], ["z"]),
        ("MatMul", ["z", "u"], ["y"]),
    ]
    nodes = [helper.make_node(*step, name=step[2][0]) for step in steps]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 16]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], arrays + matrices("u", "v", "w"))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    data = {"x": sized(32, 16)}
    (output,) = zp.compare(model, zp.quantize(model, data, target=target, effort="none"), data).outputs
    assert output.sqnr > 26


@pytest.mark.parametrize("target", ["cpu", "litert", "onnxruntime"])
def test_a_product_with_a_negative_power_reads_no_power_that_8_bits_cannot_hold(target: str) -> None:
    """The power is float, but was rounded to 8 bits between the two: 21 dB. Few of its values are near its maximum."""
    steps = [
        ("Mul", ["re", "re"], ["a"]),
        ("Mul", ["im", "im"], ["b"]),
        ("Add", ["a", "b"], ["c"]),
        ("Add", ["c", "least"], ["sum"]),
        ("Pow", ["sum", "exponent"], ["p"]),
        ("Mul", ["re", "p"], ["z"]),
    ]
    nodes = [helper.make_node(*step, name=step[2][0]) for step in steps]
    numbers = {"least": 1e-9, "exponent": -0.35}
    arrays = [numpy_helper.from_array(np.float32(number), name) for name, number in numbers.items()]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 16, 64]) for name in ("re", "im", "z")]
    graph = helper.make_graph(nodes, "g", ports[:2], ports[2:], arrays)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    random = np.random.default_rng(0)
    data = {name: random.normal(size=(32, 16, 64)).astype(np.float32) for name in ("re", "im")}
    (output,) = zp.compare(model, zp.quantize(model, data, target=target, effort="none"), data).outputs
    assert output.sqnr > 35


@pytest.mark.parametrize("target", ["cpu", "litert", "onnxruntime"])
def test_linear_attention_with_a_divisor_keeps_rows_of_small_queries(target: str) -> None:
    """relu(q) was rounded to i8 before the product that stays float: small rows became 0, and -6 dB were left."""
    steps = [
        *(step for name in "qkv" for step in [("MatMul", ["x", f"w{name}"], [name])]),
        ("Relu", ["q"], ["rq"]),
        ("Relu", ["k"], ["rk"]),
        ("Transpose", ["rk"], ["kt"]),
        ("MatMul", ["kt", "v"], ["kv"]),
        ("MatMul", ["rq", "kv"], ["a"]),
        ("ReduceSum", ["kt", "two"], ["s"]),
        ("MatMul", ["rq", "s"], ["b"]),
        ("Add", ["b", "least"], ["c"]),
        ("Div", ["a", "c"], ["d"]),
        ("MatMul", ["d", "u"], ["y"]),
    ]
    nodes = [helper.make_node(*step, name=step[2][0]) for step in steps]
    nodes[5].attribute.append(helper.make_attribute("perm", [0, 2, 1]))
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 12, 16]) for name in ("x", "y")]
    arrays = [numpy_helper.from_array(np.float32(1e-6), "least"), numpy_helper.from_array(np.array([2]), "two")]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], arrays + matrices("u", "wq", "wk", "wv"))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    data = {"x": sized(24, 12, 16)}
    (output,) = zp.compare(model, zp.quantize(model, data, target=target, effort="none"), data).outputs
    assert output.sqnr > 25
