"""Files made by hand to hang, crash or exhaust a reader: refused in one line, at once."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.parser import parse_model

import zeropoint as zp
from frontend.onnx.models import load, model, one_op, tensor
from zeropoint.frontend import ModelError
from zeropoint.frontend.onnx.converters import CONVERTERS
from zeropoint.interp import Interpreter
from zeropoint.limits import LimitExceeded, limited

LOCAL = '<ir_version: 9, opset_import: ["" : 17, "local" : 1]> g (float[4] x) => (float[4] y) { y = local.f0 (x) }\n'
HEAD = '<opset_import: ["" : 17, "local" : 1], domain: "local">'


def refusal(proto: onnx.ModelProto, folder: Path) -> str:
    with pytest.raises(ModelError) as error:
        load(proto, folder)
    assert "unreadable" not in str(error.value)
    return str(error.value).removeprefix(f"{folder / 'model.onnx'}: ")


def test_functions_that_call_each_other_are_refused(tmp_path: Path) -> None:
    there, back = (f"{HEAD} f{n} (x) => (y) {{ y = local.f{1 - n} (x) }}\n" for n in range(2))
    proto = parse_model(f"{LOCAL}{there}{back}")
    assert refusal(proto, tmp_path) == "found functions that call themselves (f0 -> f1 -> f0), expected no recursion"


def test_functions_that_double_from_one_to_the_next_are_refused(tmp_path: Path) -> None:
    chain = "".join(f"{HEAD} f{n} (x) => (y) {{ z = local.f{n + 1} (x) y = local.f{n + 1} (z) }}\n" for n in range(40))
    text = refusal(parse_model(f"{LOCAL}{chain}{HEAD} f40 (x) => (y) {{ y = Relu (x) }}"), tmp_path)
    assert text.startswith("found functions of 3,298,534,883,327 nodes after inlining, expected at most 1,000,000")


def test_two_functions_of_one_name_are_refused(tmp_path: Path) -> None:
    proto = parse_model(f"{LOCAL}{HEAD} f0 (x) => (y) {{ y = Relu (x) }}")
    proto.functions.append(proto.functions[0])
    assert refusal(proto, tmp_path) == "found two functions 'local::f0', expected one; the file is broken"


def test_an_attribute_that_refers_to_a_function_s_call_is_refused_outside_of_functions(tmp_path: Path) -> None:
    proto = one_op("Softmax", {"x": (2, 3)}, axis=1)
    proto.graph.node[0].attribute[0].ref_attr_name = "k"
    assert "found attribute 'axis' that refers to 'k' of a function's call" in refusal(proto, tmp_path)


@pytest.mark.parametrize("version", [0, -1, 2**31, 2**63 - 1])
def test_versions_that_are_no_int32_are_refused(version: int, tmp_path: Path) -> None:
    proto = one_op("Relu", {"x": (4,)})
    proto.opset_import.append(helper.make_opsetid("other", version))
    assert refusal(proto, tmp_path) == f"found opset {version} of 'other', expected 1 or more; the file is broken"
    del proto.opset_import[1]
    proto.ir_version = version
    assert "expected" in refusal(proto, tmp_path)


def external(location: str) -> onnx.ModelProto:
    """A model whose weight lies in another file."""
    proto = one_op("Add", {"x": (4,)}, {"w": np.ones(4, np.float32)})
    weight = proto.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value=location)
    return proto


def test_external_data_in_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    text = refusal(external("pipe"), tmp_path)
    assert "external data 'pipe' is a folder, a pipe or a device, expected a regular file" in text


def test_external_data_with_a_nul_in_its_name_is_refused(tmp_path: Path) -> None:
    text = refusal(external("a\0b"), tmp_path)
    assert r"external data 'a\x00b' is not a valid file name" in text
    assert "embedded" not in text


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("length", "15", "found length 15 of its external data, expected 16 bytes for shape [4]"),
        ("length", "0", "found length 0 of its external data, expected 16 bytes for shape [4]"),
        ("length", "9" * 30, f"found length '{'9' * 30}' of its external data, expected a number of bytes"),
        ("length", "-16", "found length '-16' of its external data, expected a number of bytes"),
        ("offset", "0x10", "found offset '0x10' of its external data, expected a number of bytes"),
        ("offset", "\u0661", "found offset '\u0661' of its external data, expected a number of bytes"),
        ("offset", "9" * 5000, "of its external data, expected a number of bytes"),
        ("offset", "1", "'data' ends at byte 16, expected 17"),
        ("location", "other", "found 'location' of its external data twice, expected it once"),
    ],
)
def test_what_external_data_says_of_itself_is_checked(key: str, value: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(16))
    proto = external("data")
    proto.graph.initializer[0].external_data.add(key=key, value=value)
    assert message in refusal(proto, tmp_path)


@pytest.mark.filterwarnings("error")
def test_other_entries_of_external_data_are_passed_over_in_silence(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(16))
    proto = external("data")
    for key, value in (("length", "16"), ("offset", ""), ("checksum", "no"), ("foo", "bar")):
        proto.graph.initializer[0].external_data.add(key=key, value=value)
    assert load(proto, tmp_path).outputs


X4, Y4 = "float[4] x", "float[4] y"
NAMED_TWICE = {
    "value 'y' twice": f"({X4}) => ({Y4}) {{ y = Relu (x) y = Neg (x) }}",
    "value 'x' twice": f"({X4}) => ({Y4}) {{ x = Relu (x) y = Neg (x) }}",
    "value 'w' twice": f"({X4}) => ({Y4}) <float[4] w = {{1, 2, 3, 4}}> {{ w = Relu (x) y = Neg (w) }}",
    "input 'x' twice": f"({X4}, {X4}) => ({Y4}) {{ y = Relu (x) }}",
    "output 'y' twice": f"({X4}) => ({Y4}, {Y4}) {{ y = Relu (x) }}",
    "value 'a' twice": f"({X4}) => ({Y4}) <bool c = {{1}}> {{ y = If (c) <then_branch = t () => (float[4] a) "
    "{ a = Relu (x) a = Neg (x) }, else_branch = e () => (float[4] b) { b = Neg (x) }> }",
}


@pytest.mark.parametrize("message", NAMED_TWICE)
def test_a_name_with_two_meanings_is_refused(message: str, tmp_path: Path) -> None:
    text = f'<ir_version: 8, opset_import: ["" : 17]> g {NAMED_TWICE[message]}'
    assert f"found {message}, expected a unique name" in refusal(parse_model(text), tmp_path)


def test_an_initializer_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    proto = one_op("Add", {"x": (4,)}, {"w": np.ones(4, np.float32)})
    proto.graph.initializer.append(proto.graph.initializer[0])
    assert "found initializer 'w' twice" in refusal(proto, tmp_path)


def test_two_versions_of_an_opset_are_refused(tmp_path: Path) -> None:
    proto = one_op("Relu", {"x": (4,)}, {})
    proto.opset_import.add(domain="ai.onnx", version=9)
    assert "found opsets 17 and 9 of 'ai.onnx', expected one version" in refusal(proto, tmp_path)


def test_an_initializer_that_is_the_default_of_an_input_is_imported(tmp_path: Path) -> None:
    proto = one_op("Add", {"x": (4,)}, {"w": np.ones(4, np.float32)})
    proto.graph.input.add().CopyFrom(helper.make_tensor_value_info("w", TensorProto.FLOAT, [4]))
    assert load(proto, tmp_path).outputs


def test_a_function_that_reads_a_value_of_its_call_is_refused(tmp_path: Path) -> None:
    text = refusal(parse_model(LOCAL + f"{HEAD} f0 (p) => (q) {{ q = Relu (x) }}"), tmp_path)
    assert text == (
        "function 'local::f0': node 'Relu': found value 'x', which nothing before it in the function defines; "
        "the file is broken"
    )
    branch = "q = If (c) <then_branch = t () => (a) { a = Relu (p) }, else_branch = e () => (b) { b = Neg (z) }>"
    assert "found value 'z'" in refusal(
        parse_model(LOCAL + f"{HEAD} f0 (p) => (q) {{ c = Constant <value = bool {{1}}> () {branch} }}"), tmp_path
    )


def test_two_parameters_of_one_name_are_refused(tmp_path: Path) -> None:
    text = LOCAL.replace("f0 (x)", "f0 (x, x)") + f"{HEAD} f0 (p, p) => (q) {{ q = Relu (p) }}"
    assert "found parameter of function 'local::f0' 'p' twice" in refusal(parse_model(text), tmp_path)


def test_external_data_behind_links_in_a_circle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    text = refusal(external("a"), tmp_path)
    assert "external data 'a' is a cycle of symbolic links, expected a regular file" in text


def test_external_data_outside_of_the_folder_is_refused_even_where_only_shape_arithmetic_reads_it(
    tmp_path: Path,
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(np.ones(1, np.int64).tobytes())
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "link").symlink_to(secret)
    for location in ("../secret", "link", str(secret)):
        nodes = [helper.make_node("Reshape", ["x", "s"], ["y"])]
        proto = model(nodes, [tensor("x", (1,))], [tensor("y", (1,))], {"s": np.ones(1, np.int64)})
        proto.graph.initializer[0].CopyFrom(external(location).graph.initializer[0])
        proto.graph.initializer[0].name, proto.graph.initializer[0].data_type = "s", TensorProto.INT64
        del proto.graph.initializer[0].dims[:]
        proto.graph.initializer[0].dims.append(1)
        assert "lies outside the model's folder" in refusal(proto, folder)


def test_a_reshape_with_two_unknowns_is_refused(tmp_path: Path) -> None:
    proto = one_op("Reshape", {"x": (2, 3)}, {"s": np.array([-1, -1], np.int64)})
    assert "found shape [-1, -1], which does not fit the 6 elements of [2, 3]" in refusal(proto, tmp_path)


def test_a_graph_without_outputs_is_refused_as_one(tmp_path: Path) -> None:
    proto = one_op("Relu", {"x": (2, 3)})
    del proto.graph.output[:]
    assert refusal(proto, tmp_path).startswith("found a graph without outputs, expected at least one")


@pytest.mark.parametrize(
    ("node", "found", "expected"),
    [
        ("If(c) <then_branch = b () => () { p = Neg(x) }, else_branch = d () => () { p = Neg(x) }>", 0, 1),
        ("If(t) <then_branch = b () => (float[2,3] p) { p = Neg(x) }, else_branch = d () => () { p = Neg(x) }>", 0, 1),
        (
            "If(c) <then_branch = b () => (float[2,3] p, float[2,3] p2) { p = Neg(x)  p2 = Abs(x) }, "
            "else_branch = d () => (float[2,3] q) { q = Neg(x) }>",
            2,
            1,
        ),
        ("Loop(many, , x) <body = b (int64 i, bool k, float[2,3] s) => (bool k2) { k2 = Identity(k) }>", 1, 2),
        ("Loop(many, , x) <body = b (int64 i, bool k, float[2,3] s) => () { k2 = Identity(k) }>", 0, 2),
        ("Scan(x, x) <num_scan_inputs = 1, body = b (float[2,3] s, float[3] r) => () { s2 = Neg(s) }>", 0, 1),
    ],
)
def test_a_graph_inside_of_a_node_without_its_outputs_is_refused(
    node: str, found: int, expected: int, tmp_path: Path
) -> None:
    proto = parse_model(f"""<ir_version: 9, opset_import: ["" : 17]>
g (float[2,3] x, bool c) => (float[2,3] y) <bool t = {{1}}, int64 many = {{1000}}> {{ y = {node} }}""")
    name, graph = node.partition("(")[0], "d" if "(t)" in node else "b"
    assert refusal(proto, tmp_path) == f"node '{name}': found {found} outputs of graph '{graph}', expected {expected}"


@pytest.mark.parametrize("equation", ["abc,cd-", "ab->c>", "a\0b", "a1"])
def test_an_equation_that_is_none_is_refused(equation: str, tmp_path: Path) -> None:
    proto = one_op("Einsum", {"x": (2, 3)}, equation=equation)
    assert "expected letters, commas, '...' and '->'" in refusal(proto, tmp_path)


@pytest.mark.parametrize("p", [0, -1])
@pytest.mark.parametrize("op_type", ["LpPool", "GlobalLpPool"])
def test_a_norm_of_a_power_below_one_is_refused(op_type: str, p: int, tmp_path: Path) -> None:
    window = {"kernel_shape": [2]} if op_type == "LpPool" else {}
    text = refusal(one_op(op_type, {"x": (1, 1, 4)}, p=p, **window), tmp_path)
    assert text.endswith(f"({op_type}): found p {p}, expected 1 or more")


@pytest.mark.parametrize("op_type", ["RNN", "GRU", "LSTM"])
def test_a_recurrent_node_without_a_state_is_refused(op_type: str, tmp_path: Path) -> None:
    weights = {"w": np.zeros((1, 0, 2), np.float32), "r": np.zeros((1, 0, 0), np.float32)}
    text = refusal(one_op(op_type, {"x": (3, 1, 2)}, weights, hidden_size=0), tmp_path)
    assert text.endswith(f"({op_type}): found hidden_size 0, expected 1 or more")


def test_identities_in_a_circle_are_refused(tmp_path: Path) -> None:
    nodes = [helper.make_node("Identity", ["b"], ["a"]), helper.make_node("Identity", ["a"], ["b"])]
    proto = model([*nodes, helper.make_node("Add", ["x", "a"], ["y"])], [tensor("x", (4,))], [tensor("y", (4,))])
    assert "found input 'b', which no earlier node computes" in refusal(proto, tmp_path)


def constant_of_shape(shape: list[int]) -> onnx.ModelProto:
    value = numpy_helper.from_array(np.ones(1, np.float32))
    nodes = [
        helper.make_node("ConstantOfShape", ["s"], ["c"], name="large", value=value),
        helper.make_node("ReduceSum", ["c"], ["r"], keepdims=0),
        helper.make_node("Add", ["x", "r"], ["y"]),
    ]
    return model(nodes, [tensor("x", (4,))], [tensor("y", (4,))], {"s": np.array(shape, np.int64)})


HUGE = 1_000_000
LARGE = {
    "ConstantOfShape": lambda: constant_of_shape([HUGE, HUGE]),
    "Expand": lambda: one_op("Expand", {"x": (1,)}, {"s": np.array([HUGE, HUGE], np.int64)}),
    "Tile": lambda: one_op("Tile", {"x": (1, 1)}, {"r": np.array([HUGE, HUGE], np.int64)}),
    "Pad": lambda: one_op("Pad", {"x": (1,)}, {"p": np.array([0, 2**40], np.int64)}),
    "Pad by edges": lambda: one_op("Pad", {"x": (1,)}, {"p": np.array([0, 2**40], np.int64)}, mode="edge"),
    "EyeLike": lambda: one_op("EyeLike", {"x": (200_000, 200_000)}),
    "OneHot": lambda: one_op(
        "OneHot", {"x": np.ones(4, np.int64)}, {"d": np.array([2**40]), "v": np.array([0, 1], np.float32)}
    ),
    "Resize": lambda: one_op(
        "Resize", {"x": (1, 1, 1)}, {"r": np.zeros(0, np.float32), "s": np.array([1, 1, 2**40], np.float32)}
    ),
    "AveragePool": lambda: one_op(
        "AveragePool", {"x": (1, 1, 4)}, kernel_shape=[2**31], pads=[2**31, 2**31], count_include_pad=1
    ),
}


@pytest.mark.parametrize("kind", LARGE)
def test_a_few_bytes_that_ask_for_terabytes_are_refused_with_the_node_before_anything_is_allocated(
    kind: str, tmp_path: Path
) -> None:
    with limited(memory=1 << 26):
        text = refusal(LARGE[kind](), tmp_path)
    assert f"({kind.split()[0]}): found " in text
    assert "expected up to 64 MiB; max_memory (--max-memory) allows more" in text


def test_loops_in_loops_have_a_number_of_ops_that_they_may_make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zeropoint.frontend.onnx.builder.MOST_OPS", 1000)
    inner = "next = Sigmoid (carried)"
    for name in ("b", "a"):
        inner = (
            f"next = Loop (trips, yes, carried) <body = {name} (int64 i{name}, bool go{name}, float[4] carried) => "
            f"(bool again{name}, float[4] next) {{ again{name} = Identity (go{name}) {inner} }}>"
        )
        inner = inner.replace("next", f"next{name}", 1)
    text = f"""<ir_version: 9, opset_import: ["" : 17]> g (float[4] carried) => (float[4] y)
      <int64 trips = {{500}}, bool yes = {{1}}> {{ {inner.replace("nexta", "y", 1)} }}"""
    assert "found more than 1000 ops" in refusal(parse_model(text.replace("nextb", "next")), tmp_path)


@pytest.mark.parametrize("scale", [np.nan, np.inf, -1.0, 0.0])
def test_scales_of_a_resize_that_are_no_sizes_are_refused(scale: float, tmp_path: Path) -> None:
    scales = {"r": np.zeros(0, np.float32), "s": np.array([1, 1, scale], np.float32)}
    text = refusal(one_op("Resize", {"x": (1, 1, 4)}, scales, mode="linear"), tmp_path)
    assert "expected positive numbers" in text


@pytest.mark.filterwarnings("error")
def test_arithmetic_on_a_region_of_nan_prints_no_warning(tmp_path: Path) -> None:
    given = {"roi": np.full(6, np.nan, np.float32), "s": np.array([1, 1, 2], np.float32)}
    proto = one_op("Resize", {"x": (1, 1, 4)}, given, coordinate_transformation_mode="tf_crop_and_resize")
    assert refusal(proto, tmp_path)


def test_negative_sizes_are_refused(tmp_path: Path) -> None:
    repeats = one_op("Tile", {"x": (2, 3)}, {"r": np.array([-1, 1])})
    assert "found a result of shape [-1, 2, 3], expected no negative sizes" in refusal(repeats, tmp_path)
    assert "expected no negative sizes" in refusal(constant_of_shape([-1]), tmp_path)


def test_strides_past_32_bits_are_refused(tmp_path: Path) -> None:
    weight = {"w": np.ones((1, 1, 1, 1), np.float32)}
    for kind in ("Conv", "ConvTranspose"):
        text = refusal(one_op(kind, {"x": (1, 1, 1, 1)}, weight, strides=[1 << 62] * 2), tmp_path)
        assert "expected 2 positive integers below 2^31" in text


def test_many_axes_of_an_unsqueeze_are_refused_after_linear_time(tmp_path: Path) -> None:
    proto = one_op("Unsqueeze", {"x": (2,)}, {"axes": np.arange(50_000)})
    assert "found a result of rank 50001, expected up to 32 dimensions" in refusal(proto, tmp_path)


def test_a_mean_of_no_elements_is_refused(tmp_path: Path) -> None:
    proto = one_op("GlobalAveragePool", {"x": (1, 2, 0, 3)})
    assert "found a mean of no elements, expected sizes of 1 or more" in refusal(proto, tmp_path)


def test_a_pool_of_nothing_is_refused(tmp_path: Path) -> None:
    for kind in ("MaxPool", "AveragePool"):
        assert "expected one that fits" in refusal(one_op(kind, {"x": (1, 1, 0)}, kernel_shape=[2]), tmp_path)


@pytest.mark.parametrize("batches", [-5, 3])
def test_batch_dimensions_of_a_gather_that_are_not_there_are_refused(batches: int, tmp_path: Path) -> None:
    proto = one_op("GatherND", {"x": (1, 4)}, {"i": np.array([[0, 0]])}, batch_dims=batches)
    assert f"found batch_dims {batches}, expected 0 to 0" in refusal(proto, tmp_path)


def test_a_crop_that_is_no_number_is_refused(tmp_path: Path) -> None:
    given = {"roi": np.full(6, np.nan, np.float32), "scales": np.array([1, 1, 2], np.float32)}
    proto = one_op(
        "Resize", {"x": (1, 1, 4)}, given, mode="linear", coordinate_transformation_mode="tf_crop_and_resize"
    )
    assert "expected finite numbers" in refusal(proto, tmp_path)


def test_a_rank_that_numpy_does_not_compute_with_is_refused_with_the_node(tmp_path: Path) -> None:
    proto = one_op("Reshape", {"x": (1, 4)}, {"shape": np.array([1] * 32 + [4])})
    assert re.search(r"'.+' \(Reshape\): found a result of rank 33, expected up to 32 dim", refusal(proto, tmp_path))


def test_memory_that_a_node_needs_only_when_it_runs_is_refused_by_the_nodes_name(tmp_path: Path) -> None:
    program = load(one_op("LRN", {"x": (1, 4, 2, 2)}, size=10**9), tmp_path)
    with pytest.raises(LimitExceeded, match=r"'.+'.*: found a padded tensor of shape"), limited(memory=1 << 30):
        Interpreter(program)({"x": np.ones((1, 4, 2, 2), np.float32)})


UNCHECKED = {
    "STFT": lambda: one_op("STFT", {"x": (1, 8, 1)}, {"step": np.array([2, 2], np.int64)}),
    "MaxUnpool": lambda: one_op("MaxUnpool", {"x": (4,)}, {"i": np.zeros(4, np.int64)}, kernel_shape=[1]),
    "DeformConv": lambda: one_op(
        "DeformConv",
        {"x": (1, 1, 4, 4)},
        {"w": np.ones((1, 1), np.float32), "o": np.zeros((1, 2, 4, 4), np.float32)},
        opset=19,
    ),
    "RoiAlign": lambda: one_op(
        "RoiAlign", {"x": (4,)}, {"r": np.zeros((1, 4), np.float32), "b": np.zeros(1, np.int64)}
    ),
    "LRN": lambda: one_op("LRN", {"x": (1, 4, 2, 2)}, size=0),
}


@pytest.mark.parametrize("kind", UNCHECKED)
def test_ranks_and_sizes_that_an_operator_does_not_have_are_refused_with_what_was_found(
    kind: str, tmp_path: Path
) -> None:
    assert "found" in refusal(UNCHECKED[kind](), tmp_path)


def test_a_constant_of_a_shape_needs_one_value(tmp_path: Path) -> None:
    proto = constant_of_shape([4])
    proto.graph.node[0].attribute[0].t.CopyFrom(numpy_helper.from_array(np.zeros(0, np.float32)))
    assert "found a value of shape [0], expected one number" in refusal(proto, tmp_path)


def test_what_the_import_of_a_model_in_memory_does_not_expect_is_an_error_of_the_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setitem(CONVERTERS, "Relu", fails)
    with pytest.raises(zp.Error, match=r"unreadable .* \(ZeroDivisionError: division by zero, node "):
        zp.load(one_op("Relu", {"x": (4,)}))


def test_a_tensor_of_the_wrong_size_is_named_where_shapes_are_computed(tmp_path: Path) -> None:
    """The error was one of the evaluation of shapes: "buffer size must be a multiple of element size"."""
    proto = parse_model("""<ir_version: 9, opset_import: ["" : 17]> g (float[2,3] x) => (float[6] y)
        <float[3] b = {1, 2, 3}, int64[1] whole = {-1}> {
        s = Shape(x)  n = ReduceProd<keepdims = 1>(s)  a = Add(x, b)  y = Reshape(a, n) }""")
    (broken,) = (tensor for tensor in proto.graph.initializer if tensor.name == "b")
    broken.CopyFrom(numpy_helper.from_array(np.zeros(3, np.float32), "b"))
    broken.raw_data = broken.raw_data[:-1]
    assert "tensor 'b': found 11 bytes of data, expected 12 for shape [3]" in refusal(proto, tmp_path)
