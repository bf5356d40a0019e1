"""Large weights inside of ONNX files are mapped where they are; the model is the one that protobuf reads."""

from __future__ import annotations

import random as randomness
from pathlib import Path

import numpy as np
import onnx
import pytest
from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto, numpy_helper

from frontend.onnx.models import one_op, random
from fuzz.damage import damaged
from zeropoint.frontend import load_model
from zeropoint.frontend.onnx import inline_data
from zeropoint.frontend.onnx.inline_data import large_model
from zeropoint.ir.mapped import ChangedFile, mapping
from zeropoint.ir.text import print_program


@pytest.fixture(autouse=True)
def _small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inline_data, "LARGE_FILE", 0)
    monkeypatch.setattr(inline_data, "LARGE_TENSOR", 64)


def network() -> ModelProto:
    made = one_op("Gemm", {"x": (2, 16)}, {"w": random(16, 8), "b": random(8)})
    made.graph.initializer.extend(
        [
            numpy_helper.from_array(random(40).astype(np.float16), "half"),
            numpy_helper.from_array(np.arange(40), "numbers"),
            TensorProto(name="listed", data_type=TensorProto.FLOAT, dims=[40], float_data=range(40)),
            TensorProto(name="short", data_type=TensorProto.FLOAT, dims=[99], raw_data=bytes(80)),
            TensorProto(name="texts", data_type=TensorProto.STRING, dims=[1], raw_data=bytes(80)),
        ]
    )
    made.metadata_props.add(key="k", value="v")
    return made


def restored(model: ModelProto, path: Path) -> ModelProto:
    """The model with the data of its tensors inside."""
    for tensor in model.graph.initializer:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        if entries.get("location") == path.name and tensor.data_location == TensorProto.EXTERNAL:
            start = int(entries["offset"])
            tensor.raw_data = path.read_bytes()[start : start + int(entries["length"])]
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
    return model


def test_a_file_that_is_exported_again_in_its_place_is_refused_when_its_weights_are_read(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(one_op("Gemm", {"x": (2, 16)}, {"w": random(16, 8), "b": random(8)}), path)
    found = load_model(path)
    onnx.save(one_op("Gemm", {"x": (2, 16)}, {"w": random(16, 9), "b": random(9)}), path)
    with pytest.raises(ChangedFile, match=r"model\.onnx: found .* written after it was loaded"):
        next(iter(found.weights.values()))


def test_large_weights_of_a_file_are_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(one_op("Gemm", {"x": (2, 16)}, {"w": random(16, 8), "b": random(8)}), path)
    found = load_model(path)
    (weight,) = found.weights.values()
    assert mapping(weight) is not None
    monkeypatch.setattr(inline_data, "LARGE_FILE", 1 << 30)
    expected = load_model(path)
    assert all(mapping(array) is None for array in expected.weights.values())
    assert print_program(found, inline_weights=True) == print_program(expected, inline_weights=True)


def test_only_large_weights_of_a_known_size_become_references(tmp_path: Path) -> None:
    path, expected = tmp_path / "model.onnx", network()
    onnx.save(expected, path)
    found = large_model(path, tmp_path)
    assert found is not None
    assert {tensor.name for tensor in found.graph.initializer if tensor.external_data} == {"w", "half", "numbers"}
    assert restored(found, path) == expected


def test_a_link_to_a_model_elsewhere_is_read_as_it_is(tmp_path: Path) -> None:
    path, folder = tmp_path / "blob", tmp_path / "models"
    onnx.save(one_op("Gemm", {"x": (2, 16)}, {"w": random(16, 8), "b": random(8)}), path)
    folder.mkdir()
    (folder / "model.onnx").symlink_to(path)
    assert large_model(folder / "model.onnx", folder) is None
    (weight,) = load_model(folder / "model.onnx").weights.values()
    assert mapping(weight) is None


def test_damaged_files_are_the_models_that_protobuf_reads_or_none(tmp_path: Path) -> None:
    path, whole = tmp_path / "model.onnx", network().SerializeToString()
    read = 0
    for seed in range(600):
        data = damaged(whole, randomness.Random(seed))
        path.write_bytes(data or b" ")
        found = large_model(path, tmp_path)
        try:
            expected = onnx.load_model_from_string(path.read_bytes(), "protobuf")
        except (DecodeError, UnicodeDecodeError):
            assert found is None, seed
        else:
            read += found is not None
            assert found is None or restored(found, path) == expected, seed
    assert read > 100
