import numpy as np
import pytest

from zeropoint.numerics.affine import QuantizeBehaviour, dequantize, quantize
from zeropoint.numerics.functions import UNARY
from zeropoint.numerics.ranges import AffineParameters
from zeropoint.numerics.storage import StorageType
from zeropoint.numerics.table import apply_table, table

LOGISTIC = UNARY["logistic"]
SIGNED = AffineParameters(0.05, 3, -128, 127)
UNIT = AffineParameters(1 / 256, -128, -128, 127)


@pytest.mark.parametrize("name", ["logistic", "tanh", "exponential", "erf", "sqrt", "abs"])
@pytest.mark.parametrize("behaviour", QuantizeBehaviour)
def test_a_table_is_dequantize_function_quantize_for_every_value(name, behaviour):
    entries = table(UNARY[name], SIGNED, UNIT, behaviour)
    assert entries.shape == (256,)
    assert entries.dtype == np.int8
    stored = np.arange(-128, 128, dtype=np.int8)
    with np.errstate(invalid="ignore"):
        reals = UNARY[name](dequantize(stored, 0.05, 3))
        expected = quantize(reals, 1 / 256, -128, -128, 127, behaviour=behaviour)
    assert np.array_equal(apply_table(entries, stored), expected)


def test_unsigned_storage_counts_from_zero():
    entries = table(LOGISTIC, AffineParameters(0.05, 128, 0, 255), AffineParameters(1 / 256, 0, 0, 255))
    assert entries.dtype == np.uint8
    assert apply_table(entries, np.uint8([128])).tolist() == [128]
    assert (np.diff(entries.astype(int)) >= 0).all()


def test_a_part_of_a_storage_type_still_has_the_whole_table():
    narrow = AffineParameters(0.05, 0, -127, 127)
    assert table(LOGISTIC, narrow, UNIT).shape == (256,)
    positive = AffineParameters(0.05, 0, 0, 127)
    entries = table(LOGISTIC, positive, UNIT, storage=StorageType(True, 8))
    assert apply_table(entries, np.int8([0, 127])).tolist() == [0, 127]


def test_narrow_and_wide_storage():
    nibble = StorageType(True, 4)
    entries = table(LOGISTIC, AffineParameters(1.0, 0, -8, 7), UNIT, storage=nibble)
    assert entries.shape == (16,)
    assert apply_table(entries, np.int8([0]), nibble).tolist() == [0]
    assert table(
        LOGISTIC, AffineParameters(1e-4, 0, -(2**15), 2**15 - 1), UNIT, storage=StorageType(True, 16)
    ).shape == (65536,)
    with pytest.raises(ValueError, match="at most 16 bits"):
        table(LOGISTIC, SIGNED, UNIT, storage=StorageType(True, 32))


def test_a_table_of_the_wrong_size_is_refused():
    with pytest.raises(ValueError, match=r"table of shape \(16,\) for i8; expected \(256,\)"):
        apply_table(np.zeros(16, np.int8), np.int8([1]))
