"""ai-edge-quantizer's static quantization of a float .tflite file: what our .tflite files are compared with.

The recipe is `static_wi8_ai8`: weights i8 per channel, activations i8 per tensor, inputs and outputs i8 where they are
not tokens.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from ai_edge_quantizer import quantizer, recipe


def litert_inputs(feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The values of one sample as LiteRT takes them: NHWC, and i32 for i64."""
    values = [value.astype(np.int32) if value.dtype == np.int64 else value for value in feed.values()]
    return [np.ascontiguousarray(value.transpose(0, 2, 3, 1)) if value.ndim == 4 else value for value in values]


def quantize_feeds(source: Path, feeds: Iterable[dict[str, np.ndarray]], path: Path) -> None:
    """Write the quantized form of the float file `source`, whose images are NHWC, to `path`."""
    [(signature, ports)] = Interpreter(str(source)).get_signature_list().items()
    data = [dict(zip(ports["inputs"], litert_inputs(feed), strict=True)) for feed in feeds]
    work = quantizer.Quantizer(str(source))
    work.load_quantization_recipe(recipe.static_wi8_ai8())
    work.quantize(work.calibrate({signature: data}, num_threads=2)).export_model(str(path), overwrite=True)
