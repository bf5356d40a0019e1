"""The state of recurrent layers has 16 bits on target cpu, and gates have 13; what only looks similar keeps 8."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import zeropoint as zp
from recurrent_layers import GATES, HIDDEN, SIZE, STEPS, model, recurrent
from zeropoint.interp import Interpreter
from zeropoint.ir.annotations import SAME_INTEGERS
from zeropoint.ir.files import load_program, save_program
from zeropoint.ir.quant import QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.stablehlo import UniformQuantizeOp
from zeropoint.ir.tensors import Array
from zeropoint.lower import lower
from zeropoint.targets import target


def samples(shape: tuple[int, ...], count: int = 16) -> Array:
    return np.random.default_rng(5).normal(0, 1, (count, *shape)).astype(np.float32)


def widths(program: zp.Model, kernel: str) -> list[int]:
    """The widths of the results of all kernels of a name."""
    found = program.quantization
    assert found is not None
    regions = [op for op in found.propagated.entry.ops if isinstance(op, QuantizeRegionOp)]
    kinds = [op.output_specs.data[0] for op in regions if op.logical_kernel.data == kernel]
    return [kind.storage.type.width for kind in kinds if isinstance(kind, UniformQuantizedType)]


LAYERS: dict[str, tuple[str, dict[str, Any]]] = {
    "LSTM": ("LSTM", {}),
    "GRU, linear before reset": ("GRU", {"linear_before_reset": 1}),
    "GRU": ("GRU", {"linear_before_reset": 0}),
}


@dataclass(frozen=True)
class QuantizedLayer:
    kind: str
    network: onnx.ModelProto
    data: Array
    integers: zp.Model


@pytest.fixture(scope="module", params=LAYERS)
def layer(request: pytest.FixtureRequest) -> QuantizedLayer:
    kind, attributes = LAYERS[request.param]
    network, data = recurrent(kind, **attributes), samples((STEPS, 1, SIZE))
    return QuantizedLayer(kind, network, data, zp.quantize(network, data, effort="none"))


def test_the_state_has_13_bits(layer: QuantizedLayer) -> None:
    integers = layer.integers
    assert 8 not in widths(integers, "add")
    # The first state is a product alone, because the state before it is zeros. Its gates have 13 bits, too.
    assert set(widths(integers, "tanh")) == {16}
    assert integers.quantization is not None
    assert not [line for line in integers.quantization.warnings if "zeros" in line]
    assert "0 float ops" in str(integers)
    native = integers.native()
    for sample in layer.data[:4]:
        np.testing.assert_array_equal(integers(x=sample)["y"], native(x=sample)["y"])
    # With 8 bits everywhere, these have 28.1, 31.8 and 32.8 dB.
    sqnr = zp.compare(layer.network, integers, layer.data).outputs[0].sqnr
    assert sqnr is not None
    assert sqnr > 34.5, sqnr


@pytest.mark.parametrize("layer", ["LSTM", "GRU"], indirect=True)
def test_the_quantized_stage_can_be_saved_and_resumed(layer: QuantizedLayer, tmp_path: Path) -> None:
    """Its elementwise kernels have several storage types, between casts."""
    made = layer.integers.quantization
    assert made is not None
    casts = [op for op in made.quantized.module.walk() if isinstance(op, UniformQuantizeOp)]
    assert any(SAME_INTEGERS in op.attributes for op in casts)
    save_program(made.quantized, tmp_path / "q.mlir")
    again = load_program(tmp_path / "q.mlir")
    run, expected = Interpreter(again), Interpreter(made.integer)
    resumed = Interpreter(lower(again))
    for sample in layer.data[:2]:
        wanted = expected({"x": sample})["y"]
        np.testing.assert_array_equal(run({"x": sample})["y"], wanted)
        np.testing.assert_array_equal(resumed({"x": sample})["y"], wanted)


def counting(steps: int) -> onnx.ModelProto:
    """An LSTM of which one element counts the steps, while the others stay small, as in a trained speaker embedder."""
    network = recurrent("LSTM", steps)
    initializers = {initializer.name: initializer for initializer in network.graph.initializer}
    arrays = {name: numpy_helper.to_array(initializer).copy() for name, initializer in initializers.items()}
    # The gates of element 0, in the order of ONNX: input, output, forget and the candidate. The count is not put out.
    for gate, value in enumerate((12, -6, 12, 12)):
        arrays["B"][0, gate * HIDDEN] = value
    # Candidates near 0, which add up to small values.
    for name in ("W", "R"):
        arrays[name][0, 3 * HIDDEN + 1 :] *= 0.02
    for name, array in arrays.items():
        initializers[name].CopyFrom(numpy_helper.from_array(array, name))
    return network


def test_small_elements_of_a_state_are_kept_beside_one_that_counts() -> None:
    network, data = counting(40), samples((40, 1, SIZE))
    integers = zp.quantize(network, data, effort="none")
    reference, native = zp.load(network), integers.native()
    for sample in data[:2]:
        np.testing.assert_array_equal(integers(x=sample)["y"], native(x=sample)["y"])
    expected, found = (np.stack([call(x=one)["y"] for one in data])[..., 1:] for call in (reference, native))
    # With 13 bits of the state, these elements have 18.9 dB.
    assert 10 * np.log10(np.square(expected).sum() / np.square(expected - found).sum()) > 22


def test_a_few_steps_keep_8_bits() -> None:
    network, data = recurrent("LSTM", steps=2), samples((2, 1, SIZE))
    assert set(widths(zp.quantize(network, data, effort="none"), "add")) == {8}


def streaming(kind: str) -> onnx.ModelProto:
    """One step of a layer, or of a cell of single operators, with the state as input and output."""
    random = np.random.default_rng(3)
    arrays = {
        "W": random.normal(0, 0.6, (1, GATES.get(kind, 1) * HIDDEN, SIZE)).astype(np.float32),
        "R": random.normal(0, 0.4, (1, GATES.get(kind, 1) * HIDDEN, HIDDEN)).astype(np.float32),
        "z": random.normal(0, 0.4, (SIZE + HIDDEN, HIDDEN)).astype(np.float32),
        "n": random.normal(0, 0.4, (SIZE + HIDDEN, HIDDEN)).astype(np.float32),
        "kept": np.full(HIDDEN, -3, np.float32),
    }
    bias = np.zeros((1, 2 * GATES.get(kind, 1) * HIDDEN), np.float32)
    bias[0, slice(2 * HIDDEN, 3 * HIDDEN) if kind == "LSTM" else slice(0, HIDDEN)] = 3
    arrays["B"] = bias
    node = helper.make_node
    if kind == "cell":
        nodes = [
            node("Concat", ["x", "h"], ["xh"], axis=-1),
            node("MatMul", ["xh", "z"], ["z0"]),
            node("Add", ["z0", "kept"], ["z1"]),
            node("Sigmoid", ["z1"], ["z2"]),
            node("MatMul", ["xh", "n"], ["n0"]),
            node("Tanh", ["n0"], ["n1"]),
            node("Sub", ["n1", "h"], ["d"]),
            node("Mul", ["z2", "d"], ["p"]),
            node("Add", ["h", "p"], ["h_next"]),
        ]
    elif kind == "GRU":
        nodes = [node("GRU", ["x", "W", "R", "B", "", "h"], ["", "h_next"], hidden_size=HIDDEN, linear_before_reset=1)]
    else:
        nodes = [node("LSTM", ["x", "W", "R", "B", "", "h", "c"], ["", "h_next", "c_next"], hidden_size=HIDDEN)]
    states = ["h", "c"] if kind == "LSTM" else ["h"]
    inputs = [helper.make_tensor_value_info("x", 1, (1, 1, SIZE))]
    inputs += [helper.make_tensor_value_info(name, 1, (1, 1, HIDDEN)) for name in states]
    outputs = [helper.make_tensor_value_info(f"{name}_next", 1, (1, 1, HIDDEN)) for name in states]
    initializers = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def stepped(call: Callable[..., dict[str, Array]], kind: str, sequence: Array) -> list[dict[str, Array]]:
    """The inputs and outputs of every step, from a state of zeros that is given back."""
    state = {name: np.zeros((1, 1, HIDDEN), np.float32) for name in ("h", "c")[: 1 + (kind == "LSTM")]}
    found: list[dict[str, Array]] = []
    for x in sequence:
        made = call(x=x[None, None], **state)
        found.append({"x": x[None, None], **state, **made})
        state = {name: made[f"{name}_next"] for name in state}
    return found


@pytest.mark.parametrize(("kind", "least"), [("LSTM", 33), ("GRU", 31), ("cell", 27)])
def test_a_state_that_is_an_input_and_an_output_has_13_bits(kind: str, least: float) -> None:
    network = streaming(kind)
    random = np.random.default_rng(5)
    sequences = random.normal(0, 1, (10, 60, SIZE)).astype(np.float32)
    reference = zp.load(network)
    steps = [step for sequence in sequences[:8] for step in stepped(reference, kind, sequence)]
    names = ["x", "h", "c"] if kind == "LSTM" else ["x", "h"]
    integers = zp.quantize(network, {name: np.stack([step[name] for step in steps]) for name in names}, effort="none")
    assert "0 float ops" in str(integers)
    assert set(widths(integers, "add")) == {16}
    native = integers.native()
    noise = signal = 0.0
    for sequence in sequences[8:]:
        expected, found = stepped(reference, kind, sequence), stepped(native, kind, sequence)
        for step, made in zip(expected, found, strict=True):
            signal += float(np.square(step["h_next"]).sum())
            noise += float(np.square(step["h_next"] - made["h_next"]).sum())
        for made in found[:5]:
            again = integers(**{name: made[name] for name in names})
            np.testing.assert_array_equal(again["h_next"], made["h_next"])
    # The state is given back 60 times. With 8 bits everywhere, these have 23.1, 27.7 and 24.7 dB.
    assert 10 * np.log10(signal / noise) > least, 10 * np.log10(signal / noise)


def test_a_sum_of_an_input_is_no_state_without_another_input() -> None:
    """A picture that is mixed with a computed one: its only input cannot be a state."""
    weight = np.random.default_rng(1).normal(0, 0.4, (SIZE, SIZE)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Sigmoid", ["m"], ["g"]),
        helper.make_node("Mul", ["x", "g"], ["p"]),
        helper.make_node("Add", ["m", "p"], ["y"]),
    ]
    network = model(nodes, (3, SIZE), (3, SIZE), {"w": weight})
    assert set(widths(zp.quantize(network, samples((3, SIZE)), effort="none"), "add")) == {8}


def test_residual_sums_of_gated_values_keep_8_bits() -> None:
    """Squeeze and excitation: the sum before is added, not multiplied by the gate."""
    names = ["x", *(f"s{n}" for n in range(6)), "y"]
    nodes: list[Any] = []
    for n in range(7):
        last, here = names[n], names[n + 1]
        nodes += [
            helper.make_node("MatMul", [last, "w"], [f"m{n}"]),
            helper.make_node("Sigmoid", [f"m{n}"], [f"g{n}"]),
            helper.make_node("Mul", [f"m{n}", f"g{n}"], [f"p{n}"]),
            helper.make_node("Add", [last, f"p{n}"], [here]),
        ]
    weight = np.random.default_rng(1).normal(0, 0.4, (SIZE, SIZE)).astype(np.float32)
    network = model(nodes, (3, SIZE), (3, SIZE), {"w": weight})
    assert set(widths(zp.quantize(network, samples((3, SIZE)), effort="none"), "add")) == {8}


def test_rows_for_recurrences_are_not_among_the_others() -> None:
    found = target("cpu")
    assert all(not row.recurrent for rows in found.by_kernel.values() for row in rows)
    assert all(row.output.storage.type.width == 8 for row in found.by_kernel["add"])
    assert all(row.recurrent for row in found.recurrent_rows["add"])
