"""Graphs inside of nodes, and what ONNX's suite has no case of: compared with onnxruntime, and in native code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import pytest

from codegen.exactness import HERE, assert_native_is_exact
from frontend.onnx.models import assert_same_as_onnxruntime, load, one_op, random
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.frontend import ModelError
from zeropoint.frontend.onnx import recurrent
from zeropoint.interp import run
from zeropoint.ir.stablehlo import WhileOp
from zeropoint.simplify import simplify

HEADER = '<ir_version: 8, opset_import: ["" : 17]>\n'


def parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(HEADER + text)


LOOP = """g (float[2,3] x) => (float[2,3] y, float[4,2,3] all) <int64 trips = {4}, bool true = {1}>
{ y, all = Loop(trips, true, x) <body = b (int64 i, bool c, float[2,3] s) => (bool d, float[2,3] t, float[2,3] o)
  { d = Identity(c)  f = Cast<to = 1>(i)  u = Mul(s, f)  t = Add(u, x)  o = Neg(t) }> }"""
CHOICE = """g (float[2,3] x) => (float[2,3] y) <float zero = {0.0}>
{ total = ReduceSum<keepdims = 0>(x)  positive = Greater(total, zero)
  y = If(positive) <then_branch = a () => (float[2,3] p) { p = Neg(x) }, else_branch = b () => (float[2,3] q)
  { q = Mul(x, x) }> }"""
STOPPED = """g (float[2,3] x) => (float[2,3] y) <int64 trips = {6}, bool true = {1}, float most = {9.0}>
{ y = Loop(trips, true, x) <body = b (int64 i, bool c, float[2,3] s) => (bool d, float[2,3] t)
  { t = Add(s, s)  a = Abs(t)  m = ReduceMax<keepdims = 0>(a)  d = Less(m, most) }> }"""
POOL = "g (float[2,3,4,5] x) => (float[2,3,1,1] y) { y = GlobalLpPool<p = 3>(x) }"


@pytest.mark.parametrize("text", [LOOP, CHOICE, STOPPED, POOL], ids=["loop", "if", "condition", "global-lp-pool"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_graphs_inside_of_nodes_compute_what_onnxruntime_does(text: str, seed: int, tmp_path: Path) -> None:
    proto = parsed(text)
    shape = tuple(dim.dim_value for dim in proto.graph.input[0].type.tensor_type.shape.dim)
    inputs = {"x": random(*shape, seed=seed)}
    program = assert_same_as_onnxruntime(proto, tmp_path, inputs)
    native = NativeProgram(simplify(program))(inputs)
    for name, array in run(program, inputs).items():
        np.testing.assert_allclose(native[name], array, rtol=1e-5, atol=1e-5)


MANY = LOOP.replace("{4}", "{700}").replace("[4,2,3]", "[700,2,3]").replace("Add(u, x)", "Sin(s)")
"""More trips than are written out."""
OPEN = STOPPED.replace("{6}", "{1000000}")
COUNTED = """g (float[2,3] x, int64 trips) => (float[2,3] y) <bool true = {1}>
{ y = Loop(trips, true, x) <body = b (int64 i, bool c, float[2,3] s) => (bool d, float[2,3] t)
  { d = Identity(c)  u = Cos(s)  t = Add(u, x) }> }"""
SCANNED = """g (float[3] x, float[2,600] rows) => (float[3] y, float[3,600] all)
{ y, all = Scan(x, rows) <num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1],
  scan_output_axes = [1], body = b (float[3] s, float[2] r) => (float[3] t, float[3] o)
  { m = ReduceMax<keepdims = 1>(r)  u = Mul(s, m)  t = Sin(u)  o = Neg(t) }> }"""


@pytest.mark.parametrize("text", [MANY, OPEN, SCANNED], ids=["loop", "condition", "scan"])
def test_many_trips_are_a_loop_that_native_code_runs(text: str, tmp_path: Path) -> None:
    proto = parsed(text)
    inputs = {
        given.name: random(*(dim.dim_value for dim in given.type.tensor_type.shape.dim)) for given in proto.graph.input
    }
    check_looped(proto, inputs, tmp_path)


def check_looped(proto: onnx.ModelProto, inputs: dict[str, np.ndarray], folder: Path) -> None:
    program = assert_same_as_onnxruntime(proto, folder, inputs)
    assert any(isinstance(op, WhileOp) for op in program.entry.ops)
    simple = simplify(program)
    assert_native_is_exact(simple, [inputs], HERE[0])


def test_a_trip_count_may_be_computed(tmp_path: Path) -> None:
    for trips in (0, 1, 9):
        check_looped(parsed(COUNTED), {"x": random(2, 3), "trips": np.array(trips, np.int64)}, tmp_path)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op_type", ["RNN", "GRU", "LSTM"])
def test_a_long_sequence_is_a_loop(
    op_type: str, direction: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recurrent, "STEPS", 5)
    gates, ways, hidden = {"RNN": 1, "GRU": 3, "LSTM": 4}[op_type], 1 + (direction == "bidirectional"), 6
    weights = {
        "w": random(ways, gates * hidden, 4),
        "r": random(ways, gates * hidden, hidden, seed=2),
        "b": random(ways, 2 * gates * hidden, seed=3),
        "lengths": np.array([9, 4], np.int32),
    }
    proto = one_op(op_type, {"x": (9, 2, 4)}, weights, outputs=2, direction=direction, hidden_size=hidden)
    check_looped(proto, {"x": random(9, 2, 4, seed=4)}, tmp_path)


def test_a_loop_whose_state_changes_its_shape_is_refused(tmp_path: Path) -> None:
    grown = OPEN.replace("t = Add(s, s)", "t = Concat<axis = 0>(s, s)").replace("float[2,3] t)", "float[4,3] t)")
    with pytest.raises(ModelError, match="expected the same type in every trip"):
        load(parsed(grown), tmp_path)


def test_inputs_that_decide_the_size_of_scan_outputs_are_named(tmp_path: Path) -> None:
    text = """g (int64 trips, float[2,3] x) => (float[2,3] y, float[3,2,3] all) <bool true = {1}>
    { twice = Add(trips, trips)  y, all = Loop(twice, true, x) <body = b (int64 i, bool c, float[2,3] s) =>
      (bool d, float[2,3] t, float[2,3] o) { d = Identity(c)  t = Add(s, x)  o = Neg(t) }> }"""
    with pytest.raises(ModelError, match="found a computed 'trip count', expected a constant") as caught:
        load(parsed(text), tmp_path)
    assert caught.value.inputs_to_fix == ("trips",)


@pytest.mark.parametrize("trips", [0, -1, 4, 700])
def test_a_loop_without_a_trip_returns_its_states_and_has_no_rows(trips: int, tmp_path: Path) -> None:
    text = LOOP.replace("{4}", f"{{{trips}}}").replace("{1}", "{1}" if trips < 1 else "{0}")
    with pytest.raises(ModelError, match="found scan outputs of a loop without a trip, expected one trip or more"):
        load(parsed(text), tmp_path)
    states = text.replace(", float[4,2,3] all", "").replace("y, all", "y").replace(", float[2,3] o)", ")")
    assert_same_as_onnxruntime(parsed(states.replace("o = Neg(t)", "")), tmp_path)
