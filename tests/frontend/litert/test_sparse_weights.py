"""Sparse weights of .tflite files are read as dense ones, whatever the order and the format of their dimensions."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zeropoint as zp
from zeropoint.frontend.errors import ModelError
from zeropoint.ir.tensors import Array
from zeropoint.litert_schema import flatbuffers, schema


@dataclass(frozen=True)
class Form:
    """The dimensions of the levels, which levels are compressed, and the dimensions that blocks split, with sizes."""

    order: tuple[int, ...]
    compressed: tuple[int, ...]
    blocks: tuple[tuple[int, int], ...] = ()


FORMS = {
    "rows": Form((0, 1), (1,)),
    "columns": Form((1, 0), (1,)),
    "both": Form((0, 1), (0, 1)),
    "blocks of four": Form((0, 1, 2), (1,), ((1, 4),)),
    "blocks of 2 x 4": Form((0, 1, 2, 3), (1,), ((0, 2), (1, 4))),
    "blocks along the rows first": Form((1, 0, 3, 2), (0, 1), ((0, 2), (1, 4))),
    "dense": Form((0, 1), ()),
}


def sparse(array: Array, form: Form) -> tuple[Any, Array]:
    """The description in the schema and the stored elements of an array."""
    made, rank = schema(), array.ndim
    sizes = [size // dict(form.blocks).get(dimension, 1) for dimension, size in enumerate(array.shape)]
    sizes += [block for _, block in form.blocks]

    def at(places: dict[int, int]) -> int:
        index = [places[dimension] for dimension in range(rank)]
        for number, (dimension, block) in enumerate(form.blocks):
            index[dimension] = index[dimension] * block + places[rank + number]
        return int(np.ravel_multi_index(index, array.shape))

    flat, levels = array.reshape(-1), []
    nodes: list[dict[int, int]] = [{}]
    for level, dimension in enumerate(form.order):
        later = form.order[level + 1 :]

        def holds(node: dict[int, int], later: tuple[int, ...] = later) -> bool:
            inner = np.ndindex(*(sizes[other] for other in later))
            return any(flat[at({**node, **dict(zip(later, places, strict=True))})] for places in inner)

        children = [[{**node, dimension: place} for place in range(sizes[dimension])] for node in nodes]
        one = made.DimensionMetadataT()
        if level in form.compressed:
            children = [[child for child in found if holds(child)] for found in children]
            one.format = made.DimensionType.SPARSE_CSR
            one.arraySegmentsType, one.arrayIndicesType = (
                made.SparseIndexVector.Int32Vector,
                made.SparseIndexVector.Uint8Vector,
            )
            one.arraySegments, one.arrayIndices = made.Int32VectorT(), made.Uint8VectorT()
            one.arraySegments.values = [0, *np.cumsum([len(found) for found in children]).tolist()]
            one.arrayIndices.values = [child[dimension] for found in children for child in found]
        else:
            one.format, one.denseSize = made.DimensionType.DENSE, sizes[dimension]
        levels.append(one)
        nodes = [child for found in children for child in found]
    described = made.SparsityParametersT()
    described.traversalOrder, described.dimMetadata = [*form.order], levels
    described.blockMap = [dimension for dimension, _ in form.blocks] or None
    return described, flat[[at(node) for node in nodes]]


def model(weights: Array, form: Form) -> Any:
    """A fully connected layer behind a DENSIFY of its weights."""
    made = schema()
    described, stored = sparse(weights, form)

    def tensor(name: str, shape: tuple[int, ...], buffer: int) -> Any:
        one = made.TensorT()
        one.name, one.shape, one.buffer, one.type = name, [*shape], buffer, made.TensorType.FLOAT32
        return one

    def operator(code: int, inputs: list[int], output: int) -> Any:
        one = made.OperatorT()
        one.opcodeIndex, one.inputs, one.outputs = code, inputs, [output]
        return one

    rows, columns = weights.shape
    graph = made.SubGraphT()
    shapes = [("x", (1, columns)), ("w", (rows, columns)), ("dense", (rows, columns)), ("y", (1, rows))]
    graph.tensors = [tensor(name, shape, index == 1) for index, (name, shape) in enumerate(shapes)]
    graph.tensors[1].sparsity = described
    graph.inputs, graph.outputs = [0], [3]
    graph.operators = [operator(0, [1], 2), operator(1, [0, 2, -1], 3)]
    graph.operators[1].builtinOptionsType = made.BuiltinOptions.FullyConnectedOptions
    graph.operators[1].builtinOptions = made.FullyConnectedOptionsT()
    whole = made.ModelT()
    whole.version, whole.subgraphs, whole.operatorCodes = 3, [graph], []
    for code in (made.BuiltinOperator.DENSIFY, made.BuiltinOperator.FULLY_CONNECTED):
        one = made.OperatorCodeT()
        one.builtinCode = one.deprecatedBuiltinCode = code
        whole.operatorCodes.append(one)
    whole.buffers = [made.BufferT(), made.BufferT()]
    whole.buffers[1].data = np.frombuffer(stored.astype(np.float32).tobytes(), np.uint8)
    return whole


def written(whole: Any, path: Path) -> Path:
    builder = flatbuffers().Builder(1024)
    builder.Finish(whole.Pack(builder), b"TFL3")
    path.write_bytes(bytes(builder.Output()))
    return path


def runtime(path: Path, x: Array) -> Array:
    """The result of LiteRT's reference kernels, which the schema's package ships."""
    module = importlib.import_module("ai_edge_litert.interpreter")
    one = module.Interpreter(str(path), experimental_op_resolver_type=module.OpResolverType.BUILTIN_REF)
    one.allocate_tensors()
    one.set_tensor(one.get_input_details()[0]["index"], x)
    one.invoke()
    return one.get_tensor(one.get_output_details()[0]["index"])


def weights() -> Array:
    random = np.random.default_rng(1)
    kept = np.kron(random.random((3, 4)) < 0.5, np.ones((2, 4)))
    return (random.normal(0, 1, (6, 16)) * kept).astype(np.float32)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_sparse_weights_are_those_of_the_runtime(form: Form, tmp_path: Path) -> None:
    path = written(model(weights(), form), tmp_path / "m.tflite")
    x = np.random.default_rng(2).normal(0, 1, (1, 16)).astype(np.float32)
    (found,) = zp.load(path)(x=x).values()
    np.testing.assert_allclose(found, x @ weights().T, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found, runtime(path, x), rtol=1e-5, atol=1e-6)


def test_sparse_weights_are_quantized(tmp_path: Path) -> None:
    path = written(model(weights(), FORMS["blocks of 2 x 4"]), tmp_path / "m.tflite")
    integers = zp.quantize(path, np.random.default_rng(2).normal(0, 1, (16, 1, 16)).astype(np.float32))
    assert "0 float ops" in str(integers)


def test_broken_descriptions_are_refused(tmp_path: Path) -> None:
    def refused(change: Any, expected: str) -> None:
        whole = model(weights(), FORMS["blocks of four"])
        change(whole.subgraphs[0].tensors[1].sparsity)
        with pytest.raises(ModelError, match=expected):
            zp.load(written(whole, tmp_path / "m.tflite"))

    def set_order(found: Any) -> None:
        found.traversalOrder = [0, 0, 2]

    def set_blocks(found: Any) -> None:
        found.dimMetadata[2].denseSize = 5

    def set_index(found: Any) -> None:
        found.dimMetadata[1].arrayIndices.values[0] = 200

    def set_segments(found: Any) -> None:
        found.dimMetadata[1].arraySegments.values[1] = -3

    def set_end(found: Any) -> None:
        found.dimMetadata[1].arraySegments.values[-1] = 1000

    def drop_element(found: Any) -> None:
        found.dimMetadata[1].arraySegments.values[-1] -= 1

    refused(set_order, "each dimension once")
    refused(set_blocks, r"blocks of 5 along dimension 1 of \[6, 16\]")
    refused(set_index, "found sparse storage with the index 200, expected 0 to 3")
    refused(set_segments, "ends of segments")
    refused(set_end, "a segment beyond")
    refused(drop_element, "bytes, expected")
