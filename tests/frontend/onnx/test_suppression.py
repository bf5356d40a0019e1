"""NonMaxSuppression: the rows of onnxruntime, then rows of -1; and the ops that may read them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper

from frontend.onnx.models import model, random, tensor
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.frontend import ModelError, load_model
from zeropoint.frontend.onnx import suppression
from zeropoint.fuse import fuse
from zeropoint.interp import run
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import WhileOp
from zeropoint.simplify import simplify

BOXES, SCORES = (2, 30, 4), (2, 3, 30)


def data(seed: int = 0, step: float = 0.0) -> dict[str, np.ndarray]:
    """Boxes and scores; rounded to multiples of a step, so that scores and overlaps are equal."""
    arrays = {"boxes": random(*BOXES, seed=seed, low=0, high=6), "scores": random(*SCORES, seed=seed + 1, low=-1)}
    return {name: (np.round(a / step) * step).astype(np.float32) if step else a for name, a in arrays.items()}


def detector(
    most: int, *thresholds: float, center: int = 0, after: tuple[NodeProto, ...] = (), result: str = "rows"
) -> ModelProto:
    names = ["most", "overlap", "least"][: 1 + len(thresholds)]
    numbers = [np.array([most]), *(np.array([number], np.float32) for number in thresholds)]
    constants = dict(zip(names, numbers, strict=True)) | {"column": np.array([2])}
    node = helper.make_node("NonMaxSuppression", ["boxes", "scores", *names], ["rows"], "nms", center_point_box=center)
    inputs = [tensor("boxes", BOXES), tensor("scores", SCORES)]
    element = TensorProto.FLOAT if result == "floats" else TensorProto.INT64
    return model([node, *after], inputs, [tensor(result, None, element)], constants)


def loaded(proto: ModelProto, folder: Path) -> Program:
    (folder / "model.onnx").write_bytes(proto.SerializeToString())
    return load_model(folder / "model.onnx")


def expected(proto: ModelProto, given: dict[str, np.ndarray]) -> np.ndarray:
    return np.asarray(onnxruntime.InferenceSession(proto.SerializeToString()).run(None, given)[0])


def check(found: np.ndarray, wanted: np.ndarray, rows: int) -> None:
    assert len(found) == rows
    np.testing.assert_array_equal(found[: len(wanted)], wanted)
    assert (found[len(wanted) :] == -1).all()


@pytest.mark.parametrize(
    ("most", "thresholds"), [(5, (0.3, 0.0)), (40, (0.5,)), (3, ()), (4, (0.0, 0.5)), (30, (1.0,))]
)
@pytest.mark.parametrize("center", [0, 1])
def test_selected_rows_are_those_of_onnxruntime(
    most: int, thresholds: tuple[float, ...], center: int, tmp_path: Path
) -> None:
    proto, given = detector(most, *thresholds, center=center), data()
    check(run(loaded(proto, tmp_path), given)["rows"], expected(proto, given), 6 * min(most, 30))


def test_among_equal_scores_the_first_box_is_selected(tmp_path: Path) -> None:
    proto, given = detector(30, 0.5), data(step=0.5)
    program = loaded(proto, tmp_path)
    found = run(program, given)["rows"]
    for batch, class_ in np.ndindex(2, 3):
        mine = found[(found[:, 0] == batch) & (found[:, 1] == class_), 2]
        scores = given["scores"][batch, class_][mine]
        assert all(a > b or (a == b and i < j) for a, b, i, j in zip(scores, scores[1:], mine, mine[1:], strict=False))


def test_a_loop_selects_the_same_as_trips_that_are_written_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proto, given = detector(30, 0.4, -0.5), data(step=0.25)
    written_out = run(loaded(proto, tmp_path), given)["rows"]
    monkeypatch.setattr(suppression, "TRIPS", 5)
    looped = loaded(proto, tmp_path)
    assert any(isinstance(op, WhileOp) for op in looped.entry.ops)
    np.testing.assert_array_equal(run(looped, given)["rows"], written_out)


def test_native_code_selects_the_same(tmp_path: Path) -> None:
    proto, given = detector(2, 0.3, 0.0), data()
    native = NativeProgram(simplify(loaded(proto, tmp_path)), cache=False)
    check(native(given)["rows"], expected(proto, given), 12)


def test_selection_stays_float(tmp_path: Path) -> None:
    fused = fuse(simplify(loaded(detector(2, 0.3, 0.0), tmp_path)))
    assert not any(isinstance(op, QuantizeRegionOp) for op in fused.entry.ops)


def test_nothing_is_selected_without_a_number_of_boxes(tmp_path: Path) -> None:
    assert run(loaded(detector(0, 0.5), tmp_path), data())["rows"].shape == (0, 3)


def test_nan_scores_are_never_selected(tmp_path: Path) -> None:
    given = data()
    given["scores"][:, :, ::2] = np.nan
    found = run(loaded(detector(30, 1.0), tmp_path), given)["rows"]
    used = found[found[:, 0] >= 0]
    assert (used[:, 2] % 2 == 1).all()
    assert len(used) == 6 * 15


def test_ops_on_single_rows_read_selected_rows(tmp_path: Path) -> None:
    after = (
        helper.make_node("Gather", ["rows", "column"], ["positions"], axis=1),
        helper.make_node("Squeeze", ["positions", "one"], ["flat"]),
        helper.make_node("Gather", ["boxes", "flat"], ["taken"], axis=1),
        helper.make_node("Transpose", ["taken"], ["floats"], perm=[2, 1, 0]),
    )
    proto, given = detector(5, 0.3, 0.0, after=after, result="floats"), data()
    proto.graph.initializer.append(helper.make_tensor("one", TensorProto.INT64, [1], [1]))
    results = run(loaded(proto, tmp_path), given)
    assert list(results) == ["floats", "rows"]
    used = int((results["rows"] >= 0).all(axis=1).sum())
    wanted = expected(proto, given)
    assert wanted.shape == (4, used, 2)
    np.testing.assert_array_equal(results["floats"][:, :used], wanted)


@pytest.mark.parametrize(
    "node",
    [
        helper.make_node("ReduceMax", ["rows"], ["found"], "mixing"),
        helper.make_node("Shape", ["rows"], ["found"], "mixing"),
        helper.make_node("Gather", ["rows", "column"], ["found"], "mixing", axis=0),
        helper.make_node("Concat", ["rows", "rows"], ["found"], "mixing", axis=0),
    ],
    ids=lambda node: node.op_type,
)
def test_an_op_that_mixes_rows_is_refused(node: NodeProto, tmp_path: Path) -> None:
    proto = detector(5, 0.3, after=(node,), result="found")
    with pytest.raises(ModelError, match=r"'mixing' \(\w+\): found 'rows', whose number of rows depends on values"):
        loaded(proto, tmp_path)


def test_selection_inside_of_a_branch_is_refused(tmp_path: Path) -> None:
    inner = detector(5, 0.3).graph
    branch = helper.make_graph(list(inner.node), "branch", [], list(inner.output), list(inner.initializer))
    node = helper.make_node("If", ["condition"], ["found"], "choice", then_branch=branch, else_branch=branch)
    inputs = [tensor("boxes", BOXES), tensor("scores", SCORES), tensor("condition", (), TensorProto.BOOL)]
    with pytest.raises(ModelError, match="expected it outside of If and Loop"):
        loaded(model([node], inputs, [tensor("found", None, TensorProto.INT64)]), tmp_path)
