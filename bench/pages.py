"""Pieces of scanned text: what the networks of PP-OCR are calibrated with and judged on.

The scans are those that the wheel of scikit-image ships, a printed page and handwriting, so nothing is fetched. Lines
are strips of 48 x 192, half of them upside down, scaled to [-1, 1]; areas are squares resized to 320 x 320, scaled by
ImageNet's mean and deviation, as PP-OCR wants them. The parts come from the upper and the lower half of each scan.
Seeded.
"""

from importlib import resources

import numpy as np
from PIL import Image

SCANS = tuple(resources.files("skimage") / "data" / name for name in ("page.png", "text.png"))
SEEDS = {"calibration": 5, "heldout": 6, "held2": 7}
MEAN, DEVIATION = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])


def halves(part: str) -> list[Image.Image]:
    """The upper halves of the scans for "calibration", the lower ones for "heldout" and "held2"."""
    found = []
    for path in SCANS:
        with path.open("rb") as file:
            scan = Image.open(file).convert("RGB")
        width, height = scan.size
        top = 0 if part == "calibration" else height // 2
        found.append(scan.crop((0, top, width, top + height // 2)))
    return found


def _piece(scan: Image.Image, width: int, height: int, generator: np.random.Generator) -> Image.Image:
    left = int(generator.integers(0, max(scan.width - width, 0) + 1))
    top = int(generator.integers(0, max(scan.height - height, 0) + 1))
    return scan.crop((left, top, left + width, top + height))


def lines(part: str, count: int) -> np.ndarray:
    """(count, 3, 48, 192) f32 in [-1, 1]."""
    generator, scans = np.random.default_rng(SEEDS[part]), halves(part)
    made = []
    for index in range(count):
        height = int(generator.integers(20, 33))
        piece = _piece(scans[index % len(scans)], 4 * height, height, generator)
        piece = piece.resize((192, 48), Image.Resampling.BILINEAR)
        made.append(np.asarray(piece.transpose(Image.Transpose.ROTATE_180) if index % 2 else piece))
    scaled = np.stack(made).astype(np.float32) / 127.5 - 1
    return np.ascontiguousarray(scaled.transpose(0, 3, 1, 2))


def areas(part: str, count: int) -> np.ndarray:
    """(count, 3, 320, 320) f32, of mean 0 and deviation 1 over ImageNet."""
    generator, scans = np.random.default_rng(SEEDS[part]), halves(part)
    made = []
    for index in range(count):
        scan = scans[index % len(scans)]
        side = int(generator.integers(64, min(scan.size) + 1))
        made.append(np.asarray(_piece(scan, side, side, generator).resize((320, 320), Image.Resampling.BILINEAR)))
    scaled = (np.stack(made).astype(np.float32) / 255 - MEAN) / DEVIATION
    return np.ascontiguousarray(scaled.transpose(0, 3, 1, 2))
