"""Masks before softmax: -inf is legitimate, and so are -1e9 and the least f32."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import zeropoint as zp
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.ir.text import print_program

LENGTH, WIDTH = 8, 16


def random(*shape: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32)


def attention(form: str, hidden: float, then: str = "") -> onnx.ModelProto:
    """One head of causal attention; `form` says how the mask is put on, `then` what else is between it and softmax."""
    causal = np.triu(np.ones((1, LENGTH, LENGTH), bool), 1)
    constants = {f"w{name}": random(WIDTH, WIDTH, seed=seed) * np.float32(0.4) for seed, name in enumerate("qkv")}
    nodes = [helper.make_node("MatMul", ["x", f"w{name}"], [name], name=name) for name in "qkv"]
    nodes.append(helper.make_node("Transpose", ["k"], ["t"], perm=[0, 2, 1], name="t"))
    nodes.append(helper.make_node("MatMul", ["q", "t"], ["scores"], name="scores"))
    if form == "add":
        constants["mask"] = np.where(causal, np.float32(hidden), np.float32(0))
        nodes.append(helper.make_node("Add", ["scores", "mask"], ["masked"], name="masked"))
    else:
        constants["mask"], constants["hidden"] = ~causal, np.array(hidden, np.float32)
        nodes.append(helper.make_node("Where", ["mask", "scores", "hidden"], ["masked"], name="masked"))
    if then == "clamp":
        constants["lowest"] = np.array(LEAST, np.float32)
        nodes.append(helper.make_node("Max", ["masked", "lowest"], ["read"], name="clamped"))
    elif then == "reshape":
        constants["flat"] = np.array([LENGTH, LENGTH])
        nodes.append(helper.make_node("Reshape", ["masked", "flat"], ["read"], name="flattened"))
    nodes.append(helper.make_node("Softmax", ["read" if then else "masked"], ["p"], axis=-1, name="p"))
    nodes.append(helper.make_node("MatMul", ["p", "v"], ["y"], name="y"))
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, LENGTH, WIDTH]) for name in "xy"]
    arrays = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


DATA = [{"x": random(1, LENGTH, WIDTH, seed=seed)} for seed in range(10, 20)]
LEAST = float(np.finfo(np.float32).min)


@pytest.mark.parametrize("target", ["cpu", "litert"])
@pytest.mark.parametrize("form", ["add", "where"])
@pytest.mark.parametrize("hidden", [-np.inf, LEAST, -1e9])
def test_a_mask_does_not_destroy_the_scores(form: str, hidden: float, target: str, tmp_path: Path) -> None:
    onnx.save(attention(form, hidden), tmp_path / "m.onnx")
    network = zp.load(tmp_path / "m.onnx")
    integers = zp.quantize(network, DATA, target=target, effort="none")
    (output,) = zp.compare(network, integers, DATA).outputs
    assert output.sqnr > 24


@pytest.mark.parametrize("target", ["cpu", "litert", "onnxruntime"])
@pytest.mark.parametrize(
    ("form", "then", "hidden"),
    [("add", "reshape", -1e9), ("where", "clamp", -1e9), ("add", "clamp", -np.inf), ("where", "clamp", -np.inf)],
)
def test_what_moves_or_clamps_the_masked_scores_does_not_destroy_them(
    form: str, target: str, then: str, hidden: float
) -> None:
    """OPT's attention clamps the masked scores at torch.finfo.min, and reshapes them: 5 dB were left."""
    model = attention(form, hidden, then)
    (output,) = zp.compare(model, zp.quantize(model, DATA, target=target, effort="none"), DATA).outputs
    assert output.sqnr > 24


def padded(form: str, target: str) -> float:
    """The SQNR of attention whose scores are divided, then hidden by a mask that is computed from an input."""
    model = attention("where", -1e9)
    graph = model.graph
    (where,) = (node for node in graph.node if node.op_type == "Where")
    at = list(graph.node).index(where)
    graph.node.remove(where)
    constants = {"root": 1.7, "one": 1.0, "many": 10000.0, "third": 0.3}
    made = [helper.make_node("Div", ["scores", "root"], ["divided"], name="divided")]
    if form == "where":
        made += [
            helper.make_node("Greater", ["keep", "third"], ["kept"]),
            helper.make_node("Where", ["kept", "divided", "hidden"], ["masked"], name="masked"),
        ]
    else:
        order = ["many", "hides"] if form == "subtract" else ["hides", "many"]
        made += [
            helper.make_node("Sub", ["one", "keep"], ["hides"], name="hides"),
            helper.make_node("Mul", order, ["far"], name="far"),
            helper.make_node("Sub", ["divided", "far"], ["masked"], name="masked"),
        ]
    for node in reversed(made):
        graph.node.insert(at, node)
    graph.initializer.extend(numpy_helper.from_array(np.array(n, np.float32), name) for name, n in constants.items())
    graph.input.append(helper.make_tensor_value_info("keep", TensorProto.FLOAT, [1, 1, LENGTH]))
    keep = (np.arange(LENGTH) < np.arange(2, 12)[:, None]).astype(np.float32)
    data = [{**sample, "keep": row[None, None]} for sample, row in zip(DATA, keep, strict=True)]
    (output,) = zp.compare(model, zp.quantize(model, data, target=target, effort="none"), data).outputs
    return output.sqnr


@pytest.mark.parametrize("target", ["cpu", "litert", "onnxruntime", "cpu-integer"])
@pytest.mark.parametrize("form", ["where", "subtract", "subtract the product"])
def test_a_mask_of_padding_does_not_destroy_the_scores(form: str, target: str) -> None:
    """Subtracted masks were no masks, and scores that no kernel reads had no range: 0.5 dB were left."""
    assert padded(form, target) > 24


@pytest.mark.parametrize("form", ["add", "where"])
def test_infinities_of_a_mask_are_no_warning(form: str) -> None:
    """They were counted for each sum, as if the weights had to be repaired."""
    made = zp.quantize(attention(form, -np.inf), DATA, effort="none").quantization
    assert made is not None
    assert not [line for line in made.warnings if "infinities" in line]


@pytest.mark.parametrize(("hidden", "target"), [(-np.inf, "cpu"), (-np.inf, "litert"), (-1e9, "litert")])
@pytest.mark.parametrize("second", ["constant", "input"])
def test_masks_added_one_after_the_other_leave_the_scores_their_precision(
    hidden: float, target: str, second: str
) -> None:
    """A causal mask, then one of padding: -inf was refused, and -1e9 left 5 dB."""
    model = with_input_mask(1, broadcast=True)
    padding, causal = model.graph.node[5], np.triu(np.ones((1, LENGTH, LENGTH), bool), 1)
    scores, padding.input[0] = padding.input[0], "first"
    model.graph.node.insert(5, helper.make_node("Add", [scores, "causal"], ["first"]))
    arrays = {"causal": np.where(causal, np.float32(hidden), np.float32(0))}
    data, test = masked_samples(hidden, 1, 0), masked_samples(hidden, 1, 1)
    if second == "constant":
        model.graph.input.pop()
        arrays["mask"] = data.pop("mask")[:1]
        test.pop("mask")
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    quantized = zp.quantize(model, data, target=target, effort="none")
    (output,) = zp.compare(model, quantized, test).outputs
    assert output.sqnr > 24


def test_every_hidden_number_has_the_same_bound(tmp_path: Path) -> None:
    texts: set[str] = set()
    for hidden in (-np.inf, LEAST, -1e9, -1e4):
        onnx.save(attention("add", hidden), tmp_path / "m.onnx")
        integers = zp.quantize(zp.load(tmp_path / "m.onnx"), DATA, target="litert", effort="none")
        texts.add(print_program(integers.program, inline_weights=True))
    assert len(texts) == 1


def test_a_mask_that_is_near_is_left_alone(tmp_path: Path) -> None:
    onnx.save(attention("add", -3.0), tmp_path / "m.onnx")
    quantization = zp.quantize(zp.load(tmp_path / "m.onnx"), DATA, target="litert", effort="none").quantization
    assert quantization is not None
    program = quantization.calibrated
    arrays = [program.weights.array(op.value) for op in program.entry.ops if isinstance(op, ConstantOp)]
    assert any(a.shape == (1, LENGTH, LENGTH) and a.min() == -3 for a in arrays)


def with_input_mask(heads: int, *, broadcast: bool) -> onnx.ModelProto:
    """Attention of some heads, one after the other, whose mask is an input that all of them read."""
    nodes, last, constants = [], "x", {}
    for head in range(heads):
        names = {name: f"{name}{head}" for name in ("q", "k", "v", "t", "scores", "masked", "p", "y")}
        for seed, name in enumerate("qkv"):
            constants[f"w{name}{head}"] = random(WIDTH, WIDTH, seed=seed + 3 * head) * np.float32(0.25)
            nodes.append(helper.make_node("MatMul", [last, f"w{name}{head}"], [names[name]], name=names[name]))
        nodes += [
            helper.make_node("Transpose", [names["k"]], [names["t"]], perm=[0, 2, 1]),
            helper.make_node("MatMul", [names["q"], names["t"]], [names["scores"]]),
            helper.make_node("Add", [names["scores"], "mask"], [names["masked"]]),
            helper.make_node("Softmax", [names["masked"]], [names["p"]], axis=-1),
            helper.make_node("MatMul", [names["p"], names["v"]], [names["y"]]),
        ]
        last = names["y"]
    ports = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, LENGTH, WIDTH]),
        helper.make_tensor_value_info("mask", TensorProto.FLOAT, [1, 1 if broadcast else LENGTH, LENGTH]),
    ]
    made = [helper.make_tensor_value_info(last, TensorProto.FLOAT, [1, LENGTH, WIDTH])]
    arrays = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", ports, made, arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def masked_samples(hidden: float, rows: int, seed: int) -> dict[str, np.ndarray]:
    """Sequences of different length, padded."""
    lengths = np.random.default_rng(seed).integers(2, LENGTH + 1, 12)
    padding = np.arange(LENGTH)[None, None] >= lengths[:, None, None]
    mask = np.where(np.broadcast_to(padding, (12, rows, LENGTH)), np.float32(hidden), np.float32(0))
    return {"x": random(12, LENGTH, WIDTH, seed=seed), "mask": mask.astype(np.float32)}


@pytest.mark.parametrize(
    ("hidden", "target"), [(-np.inf, "cpu"), (-np.inf, "litert"), (-1e9, "litert"), (-1e9, "onnxruntime")]
)
def test_a_mask_that_is_an_input_leaves_the_scores_their_precision(hidden: float, target: str) -> None:
    """Two heads read the mask. On litert, its range of 1e9 left 3 dB, and a mask of -100 leaves 20."""
    model = with_input_mask(2, broadcast=True)
    quantized = zp.quantize(model, masked_samples(hidden, 1, 0), target=target, effort="none")
    (output,) = zp.compare(model, quantized, masked_samples(hidden, 1, 1)).outputs
    assert output.sqnr > 18


@pytest.mark.parametrize("target", ["cpu", "cpu-integer", "litert", "onnxruntime"])
def test_the_logarithm_of_a_mask_of_ones_and_zeros_hides_scores(target: str) -> None:
    """`scores + log(mask)`: the infinities were left out of the range, which left 6 to 9 dB."""
    model = with_input_mask(2, broadcast=True)
    model.graph.node.insert(0, helper.make_node("Log", ["keep"], ["mask"], name="log"))
    model.graph.input[1].name = "keep"

    def data(seed: int) -> dict[str, np.ndarray]:
        given = masked_samples(-1.0, 1, seed)
        return {"x": given["x"], "keep": 1 + given["mask"]}

    quantized = zp.quantize(model, data(0), target=target, effort="none")
    (output,) = zp.compare(model, quantized, data(1)).outputs
    assert output.sqnr > 18
    assert quantized.quantization is not None
    assert not [line for line in quantized.quantization.warnings if "infinities" in line]


@pytest.mark.parametrize("target", ["litert", "onnxruntime"])
def test_an_input_mask_is_followed_through_a_clamp_and_a_reshape(target: str) -> None:
    model = with_input_mask(1, broadcast=True)
    for node in model.graph.node:
        if node.op_type == "Softmax":
            node.input[0] = "flat"
    between = [("Max", ["masked0", "lowest"], "clamped"), ("Reshape", ["clamped", "shape"], "flat")]
    made = [helper.make_node(kind, inputs, [output], name=output) for kind, inputs, output in between]
    place = next(i for i, node in enumerate(model.graph.node) if node.op_type == "Softmax")
    for node in reversed(made):
        model.graph.node.insert(place, node)
    constants = {"lowest": np.array(LEAST, np.float32), "shape": np.array([LENGTH, LENGTH])}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    quantized = zp.quantize(model, masked_samples(-1e9, 1, 0), target=target, effort="none")
    (output,) = zp.compare(model, quantized, masked_samples(-1e9, 1, 1)).outputs
    assert output.sqnr > 24


@pytest.mark.parametrize("target", ["litert", "onnxruntime"])
def test_a_mask_computed_with_the_least_number_leaves_the_scores_their_precision(target: str) -> None:
    """(1 - keep) * torch.finfo.min, as exported from PyTorch: no multiplier held the factor; 3 dB were left."""
    model = with_input_mask(1, broadcast=True)
    for node in model.graph.node:
        node.input[:] = ["hidden" if name == "mask" else name for name in node.input]
    model.graph.node.insert(0, helper.make_node("Mul", ["gone", "least"], ["hidden"]))
    model.graph.node.insert(0, helper.make_node("Sub", ["one", "mask"], ["gone"]))
    for name, number in (("one", 1.0), ("least", LEAST)):
        model.graph.initializer.append(numpy_helper.from_array(np.array(number, np.float32), name))
    samples = [masked_samples(1.0, 1, seed) for seed in (0, 1)]
    data, test = [{**sample, "mask": 1 - sample["mask"]} for sample in samples]
    quantized = zp.quantize(model, data, target=target, effort="none")
    (output,) = zp.compare(model, quantized, test).outputs
    assert output.sqnr > 24


def test_an_input_mask_of_minus_infinity_runs_natively_and_from_a_file(tmp_path: Path) -> None:
    model = with_input_mask(1, broadcast=False)
    quantized = zp.quantize(model, masked_samples(-np.inf, LENGTH, 0), target="litert", effort="none")
    quantized.save(tmp_path / "m.mlir")
    again = zp.load(tmp_path / "m.mlir")
    assert [port.is_mask for port in again.inputs] == [False, True]
    sample = {name: array[:1] for name, array in masked_samples(-np.inf, LENGTH, 1).items()}
    found = [run(**sample) for run in (quantized.interpreted(), quantized.native(), again)]
    for name, array in found[0].items():
        np.testing.assert_array_equal(array, found[1][name])
        np.testing.assert_array_equal(array, found[2][name])


def test_infinities_are_refused_where_an_input_is_more_than_a_mask() -> None:
    model = with_input_mask(1, broadcast=False)
    data = masked_samples(-np.inf, LENGTH, 0)
    with pytest.raises(zp.Error, match="input 'x': found 0 NaN and 8 infinite"):
        zp.quantize(model, {**data, "x": np.where(np.arange(WIDTH) == 0, -np.inf, data["x"])})
    with pytest.raises(zp.Error, match="input 'mask'"):
        zp.quantize(model, {**data, "mask": -data["mask"]})


def with_hidden(form: str, hidden: float, last: str = "Softmax") -> onnx.ModelProto:
    """A softmax, or what is `last`, of scores x w; `form` says how numbers that hide some of them get there."""
    mask = np.where(np.arange(WIDTH) < 13, np.float32(0), np.float32(hidden))
    places = np.array([[0, i, j] for i in range(LENGTH) for j in range(13, WIDTH)])
    constants = {
        "w": random(WIDTH, WIDTH, seed=3) * np.float32(0.4),
        "w2": random(WIDTH, WIDTH, seed=4) * np.float32(0.4),
        "near": random(LENGTH, WIDTH, seed=5),
        "mask": np.tile(mask, (LENGTH, 1)),
        "bias": mask,
        "biases": np.where(mask == 0, np.float32(0.1), mask),
        "keep": mask == 0,
        "hidden": np.float32(hidden),
        "some": np.full((1, LENGTH, 4), hidden, np.float32),
        "ends": np.array([0, 0, 0, 0, 0, 4]),
        "places": places,
        "updates": np.full(len(places), hidden, np.float32),
        "all": np.full((1, LENGTH, WIDTH), hidden, np.float32),
        "four": np.array([4]),
        "half": np.float32(0.5),
        "two": np.float32(2),
    }
    nodes = {
        "add, multiply": [("Add", ["v", "mask"], ["t"]), ("Mul", ["half", "t"], ["s"])],
        "add, divide": [("Add", ["v", "mask"], ["t"]), ("Div", ["t", "two"], ["s"])],
        "where, multiply": [("Where", ["keep", "v", "hidden"], ["t"]), ("Mul", ["t", "half"], ["s"])],
        "pad": [("Pad", ["v", "ends", "hidden"], ["s"])],
        "concatenate": [("Concat", ["some", "v"], ["s"])],
        "scatter": [("ScatterND", ["v", "places", "updates"], ["s"])],
        "top k": [("TopK", ["v", "four"], ["t", "i"]), ("ScatterElements", ["all", "i", "t"], ["s"])],
        "bias": [("Add", ["v", "bias"], ["s"])],
        "product, bias": [("Mul", ["v", "two"], ["t"]), ("Add", ["t", "biases"], ["s"])],
        "where, add scores": [
            ("Where", ["keep", "v", "hidden"], ["t"]),
            ("MatMul", ["x", "w2"], ["u"]),
            ("Add", ["t", "u"], ["s"]),
        ],
        "add, add scores": [
            ("Add", ["v", "mask"], ["t"]),
            ("MatMul", ["x", "w2"], ["u"]),
            ("Add", ["u", "t"], ["s"]),
        ],
        "where, add bias": [("Where", ["keep", "v", "hidden"], ["t"]), ("Add", ["t", "near"], ["s"])],
    }[form]
    attributes = {"Concat": {"axis": 2}, "TopK": {"axis": -1}, "ScatterElements": {"axis": 2}}
    steps = [("MatMul", ["x", "w"], ["v"]), *nodes]
    made = [helper.make_node(*step, name=step[2][0], **attributes.get(step[0], {})) for step in steps]
    made.append(helper.make_node(last, ["s"], ["y"], **({} if last == "Identity" else {"axis": -1})))
    used = {name for node in made for name in node.input}
    arrays = [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items() if name in used]
    ports = [helper.make_tensor_value_info(*port) for port in (("x", 1, [1, LENGTH, WIDTH]), ("y", 1, None))]
    graph = helper.make_graph(made, "g", ports[:1], ports[1:], arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


@pytest.mark.parametrize("hidden", [-np.inf, -1e9])
@pytest.mark.parametrize(
    "form",
    [
        "add, multiply",
        "add, divide",
        "where, multiply",
        "pad",
        "concatenate",
        "scatter",
        "top k",
        "where, add scores",
        "add, add scores",
        "where, add bias",
    ],
)
def test_scores_keep_their_precision_however_others_are_hidden(form: str, hidden: float) -> None:
    """On litert: 2 to 7 dB were left, or -inf was refused."""
    model = with_hidden(form, hidden)
    (output,) = zp.compare(model, zp.quantize(model, DATA, target="litert", effort="none"), DATA).outputs
    assert output.sqnr > 24


@pytest.mark.parametrize(
    ("form", "target", "last", "hidden"),
    [
        # Every pair of the four occurs.
        (form, target, last, (-np.inf, -1e9)[(number + (target == "cpu") + (last == "Identity")) % 2])
        for number, form in enumerate(("bias", "product, bias", "add, multiply", "where, multiply", "concatenate"))
        for target in ("cpu", "litert")
        for last in ("LogSoftmax", "Identity")
    ],
)
def test_what_does_not_hide_masked_scores_holds_their_numbers(form: str, hidden: float, target: str, last: str) -> None:
    """On litert: -inf was refused, and -1e9 left 9 dB of the visible scores, or none where the caller reads them."""
    model = with_hidden(form, hidden, last)
    network, integers = zp.load(model), zp.quantize(model, DATA, target=target, effort="none")
    (exact,), (found,) = (list(run(**DATA[0]).values()) for run in (network, integers))
    visible = exact > -1000
    np.testing.assert_array_equal(found > -1000, visible)
    assert 0.5 < visible.mean() < 1
    assert np.abs(found[visible] - exact[visible]).max() < 0.15


@pytest.mark.parametrize("target", ["cpu", "litert"])
@pytest.mark.parametrize("hidden", [-np.inf, -1e9])
def test_a_mask_of_the_channels_of_a_product_is_not_its_bias(hidden: float, target: str) -> None:
    """A mask of a vocabulary: -inf was refused, and -1e9 left 3 dB on litert."""
    model = with_hidden("bias", hidden)
    (output,) = zp.compare(model, zp.quantize(model, DATA, target=target, effort="none"), DATA).outputs
    assert output.sqnr > 24


def pooled(form: str, hidden: float) -> onnx.ModelProto:
    """The greatest of the tokens that a mask leaves visible, by channel; then a product."""
    rows = np.where(np.arange(LENGTH) < 6, np.float32(0), np.float32(hidden)).reshape(1, LENGTH, 1)
    names = ("w", "w2"), ("mask", "one", "hidden", "axes")
    constants = {name: random(WIDTH, WIDTH, seed=seed) * np.float32(0.4) for seed, name in enumerate(names[0])}
    constants |= zip(names[1], (rows, np.float32(1), np.float32(hidden), np.array([1])), strict=True)
    nodes = [("MatMul", ["x", "w"], ["v"])]
    if form == "input":
        nodes += [("Sub", ["one", "keep"], ["gone"]), ("Mul", ["gone", "hidden"], ["mask"])]
        del constants["mask"]
    nodes += [("Add", ["v", "mask"], ["s"]), ("ReduceMax", ["s", "axes"], ["m"]), ("MatMul", ["m", "w2"], ["y"])]
    made = [helper.make_node(*step, name=step[2][0]) for step in nodes]
    used = {name for node in made for name in node.input}
    arrays = [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items() if name in used]
    ports = [helper.make_tensor_value_info("x", 1, [1, LENGTH, WIDTH]), helper.make_tensor_value_info("y", 1, None)]
    kept = [helper.make_tensor_value_info("keep", 1, [1, LENGTH, 1])] if form == "input" else []
    graph = helper.make_graph(made, "g", [*ports[:1], *kept], ports[1:], arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


@pytest.mark.parametrize("target", ["cpu", "litert"])
@pytest.mark.parametrize(
    ("form", "hidden"), [("constant", -1e9), ("constant", -np.inf), ("input", -1e9), ("input", LEAST)]
)
def test_a_mask_before_a_maximum_leaves_the_values_their_precision(form: str, hidden: float, target: str) -> None:
    """Masked max pooling: nothing was left of the values."""
    model = pooled(form, hidden)
    keep = {"keep": (np.arange(LENGTH) < 6).astype(np.float32).reshape(1, LENGTH, 1)} if form == "input" else {}
    data = [{**sample, **keep} for sample in DATA]
    (output,) = zp.compare(model, zp.quantize(model, data, target=target, effort="none"), data).outputs
    assert output.sqnr > 24
