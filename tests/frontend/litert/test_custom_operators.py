"""Custom operators of MediaPipe's files. LiteRT computes them with XNNPACK only."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from flatbuffers import Builder

from zeropoint.export.litert.builder import ModelBuilder
from zeropoint.export.litert.runtime import LiteRTFile
from zeropoint.frontend import ModelError, load_model
from zeropoint.interp import Interpreter
from zeropoint.ir.tensors import Array
from zeropoint.litert_schema import schema

NAME = "Convolution2DTransposeBias"


def with_custom(content: bytes, name: str, options: bytes) -> bytes:
    """The file with its first operator made a custom one."""
    model = schema().ModelT.InitFromObj(schema().Model.GetRootAs(content, 0))
    operator = model.subgraphs[0].operators[0]
    operator.builtinOptions, operator.builtinOptionsType = None, 0
    operator.customOptions = np.frombuffer(options, np.uint8)
    code = model.operatorCodes[operator.opcodeIndex]
    code.customCode = name
    code.builtinCode = code.deprecatedBuiltinCode = schema().BuiltinOperator.CUSTOM
    builder = Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def transposed(x: Array, size: Sequence[int], weights: Array, options: bytes) -> bytes:
    build = ModelBuilder()
    given = build.tensor("x", x.shape, "float32", None)
    parts = [build.constant("w", weights), build.constant("b", np.array([0.5, -1.0], np.float32))]
    result = build.tensor("y", (x.shape[0], *size, 2), "float32", None)
    build.operator("ADD_N", [given, *parts], [result], None)
    return with_custom(build.finish({"x": given}, {"y": result}, "", {}), NAME, options)


@pytest.mark.parametrize(
    ("padding", "strides", "kernel", "size"),
    [
        (1, (2, 2), (2, 2), (8, 9)),
        (2, (2, 2), (2, 2), (8, 10)),
        (1, (2, 2), (3, 3), (8, 9)),
        (1, (2, 1), (3, 4), (7, 5)),
        (2, (2, 3), (3, 3), (9, 15)),
        (1, (1, 1), (3, 3), (4, 5)),
    ],
)
def test_transposed_convolutions_with_a_bias(
    padding: int, strides: tuple[int, int], kernel: tuple[int, int], size: tuple[int, int], tmp_path: Path
) -> None:
    random, path = np.random.default_rng(3), tmp_path / "m.tflite"
    x = random.normal(0, 1, (1, 4, 5, 3)).astype(np.float32)
    weights = random.normal(0, 1, (2, *kernel, 3)).astype(np.float32)
    path.write_bytes(transposed(x, size, weights, struct.pack("<3i", padding, *reversed(strides))))
    found, expected = Interpreter(load_model(path))({"x": x})["y"], LiteRTFile(path)({"x": x})["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (b"\1\0\0\0\2\0", "found 6 bytes of options, expected 12"),
        (struct.pack("<3i", 1, 0, 2), r"found strides \[2, 0\], expected 1 or more"),
    ],
)
def test_broken_options_are_refused(options: bytes, message: str, tmp_path: Path) -> None:
    path, x = tmp_path / "m.tflite", np.zeros((1, 4, 5, 3), np.float32)
    path.write_bytes(transposed(x, (8, 10), np.zeros((2, 2, 2, 3), np.float32), options))
    with pytest.raises(ModelError, match=message):
        load_model(path)


@pytest.mark.parametrize(
    ("padding", "size", "result"),
    [
        (1, (4, 5), (8, 9)),
        (1, (7, 9), (13, 17)),
        (1, (3, 2), (5, 4)),
        (2, (4, 5), (9, 12)),
        (2, (7, 9), (15, 20)),
        (2, (3, 2), (7, 6)),
    ],
)
def test_an_image_of_another_size_has_a_result_of_another_size(
    padding: int, size: tuple[int, int], result: tuple[int, int], tmp_path: Path
) -> None:
    """LiteRT computes a file that has these sizes; it does not resize an image with the padding SAME."""
    random, path = np.random.default_rng(3), tmp_path / "m.tflite"
    weights = random.normal(0, 1, (2, 3, 4, 3)).astype(np.float32)
    x = random.normal(0, 1, (1, *size, 3)).astype(np.float32)
    options = struct.pack("<3i", padding, 2, 2)
    path.write_bytes(transposed(x, result, weights, options))
    expected = LiteRTFile(path)({"x": x})["y"]
    path.write_bytes(transposed(np.zeros((1, 6, 6, 3), np.float32), (12, 12), weights, options))
    found = Interpreter(load_model(path, {"x": x.shape}))({"x": x})["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
