"""Small ONNX models, and their comparison with onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from zeropoint.frontend import load_model
from zeropoint.interp import run
from zeropoint.ir.program import Program

NEWEST = min(26, onnx.defs.onnx_opset_version())
"""The newest opset that onnxruntime 1.31 runs; the importer takes every one that onnx knows."""


CONDITIONS = frozenset({"And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "Or"})
"""Ops that make booleans."""


def random(*shape: int, seed: int = 0, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def tensor(name: str, shape: tuple[Any, ...] | None, element: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, element, shape)


def model(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    constants: Mapping[str, np.ndarray] | None = None,
    opset: int = 17,
    domains: tuple[str, ...] = (),
) -> onnx.ModelProto:
    initializers = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=imports, ir_version=8 if opset < 21 else 10)


def _input(name: str, given: tuple[int, ...] | np.ndarray) -> onnx.ValueInfoProto:
    if isinstance(given, np.ndarray):
        return tensor(name, given.shape, helper.np_dtype_to_tensor_dtype(given.dtype))
    return tensor(name, given)


def one_op(
    op_type: str,
    inputs: Mapping[str, tuple[int, ...] | np.ndarray],
    constants: Mapping[str, np.ndarray] | None = None,
    opset: int = 17,
    outputs: int = 1,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node, `inputs` first and then `constants`; `""` among the constants leaves an input out.

    An input is its shape, of floats, or an array that says shape and element type.
    """
    constants = constants or {}
    names = [*inputs, *(name.strip() for name in constants)]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op_type, names, results, name="node", **attributes)
    given = {name: array for name, array in constants.items() if name.strip()}
    return model(
        [node],
        [_input(name, given) for name, given in inputs.items()],
        [tensor(name, None, TensorProto.BOOL if op_type in CONDITIONS else TensorProto.FLOAT) for name in results],
        given,
        opset,
    )


def load(proto: onnx.ModelProto, folder: Path, **shapes: tuple[int, ...]) -> Program:
    path = folder / "model.onnx"
    onnx.save(proto, path)
    return load_model(path, shapes)


def inputs_of(program: Program, seed: int = 1) -> dict[str, np.ndarray]:
    return {port.name: random(*port.type.get_shape(), seed=seed + i) for i, port in enumerate(program.inputs)}


def assert_same_as_onnxruntime(
    proto: onnx.ModelProto,
    folder: Path,
    inputs: Mapping[str, np.ndarray] | None = None,
    tolerance: float = 1e-5,
    **shapes: tuple[int, ...],
) -> Program:
    """Import the model, run it, and compare names, shapes and values of all outputs with onnxruntime's."""
    runtime = pytest.importorskip("onnxruntime")
    program = load(proto, folder, **shapes)
    program.module.verify()
    inputs = inputs_of(program) if inputs is None else inputs
    found = run(program, dict(inputs))
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in proto.graph.output]
    expected = dict(zip(names, session.run(names, dict(inputs)), strict=True))
    assert list(found) == names
    for name in names:
        assert found[name].shape == expected[name].shape
        np.testing.assert_allclose(found[name], expected[name], rtol=tolerance, atol=tolerance, err_msg=name)
    return program
