"""Element types and dtypes, tensor types and shapes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects import builtin
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ComplexType,
    IndexType,
    IntegerType,
    Signedness,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
)

from zeropoint.ir.quant import Storage, UniformQuantizedType
from zeropoint.ir.tensors import dtype_element, element_dtype, element_of, shape_of, tensor_of, with_element, with_shape

PAIRS = [
    (f16, np.float16),
    (bf16, ml_dtypes.bfloat16),
    (f32, np.float32),
    (f64, np.float64),
    (i1, np.bool_),
    (IntegerType(8), np.int8),
    (IntegerType(16), np.int16),
    (IntegerType(32), np.int32),
    (IntegerType(64), np.int64),
    (IntegerType(8, Signedness.UNSIGNED), np.uint8),
    (IntegerType(32, Signedness.UNSIGNED), np.uint32),
    (ComplexType(f32), np.complex64),
    (ComplexType(f64), np.complex128),
    (builtin.Float8E3M4Type(), ml_dtypes.float8_e3m4),
    (builtin.Float8E4M3B11FNUZType(), ml_dtypes.float8_e4m3b11fnuz),
    (builtin.Float8E4M3FNType(), ml_dtypes.float8_e4m3fn),
    (builtin.Float8E4M3FNUZType(), ml_dtypes.float8_e4m3fnuz),
    (builtin.Float8E4M3Type(), ml_dtypes.float8_e4m3),
    (builtin.Float8E5M2FNUZType(), ml_dtypes.float8_e5m2fnuz),
    (builtin.Float8E5M2Type(), ml_dtypes.float8_e5m2),
    (builtin.Float8E8M0FNUType(), ml_dtypes.float8_e8m0fnu),
    (builtin.Float6E2M3FNType(), ml_dtypes.float6_e2m3fn),
    (builtin.Float6E3M2FNType(), ml_dtypes.float6_e3m2fn),
    (builtin.Float4E2M1FNType(), ml_dtypes.float4_e2m1fn),
]


@pytest.mark.parametrize(("element", "dtype"), PAIRS)
def test_element_types_and_dtypes_go_together(element, dtype: type) -> None:
    assert element_dtype(element) == dtype
    assert dtype_element(dtype) == element


@pytest.mark.parametrize(
    ("element", "dtype"),
    [
        (IntegerType(2), np.int8),
        (IntegerType(4), np.int8),
        (IntegerType(4, Signedness.UNSIGNED), np.uint8),
        (IntegerType(12), np.int16),
        (UniformQuantizedType.per_layer(Storage.of("i8"), 0.5), np.int8),
        (UniformQuantizedType.per_layer(Storage.of("u8"), 0.5), np.uint8),
        (UniformQuantizedType.per_channel(Storage.of("i32"), 0, [0.5, 0.25]), np.int32),
        (UniformQuantizedType.per_layer(Storage.of("i4"), 0.5), np.int8),
    ],
)
def test_odd_widths_and_quantized_types_have_a_container(element, dtype: type) -> None:
    assert element_dtype(element) == dtype


@pytest.mark.parametrize("element", [IndexType(), ComplexType(f16), builtin.Float80Type(), builtin.FloatTF32Type()])
def test_a_type_that_numpy_cannot_hold(element) -> None:
    with pytest.raises(TypeError, match=f"found element type {element}, which NumPy cannot hold"):
        element_dtype(element)


def test_a_dtype_that_mlir_does_not_have() -> None:
    with pytest.raises(TypeError, match="found dtype <U1, which has no MLIR element type"):
        dtype_element(np.dtype("<U1"))


def test_parts_of_a_tensor_type() -> None:
    tensor = TensorType(f32, [2, DYNAMIC_INDEX])
    assert tensor_of(tensor) is tensor
    assert shape_of(tensor) == (2, DYNAMIC_INDEX)
    assert element_of(tensor) == f32
    assert with_element(tensor, i1) == TensorType(i1, [2, DYNAMIC_INDEX])
    assert with_shape(tensor, (3,)) == TensorType(f32, [3])


def test_a_type_that_is_no_tensor() -> None:
    with pytest.raises(TypeError, match="found f32, expected a ranked tensor"):
        shape_of(f32)
