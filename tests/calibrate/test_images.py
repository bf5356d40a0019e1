"""Folders of images as data, against Pillow and NumPy by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image
from xdsl.dialects.builtin import IntegerType, Signedness, TensorType, f32, i8

import zeropoint as zp
from zeropoint.calibrate import DataError, Preprocessing, samples
from zeropoint.cli import main
from zeropoint.ir.program import Port
from zeropoint.limits import LimitExceeded, limited

U8 = IntegerType(8, Signedness.UNSIGNED)
RANDOM = np.random.default_rng(0)
SIZES = [(40, 60), (64, 48), (33, 33)]
CONVOLUTION = """func.func @main(%x: tensor<1x3x8x8xf32>) -> tensor<1x4x8x8xf32> {
  %w = stablehlo.constant dense<0.25> : tensor<4x3x1x1xf32>
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x3x8x8xf32>, tensor<4x3x1x1xf32>) -> tensor<1x4x8x8xf32>
  return %0 : tensor<1x4x8x8xf32>
}
"""


def port(*shape: int, element: object = f32) -> Port:
    return Port("x", TensorType(element, shape))  # pyright: ignore[reportArgumentType] (an element type)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three images, two of them in folders of classes."""
    root = tmp_path_factory.mktemp("images")
    for name, (height, width) in zip(("a/1.png", "b/1.png", "c.png"), SIZES, strict=True):
        path = root / name
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(RANDOM.integers(0, 256, (height, width, 3), np.uint8)).save(path)
    (root / "labels.txt").write_text("cat\n")
    return root


def test_the_steps_are_resize_crop_divide_and_normalize(folder: Path) -> None:
    images = zp.Images(folder, resize=32, crop=24, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
    found = samples(images, [port(1, 3, 24, 24)])
    assert len(list(found)) == 3
    for sample, name in zip(found, ("a/1.png", "b/1.png", "c.png"), strict=True):
        with Image.open(folder / name) as image:
            width, height = image.size
            scale = 32 / min(width, height)
            resized = image.convert("RGB").resize((int(width * scale), int(height * scale)), Image.Resampling.BILINEAR)
        pixels = np.asarray(resized).astype(np.float32) / 255
        top, left = round((pixels.shape[0] - 24) / 2), round((pixels.shape[1] - 24) / 2)
        cropped = pixels[top : top + 24, left : left + 24]
        expected = (cropped - np.float32([0.485, 0.456, 0.406])) / np.float32([0.229, 0.224, 0.225])
        np.testing.assert_array_equal(sample["x"], expected.transpose(2, 0, 1)[None])


def test_layout_channels_and_bytes_follow_the_input(folder: Path) -> None:
    def first(given: Port, **steps: object) -> np.ndarray:
        return next(iter(samples(zp.Images(folder, **steps), [given])))["x"]

    last = first(port(1, 16, 16, 3))
    np.testing.assert_array_equal(last.transpose(0, 3, 1, 2), first(port(1, 3, 16, 16)))
    np.testing.assert_array_equal(last[..., ::-1], first(port(1, 16, 16, 3), channels="bgr"))
    raw = first(port(1, 16, 16, 3, element=U8))
    assert raw.dtype == np.uint8
    np.testing.assert_array_equal(raw.astype(np.float32) / np.float32(255), last)
    assert first(port(1, 1, 16, 16)).shape == (1, 1, 16, 16)
    assert first(port(1, 16, 16, 3), layout="nhwc").shape == (1, 16, 16, 3)


@pytest.mark.parametrize(
    ("steps", "shape", "message"),
    [
        ("resize=big", (1, 3, 8, 8), "key 'resize': found 'big', expected the length of the shorter side"),
        ("resize=8 resize=9", (1, 3, 8, 8), "found key 'resize' twice"),
        ("size=8", (1, 3, 8, 8), "found 'size=8', expected KEY=VALUE with a key of: resize, crop, mean"),
        ("std=0", (1, 3, 8, 8), "key 'std': found '0', expected numbers other than 0"),
        ("mean=0.5,0.5", (1, 3, 8, 8), "found 2 numbers for 'mean', expected 1 or 3"),
        ("crop=9", (1, 3, 8, 8), "found 9x9 pixels after resize and crop, expected 8x8"),
        ("crop=100", (1, 3, 100, 100), "found 40x60 pixels, expected 100x100 or more; resize first"),
        ("layout=nhwc", (1, 3, 8, 8), "input 'x' has shape 1x3x8x8, expected nhwc with 1, 3 or 4 channels"),
        ("", (1, 10), "input 'x' has shape 1x10, expected NxCxHxW or NxHxWxC"),
    ],
)
def test_steps_that_cannot_be_are_refused(folder: Path, steps: str, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(DataError) as raised:
        list(samples(zp.Images(folder, Preprocessing.parse(steps)), [port(*shape)]))
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("key", "value", "shown", "expected"),
    [
        ("resize", "a", "'a'", "the length of the shorter side, or HEIGHTxWIDTH"),
        ("resize", (1, 2, 3), "(1, 2, 3)", "the length of the shorter side, or HEIGHTxWIDTH"),
        ("crop", -1, "-1", "the length of both sides, or HEIGHTxWIDTH"),
        ("crop", 4.5, "4.5", "the length of both sides, or HEIGHTxWIDTH"),
        ("mean", None, "None", "numbers, 0 to 1, one for each channel"),
        ("mean", float("nan"), "nan", "numbers, 0 to 1, one for each channel"),
        ("std", (1.0, 0, 1.0), "(1.0, 0, 1.0)", "numbers other than 0, one for each channel"),
        ("layout", "foo", "'foo'", "one of: nchw, nhwc"),
        ("channels", "xyz", "'xyz'", "one of: rgb, bgr"),
    ],
)
def test_steps_in_python_that_cannot_be_are_refused_at_once(key: str, value: object, shown: str, expected: str) -> None:
    with pytest.raises(DataError) as raised:
        zp.Images("folder", **{key: value})
    assert str(raised.value) == f"images: key '{key}': found {shown}, expected {expected}"


def test_steps_in_python_may_be_arrays_and_in_capitals() -> None:
    plain = zp.Images("folder", resize=20, crop=(8, 9), mean=(0.5, 0.25, 0.5), std=[2.0], layout="nhwc", channels="bgr")
    given: dict[str, Any] = {"crop": tuple(np.array([8, 9])), "mean": np.array([0.5, 0.25, 0.5]), "std": np.float64(2)}
    other = zp.Images("folder", resize=np.int64(20), layout="NHWC", channels="BGR", **given)
    assert other.preprocessing == plain.preprocessing
    assert zp.Images("folder", resize=None, crop=None, layout=None).preprocessing == Preprocessing()


def test_images_that_are_no_path_are_refused_at_once() -> None:
    with pytest.raises(zp.Error, match="images: found list, expected the path of a folder of images; for images in m"):
        zp.Images(cast("str", [np.zeros((4, 4, 3), np.uint8)]), resize=4)


def test_16_bits_a_channel_are_scaled_to_8_and_other_wide_images_are_refused(tmp_path: Path) -> None:
    """Pillow's own conversion clips 16 bits at 255, which made these images white."""
    Image.fromarray(np.full((8, 8), 10_000, np.uint16)).save(tmp_path / "sixteen.png")
    (sample,) = samples(zp.Images(tmp_path), [port(1, 3, 8, 8)])
    np.testing.assert_array_equal(sample["x"], np.full((1, 3, 8, 8), np.float32(39) / 255))  # 10000 / 257 = 38.9
    Image.fromarray(np.full((8, 8), 0.5, np.float32)).save(tmp_path / "sixteen.tiff")
    with pytest.raises(DataError, match=r"sixteen.tiff: found an image of mode F, expected 8 or 16 bits a channel"):
        list(samples(zp.Images(tmp_path), [port(1, 3, 8, 8)]))


def test_folders_and_files_that_are_no_images_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="found images, expected preprocessing steps as well: --preprocess"):
        samples(folder, [port(1, 3, 8, 8)])
    with pytest.raises(DataError, match=r"found no images, expected files of: \.bmp"):
        samples(zp.Images(tmp_path), [port(1, 3, 8, 8)])
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
    with pytest.raises(DataError, match=r"broken.png: found no image that Pillow reads"):
        samples(zp.Images(tmp_path), [port(1, 3, 8, 8)])
    for element, name in ((i8, "int8"), (IntegerType(16, Signedness.UNSIGNED), "uint16")):
        with pytest.raises(DataError, match=f"found images for an input of {name}, expected floats or unsigned 8-bit"):
            samples(zp.Images(folder), [port(1, 3, 8, 8, element=element)])


def test_a_folder_of_images_calibrates_from_the_command_line(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "net.mlir").write_text(CONVOLUTION)
    written = tmp_path / "quantized.mlir"
    command = ["quantize", str(tmp_path / "net.mlir"), "--data", str(folder), "-o", str(written)]
    steps = ["--preprocess", "resize=10 crop=8 mean=0.5 std=0.25"]
    result = CliRunner().invoke(main, [*command, *steps])
    assert result.exit_code == 0, result.stderr
    images = zp.Images(folder, resize=10, crop=8, mean=0.5, std=0.25)
    again = zp.quantize(tmp_path / "net.mlir", images)
    again.save(tmp_path / "again.mlir")
    assert (tmp_path / "again.mlir").read_bytes() == written.read_bytes()
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 2
    assert "--preprocess 'resize=256" in result.stderr


def test_a_model_and_run_take_a_folder_of_images_as_quantize_does(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "net.mlir").write_text(CONVOLUTION)
    images = zp.Images(folder, resize=10, crop=8, mean=0.5)
    model = zp.quantize(tmp_path / "net.mlir", images)
    found = model(images)
    expected = [model(**sample) for sample in samples(images, model.inputs)]
    (name,) = found
    np.testing.assert_array_equal(found[name], np.concatenate([one[name] for one in expected]))
    assert model.profile(images, rounds=1).steps
    model.save(tmp_path / "q.mlir")
    run = ["run", str(tmp_path / "q.mlir"), "--input", str(folder), "-o", str(tmp_path / "out.npz")]
    result = CliRunner().invoke(main, [*run, "--preprocess", "resize=10 crop=8 mean=0.5"])
    assert result.exit_code == 0, result.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")[name], found[name])
    assert "a folder of .npy files or of images" in CliRunner().invoke(main, ["run", "--help"]).output
    result = CliRunner().invoke(main, ["run", str(tmp_path / "q.mlir"), "--preprocess", "resize=10"])
    assert result.exit_code == 2
    assert "--preprocess" in result.stderr


def test_images_are_grouped_to_the_batch_of_a_model(folder: Path, tmp_path: Path) -> None:
    images = zp.Images(folder, resize=10, crop=8)
    (tmp_path / "net.mlir").write_text(CONVOLUTION.replace("1x3x8x8", "2x3x8x8").replace("1x4x8x8", "2x4x8x8"))
    (tmp_path / "one.mlir").write_text(CONVOLUTION)
    two, one = zp.load(tmp_path / "net.mlir")(images), zp.load(tmp_path / "one.mlir")(images)
    for name, array in one.items():
        assert len(array) == 3
        np.testing.assert_allclose(two[name], array, rtol=1e-6)


def test_steps_for_images_apply_to_the_folder_and_not_to_the_archive_beside_it(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "net.mlir").write_text(CONVOLUTION)
    held = [sample["x"] for sample in samples(zp.Images(folder, resize=10, crop=8), [port(1, 3, 8, 8)])]
    np.savez(tmp_path / "held.npz", **{zp.load(tmp_path / "net.mlir").inputs[0].name: np.concatenate(held)})
    command = ["quantize", str(tmp_path / "net.mlir"), "--data", str(folder), "-o", str(tmp_path / "q.mlir")]
    command += ["--preprocess", "resize=10 crop=8", "--validation", str(tmp_path / "held.npz")]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.stderr


@pytest.mark.parametrize(("steps", "what"), [("resize=99999x99999 crop=8", "after resize"), ("crop=8", "a.png")])
def test_images_past_the_memory_limit_are_refused_before_they_are_made(steps: str, what: str, tmp_path: Path) -> None:
    Image.fromarray(np.zeros((60, 70, 3), np.uint8)).save(tmp_path / "a.png")
    memory = (1 << 20) if "resize" in steps else 10_000
    with limited(memory=memory), pytest.raises(LimitExceeded, match=f"found an image .*{what}"):
        list(samples(zp.Images(tmp_path, steps), [port(1, 3, 8, 8)]))
