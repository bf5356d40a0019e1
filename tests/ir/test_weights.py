"""Constants: small ones in the IR, large ones behind a handle that is a hash of their content."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, DenseResourceAttr, IntegerType, StringAttr

from zeropoint.ir.weights import INLINE_ELEMENTS, Weights


@pytest.mark.parametrize(("count", "kind"), [(INLINE_ELEMENTS, DenseIntOrFPElementsAttr), (65, DenseResourceAttr)])
def test_constants_up_to_64_elements_stand_in_the_ir(count: int, kind: type) -> None:
    assert isinstance(Weights().attribute(np.zeros(count, np.float32)), kind)


@pytest.mark.parametrize("count", [0, 6, 600])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint8, np.int64, np.bool_, ml_dtypes.bfloat16])
def test_an_attribute_holds_its_array(dtype: type, count: int) -> None:
    array = (np.arange(count) % 2).astype(dtype).reshape(2, -1)
    weights = Weights()
    found = weights.array(weights.attribute(array))
    assert found.dtype == array.dtype
    assert np.array_equal(found, array)
    assert not found.flags.writeable


def test_arrays_that_are_not_contiguous_are_held_in_order() -> None:
    array = np.arange(200, dtype=np.int32).reshape(10, 20).T
    weights = Weights()
    assert np.array_equal(weights.array(weights.attribute(array)), array)


def test_a_change_of_the_source_does_not_reach_the_weights() -> None:
    array = np.zeros(100, np.float32)
    weights = Weights()
    attribute = weights.attribute(array)
    array[0] = 1
    assert weights.array(attribute)[0] == 0


def test_equal_arrays_are_one_and_other_dtypes_are_not() -> None:
    weights = Weights()
    handles = [weights.add(np.zeros(100, dtype)) for dtype in (np.float32, np.float32, np.int32)]
    assert handles[0] == handles[1] != handles[2]
    assert len(weights) == 2


def test_the_handle_depends_on_the_content_alone() -> None:
    array = np.arange(100, dtype=np.int8)
    assert Weights().add(array) == Weights().add(array.copy().reshape(10, 10))


def test_four_bit_elements_stand_in_eight_bit_containers() -> None:
    weights = Weights()
    attribute = weights.attribute(np.arange(-8, 8, dtype=np.int8), IntegerType(4))
    assert str(attribute).endswith("tensor<16xi4>")
    assert np.array_equal(weights.array(attribute), np.arange(-8, 8))


def test_a_copy_does_not_change_the_original() -> None:
    weights = Weights()
    copied = weights.copy()
    copied.add(np.zeros(100))
    assert len(weights) == 0
    assert len(copied) == 1


def test_a_handle_that_is_not_known() -> None:
    attribute = Weights().attribute(np.zeros(100, np.float32))
    with pytest.raises(KeyError, match=r"found dense_resource<w[0-9a-f]{20}> with no data"):
        Weights().array(attribute)


def test_an_array_of_another_width_does_not_fit() -> None:
    attribute = Weights().attribute(np.zeros(100, np.float32))
    assert isinstance(attribute, DenseResourceAttr)
    weights = Weights({attribute.resource_handle.data: np.zeros(100, np.float16)})
    with pytest.raises(
        ValueError, match=r"found 100 elements of float16 behind dense_resource<.*>, expected 100 of float32"
    ):
        weights.array(attribute)


def test_an_attribute_without_elements() -> None:
    with pytest.raises(TypeError, match='found "text", expected dense elements'):
        Weights().array(StringAttr("text"))


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_a_file_that_is_mapped_to_be_read_is_not_copied(mode: Literal["r", "r+", "c"], tmp_path: Path) -> None:
    np.arange(400, dtype=np.float32).tofile(tmp_path / "w")
    mapped = np.memmap(tmp_path / "w", np.uint8, mode=mode)
    weights = Weights()
    part = mapped[100:1300].view(np.float32).reshape(30, 10)
    kept = weights[weights.add(part)]
    assert np.shares_memory(kept, mapped) == (mode == "r")
    np.testing.assert_array_equal(kept, np.arange(25, 325, dtype=np.float32))


def test_a_fact_of_an_array_is_found_once_in_all_copies() -> None:
    weights, asked = Weights(), list[str]()

    def found(name: str) -> str:
        asked.append(name)
        return name

    array = np.arange(100, dtype=np.float32)
    attribute = weights.attribute(array)
    copy = weights.copy()
    assert [one.fact(attribute, "sum", lambda: found("first")) for one in (weights, copy)] == ["first", "first"]
    assert copy.fact(copy.attribute(array.reshape(10, 10)), "sum", lambda: found("another shape")) == "another shape"
    assert weights.fact(attribute, "mean", lambda: found("another fact")) == "another fact"
    inline = weights.attribute(np.arange(3))
    assert [weights.fact(inline, "sum", lambda: found("inline")) for _ in range(2)] == ["inline", "inline"]
    assert asked == ["first", "another shape", "another fact", "inline", "inline"]
