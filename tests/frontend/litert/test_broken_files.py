"""Files of LiteRT that are broken or foreign: one line says what was found, nothing hangs, nothing is written."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from fuzz.damage import damaged
from oracle.litert import Port, model, schema
from zeropoint.cli import main
from zeropoint.export import ExportError
from zeropoint.export.litert.runtime import LiteRTFile
from zeropoint.frontend import ModelError, load_model
from zeropoint.frontend.litert.converters import CONVERTERS

X = Port((1, 4), "int8", (0.5,), (3,))
WEIGHTS = Port((3, 4), "int8", (0.25,) * 3, (0,) * 3, np.arange(12).reshape(3, 4) - 6, 0)
BIAS = Port((3,), "int32", (0.125,) * 3, (0,) * 3, np.array([5, -7, 9]))
Y = Port((1, 3), "int8", (1.0,), (0,))
PLAIN = model("FULLY_CONNECTED", ("FullyConnectedOptions", {}), [X, WEIGHTS, BIAS], [Y], 1)


def changed(change: Callable[[Any], None], content: bytes = PLAIN) -> bytes:
    """The file with its tables changed."""
    import flatbuffers

    tables = schema.ModelT.InitFromPackedBuf(content, 0)
    change(tables)
    builder = flatbuffers.Builder(1024)
    builder.Finish(tables.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def with_shape(tables: Any) -> None:
    tables.subgraphs[0].tensors[1].shape = [3, 5]


def with_negative_size(tables: Any) -> None:
    tables.subgraphs[0].tensors[1].shape = [-3, 4]


def with_huge_size(tables: Any) -> None:
    tables.subgraphs[0].tensors[0].shape = [1 << 30, 1 << 30, 1 << 30]


def without_bytes(tables: Any) -> None:
    tables.buffers[tables.subgraphs[0].tensors[1].buffer].data = np.zeros(0, np.uint8)


def with_buffer(tables: Any) -> None:
    tables.subgraphs[0].tensors[1].buffer = 99


def with_operand(tables: Any) -> None:
    tables.subgraphs[0].operators[0].inputs = [0, 1, 77]


def with_circle(tables: Any) -> None:
    tables.subgraphs[0].operators[0].inputs = [3, 1, 2]


def with_code(tables: Any) -> None:
    tables.operatorCodes[0].builtinCode = tables.operatorCodes[0].deprecatedBuiltinCode = schema.BuiltinOperator.WHERE


def with_custom_code(tables: Any) -> None:
    tables.operatorCodes[0].builtinCode = tables.operatorCodes[0].deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
    tables.operatorCodes[0].customCode = b"MyOperator"


def with_scales(tables: Any) -> None:
    tables.subgraphs[0].tensors[1].quantization.scale = [0.25] * 7


def with_zero_scale(tables: Any) -> None:
    tables.subgraphs[0].tensors[0].quantization.scale = [0.0]


def with_negative_scale(tables: Any) -> None:
    tables.subgraphs[0].tensors[1].quantization.scale = [0.25, -0.25, 0.25]


def with_nan_scale(tables: Any) -> None:
    tables.subgraphs[0].tensors[0].quantization.scale = [float("nan")]


def with_infinite_scale(tables: Any) -> None:
    tables.subgraphs[0].tensors[0].quantization.scale = [float("inf")]


def with_the_empty_buffer(tables: Any) -> None:
    tables.subgraphs[0].tensors[1].buffer = 0


def without_operators(tables: Any) -> None:
    tables.subgraphs[0].operators = []


def with_type(tables: Any) -> None:
    tables.subgraphs[0].tensors[0].type = schema.TensorType.STRING


def with_state(tables: Any) -> None:
    tables.subgraphs[0].tensors[1].type = schema.TensorType.RESOURCE


def with_result(tables: Any) -> None:
    tables.subgraphs[0].tensors[3].shape = [1, 8]


def without_graph(tables: Any) -> None:
    tables.subgraphs = []


def without_outputs(tables: Any) -> None:
    tables.subgraphs[0].outputs = []


def without_a_result(tables: Any) -> None:
    tables.subgraphs[0].operators[0].outputs = []


def with_two_results(tables: Any) -> None:
    tables.subgraphs[0].operators[0].outputs = [3, 2]


BROKEN = {
    with_shape: "tensor 't1': found 12 bytes, expected 15 for INT8 [3, 5]",
    with_negative_size: "tensor 't1': found shape [-3, 4]",
    with_huge_size: "tensor 't0'",
    without_bytes: "found 0 bytes in tensor 't1', expected 12 for INT8 [3, 4], or an operator that computes it",
    with_the_empty_buffer: "found 0 bytes in tensor 't1', expected 12 for INT8 [3, 4]",
    without_operators: "output 't3': found 0 bytes in tensor 't3', expected 3 for INT8 [1, 3]",
    with_buffer: "tensor 't1': found buffer 99",
    with_operand: "found tensor 77 as an operand, expected",
    with_circle: "found a use of 't3', which no earlier node computes",
    with_code: "1 operator is not supported: 't3' (WHERE)",
    with_custom_code: "1 operator is not supported: 't3' (MyOperator)",
    with_scales: "found 7 scales",
    with_zero_scale: "tensor 't0': found scale 0, expected finite numbers above 0",
    with_negative_scale: "tensor 't1': found scale -0.25, expected finite numbers above 0",
    with_nan_scale: "tensor 't0': found scale nan, expected finite numbers above 0",
    with_infinite_scale: "tensor 't0': found scale inf, expected finite numbers above 0",
    with_type: "tensor 't0': found type STRING of FULLY_CONNECTED, expected one of",
    with_state: "tensor 't1': found FULLY_CONNECTED of a variable, expected only READ_VARIABLE and ASSIGN_VARIABLE",
    with_result: "found shape [1, 8] of its result, expected [1, 3]",
    without_graph: "found no graph",
    without_outputs: "found no outputs",
    without_a_result: "'0' (FULLY_CONNECTED): found no outputs, expected at least one",
    with_two_results: "'t3' (FULLY_CONNECTED): found 2 outputs, expected 1",
}


@pytest.mark.parametrize("change", BROKEN, ids=lambda change: change.__name__)
def test_what_a_file_lies_about_is_named(change: Callable[[Any], None], tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(changed(change))
    with pytest.raises(ModelError) as raised:
        load_model(path)
    text = str(raised.value)
    assert text.startswith(f"{path}: ")
    assert BROKEN[change] in text
    assert "\n" not in text


def test_the_plain_file_is_taken(tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(changed(lambda tables: None))
    assert [port.name for port in load_model(tmp_path / "model.tflite").inputs] == ["t0"]


@pytest.mark.parametrize("content", [b"", b"TFL3", b"\0" * 64, b"\x1c\0\0\0TFL3" + b"\xff" * 64, b"not a model at all"])
def test_a_file_that_is_none_is_refused_in_one_line_and_nothing_is_written(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(content)
    arguments = ["quantize", str(tmp_path / "m.tflite"), "--target", "litert", "-o", str(tmp_path / "out.tflite")]
    answer = CliRunner().invoke(main, arguments)
    assert answer.exit_code == 2
    assert "m.tflite" in answer.output
    assert "Traceback" not in answer.output
    assert [path.name for path in tmp_path.iterdir()] == ["m.tflite"]


def refusal(content: bytes, path: Path) -> str:
    """What is said of a file; nothing of one that is taken."""
    path.write_bytes(content)
    try:
        load_model(path)
    except ModelError as error:
        return str(error).removeprefix(f"{path}: ")
    return ""


def test_damaged_files_are_taken_or_refused(tmp_path: Path) -> None:
    choose = random.Random(0)
    shortened = [PLAIN[:size] for size in range(0, len(PLAIN), 16)]
    said = [
        refusal(content, tmp_path / "model.tflite")
        for content in shortened + [damaged(PLAIN, choose) for _ in range(300)]
    ]
    assert 0 < said.count("") < 300
    assert not [line for line in said if "unreadable" in line]


def test_offsets_and_lengths_that_lead_out_of_the_file_are_named_by_the_part_that_has_them(tmp_path: Path) -> None:
    said = [
        refusal(PLAIN[:at] + word.to_bytes(4, "little") + PLAIN[at + 4 :], tmp_path / "model.tflite")
        for at in range(8, len(PLAIN) - 4, 4)
        for word in (0x7FFFFFF0, 0xFFFFFFF0)
    ]
    parts = {line.partition(": found an offset or a length that leads out of the file")[0] for line in said}
    assert parts >= {"graph", "tensor 't0'", "tensor 2", "operator code 0", "operator 0", "inputs and outputs"}
    assert not [line for line in said if "unreadable" in line]


def test_names_of_thousands_of_letters_are_shortened_in_the_line(tmp_path: Path) -> None:
    def broken(tables: Any) -> None:
        tables.subgraphs[0].tensors[1].name = "layer/" + "w" * 3000 + "/weights"
        tables.subgraphs[0].tensors[1].shape = [1] * 3000

    path = tmp_path / "model.tflite"
    path.write_bytes(changed(broken))
    with pytest.raises(ModelError) as raised:
        load_model(path)
    text = str(raised.value).removeprefix(f"{path}: ")
    assert len(text) < 400
    assert text.startswith("tensor 'layer/www")
    assert "www/weights': found shape [1, 1, " in text


def test_a_signature_of_tensors_that_the_file_does_not_have(tmp_path: Path) -> None:
    """`compare` ended in an internal error of LiteRT's Python binding."""

    def broken(tables: Any) -> None:
        port = schema.SignatureDefT()
        port.signatureKey, port.subgraphIndex = b"serving_default", 0
        port.inputs, port.outputs = [schema.TensorMapT()], [schema.TensorMapT()]
        port.inputs[0].name, port.inputs[0].tensorIndex = b"x", 9999
        port.outputs[0].name, port.outputs[0].tensorIndex = b"y", len(tables.subgraphs[0].tensors) - 1
        tables.signatureDefs = [port]

    path = tmp_path / "model.tflite"
    path.write_bytes(changed(broken))
    with pytest.raises(ExportError, match="found a signature of tensors that the file does not have, expected indices"):
        LiteRTFile(path)


@pytest.mark.parametrize("name", sorted(CONVERTERS))
def test_an_operator_with_other_operands_is_named(name: str, tmp_path: Path) -> None:
    """Some ended in the general line of a file that cannot be read."""

    def broken(tables: Any, inputs: list[int]) -> None:
        code, operator = tables.operatorCodes[0], tables.subgraphs[0].operators[0]
        number = getattr(schema.BuiltinOperator, name, schema.BuiltinOperator.CUSTOM)
        code.builtinCode, code.deprecatedBuiltinCode, code.customCode = number, min(number, 127), name.encode()
        operator.inputs, operator.builtinOptions, operator.builtinOptionsType = inputs, None, 0

    for inputs in ([], [0], [0] * 2, [0] * 3, [0] * 4, [-1], [0, -1], [-1, 0, 0]):
        said = refusal(changed(partial(broken, inputs=inputs)), tmp_path / "model.tflite")
        assert "unreadable" not in said, inputs
        assert name in said or not said or said.startswith("stablehlo."), inputs


def test_the_first_of_many_problems_are_shown_and_the_rest_is_counted(tmp_path: Path) -> None:
    import copy

    def broken(tables: Any) -> None:
        graph = tables.subgraphs[0]
        tables.operatorCodes[0].builtinCode = schema.BuiltinOperator.WHERE
        tables.operatorCodes[0].deprecatedBuiltinCode = schema.BuiltinOperator.WHERE
        for index in range(50):
            result, operator = copy.deepcopy(graph.tensors[3]), copy.deepcopy(graph.operators[0])
            result.name, operator.outputs = f"loop{index}", [len(graph.tensors)]
            graph.tensors.append(result)
            graph.operators.append(operator)

    path = tmp_path / "model.tflite"
    path.write_bytes(changed(broken))
    with pytest.raises(ModelError, match=r"51 operators are not supported: 't3' \(WHERE\).*; and \d+ more") as raised:
        load_model(path)
    assert len(str(raised.value).removeprefix(f"{path}: ")) < 500
