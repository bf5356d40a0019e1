"""The state of recurrent layers has 13 bits on target cpu; what only looks similar keeps 8."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import zeropoint as zp
from zeropoint.ir.quant import QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.tensors import Array
from zeropoint.targets import target

STEPS, SIZE, HIDDEN = 20, 5, 8
GATES = {"GRU": 3, "LSTM": 4}


def recurrent(kind: str, steps: int = STEPS, **attributes: Any) -> onnx.ModelProto:
    """A layer with a long memory, from zeros; its last state is the output."""
    random = np.random.default_rng(3)
    rows = GATES[kind] * HIDDEN
    bias = np.zeros((1, 2 * rows), np.float32)
    # Gates that keep the state: the forget gate of an LSTM, the update gate of a GRU.
    kept = slice(2 * HIDDEN, 3 * HIDDEN) if kind == "LSTM" else slice(0, HIDDEN)
    bias[0, kept] = 3
    arrays = {
        "W": random.normal(0, 0.6, (1, rows, SIZE)).astype(np.float32),
        "R": random.normal(0, 0.4, (1, rows, HIDDEN)).astype(np.float32),
        "B": bias,
    }
    node = helper.make_node(kind, ["x", *arrays], ["", "y"], name=kind.lower(), hidden_size=HIDDEN, **attributes)
    return model([node], (steps, 1, SIZE), (1, 1, HIDDEN), arrays)


def model(nodes: list[Any], given: tuple[int, ...], made: tuple[int, ...], arrays: dict[str, Array]) -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", given), ("y", made)))
    initializers = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(helper.make_graph(nodes, "g", [x], [y], initializers), opset_imports=opsets, ir_version=8)


def samples(shape: tuple[int, ...], count: int = 16) -> Array:
    return np.random.default_rng(5).normal(0, 1, (count, *shape)).astype(np.float32)


def widths(program: zp.Model, kernel: str) -> list[int]:
    """The widths of the results of all kernels of a name."""
    found = program.quantization
    assert found is not None
    regions = [op for op in found.propagated.entry.ops if isinstance(op, QuantizeRegionOp)]
    kinds = [op.output_specs.data[0] for op in regions if op.logical_kernel.data == kernel]
    return [kind.storage.type.width for kind in kinds if isinstance(kind, UniformQuantizedType)]


@pytest.mark.parametrize(
    ("kind", "attributes"), [("LSTM", {}), ("GRU", {"linear_before_reset": 1}), ("GRU", {"linear_before_reset": 0})]
)
def test_the_state_has_13_bits(kind: str, attributes: dict[str, Any]) -> None:
    network, data = recurrent(kind, **attributes), samples((STEPS, 1, SIZE))
    integers = zp.quantize(network, data, effort="none")
    # The reset gate of the first step multiplies zeros only, and is no gate of a state.
    assert widths(integers, "add").count(8) <= (kind == "GRU")
    assert set(widths(integers, "tanh")) == {8}
    assert "0 float ops" in str(integers)
    for sample in data[:4]:
        interpreted, native = integers(x=sample)["y"], integers.native()(x=sample)["y"]
        np.testing.assert_array_equal(interpreted, native)
    # With 8 bits everywhere, these have 28.1, 31.8 and 32.8 dB.
    sqnr = zp.compare(network, integers, data).outputs[0].sqnr
    assert sqnr is not None
    assert sqnr > 34.5, sqnr


def test_a_few_steps_keep_8_bits() -> None:
    network, data = recurrent("LSTM", steps=2), samples((2, 1, SIZE))
    assert set(widths(zp.quantize(network, data, effort="none"), "add")) == {8}


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
    assert [row.recurrent for row in found.recurrent_rows["add"]] == [True]
