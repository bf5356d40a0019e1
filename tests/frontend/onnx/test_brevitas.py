"""QCDQ models as Brevitas 0.13 writes them: Clip between the casts narrows 8-bit storage, of constants, too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from frontend.onnx.models import load, model, tensor
from zeropoint.export import export_program
from zeropoint.interp import Interpreter
from zeropoint.ir.regions import regions_of
from zeropoint.pipeline import Options, quantize

SHAPE = (1, 3, 6, 6)


def exported(bits: int) -> onnx.ModelProto:
    """Two convolutions, the second depthwise: weights and the activation between them have `bits` bits.

    Weights are within -64..64: runtimes add pairs of products in 16 bits on processors without VNNI.
    """
    random, constants, nodes = np.random.default_rng(bits), {}, []
    most = 2 ** (bits - 1) - 1
    greatest = min(most, 64)

    def node(op: str, *inputs: str, **attributes: int | list[int]) -> str:
        nodes.append(helper.make_node(op, inputs, [f"{op}{len(nodes)}"], name=f"{op}{len(nodes)}", **attributes))
        return nodes[-1].output[0]

    def constant(array: np.ndarray) -> str:
        name = f"constant{len(constants)}"
        constants[name] = array
        return name

    def weight(channels: int, inputs: int, scales: np.ndarray) -> str:
        stored = random.integers(-greatest, greatest + 1, (channels, inputs, 3, 3)).astype(np.int8)
        clipped = node("Clip", constant(stored), *(constant(np.array(end, np.int8)) for end in (-most, most)))
        parameters = constant(scales.astype(np.float32)), constant(np.zeros(scales.shape, np.int8))
        return node("DequantizeLinear", clipped, *parameters, **({"axis": 0} if scales.ndim else {}))

    def bias(scales: np.ndarray) -> str:
        stored = random.integers(-50, 50, 8).astype(np.int32)
        parameters = constant(scales.astype(np.float32)), constant(np.zeros(scales.shape, np.int32))
        return node("DequantizeLinear", constant(stored), *parameters, **({"axis": 0} if scales.ndim else {}))

    def activation(value: str, scale: np.float32, dtype: type[np.integer], end: int | None = None) -> str:
        zero = constant(np.array(0, dtype))
        stored = node("QuantizeLinear", value, constant(np.array(scale)), zero)
        if end is not None:
            stored = node("Clip", stored, zero, constant(np.array(end, dtype)))
        return node("DequantizeLinear", stored, constant(np.array(scale)), zero)

    first, second = np.float32(0.025), np.float32(0.7 * 25 / 2**bits)
    scales = random.uniform(0.5, 1, 8).astype(np.float32) / np.float32(2 * greatest)
    x = activation("x", first, np.int8)
    wide = node("Relu", node("Conv", x, weight(8, 3, scales), bias(scales * first), pads=[1] * 4))
    narrow = activation(wide, second, np.uint8, 2**bits - 1 if bits < 8 else None)
    scale = np.array(0.4 / greatest, np.float32)
    last = node("Conv", narrow, weight(8, 1, scale), bias(scale * second), pads=[1] * 4, group=8)
    activation(last, np.float32(0.031), np.int8)
    return model(nodes, [tensor("x", SHAPE)], [tensor(nodes[-1].output[0], None)], constants, 17)


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("target", ["onnxruntime", "openvino"])
def test_it_needs_no_data_and_gives_the_runtime_s_values(target: str, bits: int, tmp_path: Path) -> None:
    runtime = pytest.importorskip(target, reason="the runtime is the oracle")
    proto = exported(bits)
    result = quantize(load(proto, tmp_path), None, Options(target=target))
    assert all(region.is_quantized for region in regions_of(result.propagated))
    assert f"u8<0:{2**bits - 1}>" in str(result.quantized.module) or bits == 8
    predict, lowered = Interpreter(result.quantized), Interpreter(result.integer)
    output, path = proto.graph.output[0].name, tmp_path / "exported.onnx"
    if target == "openvino":
        from zeropoint.export.onnx.openvino import OpenVinoFile

        export_program(result.propagated, path)
        run = OpenVinoFile(path)
    else:
        session = runtime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
        run = lambda inputs: {output: session.run(None, inputs)[0]}  # noqa: E731 (as in the other branch, one name)
    random = np.random.default_rng(1)
    for _ in range(10):
        inputs = {"x": random.normal(0, 1.2, SHAPE).astype(np.float32)}
        expected = predict(inputs)[output]
        assert np.unique(expected).size > 20
        np.testing.assert_array_equal(lowered(inputs)[output], expected)
        np.testing.assert_allclose(run(inputs)[output], expected, rtol=1e-6)
