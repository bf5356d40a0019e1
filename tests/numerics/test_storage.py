import numpy as np
import pytest

from zeropoint.numerics.storage import StorageType, smallest_dtype


@pytest.mark.parametrize(
    ("text", "minimum", "maximum", "dtype"),
    [
        ("i8", -128, 127, np.int8),
        ("u8", 0, 255, np.uint8),
        ("i4", -8, 7, np.int8),
        ("u4", 0, 15, np.uint8),
        ("i1", -1, 0, np.int8),
        ("i9", -256, 255, np.int16),
        ("u16", 0, 65535, np.uint16),
        ("i32", -(2**31), 2**31 - 1, np.int32),
        ("u32", 0, 2**32 - 1, np.uint32),
        ("i64", -(2**63), 2**63 - 1, np.int64),
    ],
)
def test_bounds_and_container_of_each_width(text, minimum, maximum, dtype):
    storage = StorageType.parse(text)
    assert (storage.min, storage.max, storage.dtype) == (minimum, maximum, np.dtype(dtype))
    assert str(storage) == text
    assert StorageType.parse(str(storage)) == storage
    assert np.array([storage.min, storage.max], dtype=storage.dtype).tolist() == [minimum, maximum]


def test_narrow_range_of_a_signed_type_is_symmetric():
    assert StorageType(True, 8).narrow_min == -StorageType(True, 8).max == -127
    assert StorageType(False, 8).narrow_min == 1


@pytest.mark.parametrize("text", ["", "8", "si8", "i", "i08", "f8", "i8 ", "i-8"])
def test_other_spellings_are_rejected(text):
    with pytest.raises(ValueError, match="expected i or u and a width"):
        StorageType.parse(text)


@pytest.mark.parametrize("width", [0, 33, 63, 65, 128])
def test_other_widths_are_rejected(width):
    with pytest.raises(ValueError, match="expected 1 to 32, or 64"):
        StorageType(True, width)


@pytest.mark.parametrize(
    ("minimum", "maximum", "dtype"),
    [
        (-127, 127, np.int8),
        (0, 127, np.int8),
        (0, 255, np.uint8),
        (-1, 255, np.int16),
        (0, 65535, np.uint16),
        (-(2**31), 2**31 - 1, np.int32),
        (0, 2**32 - 1, np.uint32),
        (-1, 2**32, np.int64),
    ],
)
def test_smallest_dtype_holds_the_range(minimum, maximum, dtype):
    assert smallest_dtype(minimum, maximum) == np.dtype(dtype)


def test_a_range_beyond_64_bits_is_rejected():
    with pytest.raises(ValueError, match="64 bits"):
        smallest_dtype(-1, 2**63)
