"""Forms of operators that newer opsets no longer have: compared with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from frontend.onnx.models import load, one_op, random
from zeropoint.interp import run

BINARY: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "Add": np.add,
    "Equal": np.equal,
    "Greater": np.greater,
    "Less": np.less,
    "Or": np.logical_or,
    "Pow": np.power,
}


@pytest.mark.parametrize(("shape", "axis"), [((3, 4), 1), ((3,), 1), ((4, 5), None), ((5,), -1)])
@pytest.mark.parametrize("op_type", BINARY)
def test_dimensions_are_broadcast_from_an_axis(
    op_type: str, shape: tuple[int, ...], axis: int | None, tmp_path: Path
) -> None:
    a, b = np.round(random(2, 3, 4, 5, low=0.5, high=3)), np.round(random(*shape, seed=1))
    if op_type == "Equal":
        a, b = a.astype(np.int32), b.astype(np.int32)
    elif op_type == "Or":
        a, b = a > 1, b > 0
    attributes = {"broadcast": 1} if axis is None else {"broadcast": 1, "axis": axis}
    proto = one_op(op_type, {"a": a, "b": b}, opset=1 if op_type != "Pow" else 6, **attributes)
    start = a.ndim - b.ndim if axis in (None, -1) else axis
    wide = b.reshape([1] * start + list(b.shape) + [1] * (a.ndim - start - b.ndim))
    found = run(load(proto, tmp_path), {"a": a, "b": b})["y0"]
    np.testing.assert_allclose(found, BINARY[op_type](a, wide), rtol=1e-5)


def test_a_constant_exponent_is_broadcast(tmp_path: Path) -> None:
    x = random(2, 3)
    program = load(one_op("Pow", {"x": (2, 3)}, {"two": np.array([2], np.float32)}, opset=6, broadcast=1), tmp_path)
    np.testing.assert_array_equal(run(program, {"x": x})["y0"], x * x)
