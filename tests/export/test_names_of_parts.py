"""Files in which several nodes or casts come from one operator of the model are the same file after an import.

The names of the parts are numbered. Node, tensor and stored integers had numbers of their own, and a second export had
others, because the importer reads one name of the three.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

import zeropoint as zp
from export.test_round_trips import assert_same_outputs
from export.text_networks import text_network

NETWORKS = {
    "an LSTM": (
        "(float[4,1,6] x) => (float[1,1,5] h)",
        {"w": (1, 20, 6), "r": (1, 20, 5), "b": (1, 40)},
        "s, h, c = LSTM<hidden_size=5>(x, w, r, b)",
    ),
    "a softplus before a convolution": (
        "(float[1,4,6,6] x) => (float[1,4,6,6] y)",
        {"w": (4, 4, 1, 1), "v": (4, 4, 1, 1)},
        "p = Conv(x, w)\n q = Softplus(p)\n y = Conv(q, v)",
    ),
    "an image enlarged twice": (
        "(float[1,4,4,4] x) => (float[1,4,16,16] y)",
        {"w": (4, 4, 1, 1), "v": (4, 4, 1, 1)},
        """
        s = Constant<value_floats=[1.0,1.0,2.0,2.0]>()
        p = Conv(x, w)
        q = Resize<mode="linear">(p, , s)
        r = Conv(q, v)
        y = Resize<mode="nearest">(r, , s)
        """,
    ),
    "a value beside its maximum": (
        "(float[1,4,6,6] x) => (float[1,4,6,6] y)",
        {"w": (4, 4, 1, 1)},
        "p = Conv(x, w)\n q = ReduceMax<axes=[2,3]>(p)\n y = Sub(p, q)",
    ),
    "a function of floats beside an image": (
        "(float[1,4,6,6] x, float[1,3] u) => (float[1,4,6,6] y)",
        {"w": (4, 4, 1, 1), "v": (3, 4)},
        """
        f = MatMul(u, v)  s = Sin(f)
        a = Constant<value_ints=[2]>()  b = Constant<value_ints=[3]>()
        t0 = Unsqueeze(s, a)  t = Unsqueeze(t0, b)
        p = Conv(x, w)  y = Mul(p, t)
        """,
    ),
}
FILES: list[tuple[str, str, dict[str, Any]]] = [
    ("litert", "tflite", {}),
    ("onnxruntime", "onnx", {}),
    ("onnxruntime", "onnx", {"onnx_format": "qoperator"}),
]


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(("target", "suffix", "options"), FILES)
def test_parts_of_an_operator_keep_their_names(
    name: str, target: str, suffix: str, options: dict[str, Any], tmp_path: Path
) -> None:
    """Also the places of casts and the shapes of constants are those of the first file."""
    model, samples = text_network(*NETWORKS[name])
    first = zp.quantize(model, samples, target=target, effort="none")
    first.export(tmp_path / f"first.{suffix}", **options)
    second = zp.quantize(tmp_path / f"first.{suffix}", target=target)
    second.export(tmp_path / f"second.{suffix}", **options)
    assert (tmp_path / f"first.{suffix}").read_bytes() == (tmp_path / f"second.{suffix}").read_bytes()
    assert_same_outputs(first, second, samples)


def test_a_node_its_tensor_and_its_integers_have_one_number(tmp_path: Path) -> None:
    model, samples = text_network(*NETWORKS["an LSTM"])
    zp.quantize(model, samples, target="onnxruntime", effort="none").export(tmp_path / "m.onnx")
    graph = onnx.load(tmp_path / "m.onnx").graph
    made = {node.output[0]: node for node in graph.node}
    computed = [node for node in graph.node if node.op_type == "QuantizeLinear" and node.input[0] in made]
    assert len(computed) > 10
    for node in computed:
        assert node.output[0] == f"{made[node.input[0]].name}_quantized"
