"""Programs on disk: what is written is read back; a failure leaves nothing, broken files are said to be broken."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors import safe_open

from ir.constant_programs import constant, constant_program, constants
from oracle import mlir
from zeropoint.ir import files
from zeropoint.ir.files import WeightsError, load_program, load_weights, save_program
from zeropoint.ir.outputs import write_atomically
from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program, print_program
from zeropoint.ir.weights import Weights

ARRAYS = [
    np.arange(70, dtype=np.float32).reshape(7, 10),
    np.arange(-35, 35, dtype=np.int8),
    np.arange(70, dtype=np.uint8),
    np.arange(70, dtype=np.int32),
    np.arange(70, dtype=np.int64),
    np.arange(70, dtype=np.float16),
    np.arange(70, dtype=np.float64),
    np.arange(70).astype(ml_dtypes.bfloat16),
    np.arange(70) % 2 == 0,
    np.arange(70).astype(np.complex64) * (1 + 2j),
    np.arange(70).astype(np.complex128) * (1 + 2j),
    np.arange(70).astype(ml_dtypes.float8_e4m3fn),
    np.arange(70).astype(ml_dtypes.float8_e5m2),
    np.arange(70).astype(ml_dtypes.float8_e3m4),
    np.arange(70).astype(ml_dtypes.float6_e2m3fn),
    np.arange(70).astype(ml_dtypes.float4_e2m1fn),
]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("inline", [False, True])
def test_what_is_saved_is_loaded(tmp_path: Path, inline: bool) -> None:
    program = constant_program(*ARRAYS)
    path = tmp_path / "net.mlir"
    written = save_program(program, path, inline_weights=inline)
    assert sorted(written) == sorted(tmp_path.iterdir())
    assert names(tmp_path) == (["net.mlir"] if inline else ["net.mlir", "net.safetensors"])
    loaded = load_program(path)
    assert print_program(loaded) == print_program(program)
    for found, expected in zip(constants(loaded), ARRAYS, strict=True):
        assert found.dtype == expected.dtype
        assert found.tobytes() == expected.tobytes()


def test_a_program_without_large_constants_is_one_file(tmp_path: Path) -> None:
    assert save_program(parse_program(constant("dense<1> : tensor<i8>")), tmp_path / "a.mlir") == [tmp_path / "a.mlir"]
    assert names(tmp_path) == ["a.mlir"]


def test_the_safetensors_library_reads_the_weights(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    save_program(constant_program(ARRAYS[0]), tmp_path / "net.mlir")
    (array,) = load_file(tmp_path / "net.safetensors").values()
    assert np.array_equal(array, ARRAYS[0])


def test_upstream_reads_a_file_with_inline_weights(tmp_path: Path) -> None:
    save_program(constant_program(ARRAYS[0], ARRAYS[3]), tmp_path / "net.mlir", inline_weights=True)
    mlir.parse((tmp_path / "net.mlir").read_text())


def test_weights_stay_on_disk_until_they_are_used(tmp_path: Path) -> None:
    save_program(constant_program(ARRAYS[0]), tmp_path / "net.mlir")
    (array,) = load_program(tmp_path / "net.mlir").weights.values()
    base = array
    while base.base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)
    assert not array.flags.writeable


def test_locations_are_saved(tmp_path: Path) -> None:
    path = tmp_path / "net.mlir"
    save_program(parse_program('func.func @main() {\n  func.return loc("end")\n} loc("graph")'), path)
    assert 'loc("end")' in path.read_text()
    assert print_program(load_program(path), locations=True) == path.read_text()


# Failures


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "net.mlir"
    path.write_text("old")

    def fail(temporary: Path) -> None:
        temporary.write_text("half of")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, fail)
    assert names(tmp_path) == ["net.mlir"]
    assert path.read_text() == "old"


def test_a_save_that_is_killed_between_its_renames_leaves_no_text_beside_weights_of_another_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "net.mlir"
    save_program(constant_program(ARRAYS[0]), path)
    replace = os.replace

    def killed_before_the_text(source: Path, target: Path) -> None:
        if target == path:
            os._exit(0)
        replace(source, target)

    monkeypatch.setattr(os, "replace", killed_before_the_text)
    if (child := os.fork()) == 0:
        save_program(constant_program(ARRAYS[0] + 1), path)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    monkeypatch.undo()
    assert [name for name in names(tmp_path) if not name.endswith(".tmp")] == ["net.safetensors"]
    save_program(constant_program(ARRAYS[0] + 2), path)
    assert np.array_equal(constants(load_program(path))[0], ARRAYS[0] + 2)
    assert names(tmp_path) == ["net.mlir", "net.safetensors"]


@pytest.mark.parametrize("links", [True, False])
def test_a_save_that_fails_between_its_renames_brings_the_old_files_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    path = tmp_path / "net.mlir"
    save_program(constant_program(ARRAYS[0]), path)
    replace, failed = os.replace, False

    def interrupted(source: Path, target: Path) -> None:
        nonlocal failed
        if target == path and not failed:
            failed = True
            raise KeyboardInterrupt
        replace(source, target)

    def no_links(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "replace", interrupted)
    if not links:
        monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(KeyboardInterrupt):
        save_program(constant_program(ARRAYS[0] + 1), path)
    assert np.array_equal(constants(load_program(path))[0], ARRAYS[0])
    assert names(tmp_path) == ["net.mlir", "net.safetensors"]


@pytest.mark.parametrize("content", [b"", b"PK", bytes(100), b"\xff" * 100, b"\x02" + bytes(7) + b"[]"])
def test_what_lies_where_the_weights_would_go_is_kept(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "net.safetensors").write_bytes(content)
    with pytest.raises(WeightsError, match="found a file that no program of zeropoint wrote, expected none"):
        save_program(constant_program(ARRAYS[0]), tmp_path / "net.mlir")
    assert names(tmp_path) == ["net.safetensors"]


def test_a_save_whose_text_cannot_be_written_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> str:
        raise ValueError("cannot print")

    monkeypatch.setattr(files, "print_program", fail)
    with pytest.raises(ValueError, match="cannot print"):
        save_program(constant_program(ARRAYS[0]), tmp_path / "net.mlir")
    assert not [name for name in names(tmp_path) if name.startswith(".")]
    assert "net.mlir" not in names(tmp_path)


@pytest.mark.parametrize("inline", [False, True])
def test_a_handle_without_data_is_not_saved(tmp_path: Path, inline: bool) -> None:
    program = parse_program(constant("dense_resource<w> : tensor<2xi8>"))
    with pytest.raises(ValueError, match="found dense_resource<w> with no data"):
        save_program(program, tmp_path / "net.mlir", inline_weights=inline)
    assert names(tmp_path) == []


def saved_weights(folder: Path) -> Path:
    save_program(constant_program(ARRAYS[0]), folder / "net.mlir")
    return folder / "net.safetensors"


@pytest.mark.parametrize("kept", [0, 4, 8, 20, -1])
def test_truncated_weights_are_said_to_be_truncated(tmp_path: Path, kept: int) -> None:
    path = saved_weights(tmp_path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match=r"net.safetensors: found a truncated or foreign file, expected safetensors"):
        load_program(tmp_path / "net.mlir")


@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "broken link"])
def test_weights_that_are_no_file_of_the_folder_are_refused(tmp_path: Path, kind: str) -> None:
    (tmp_path / "inside").mkdir()
    path = saved_weights(tmp_path / "inside")
    path.rename(tmp_path / "w.safetensors")
    made = {"pipe": os.mkfifo, "folder": os.mkdir}.get(kind)
    if made is not None:
        made(path)
    else:
        path.symlink_to(tmp_path / ("w.safetensors" if kind == "link" else "nowhere"))
    expected = "a link out of the program's folder" if kind == "link" else "no regular file"
    with pytest.raises(WeightsError, match=rf"net\.safetensors: found {expected}"):
        load_program(tmp_path / "inside" / "net.mlir")


def test_links_to_files_of_one_folder_are_followed(tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "model").mkdir()
    path = saved_weights(tmp_path / "blobs")
    (tmp_path / "model" / "net.safetensors").symlink_to(path)
    (tmp_path / "model" / "net.mlir").symlink_to(path.with_suffix(".mlir"))
    assert np.array_equal(constants(load_program(tmp_path / "model" / "net.mlir"))[0], ARRAYS[0])


def with_header(path: Path, header: object) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(280))


@pytest.mark.parametrize(
    "header",
    [
        [],
        {"w": {"dtype": "F32"}},
        {"w": {"dtype": "F31", "shape": [70], "data_offsets": [0, 280]}},
        {"w": {"dtype": "F32", "shape": [70], "data_offsets": [0, 281]}},
        {"w": {"dtype": "F32", "shape": [70], "data_offsets": [0, 279]}},
        {"w": {"dtype": "F32", "shape": [70], "data_offsets": [280, 0]}},
        {"w": {"dtype": "F32", "shape": [70], "data_offsets": [-280, 280]}},
        {"w": {"dtype": "F32", "shape": [71], "data_offsets": [0, 280]}},
        {"w": 3},
    ],
)
def test_weights_with_a_wrong_header_are_refused(tmp_path: Path, header: object) -> None:
    path = tmp_path / "net.safetensors"
    with_header(path, header)
    with pytest.raises(ValueError, match="found a truncated or foreign file, expected safetensors"):
        load_weights(path)


def test_weights_that_are_missing_are_named_when_they_are_used(tmp_path: Path) -> None:
    saved_weights(tmp_path).unlink()
    program = load_program(tmp_path / "net.mlir")
    for found in (program, program.clone()):
        with pytest.raises(KeyError, match=r"with no data, expected it .*/net.safetensors, which does not exist"):
            constants(found)
    (tmp_path / "net.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    with pytest.raises(KeyError, match=r"with no data, expected it .*/net.safetensors, which has none of that name"):
        constants(load_program(tmp_path / "net.mlir"))


def test_weights_of_another_program_do_not_fit(tmp_path: Path) -> None:
    path = saved_weights(tmp_path)
    (handle,) = load_weights(path)
    with_header(path, {handle: {"dtype": "F32", "shape": [10], "data_offsets": [0, 40]}})
    with pytest.raises(
        ValueError, match=r"found 10 elements of float32 behind dense_resource<.*>, expected 70 of float32"
    ):
        constants(load_program(tmp_path / "net.mlir"))


def test_an_inline_blob_wins_over_weights_beside_it(tmp_path: Path) -> None:
    program: Program = constant_program(ARRAYS[0])
    path = saved_weights(tmp_path)
    (handle,) = load_weights(path)
    with_header(path, {handle: {"dtype": "F32", "shape": [70], "data_offsets": [0, 280]}})
    save_program(program, tmp_path / "net.mlir", inline_weights=True)
    assert np.array_equal(constants(load_program(tmp_path / "net.mlir"))[0], ARRAYS[0])


def test_files_call_values_and_tensors_as_the_model_does(tmp_path: Path) -> None:
    weight = np.arange(96, dtype=np.float32).reshape(8, 12)
    program = parse_program(
        """func.func @main(%x: tensor<1x8xf32> loc("in/put")) -> tensor<1x12xf32> {
          %0 = stablehlo.constant dense_resource<w1> : tensor<8x12xf32> loc("head.weight")
          %1 = stablehlo.dot_general %x, %0, contracting_dims = [1] x [0]
            : (tensor<1x8xf32>, tensor<8x12xf32>) -> tensor<1x12xf32> loc("head")
          %2 = stablehlo.add %1, %1 : tensor<1x12xf32> loc("head")
          %3 = stablehlo.add %2, %2 : tensor<1x12xf32> loc("2nd")
          return %3 : tensor<1x12xf32>
        }""",
        weights=Weights({"w1": weight}),
    )
    save_program(program, tmp_path / "a.mlir")
    text = (tmp_path / "a.mlir").read_text()
    assert "@main(%in_put: tensor<1x8xf32>" in text
    assert "%head_weight = stablehlo.constant dense_resource<head_weight> : tensor<8x12xf32>" in text
    assert "%head = stablehlo.add %head_1, %head_1" in text
    assert "%_2nd = stablehlo.add %head, %head" in text
    with safe_open(tmp_path / "a.safetensors", "np") as held:
        np.testing.assert_array_equal(held.get_tensor("head_weight"), weight)
        digests = json.loads(held.metadata()["zeropoint"])["sha256"]
    assert digests == {"head_weight": hashlib.sha256(weight.tobytes()).hexdigest()}
    save_program(load_program(tmp_path / "a.mlir"), tmp_path / "b.mlir")
    for suffix in (".mlir", ".safetensors"):
        assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_the_result_of_a_node_has_its_name_and_inner_values_have_numbers(tmp_path: Path) -> None:
    program = parse_program(
        """func.func @main(%x: tensor<4xf32> loc("x")) -> tensor<4xf32> {
          %0 = stablehlo.constant dense<2.0> : tensor<4xf32> loc("embed")
          %1 = stablehlo.multiply %x, %0 : tensor<4xf32> loc("embed")
          %2 = stablehlo.add %1, %1
            {zeropoint.facts = [{name = "kernel", value = "add", salience = "kernel", source = ""}]}
            : tensor<4xf32> loc("sum")
          %3 = stablehlo.negate %2 : tensor<4xf32> loc("sum")
          return %3 : tensor<4xf32>
        }"""
    )
    save_program(program, tmp_path / "a.mlir")
    text = (tmp_path / "a.mlir").read_text()
    assert "%embed = stablehlo.multiply %x, %embed_1" in text
    assert "%sum = stablehlo.add %embed, %embed" in text  # the kernel that `explain` shows
    assert "%sum_1 = stablehlo.negate %sum" in text
    save_program(load_program(tmp_path / "a.mlir"), tmp_path / "b.mlir")
    assert (tmp_path / "b.mlir").read_text() == text
