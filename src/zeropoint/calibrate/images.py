"""Samples from a folder of images: decoded by Pillow, resized, cropped, normalized, in the layout of the input.

```
resize=256 crop=224 mean=0.485,0.456,0.406 std=0.229,0.224,0.225
```
The steps are those of torchvision's classification presets, in this order: resize the shorter side (bilinear, with
antialiasing), crop the center, divide pixels by 255, subtract `mean`, divide by `std`. Pixels for an input of unsigned
8-bit integers are not normalized.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from zeropoint.calibrate.columns import DataError
from zeropoint.errors import check_name
from zeropoint.ir.program import Port
from zeropoint.ir.tensors import Array, element_dtype
from zeropoint.limits import LimitExceeded, afford

if TYPE_CHECKING:
    from PIL import Image

SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"})
WHITE = 255.0
_CHANNELS = 4
"""The maximum number of channels of an image."""
RGB = 3
MODES = {1: "L", 3: "RGB", 4: "RGBA"}
"""Pillow's mode by number of channels."""
LAYOUTS = ("nchw", "nhwc")
ORDERS = ("rgb", "bgr")


@dataclass(frozen=True)
class Preprocessing:
    """The steps that convert an image to an input array.

    `resize` is the length of the shorter side, or (height, width). `crop` is the (height, width) of the center crop and
    defaults to that of the input. `mean` and `std` have one number per channel in the order of `channels`, or one
    number for all. `layout` is `nchw` or `nhwc`; by default it is inferred from the input's shape. `channels` is `rgb`
    or `bgr`.
    """

    resize: tuple[int, ...] | None = None
    crop: tuple[int, ...] | None = None
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    layout: str | None = None
    channels: str = "rgb"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of an RGB image if `crop` or `resize` state both sides; else ()."""
        size = self.crop or (self.resize if self.resize is not None and len(self.resize) == 2 else None)
        if size is None:
            return ()
        sides = size[0], size[-1]
        return (*sides, RGB) if self.layout == "nhwc" else (RGB, *sides)

    @staticmethod
    def parse(text: str) -> Preprocessing:
        """Parse steps such as `resize=256 crop=224 mean=0.5 std=0.25`.

        Raises DataError, naming the key, if a step cannot be parsed.
        """
        given: dict[str, Any] = {}
        for word in text.split():
            key, equals, value = word.partition("=")
            if key not in _KEYS or not equals:
                raise DataError(f"preprocessing: found '{word}', expected KEY=VALUE with a key of: {', '.join(_KEYS)}")
            if key in given:
                raise DataError(f"preprocessing: found key '{key}' twice, expected it once")
            step = _KEYS[key]
            try:
                given[key] = step.checked(step.read(value))
            except ValueError as error:
                raise DataError(f"preprocessing: key '{key}': found '{value}', expected {step.expected}") from error
        return Preprocessing(**given)


def _listed(value: Any) -> Any:
    """A Python value of a step in the form of parsed text: a tuple, also for one number, and names in lower case."""
    value = _plain(value)
    if isinstance(value, str):
        return value.lower()
    if value is None:
        return None
    return tuple(map(_plain, cast("list[Any]", value))) if isinstance(value, list | tuple) else (value,)


def _plain(value: Any) -> Any:
    """Python numbers or lists for NumPy numbers, arrays and tensors."""
    return value.tolist() if hasattr(value, "tolist") else value


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("x"))


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(","))


def _are_sizes(value: object) -> bool:
    sizes = _parts(value)
    return value is None or (len(sizes) in (1, 2) and all(type(size) is int and size >= 1 for size in sizes))


def _are_numbers(value: object) -> bool:
    numbers = _parts(value)
    return bool(numbers) and all(type(one) in (int, float) and isfinite(cast("float", one)) for one in numbers)


def _are_divisors(value: object) -> bool:
    return _are_numbers(value) and all(_parts(value))


def _parts(value: object) -> tuple[object, ...]:
    return cast("tuple[object, ...]", value) if isinstance(value, tuple) else ()


@dataclass(frozen=True)
class _Step:
    """A preprocessing step: what is expected of its value, how its text is parsed, and whether a value is valid."""

    expected: str
    read: Callable[[str], Any]
    is_valid: Callable[[object], bool]

    def checked(self, value: Any) -> Any:
        """The value, in the parsed form. Raises ValueError if it is not valid."""
        if not self.is_valid(value):
            raise ValueError
        return value


_KEYS: Mapping[str, _Step] = {
    "resize": _Step("the length of the shorter side, or HEIGHTxWIDTH", _sizes, _are_sizes),
    "crop": _Step("the length of both sides, or HEIGHTxWIDTH", _sizes, _are_sizes),
    "mean": _Step("numbers, 0 to 1, one for each channel", _numbers, _are_numbers),
    "std": _Step("numbers other than 0, one for each channel", _numbers, _are_divisors),
    "layout": _Step(f"one of: {', '.join(LAYOUTS)}", str.lower, lambda value: value in (*LAYOUTS, None)),
    "channels": _Step(f"one of: {', '.join(ORDERS)}", str.lower, lambda value: value in ORDERS),
}
assert list(_KEYS) == [field.name for field in fields(Preprocessing)]


def image_files(folder: Path) -> list[Path]:
    """The images in a folder and its subfolders (e.g. one per class), sorted by path.

    Raises DataError for a name that no folder can have.
    """
    check_name(folder, DataError)
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())


class Images:
    """The images of a folder. Each image is a sample for a program with a single input.

    `steps` define how an image becomes an input, for example `Images(folder, resize=256, crop=224, mean=(0.5, 0.5,
    0.5))`:

    - `resize`: the length of the shorter side, or (height, width)
    - `crop`: the side of the center crop, or (height, width); by default the size of the input
    - `mean`, `std`: subtracted from pixels and divided by, after pixels are divided by 255; one number per channel, or
      one
    - `layout`: `nchw` or `nhwc`; by default inferred from the input's shape
    - `channels`: `rgb` or `bgr`

    The steps may also be given as text, as on the command line: `Images(folder, "resize=256 crop=224 mean=0.5
    std=0.25")`.

    Raises DataError for an unknown step, for an invalid value, and for a folder that is not a path.
    """

    def __init__(self, folder: str | os.PathLike[str], preprocessing: Preprocessing | str | None = None, **steps: Any):
        if not isinstance(cast("object", folder), str | os.PathLike):
            raise DataError(
                f"images: found {type(folder).__name__}, expected the path of a folder of images; for images in "
                f"memory, pass their arrays, preprocessed, in place of zp.Images"
            )
        self.folder = folder
        if isinstance(preprocessing, str):
            preprocessing = Preprocessing.parse(preprocessing)
        if not isinstance(cast("object", preprocessing), Preprocessing | None):
            found = type(preprocessing).__name__
            raise DataError(f"images: found {found}, expected steps such as 'resize=256 crop=224', or by keywords")
        if steps.keys() - _KEYS.keys():
            raise DataError(f"images: found {', '.join(steps)}, expected some of: {', '.join(_KEYS)}")
        listed = {key: _listed(value) for key, value in steps.items()}
        for key, value in listed.items():
            if not _KEYS[key].is_valid(value):
                raise DataError(f"images: key '{key}': found {steps[key]!r}, expected {_KEYS[key].expected}")
        self.preprocessing = replace(preprocessing or Preprocessing(), **listed)

    def __repr__(self) -> str:
        steps = self.preprocessing
        given = {field.name: (getattr(steps, field.name), field.default) for field in fields(steps)}
        changed = [f"{name}={value!r}" for name, (value, default) in given.items() if value != default]
        return f"Images({', '.join([repr(str(self.folder)), *changed])})"

    def samples(self, ports: Sequence[Port]) -> Iterator[dict[str, Array]]:
        """The images as arrays, decoded lazily. Each image is a row of an input with a batch axis.

        Raises DataError for a folder without images, for a file that is not an image, and for an input whose shape is
        not that of an image with 1, 3 or 4 channels.
        """
        if len(ports) != 1:
            names = ", ".join(f"'{port.name}'" for port in ports)
            raise DataError(f"{self.folder}: found images, expected arrays for {names}; images are for one input")
        form = _Form.of(ports[0], self.preprocessing, str(self.folder))
        files = self.files()
        if not files:
            raise DataError(f"{self.folder}: found no images, expected files of: {', '.join(sorted(SUFFIXES))}")
        for path in files:
            yield {ports[0].name: form.of_file(path, self.preprocessing)}

    def files(self) -> list[Path]:
        """The files, in the order of the samples."""
        return image_files(Path(self.folder))


@dataclass(frozen=True)
class _Form:
    """The form of the array of one image, with a leading axis of 1."""

    shape: tuple[int, ...]
    channels: int
    height: int
    width: int
    last: bool
    dtype: np.dtype[Any]

    @staticmethod
    def of(port: Port, asked: Preprocessing, where: str) -> _Form:
        shape = tuple(port.type.get_shape())
        if len(shape) == 4 and shape[0] >= 1:
            last = asked.layout == "nhwc" or (asked.layout is None and shape[1] not in MODES and shape[3] in MODES)
            channels, height, width = (shape[3], *shape[1:3]) if last else shape[1:]
            if channels in MODES:
                dtype = element_dtype(port.type.element_type)
                _check_channels(asked, channels, dtype, where)
                return _Form((1, *shape[1:]), channels, height, width, last, dtype)
        layouts = "NxCxHxW or NxHxWxC" if asked.layout is None else asked.layout
        shown = "x".join(map(str, shape))
        raise DataError(
            f"{where}: found images, input '{port.name}' has shape {shown}, expected {layouts} with 1, 3 or 4 channels"
        )

    def of_file(self, path: Path, asked: Preprocessing) -> Array:
        pixels = _pixels(path, MODES[self.channels], asked.resize, asked.crop or (self.height, self.width))
        if pixels.shape[:2] != (self.height, self.width):
            found = f"{pixels.shape[0]}x{pixels.shape[1]}"
            raise DataError(
                f"{path}: found {found} pixels after resize and crop, expected {self.height}x{self.width}; use "
                f"crop={self.height}x{self.width} and resize to at least that"
            )
        if asked.channels == "bgr":
            pixels = pixels[:, :, ::-1]
        if self.dtype.kind != "u":
            mean, std = (np.array(given, np.float32) for given in (asked.mean, asked.std))
            pixels = (pixels.astype(np.float32) / np.float32(WHITE) - mean) / std
        return np.ascontiguousarray(pixels if self.last else pixels.transpose(2, 0, 1), self.dtype).reshape(self.shape)


def _check_channels(asked: Preprocessing, channels: int, dtype: np.dtype[Any], where: str) -> None:
    for key, given in (("mean", asked.mean), ("std", asked.std)):
        if len(given) not in (1, channels):
            raise DataError(f"{where}: found {len(given)} numbers for '{key}', expected 1 or {channels}")
    if dtype.kind == "u" and (any(asked.mean) or asked.std != (1.0,)):
        raise DataError(f"{where}: found mean or std for an input of {dtype}, expected pixels as they are")
    if dtype.kind != "f" and dtype != np.uint8:
        raise DataError(f"{where}: found images for an input of {dtype}, expected floats or unsigned 8-bit integers")


def _bytes(image: Image.Image, path: Path) -> Array:
    """Convert a 16-bit grayscale image to 8 bits, because Pillow's own conversion clips at 255.

    Raises DataError for other wide images.
    """
    if not image.mode.startswith("I;16"):
        raise DataError(f"{path}: found an image of mode {image.mode}, expected 8 or 16 bits a channel; convert it")
    return np.rint(np.asarray(image).astype(np.float64) / 257).astype(np.uint8)  # scaled so that 65535 becomes 255


def _pixels(path: Path, mode: str, resize: tuple[int, ...] | None, crop: tuple[int, ...]) -> Array:
    """The pixels of an image, resized and cropped, with shape (height, width, channels)."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise DataError(f"{path}: found no Pillow, which reads images: pip install 'zeropoint[images]'") from error
    try:
        with Image.open(path) as opened:
            afford((*opened.size, _CHANNELS), 1, f"an image {path}")
            image = Image.fromarray(_bytes(opened, path)) if opened.mode[0] in "IF" else opened
            image = image.convert(mode)
    except LimitExceeded:
        raise
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"{path}: found no image that Pillow reads: {error}") from error
    if resize is not None:
        size = _resized(image.size, resize)
        afford((*size, _CHANNELS), 1, f"an image {path} after resize")
        image = image.resize(size, Image.Resampling.BILINEAR)
    height, width = (crop[0], crop[-1])
    left, top = round((image.width - width) / 2), round((image.height - height) / 2)  # half to even, like torchvision
    if left < 0 or top < 0:
        raise DataError(
            f"{path}: found {image.height}x{image.width} pixels, expected {height}x{width} or more; resize first"
        )
    pixels = np.asarray(image.crop((left, top, left + width, top + height)))
    return pixels.reshape(height, width, -1)


def _resized(size: tuple[int, int], resize: tuple[int, ...]) -> tuple[int, int]:
    """Width and height after resizing. A single length is that of the shorter side; the other is rounded down."""
    if len(resize) == 2:
        return resize[1], resize[0]
    width, height = size
    shorter = min(size)
    return resize[0] * width // shorter, resize[0] * height // shorter
