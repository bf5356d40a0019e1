"""The float operators of onnxruntime's optimizer, compared with onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

from frontend.onnx.models import assert_same_as_onnxruntime, load, model, random, tensor
from zeropoint.frontend import ModelError

MICROSOFT = "com.microsoft"
ROWS = (1, 3, 8)
IMAGE, KERNEL = (1, 2, 6, 6), {"w": random(2, 2, 3, 3), "b": random(2)}
NORM = {"g": random(8, seed=1), "h": random(8, seed=2), "b": random(8, seed=3)}


def fused(
    op_type: str,
    shapes: Sequence[tuple[int, ...]],
    constants: Mapping[str, Any] | None = None,
    outputs: Sequence[str] = ("y0",),
    opset: int = 17,
    domain: str = MICROSOFT,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node; an input whose name in `constants` is blank is left out."""
    constants = constants or {}
    inputs = {f"x{i}": shape for i, shape in enumerate(shapes)}
    names = [*inputs, *(name.strip() for name in constants)]
    node = helper.make_node(op_type, names, outputs, name="node", domain=domain, **attributes)
    given = {name: array for name, array in constants.items() if name.strip()}
    results = [tensor(name, None, TensorProto.FLOAT) for name in outputs if name]
    ports = [tensor(name, shape) for name, shape in inputs.items()]
    return model([node], ports, results, given, opset, (domain,) if domain else ())


CASES = {
    "Gelu": fused("Gelu", [(3, 4)]),
    "BiasGelu": fused("BiasGelu", [(3, 4)], {"b": random(4)}),
    "FastGelu": fused("FastGelu", [(3, 4)], {"b": random(4)}),
    "FastGelu without bias": fused("FastGelu", [(3, 4)]),
    "QuickGelu": fused("QuickGelu", [(3, 4)], alpha=1.3),
    "QuickGelu, default": fused("QuickGelu", [(3, 4)]),
    "FusedConv": fused("FusedConv", [IMAGE], KERNEL, activation="Relu", pads=[1, 1, 1, 1], strides=[2, 2]),
    "FusedConv of a sum": fused("FusedConv", [IMAGE], KERNEL | {"z": random(1, 2, 4, 4)}, activation="Sigmoid"),
    "FusedConv, LeakyRelu": fused(
        "FusedConv", [IMAGE], KERNEL, activation="LeakyRelu", activation_params=[0.3], auto_pad="SAME_UPPER"
    ),
    "FusedConv, HardSigmoid": fused(
        "FusedConv", [IMAGE], KERNEL, activation="HardSigmoid", activation_params=[0.3, 0.4]
    ),
    "FusedConv, Clip": fused("FusedConv", [IMAGE], KERNEL, activation="Clip", activation_params=[-0.5, 1.0]),
    "FusedGemm": fused("FusedGemm", [(2, 3)], {"w": random(4, 3), "b": random(4)}, activation="Tanh", transB=1),
    "FusedGemm, LeakyRelu": fused(
        "FusedGemm", [(2, 3)], {"w": random(3, 4)}, activation="LeakyRelu", activation_alpha=0.2, alpha=0.5
    ),
    "FusedMatMul": fused("FusedMatMul", [(2, 4, 3), (2, 5, 4)], transA=1, transB=1, alpha=0.5),
    "FusedMatMul, rows first": fused("FusedMatMul", [(3, 2, 5, 4), (2, 5, 4, 6)], transBatchA=1),
    "FusedMatMul, rows first, transposed": fused(
        "FusedMatMul", [(4, 2, 5, 3), (6, 2, 5, 4)], transBatchA=1, transA=1, transBatchB=1, transB=1
    ),
    "FusedMatMul, plain": fused("FusedMatMul", [(3, 4), (4, 5)]),
    "SkipLayerNormalization": fused("SkipLayerNormalization", [ROWS, ROWS], NORM, epsilon=1e-3),
    "SkipLayerNormalization, opset 21": fused("SkipLayerNormalization", [ROWS, ROWS], NORM, opset=21),
    "SkipLayerNormalization and the sum": fused(
        "SkipLayerNormalization", [ROWS, ROWS], {"g": NORM["g"], " ": NORM["h"], "b": NORM["b"]}, ("y0", "", "", "y3")
    ),
    "SkipSimplifiedLayerNormalization": fused(
        "SkipSimplifiedLayerNormalization", [ROWS, ROWS], {"g": NORM["g"]}, ("y0", "", "", "y3"), epsilon=1e-3
    ),
    "SimplifiedLayerNormalization": fused(
        "SimplifiedLayerNormalization", [ROWS], {"g": NORM["g"]}, domain="", axis=-1, epsilon=1e-3, stash_type=1
    ),
}


FUNCTIONS = {
    "Elu": {"activation_alpha": 1.5},
    "HardSigmoid": {"activation_alpha": 0.3, "activation_beta": 0.4},
    "Softplus": {},
    "Softsign": {},
    "ThresholdedRelu": {"activation_alpha": 0.5},
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_gemm_with_any_function_of_onnxruntime(name: str, tmp_path: Path) -> None:
    gemm = fused("FusedGemm", [(2, 3)], {"w": random(3, 4), "b": random(4)}, activation=name, **FUNCTIONS[name])
    assert_same_as_onnxruntime(gemm, tmp_path)


@pytest.mark.parametrize("name", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_small_values_show_which_epsilon_is_the_default(name: str, tmp_path: Path) -> None:
    small = {f"x{i}": random(*ROWS, seed=i) * np.float32(1e-4) for i in range(2)}
    assert_same_as_onnxruntime(fused(name, [ROWS, ROWS], {"g": NORM["g"]}), tmp_path, small)


@pytest.mark.parametrize("name", CASES)
def test_an_operator_computes_what_onnxruntime_does(name: str, tmp_path: Path) -> None:
    assert_same_as_onnxruntime(CASES[name], tmp_path)


def test_forms_without_a_function_are_refused(tmp_path: Path) -> None:
    unknown = fused("FusedConv", [IMAGE], KERNEL, activation="Swish")
    with pytest.raises(ModelError, match=r"'node' \(com.microsoft::FusedConv\)"):
        load(unknown, tmp_path)


NESTED = {
    "branch": "y = If(yes) <then_branch = t () => (float[3,4] u) {{ u = {call} }}, "
    "else_branch = e () => (float[3,4] v) {{ v = Neg(x) }}>",
    "loop": "y = Loop(n, yes, x) <body = b (int64 i, bool c, float[3,4] s) => (bool d, float[3,4] t) "
    "{{ d = Identity(c)  u = {call}  t = Add(u, s) }}>",
    "function": "y = m.F(x)",
}


@pytest.mark.parametrize("place", NESTED)
def test_an_operator_in_a_nested_graph_or_a_function(place: str, tmp_path: Path) -> None:
    call = "com.microsoft.QuickGelu<alpha = 1.3>(x)"
    header = f'<ir_version: 8, opset_import: ["": 17, "{MICROSOFT}": 1, "m": 1]>\n'
    nodes = NESTED[place].format(call=call)
    graph = f"g (float[3,4] x) => (float[3,4] y) <bool yes = {{1}}, int64 n = {{2}}> {{ {nodes} }}\n"
    function = f'<domain: "m", opset_import: ["": 17, "{MICROSOFT}": 1]> F (x) => (b) {{ b = {call} }}'
    proto = onnx.parser.parse_model(header + graph + (function if place == "function" else ""))
    assert_same_as_onnxruntime(proto, tmp_path)
