"""One network for several shapes: the model that runs, what is refused, and files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import zeropoint as zp

TEXT = """func.func @main(%x: ROW {zeropoint.name = "x"}) -> (ROW {zeropoint.name = "y"}) {
  %0 = stablehlo.tanh %x : ROW
  return %0 : ROW
}
"""
RANDOM = np.random.default_rng(1)


def rows(count: int, length: int) -> np.ndarray:
    return RANDOM.uniform(-2, 2, (count, length)).astype(np.float32)


def network(length: int) -> str:
    return TEXT.replace("ROW", f"tensor<1x{length}xf32>")


@pytest.fixture(scope="module")
def both() -> zp.Specializations:
    return zp.Specializations([zp.quantize(network(length), rows(8, length)) for length in (6, 9)])


@pytest.mark.parametrize("shape", [(1, 9), (9,), (5, 9), (5, 1, 9)])
def test_the_model_whose_shapes_fit_runs(both: zp.Specializations, shape: tuple[int, ...]) -> None:
    array = RANDOM.uniform(-2, 2, shape).astype(np.float32)
    assert both.fitting(array) is both.fitting(x=array) is both.models[1]
    np.testing.assert_array_equal(both(x=array)["y"], both.models[1](array)["y"])


def test_shapes_without_a_model_are_refused_with_those_that_exist(both: zp.Specializations) -> None:
    with pytest.raises(
        zp.Error, match="found arrays of shapes x 1x7, expected those of a specialization: x 1x6; x 1x9"
    ):
        both(rows(1, 7))


def test_native_code_and_files_give_the_same_values(both: zp.Specializations, tmp_path: Path) -> None:
    both.save(tmp_path / "models")
    assert sorted(path.name for path in (tmp_path / "models").glob("*.mlir")) == ["x=1x6.mlir", "x=1x9.mlir"]
    loaded = zp.Specializations.load(tmp_path / "models")
    for length in (6, 9):
        array = rows(1, length)
        for other in (loaded, both.native()):
            np.testing.assert_array_equal(other(array)["y"], both(array)["y"])


def test_models_that_are_not_of_one_network_are_refused(both: zp.Specializations) -> None:
    with pytest.raises(zp.Error, match="found no models"):
        zp.Specializations([])
    with pytest.raises(zp.Error, match="found two models for x 1x6"):
        zp.Specializations([both.models[0], both.models[0]])
    other = zp.load(network(4).replace('"x"', '"z"'))
    with pytest.raises(zp.Error, match="expected models of one network"):
        zp.Specializations([*both.models, other])
