"""Values that the model tests for NaN or infinities, such as rows of a softmax whose scores are all hidden."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import zeropoint as zp
from zeropoint.solve.widths.keep_tested import WHY

LENGTH, WIDTH, COUNT = 6, 8, 8
TARGETS = ["cpu", "cpu-integer", "litert", "onnxruntime", "openvino", "tosa"]
HIDDEN = np.float32(-np.inf)
Nodes = list[tuple[str, list[str], str]]
MASKS: dict[str, Nodes] = {
    "constant, added": [("Add", ["scores", "added"], "s")],
    "constant, selected": [("Where", ["shown", "scores", "hidden"], "s")],
    "input, added": [("Add", ["scores", "mask"], "s")],
    "input, selected": [("Where", ["mask", "scores", "hidden"], "s")],
    "computed, added": [("Where", ["mask", "zero", "hidden"], "m"), ("Add", ["scores", "m"], "s")],
}
"""How -inf gets into the scores."""
TESTS: dict[str, Nodes] = {
    "NaN": [("IsNaN", ["p"], "gone"), ("Where", ["gone", "zero", "p"], "p0")],
    "greatest score": [
        ("ReduceMax", ["s", "last"], "greatest"),
        ("Equal", ["greatest", "hidden"], "gone"),
        ("Where", ["gone", "zero", "p"], "p0"),
    ],
    "NaN of the product": [
        ("MatMul", ["p", "v"], "o"),
        ("IsNaN", ["o"], "gone"),
        ("Where", ["gone", "zero", "o"], "y"),
    ],
}
"""How the model asks which rows are hidden; it makes them 0."""


def shown(count: int, seed: int) -> np.ndarray:
    """Scores to show: none in the second row."""
    found = np.random.default_rng(seed).random((count, LENGTH, LENGTH)) < 0.7
    found[:, :, 0] = True
    found[:, 1] = False
    return found


def attention(mask: str, test: str, constant: np.ndarray) -> onnx.ModelProto:
    """One head of attention whose second row has hidden scores only, unless `constant` shows some."""
    random = np.random.default_rng(1)
    constants: dict[str, np.ndarray] = {
        name: random.uniform(-0.5, 0.5, (WIDTH, WIDTH)).astype(np.float32) for name in ("wq", "wk", "wv")
    }
    constants |= {
        "hidden": np.array(HIDDEN),
        "zero": np.array(0, np.float32),
        "last": np.array([-1]),
        "shown": constant,
    }
    constants["added"] = np.where(constant, np.float32(0), HIDDEN)
    nodes: Nodes = [("MatMul", ["x", f"w{name}"], name) for name in "qkv"]
    nodes += [("Transpose", ["k"], "t"), ("MatMul", ["q", "t"], "scores"), *MASKS[mask]]
    nodes += [("Softmax", ["s"], "p"), *TESTS[test]]
    nodes += [] if test == "NaN of the product" else [("MatMul", ["p0", "v"], "y")]
    options = {"Transpose": {"perm": [0, 2, 1]}, "Softmax": {"axis": -1}}
    made = [helper.make_node(kind, read, [name], name=name, **options.get(kind, {})) for kind, read, name in nodes]
    used = {name for node in made for name in node.input}
    kind = TensorProto.FLOAT if mask == "input, added" else TensorProto.BOOL
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, LENGTH, WIDTH])]
    ports += [helper.make_tensor_value_info("mask", kind, [1, LENGTH, LENGTH])] if "mask" in used else []
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, LENGTH, WIDTH])
    arrays = [numpy_helper.from_array(array, name) for name, array in constants.items() if name in used]
    graph = helper.make_graph(made, "g", ports, [result], arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def samples(mask: str, seed: int) -> dict[str, np.ndarray]:
    found = {"x": np.random.default_rng(seed).uniform(-2, 2, (COUNT, LENGTH, WIDTH)).astype(np.float32)}
    if not mask.startswith("constant"):
        keep = shown(COUNT, seed)
        found["mask"] = np.where(keep, np.float32(0), HIDDEN) if mask == "input, added" else keep
    return found


CASES = [(mask, "NaN", "litert") for mask in MASKS]
CASES += [("input, selected", "NaN", target) for target in TARGETS if target != "litert"]
CASES += [(mask, "greatest score", "litert") for mask in ("constant, selected", "input, added", "computed, added")]
CASES += [("constant, selected", "greatest score", "cpu"), ("input, added", "NaN of the product", "onnxruntime")]


@pytest.mark.parametrize(("mask", "test", "target"), CASES)
def test_rows_whose_scores_are_all_hidden_become_what_the_model_says(mask: str, test: str, target: str) -> None:
    """They were uniform: a bounded mask hides no whole row, and integers are never NaN."""
    model = attention(mask, test, shown(1, 0))
    quantized = zp.quantize(model, samples(mask, 0), target=target, effort="none")
    (output,) = zp.compare(model, quantized, samples(mask, 0)).outputs
    assert output.sqnr > 24
    found = quantized(**{name: array[:1] for name, array in samples(mask, 0).items()})["y"]
    assert not found[0, 1].any()


def test_the_reason_names_the_test() -> None:
    quantized = zp.quantize(attention("input, selected", "NaN", shown(1, 0)), samples("input, selected", 0))
    reasons = {op.name: op.reason for op in quantized.explain().float_ops}
    assert {reasons[name] for name in ("s", "p")} == {WHY}


ROOTS: dict[str, Nodes] = {
    "RMS norm": [
        ("Mul", ["a", "a"], "squares"),
        ("ReduceMean", ["squares", "last"], "mean"),
        ("Add", ["mean", "small"], "shifted"),
        ("Sqrt", ["shifted"], "root"),
        ("Div", ["a", "root"], "x"),
    ],
    "cube": [("Pow", ["a", "three"], "x")],
    "length": [("ReduceL2", ["a", "last"], "length"), ("Max", ["length", "small"], "d"), ("Div", ["a", "d"], "x")],
}
"""Functions before attention that never give NaN."""


@pytest.mark.parametrize("root", ROOTS)
def test_a_root_of_positive_numbers_before_a_finite_mask_leaves_the_softmax_in_integers(root: str) -> None:
    # As PyTorch exports decoders with RMS norms: masks are finite, but every softmax is tested for NaN.
    model = attention("computed, added", "NaN", shown(1, 0))
    arrays = {"small": np.float32(1e-6), "three": np.float32(3)}
    hidden = next(each for each in model.graph.initializer if each.name == "hidden")
    hidden.CopyFrom(numpy_helper.from_array(np.array(np.finfo(np.float32).min), "hidden"))
    kept = {each.name for each in model.graph.initializer}
    used = {name for _, read, _ in ROOTS[root] for name in read}
    arrays = {**arrays, "last": np.array([-1])}
    model.graph.initializer.extend(
        numpy_helper.from_array(np.array(array), name) for name, array in arrays.items() if name in used - kept
    )
    before = [helper.make_node(kind, read, [name], name=name) for kind, read, name in ROOTS[root]]
    after = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([*before, *after])
    model.graph.input[0].name = "a"
    data = samples("computed, added", 0)
    data["a"] = data.pop("x")
    quantized = zp.quantize(model, data, target="cpu-integer", effort="none")
    assert WHY not in {op.reason for op in quantized.explain().float_ops}
    (output,) = zp.compare(model, quantized, data).outputs
    assert output.sqnr > 20


@pytest.mark.parametrize("mask", ["constant, added", "constant, selected"])
def test_a_constant_mask_that_shows_a_score_in_every_row_leaves_the_softmax_in_integers(mask: str) -> None:
    causal = np.tril(np.ones((1, LENGTH, LENGTH), np.bool_))
    quantized = zp.quantize(attention(mask, "NaN", causal), samples(mask, 0), target="cpu-integer", effort="none")
    assert WHY not in {op.reason for op in quantized.explain().float_ops}


def test_a_selection_with_minus_infinity_that_a_recipe_keeps_float_keeps_minus_infinity() -> None:
    model = attention("constant, selected", "NaN", np.tril(np.ones((1, LENGTH, LENGTH), np.bool_)))
    model.graph.output.append(helper.make_tensor_value_info("s", TensorProto.FLOAT, [1, LENGTH, LENGTH]))
    recipe = [{"name": "s", "quantize": False}]
    quantized = zp.quantize(model, samples("constant", 0), target="litert", recipe=recipe, effort="none")
    found = quantized(**{name: array[:1] for name, array in samples("constant", 1).items()})["s"]
    assert np.isneginf(found[0, 0, 1:]).all()


@pytest.mark.parametrize("test", ["IsInf", "IsNaN"])
def test_a_quotient_that_is_tested_stays_float(test: str) -> None:
    """x / 0 was the greatest quotient of the calibration, and no test found it."""
    zeros = np.zeros((1, 4), np.float32)
    nodes = [
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Div", ["r" if test == "IsNaN" else "b", "r"], ["q"], name="q"),
        helper.make_node(test, ["q"], ["gone"]),
        helper.make_node("Where", ["gone", "one", "q"], ["y"]),
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "aby"]
    graph = helper.make_graph(nodes, "g", ports[:2], ports[2:], [numpy_helper.from_array(np.float32(1), "one")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    random = np.random.default_rng(0)
    data = {"a": random.uniform(2, 3, (8, 4)).astype(np.float32), "b": random.uniform(1, 3, (8, 4)).astype(np.float32)}
    quantized = zp.quantize(model, data, target="litert", effort="none")
    np.testing.assert_array_equal(quantized(a=zeros, b=zeros + 2)["y"], zeros + 1)
