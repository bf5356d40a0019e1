"""onnxruntime's products with packed weights, compared with onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from frontend.onnx.models import assert_same_as_onnxruntime
from frontend.onnx.packed_products import RANDOM, packed_model
from zeropoint.frontend import ModelError, load_model
from zeropoint.frontend.onnx.nbits import unpacked
from zeropoint.ir.quant import StorageCastOp, UniformQuantizedType
from zeropoint.ir.tensors import element_of


@pytest.mark.parametrize(
    ("bits", "block", "rows", "points", "bias"),
    [
        (4, 32, 96, "", False),
        (4, 16, 80, "integers", True),
        (4, 32, 80, "integers", False),
        (4, 32, 64, "floats", False),
        (8, 32, 64, "integers", False),
    ],
)
def test_a_product_with_packed_weights_is_that_of_onnxruntime(
    bits: int, block: int, rows: int, points: str, bias: bool, tmp_path: Path
) -> None:
    proto = packed_model(bits, block, rows, points, bias)
    assert_same_as_onnxruntime(proto, tmp_path, {"x": RANDOM.normal(0, 1, (2, rows)).astype(np.float32)}, 1e-4)


@pytest.mark.parametrize("opset", [13, 17, 20])
def test_the_opset_of_the_model_may_have_no_blocks(tmp_path: Path, opset: int) -> None:
    """As in files of language models: DequantizeLinear, as which the weights are read, has blocks from opset 21 on."""
    proto = packed_model(4, 32, 96, "integers")
    proto.opset_import[0].version = opset
    assert_same_as_onnxruntime(proto, tmp_path, {"x": RANDOM.normal(0, 1, (2, 96)).astype(np.float32)}, 1e-4)


def test_weights_in_blocks_are_pinned(tmp_path: Path) -> None:
    onnx.save(packed_model(4, 32, 96, "integers"), tmp_path / "model.onnx")
    program = load_model(tmp_path / "model.onnx")
    (cast,) = (op for op in program.entry.ops if isinstance(op, StorageCastOp))
    kind = element_of(cast.results[0])
    assert isinstance(kind, UniformQuantizedType)
    assert str(kind).startswith("!quant.uniform<i8<-8:7>:f32:{0:32, 1:1}, {{")


def test_sizes_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    proto = packed_model(4, 32, 96)
    del proto.graph.initializer[1]
    proto.graph.initializer.append(numpy_helper.from_array(np.ones(7, np.float32), "s"))
    onnx.save(proto, tmp_path / "model.onnx")
    with pytest.raises(ModelError, match="found 7 numbers for the scales of MatMulNBits, expected 72"):
        load_model(tmp_path / "model.onnx")


def test_the_first_number_of_a_byte_is_in_its_low_bits() -> None:
    assert unpacked(np.array([[0x21, 0x43]], np.uint8), 4).tolist() == [[1, 2, 3, 4]]
    assert unpacked(np.array([0b11_10_01_00], np.uint8), 2).tolist() == [0, 1, 2, 3]
