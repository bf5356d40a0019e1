"""Tables of embeddings in blocks and weights in codes of 4 bits, compared with onnxruntime."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import zeropoint as zp
from frontend.onnx.models import assert_same_as_onnxruntime
from zeropoint.frontend import ModelError, load_model
from zeropoint.ir.quant import StorageCastOp
from zeropoint.ir.tensors import Array

RANDOM = np.random.default_rng(3)


def _model(node: onnx.NodeProto, x: onnx.ValueInfoProto, shape: list[int], arrays: dict[str, Array]) -> ModelProto:
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
    graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(a, n) for n, a in arrays.items()])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def coded(kind: int, rows: int, columns: int, block: int, **attributes: int) -> ModelProto:
    """A product with weights of bitsandbytes' codes."""
    arrays = {
        "w": RANDOM.integers(0, 256, (rows * columns + 1) // 2).astype(np.uint8),
        "s": RANDOM.uniform(0.1, 1, -(-rows * columns // block)).astype(np.float32),
    }
    given = {"K": rows, "N": columns, "block_size": block, "quant_type": kind, **attributes}
    node = helper.make_node("MatMulBnb4", ["x", *arrays], ["y"], "n", domain="com.microsoft", **given)
    return _model(node, helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, rows]), [2, columns], arrays)


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize(("rows", "columns", "block"), [(64, 24, 16), (80, 12, 32), (33, 7, 64)])
def test_a_product_with_coded_weights_is_that_of_onnxruntime(
    kind: int, rows: int, columns: int, block: int, tmp_path: Path
) -> None:
    sample = {"x": RANDOM.normal(0, 1, (2, rows)).astype(np.float32)}
    assert_same_as_onnxruntime(coded(kind, rows, columns, block), tmp_path, sample, 1e-4)


def test_codes_are_the_numbers_of_onnxruntime(tmp_path: Path) -> None:
    """The product with a unit vector is a row of the weights, without rounding."""
    for kind in (0, 1):
        proto = coded(kind, 16, 16, 16)
        samples = np.eye(16, dtype=np.float32)
        for row in range(0, 16, 2):
            assert_same_as_onnxruntime(proto, tmp_path, {"x": samples[row : row + 2]}, 0.0)


def table(
    dtype: str, points: bool, bits: int, gather_axis: int, quantize_axis: int, shape: tuple[int, ...]
) -> ModelProto:
    """A lookup in a table with scales of blocks of 16."""
    axis, packed = quantize_axis % len(shape), dtype == "uint8" and bits == 4
    blocks = tuple(-(-size // 16) if index == axis else size for index, size in enumerate(shape))

    def stored(sizes: tuple[int, ...]) -> Array:
        if packed:
            sizes = (*sizes[:-1], -(-sizes[-1] // 2))
        if dtype == "uint8":
            return RANDOM.integers(0, 256, sizes).astype(np.uint8)
        return RANDOM.integers(0, 8, sizes).astype(getattr(ml_dtypes, dtype))

    arrays = {"w": stored(shape), "s": RANDOM.uniform(0.1, 1, blocks).astype(np.float32)}
    if points:
        arrays["z"] = stored(blocks)
    given = {"gather_axis": gather_axis, "quantize_axis": quantize_axis, "block_size": 16, "bits": bits}
    node = helper.make_node("GatherBlockQuantized", ["w", "x", *[*arrays][1:]], ["y"], "n", domain="com.microsoft")
    node.attribute.extend(helper.make_attribute(name, value) for name, value in given.items())
    made = list(shape)
    made[gather_axis : gather_axis + 1] = [2, 3]
    return _model(node, helper.make_tensor_value_info("x", TensorProto.INT64, [2, 3]), made, arrays)


@pytest.mark.parametrize("points", [False, True])
@pytest.mark.parametrize(
    ("dtype", "bits", "gather_axis", "quantize_axis", "shape"),
    [
        ("uint4", 4, 0, 1, (12, 64)),
        ("int4", 4, 0, -1, (12, 48)),
        ("int4", 4, 1, 0, (32, 6)),
        ("uint4", 4, 0, 2, (5, 3, 32)),
        ("uint8", 4, 0, -1, (12, 64)),
        ("uint8", 8, 0, 1, (12, 32)),
    ],
)
def test_a_lookup_in_blocks_is_that_of_onnxruntime(
    points: bool, dtype: str, bits: int, gather_axis: int, quantize_axis: int, shape: tuple[int, ...], tmp_path: Path
) -> None:
    proto = table(dtype, points, bits, gather_axis, quantize_axis, shape)
    sample = {"x": RANDOM.integers(0, 5, (2, 3)).astype(np.int64)}
    assert_same_as_onnxruntime(proto, tmp_path, sample, 0.0)


def test_a_table_in_blocks_is_pinned(tmp_path: Path) -> None:
    onnx.save(table("uint4", True, 4, 0, 1, (12, 64)), tmp_path / "model.onnx")
    program = zp.load(tmp_path / "model.onnx").program
    assert any(isinstance(op, StorageCastOp) for op in program.entry.ops)


@pytest.mark.parametrize(
    ("proto", "text"),
    [
        (coded(3, 16, 4, 16), "quant_type 3, expected positive sizes, and 0 .FP4. or 1 .NF4."),
        (coded(1, 16, 4, 16, transB=0), "transB 0, expected 1"),
        (coded(1, 16, 4, 16, N=5), "found 32 numbers for the weights of MatMulBnb4, expected 40"),
        (table("uint4", False, 3, 0, 1, (12, 64)), "with 3 bits and blocks of 16, expected 4 or 8 bits"),
        (table("uint4", False, 4, 0, 1, (12, 64)), ""),
    ],
)
def test_broken_attributes_are_refused(proto: ModelProto, text: str, tmp_path: Path) -> None:
    if not text:
        for attribute in proto.graph.node[0].attribute:
            attribute.i = 7 if attribute.name == "quantize_axis" else attribute.i
        text = "found quantize_axis 7 of GatherBlockQuantized, expected -2 to 1"
    onnx.save(proto, tmp_path / "model.onnx")
    with pytest.raises(ModelError, match=text):
        load_model(tmp_path / "model.onnx")
