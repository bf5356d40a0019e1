"""Crops of real photographs: what the networks of the benchmarks are calibrated with and judged on.

The photographs are those that the wheels of scikit-image and scikit-learn ship, so nothing is fetched. The two parts
have no photograph in common: calibration sees eight (among them a person, a cup, a flower, grass, tissue, galaxies),
and the held-out crops come from eight others (among them a cat, a pagoda, a motorcycle, a rocket at night, gravel, a
retina, handwriting). Three of the eight are grey in either part, and several are of a kind that no ImageNet class
describes: the largest logits are close to each other there, which makes agreement on the top class harder than it is on
ImageNet.

A crop is a square of 50 to 100 % of the photograph's shorter side at a random place, mirrored half of the time, resized
to 224 x 224, and scaled as EfficientNet-Lite wants it: (u8 - 127) / 128. Seeded; another version of Pillow or of its
JPEG decoder may change a pixel by one.

    python bench/photographs.py [OUTPUT.npz]
"""

import argparse
import hashlib
from importlib import resources
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image

Part = Literal["calibration", "heldout", "held2"]

DEFAULT_OUTPUT = Path(__file__).resolve().parent / ".cache" / "photographs.npz"
SIZE = 224
SCIKIT_IMAGE = resources.files("skimage") / "data"
SCIKIT_LEARN = resources.files("sklearn.datasets") / "images"

PHOTOGRAPHS = {
    "calibration": (
        SCIKIT_IMAGE / "astronaut.png",
        SCIKIT_IMAGE / "coffee.png",
        SCIKIT_LEARN / "flower.jpg",
        SCIKIT_IMAGE / "camera.png",
        SCIKIT_IMAGE / "grass.png",
        SCIKIT_IMAGE / "ihc.png",
        SCIKIT_IMAGE / "coins.png",
        SCIKIT_IMAGE / "hubble_deep_field.jpg",
    ),
    "heldout": (
        SCIKIT_IMAGE / "chelsea.png",
        SCIKIT_LEARN / "china.jpg",
        SCIKIT_IMAGE / "motorcycle_left.png",
        SCIKIT_IMAGE / "rocket.jpg",
        SCIKIT_IMAGE / "gravel.png",
        SCIKIT_IMAGE / "brick.png",
        SCIKIT_IMAGE / "retina.jpg",
        SCIKIT_IMAGE / "text.png",
    ),
}
PHOTOGRAPHS["held2"] = PHOTOGRAPHS["heldout"]  # other crops of them
COUNTS = {"calibration": 64, "heldout": 128, "held2": 512}
SEEDS = {"calibration": 1, "heldout": 2, "held2": 77}


def crops(part: Part, count: int | None = None) -> np.ndarray:
    """The crops of one part, or the first `count` of them, the photographs taking turns.

    Returns:
        (64, 3, 224, 224) f32 for "calibration", 128 for "heldout", 512 for "held2"; RGB, in [-127/128, 1].
    """
    generator = np.random.default_rng(SEEDS[part])
    photographs = []
    for path in PHOTOGRAPHS[part]:
        with path.open("rb") as file:
            photographs.append(Image.open(file).convert("RGB"))
    pixels = [crop(photographs[index % len(photographs)], generator) for index in range(count or COUNTS[part])]
    scaled = (np.stack(pixels).astype(np.float32) - 127) / 128
    return np.ascontiguousarray(scaled.transpose(0, 3, 1, 2))


def crop(photograph: Image.Image, generator: np.random.Generator) -> np.ndarray:
    """One random square of `photograph`: (224, 224, 3) u8."""
    width, height = photograph.size
    side = int(min(width, height) * generator.uniform(0.5, 1.0))
    left = int(generator.integers(0, width - side + 1))
    top = int(generator.integers(0, height - side + 1))
    box = (left, top, left + side, top + side)
    square = photograph.resize((SIZE, SIZE), Image.Resampling.BILINEAR, box=box)
    if generator.random() < 0.5:
        square = square.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return np.asarray(square)


def main() -> None:
    """Writes both parts to one .npz, under their names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path, nargs="?", default=DEFAULT_OUTPUT)
    output: Path = parser.parse_args().output
    output.parent.mkdir(parents=True, exist_ok=True)
    parts = {part: crops(part) for part in ("calibration", "heldout")}
    np.savez(output, **parts)
    print(f"wrote {output}")
    for part, images in parts.items():
        print(f"  {part}: {images.shape} {images.dtype}, sha256 {hashlib.sha256(images.tobytes()).hexdigest()[:16]}")


if __name__ == "__main__":
    main()
