"""Bad files and unsupported nodes: one clear line, and all nodes at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

from frontend.onnx.models import load, model, one_op, random, tensor
from zeropoint.frontend import ModelError, load_model

NODE = "1 node is not supported: 'node'"


def message_of(proto: onnx.ModelProto, folder: Path) -> str:
    with pytest.raises(ModelError) as error:
        load(proto, folder)
    prefix = f"{folder / 'model.onnx'}: "
    text = str(error.value)
    assert text.startswith(prefix)
    assert "\n" not in text
    return text.removeprefix(prefix)


Case = tuple[str, Mapping[str, tuple[int, ...]], Mapping[str, np.ndarray], Mapping[str, Any], str]
"""A node that is refused: its operator, inputs, constants and attributes, and how the message begins."""


def assert_refused(case: Case, folder: Path, **options: int) -> None:
    op_type, inputs, constants, attributes, message = case
    proto = one_op(op_type, inputs, constants, **options, **attributes)
    assert message_of(proto, folder).startswith(f"{NODE} ({op_type}): {message}")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"none\.onnx: no such file, expected a model file"):
        load_model(tmp_path / "none.onnx")


def test_directory(tmp_path: Path) -> None:
    (tmp_path / "d.onnx").mkdir()
    with pytest.raises(ModelError, match=r"d\.onnx: found a directory, expected a model file"):
        load_model(tmp_path / "d.onnx")


def test_missing_file_without_a_suffix(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"garbage: no such file, expected a model file"):
        load_model(tmp_path / "garbage")


def test_unknown_suffix(tmp_path: Path) -> None:
    (tmp_path / "model.pt").touch()
    with pytest.raises(ModelError, match=r"found suffix '\.pt', expected one of: \.mlir, \.mlirbc, \.onnx"):
        load_model(tmp_path / "model.pt")


@pytest.mark.parametrize(
    "data", [b"", b"PK\x03\x04 a zip file", b"no model at all\n" * 20, bytes(300), b"\x08\x08", b"\xff" * 64]
)
def test_file_that_is_no_onnx_model(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    with pytest.raises(ModelError) as error:
        load_model(path)
    assert str(error.value).startswith(f"{path}: found {len(data)} bytes ")
    assert "\n" not in str(error.value)


def test_truncated_file_never_gives_another_error(tmp_path: Path) -> None:
    whole = one_op("Conv", {"x": (1, 4, 7, 8)}, {"w": random(6, 4, 3, 3), "b": random(6)}).SerializeToString()
    path = tmp_path / "model.onnx"
    for size in range(0, len(whole), 3):
        path.write_bytes(whole[:size])
        with pytest.raises(ModelError) as error:
            load_model(path)
        assert "\n" not in str(error.value)


def test_unsupported_ops_are_named_all_at_once(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="fine"),
        helper.make_node("NonZero", ["a"], ["b"], name="where"),
        helper.make_node("Tokenizer", ["b"], ["c"], name="att", domain="com.microsoft"),
        helper.make_node("MaxPool", ["a"], ["d"], kernel_shape=[2], name="pool"),
        helper.make_node("Shape", ["c"], ["s"], name="a consequence"),
        helper.make_node("Reshape", ["c", "s"], ["r"], name="another consequence"),
        helper.make_node("Det", ["d"], ["e"]),
    ]
    outputs = [tensor("r", None), tensor("d", None), tensor("e", None)]
    proto = model(nodes, [tensor("x", (1, 2, 6))], outputs, domains=("com.microsoft",))
    assert message_of(proto, tmp_path) == (
        "3 nodes are not supported: 'where' (NonZero): found a result whose size depends on values, expected "
        "one that depends on shapes only; cut the model before it with onnx.utils.extract_model; "
        "'att' (com.microsoft::Tokenizer); 'e' (Det); see docs/onnx.md"
    )


@pytest.mark.parametrize(
    "case",
    [
        ("Conv", {"x": (1, 4, 5)}, {"w": random(6, 3, 3)}, {}, "found 4 input channels, a kernel of shape [6, 3, 3]"),
        ("Conv", {"x": (4, 5)}, {"w": random(6, 3)}, {}, "found shapes [4, 5] and [6, 3], expected [N, C, ...]"),
        ("Conv", {"x": (1, 4, 5)}, {"w": random(6, 4, 3)}, {"auto_pad": "WIDE"}, "found auto_pad 'WIDE', expected"),
        ("ConvTranspose", {"x": (1, 4, 5)}, {"w": random(4, 6, 3)}, {"auto_pad": ""}, "found auto_pad '', expected"),
        ("BatchNormalization", {"x": (1, 1)}, dict.fromkeys("abcd", random(1)), {"training_mode": 7}, "found training"),
        ("Conv", {"x": (1, 4, 5)}, {"w": random(6, 4, 3)}, {"pads": [1]}, "found 1 pads, expected 2"),
        ("Conv", {"x": (1, 4, 5)}, {"w": random(6, 4, 3)}, {"strides": [0]}, "found strides [0], expected 1 positive"),
        ("Conv", {"x": (1, 4, 5)}, {"w": random(6, 4, 7)}, {}, "found a window of extents [7] on [5] elements"),
        ("Conv", {"x": (1, 4, 5)}, {"w": random(6, 4, 3), "b": random(5)}, {}, "found a bias of shape [5], expected"),
        ("MatMul", {"a": (3, 5)}, {"b": random(4, 3)}, {}, "found shapes [3, 5] and [4, 3], which do not multiply"),
        ("Gemm", {"a": (3, 5)}, {"b": random(5, 2), "c": random(3)}, {}, "found shape [3], expected one that broadc"),
        ("Add", {"a": (3, 5), "b": (2,)}, {}, {}, "found shapes [3, 5] and [2], which do not broadcast to one"),
        ("Clip", {"x": (3,), "low": (2,)}, {}, {}, "found an input of shape [2], expected one number"),
        ("Reshape", {"x": (3,)}, {"s": np.array([2, -1])}, {}, "found shape [2, -1], which does not fit the 3 elem"),
        ("Transpose", {"x": (3, 2)}, {}, {"perm": [0, 0]}, "found perm [0, 0], expected each of 0 to 1 once"),
        ("Squeeze", {"x": (3, 2)}, {"axes": np.array([0])}, {}, "found axes [0] of shape [3, 2], expected dimens"),
        ("Unsqueeze", {"x": (3,)}, {"axes": np.array([0, 0])}, {}, "found axes [0, 0], expected each once"),
        ("Concat", {"a": (3, 2), "b": (2, 2)}, {}, {"axis": 1}, "found shapes [3, 2], [2, 2], expected the same"),
        ("Softmax", {"x": (3, 2)}, {}, {"axis": 2}, "found axis 2, expected -2 to 1"),
        ("Pad", {"x": (3,)}, {"p": np.array([1, 1])}, {"mode": "round"}, "found mode 'round', expected one of: const"),
        ("Gather", {"x": (9,)}, {"i": np.array([0, 9, -3])}, {}, "found indices from -3 to 9, expected -9 to 8"),
        ("ConvTranspose", {"x": (1, 3, 4)}, {"w": random(4, 1, 2)}, {}, "found 3 input channels, a kernel of shape [4"),
        ("ConvTranspose", {"x": (1, 4, 4)}, {"w": random(4, 1, 2, 2)}, {}, "found shapes [1, 4, 4] and [4, "),
        ("ConvTranspose", {"x": (1, 4, 1)}, {"w": random(4, 1, 2)}, {"pads": [2, 2]}, "found an output of size [-2]"),
        ("Resize", {"x": (2, 3)}, {"": random(1), "s": random(2, low=1)}, {"mode": "area"}, "found mode 'area', exp"),
        ("Resize", {"x": (2, 3)}, {"": 0 * random(1), "s": random(3, low=1)}, {}, "found 3 scales or sizes, expec"),
        ("LayerNormalization", {"x": (2, 3)}, {"s": random(2)}, {}, "found shape [2], expected one that broadcasts to"),
        ("Where", {"x": (2, 3), "y": (4,)}, {"c": np.array([True])}, {}, "found shapes [2, 3] and [4] and"),
        ("Slice", {"x": (9,)}, {n: np.array([0, 0]) for n in "sea"}, {}, "found axes [0, 0], expected each once"),
        ("BatchNormalization", {"x": (1, 3)} | {name: (4,) for name in "sbmv"}, {}, {}, "found 'scale' of shape [4]"),
        ("BatchNormalization", {"x": (1, 3)}, {name: random(4) for name in "sbmv"}, {}, "found 'scale' of shape [4]"),
        ("MaxPool", {"x": (1, 2, 5)}, {}, {}, "Required attribute 'kernel_shape' is missing"),
        ("Relu", {"x": (1, 2, 5)}, {}, {"slope": 1}, "Unrecognized attribute: slope for operator Relu"),
        ("MaxPool", {"x": (2, 5)}, {}, {"kernel_shape": [2]}, "found shape [2, 5], expected [N, C, ...] with a spat"),
        ("Dropout", {"x": (2, 5)}, {"r": np.array(0.5, "f"), "t": np.array(True)}, {}, "found training_mode true"),
    ],
)  # fmt: skip
def test_unsupported_form_of_a_supported_op(case: Case, tmp_path: Path) -> None:
    assert_refused(case, tmp_path)


@pytest.mark.parametrize(
    "case",
    [
        ("MaxPool", {"x": (1, 2, 5)}, {}, {"kernel_shape": [2], "ceil_mode": 7}, "found ceil_mode 7, expected 0 or 1"),
        ("MaxPool", {"x": (1, 2, 5)}, {}, {"kernel_shape": [2], "storage_order": 7}, "found storage_order 7, expec"),
        ("ReduceSum", {"x": (1, 2, 5)}, {}, {"keepdims": 3}, "found keepdims 3, expected 0 or 1"),
        ("ArgMax", {"x": (1, 2, 5)}, {}, {"select_last_index": -1}, "found select_last_index -1, expected 0 or 1"),
        ("CumSum", {"x": (3,)}, {"a": np.array(0)}, {"exclusive": 4}, "found exclusive 4, expected 0 or 1"),
        ("LSTM", {"x": (5, 2, 3)}, {"w": random(1, 4, 3), "r": random(1, 4, 1)}, {"hidden_size": 1, "layout": 5},
         "found layout 5, expected 0 or 1"),
        ("Gemm", {"a": (3, 5)}, {"b": random(5, 2)}, {"transA": 2}, "found transA 2, expected 0 or 1"),
        ("Resize", {"x": (2, 3)}, {"": random(1), "s": random(2, low=1)}, {"keep_aspect_ratio_policy": "foo"},
         "found keep_aspect_ratio_policy 'foo', expected one of: stretch, not_larger, not_smaller"),
    ],
)  # fmt: skip
def test_values_of_attributes_that_onnx_does_not_define(case: Case, tmp_path: Path) -> None:
    assert_refused(case, tmp_path, opset=23)


@pytest.mark.parametrize(("name", "expected"), [("is_causal", "0 or 1"), ("qk_matmul_output_mode", "0, 1, 2 or 3")])
def test_integers_of_operators_with_a_body_that_onnx_does_not_define(name: str, expected: str, tmp_path: Path) -> None:
    proto = one_op("Attention", {each: (1, 2, 3, 4) for each in "qkv"}, opset=23, **{name: 9})
    assert message_of(proto, tmp_path) == f"'node' (Attention): found {name} 9, expected {expected}"


@pytest.mark.parametrize("opset", [0, 99])
def test_opset_out_of_range(opset: int, tmp_path: Path) -> None:
    newest = onnx.defs.onnx_opset_version()
    expected = f"found opset {opset}, expected 1 to {newest}; convert the model with onnx.version_converter"
    assert message_of(one_op("Relu", {"x": (1,)}, opset=opset), tmp_path).startswith(expected)


def test_node_that_reads_what_nothing_makes(tmp_path: Path) -> None:
    proto = model([helper.make_node("Relu", ["q"], ["y"], name="node")], [tensor("x", (1,))], [tensor("y", None)])
    expected = f"{NODE} (Relu): found input 'q', which no earlier node computes; the file is broken"
    assert message_of(proto, tmp_path) == expected


def test_output_that_nothing_makes(tmp_path: Path) -> None:
    proto = model([], [tensor("x", (1,))], [tensor("y", None)])
    assert message_of(proto, tmp_path) == "found output 'y', which no node computes; the file is broken or truncated"


@pytest.mark.parametrize(
    ("op_type", "element", "message"),
    [
        ("ReduceMean", TensorProto.INT32, "found elements of type i32, expected floats"),
    ],
)
def test_elements_that_an_op_does_not_take(op_type: str, element: int, message: str, tmp_path: Path) -> None:
    node = helper.make_node(op_type, ["x"], ["y"], name="node")
    proto = model([node], [tensor("x", (1, 2, 3), element)], [tensor("y", None, element)])
    assert message_of(proto, tmp_path) == f"{NODE} ({op_type}): {message}"


def test_names_with_control_characters_stay_on_one_line(tmp_path: Path) -> None:
    node = helper.make_node("Det", ["x"], ["y"], name="a\nb\x1b[31m")
    proto = model([node], [tensor("x", (1, 2))], [tensor("y", None)])
    assert message_of(proto, tmp_path) == "1 node is not supported: 'a b [31m' (Det); see docs/onnx.md"


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    data = one_op("AveragePool", {"x": (1, 2, 3)}, auto_pad="SAME_UPPER", kernel_shape=[2]).SerializeToString()
    path = tmp_path / "model.onnx"
    path.write_bytes(data.replace(b"SAME_UPPER", b"SAME_\xff\xfe\xfd\xfc\xfb"))
    with pytest.raises(ModelError, match="found text that is not UTF-8"):
        load_model(path)


@pytest.mark.parametrize(("text", "field"), [(b"thenode", "name"), (b"theinput", "input")])
def test_names_that_are_not_utf8(text: bytes, field: str, tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["theinput"], ["y"], name="thenode")
    path = tmp_path / "model.onnx"
    data = model([node], [tensor("theinput", (1, 2))], [tensor("y", None)]).SerializeToString()
    path.write_bytes(data.replace(text, b"\xff" * len(text)))
    with pytest.raises(ModelError, match=f"found text that is not UTF-8 in '{field}', b'.xff"):
        load_model(path)


def test_input_of_strings(tmp_path: Path) -> None:
    proto = model([], [tensor("x", (1,), TensorProto.STRING)], [tensor("x", None)])
    expected = "input 'x': found element type STRING, expected a float, an integer or a boolean"
    assert message_of(proto, tmp_path) == expected


def test_weights_that_do_not_fill_their_shape(tmp_path: Path) -> None:
    proto = one_op("Add", {"x": (2, 3)}, {"b": random(2, 3)})
    proto.graph.initializer[0].raw_data = b"1234"
    assert message_of(proto, tmp_path).startswith("tensor 'b': found 4 bytes of data, expected 24 for shape [2, 3]")


@pytest.mark.parametrize("op_type", ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
def test_a_text_that_an_operators_body_would_take_for_another_is_refused(op_type: str, tmp_path: Path) -> None:
    proto = one_op(op_type, {"x": (1, 3)}, {"t": np.zeros(1, np.int64)}, reduction="median")
    expected = f"'node' ({op_type}): found reduction 'median', expected one of: none, sum, mean"
    assert message_of(proto, tmp_path) == expected


@pytest.mark.parametrize("scale", ["0", "nan", "inf", "-inf"])
@pytest.mark.parametrize("op_type", ["QuantizeLinear", "DequantizeLinear"])
def test_scales_that_are_zero_or_not_finite(op_type: str, scale: str, tmp_path: Path) -> None:
    """A DequantizeLinear of computed integers was computed with them."""
    given = {"x": (2, 3)} if op_type == "QuantizeLinear" else {}
    constants = {"s": np.array(scale, np.float32), "z": np.array(3, np.uint8)}
    if op_type == "DequantizeLinear":
        constants = {"q": np.arange(6, dtype=np.uint8).reshape(2, 3), **constants}
    found = message_of(one_op(op_type, given, constants), tmp_path)
    assert found.startswith(f"{NODE} ({op_type}): found scale {scale} of 's', expected finite numbers other than 0")
