"""Constants that are computed from smaller ones: beyond a limit, runs compute them for each reader."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import zeropoint as zp
from zeropoint.interp import ReferenceEngine, plan
from zeropoint.interp.plan import plan_of
from zeropoint.ir import weights
from zeropoint.simplify import simplify

SIZE = 16


def network() -> onnx.ModelProto:
    """Two products by the reals of stored integers, one of which is read twice."""
    made = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 17]> g (float[1,{SIZE}] x) => (float[1,{SIZE}] y) {{
          v = DequantizeLinear(a, s)  w = DequantizeLinear(b, s)
          p = MatMul(x, v)  q = Relu(p)  r = MatMul(q, w)  t = MatMul(r, v)  y = Tanh(t) }}"""
    )
    random = np.random.default_rng(0)
    for name in "ab":
        stored = random.integers(-9, 9, (SIZE, SIZE), np.int8)
        made.graph.initializer.append(onnx.numpy_helper.from_array(stored, name))
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(0.05), "s"))
    return made


def test_many_computed_constants_are_not_kept_by_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = {"x": np.linspace(-1, 1, SIZE, dtype=np.float32)[np.newaxis]}
    monkeypatch.setattr(weights, "COMPUTED_BYTES", 1)
    program = simplify(zp.load(network()).program)
    expected = ReferenceEngine().prepare(program)(sample)["y"]
    assert sum(slot is not None and slot.size == SIZE * SIZE for slot in plan_of(program).slots) == 2
    monkeypatch.setattr(plan, "MOST_COMPUTED", 4 * SIZE * SIZE)
    assert sum(slot is not None and slot.size == SIZE * SIZE for slot in plan_of(program).slots) == 1
    monkeypatch.setattr(plan, "MOST_COMPUTED", 0)
    assert sum(slot is not None and slot.size == SIZE * SIZE for slot in plan_of(program).slots) == 0
    found = ReferenceEngine().prepare(program)(sample)["y"]
    assert found.tobytes() == expected.tobytes()
