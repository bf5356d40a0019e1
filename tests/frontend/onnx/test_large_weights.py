"""Large weights are held as they are in the file, also if a model transposes or converts them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper

from frontend.onnx.models import model, tensor
from zeropoint.codegen.llvm.machine import host
from zeropoint.codegen.lowering import steps_of
from zeropoint.frontend import load_model
from zeropoint.interp import run
from zeropoint.ir import weights
from zeropoint.simplify import simplify

COUNT, SIZE = 6, 512


def transposed(n: int) -> NodeProto:
    return helper.make_node("Transpose", [f"w{n}"], [f"v{n}"], perm=[1, 0])


def converted(n: int) -> NodeProto:
    return helper.make_node("Cast", [f"w{n}"], [f"v{n}"], to=TensorProto.FLOAT)


def weight(n: int, dtype: str) -> np.ndarray:
    return (np.random.default_rng(n).standard_normal((SIZE, SIZE)) / np.sqrt(SIZE)).astype(dtype)


def saved(folder: Path, node: Callable[[int], NodeProto], dtype: str) -> Path:
    nodes = [
        one for n in range(COUNT) for one in (node(n), helper.make_node("MatMul", [f"x{n}", f"v{n}"], [f"x{n + 1}"]))
    ]
    constants = {f"w{n}": weight(n, dtype) for n in range(COUNT)}
    proto = model(nodes, [tensor("x0", (1, SIZE))], [tensor(f"x{COUNT}", (1, SIZE))], constants)
    onnx.save(proto, folder / "model.onnx", save_as_external_data=True, location="model.data", size_threshold=0)
    return folder / "model.onnx"


@pytest.mark.parametrize(("node", "dtype"), [(transposed, "float32"), (converted, "float16")])
def test_weights_that_a_model_transposes_or_converts_stay_in_the_file(
    node: Callable[[int], NodeProto], dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "RECENT_ARRAYS", weights.RecentArrays(1 << 20))
    path = saved(tmp_path, node, dtype)
    simplify(load_model(path))  # modules are imported
    tracemalloc.start()
    try:
        program = simplify(load_model(path))
        held, _ = tracemalloc.get_traced_memory()
        x = np.ones((1, SIZE), np.float32)
        graph = steps_of(program, host())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    size = 4 * COUNT * SIZE**2
    assert held < 0.4 * size
    assert len(graph.weights) >= size
    assert peak < 1.8 * size  # the packed weights, and the copies of one of them
    expected = x
    for n in range(COUNT):
        expected = expected @ (weight(n, dtype).T if node is transposed else weight(n, dtype).astype(np.float32))
    np.testing.assert_allclose(run(program, {"x0": x})[f"x{COUNT}"], expected, rtol=1e-4, atol=1e-5)
