"""Biases of more than 24 bits: a .tflite file's integers are those of the imported program, and of its export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zeropoint as zp
from export.text_networks import text_network
from zeropoint.frontend.litert.reader import read_model

schema = pytest.importorskip("ai_edge_litert.schema_py_generated", reason="LiteRT runs the models")
CASES = [
    ("litert", 26, np.int32),
    ("litert", 30, np.int32),
    ("litert-16x8", 27, np.int64),
    ("litert-16x8", 31, np.int64),
]


def exported(target: str, path: Path) -> Path:
    model, samples = text_network(
        "(float[1,6] x) => (float[1,8] y)", {"w": (6, 8), "b": (8,)}, "c = MatMul(x, w)  y = Add(c, b)"
    )
    zp.quantize(model, samples, target=target, effort="none", io="integer").export(path, io="integer")
    return path


def with_biases(path: Path, biases: Any, scale: float) -> Path:
    """The file with other biases, and with a scale of the result for them."""
    import flatbuffers

    tables = schema.ModelT.InitFromPackedBuf(path.read_bytes(), 0)
    (graph,) = tables.subgraphs
    (product,) = graph.operators
    held = graph.tensors[product.inputs[2]]
    tables.buffers[held.buffer].data = np.frombuffer(biases.tobytes(), np.uint8)
    graph.tensors[product.outputs[0]].quantization.scale = np.array([scale], np.float32)
    builder = flatbuffers.Builder(1024)
    builder.Finish(tables.Pack(builder), b"TFL3")
    path.write_bytes(bytes(builder.Output()))
    return path


def biases_of(path: Path) -> Any:
    model = read_model(path.read_bytes())
    (product,) = model.operators
    return model.tensors[product.inputs[2]].data


@pytest.mark.parametrize(("target", "bits", "dtype"), CASES)
def test_wide_biases_keep_their_integers(target: str, bits: int, dtype: type[np.generic], tmp_path: Path) -> None:
    """They were rounded to 24 bits: 8 to 11 of 28,000 outputs of a 16x8 convolution differed from LiteRT's."""
    from ai_edge_litert import interpreter

    path, random = exported(target, tmp_path / "first.tflite"), np.random.default_rng(0)
    model = read_model(path.read_bytes())
    data, weights, _ = (model.tensors[index] for index in model.operators[0].inputs)
    biases = (random.integers(1 << bits - 1, 1 << bits, 8) * random.choice([-1, 1], 8) | 1).astype(dtype)
    limits = np.iinfo(data.dtype)
    with_biases(path, biases, float(data.scales[0] * weights.scales.max() * 2.0**bits / limits.max * 1.1))
    imported = zp.quantize(path, target=target, io="integer")
    imported.export(tmp_path / "second.tflite", io="integer")
    np.testing.assert_array_equal(biases_of(tmp_path / "second.tflite"), biases)
    kinds = interpreter.OpResolverType.BUILTIN_REF
    runner = interpreter.Interpreter(str(path), experimental_op_resolver_type=kinds).get_signature_runner()
    for _ in range(50):
        x = random.integers(limits.min, limits.max + 1, (1, 6)).astype(data.dtype)
        np.testing.assert_array_equal(imported(x=x)["y"], runner(x=x)["y"])


@pytest.mark.parametrize("bias", [1 << 39, -(1 << 39) - 1, (1 << 63) - 1, -(1 << 63)])
def test_biases_of_more_than_40_bits_are_refused(bias: int, tmp_path: Path) -> None:
    """LiteRT's results are 0 or overflow; the program's were other ones."""
    path = exported("litert-16x8", tmp_path / "first.tflite")
    with_biases(path, np.array([0, bias, 5, 0, 0, 0, 0, 0]), 1.0)
    with pytest.raises(zp.Error, match=f"found the bias {bias}, expected at most 40 bits"):
        zp.quantize(path, target="litert-16x8", io="integer")


@pytest.mark.parametrize("bias", [(1 << 39) - 1, -(1 << 39)])
def test_biases_of_40_bits_are_within_a_step(bias: int, tmp_path: Path) -> None:
    """Types have 32 bits at most, so the weights get a larger scale."""
    from ai_edge_litert import interpreter

    path, random = exported("litert-16x8", tmp_path / "first.tflite"), np.random.default_rng(0)
    model = read_model(path.read_bytes())
    data, weights, _ = (model.tensors[index] for index in model.operators[0].inputs)
    with_biases(path, np.full(8, bias), float(data.scales[0] * weights.scales.max() * 2.0**39 / 32767 * 1.1))
    imported = zp.quantize(path, target="litert-16x8", io="integer")
    kinds = interpreter.OpResolverType.BUILTIN_REF
    runner = interpreter.Interpreter(str(path), experimental_op_resolver_type=kinds).get_signature_runner()
    x = random.integers(-32768, 32768, (1, 6)).astype(np.int16)
    ours, theirs = (np.asarray(run(x=x)["y"]).astype(np.int64) for run in (imported, runner))
    assert np.abs(ours - theirs).max() <= 1
