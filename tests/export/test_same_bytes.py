"""Files that are imported without data and exported again are the same bytes, names and order of operators included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zeropoint as zp
from export.text_networks import text_network
from zeropoint.frontend.litert.reader import read_model
from zeropoint.ir.tensors import Array

IMAGE = "(float[1,6,8,8] x) =>"
SQUARE = (6, 6, 1, 1)
TOP = "k = Constant<value_ints=[3]>()  c = Conv(x, w)"
NETWORKS = {
    "values of a sort that a convolution reads": (
        f"{IMAGE} (float[1,6,8,8] y)",
        {"w": SQUARE, "u": (6, 3, 1, 1)},
        f"{TOP}  tk, i = TopK<axis=1>(c, k)  y = Conv(tk, u)",
    ),
    "values and positions": (
        "(float[4,10] x) => (float[4,3] tk, int64[4,3] i)",
        {"w": (10, 8)},
        "k = Constant<value_ints=[3]>()  c = MatMul(x, w)  tk, i = TopK<axis=1>(c, k)",
    ),
    "the least values": (
        "(float[4,10] x) => (float[4,3] tk, int64[4,3] i)",
        {"w": (10, 8)},
        "k = Constant<value_ints=[3]>()  c = MatMul(x, w)  tk, i = TopK<axis=1, largest=0>(c, k)",
    ),
    "selected channels": (
        f"{IMAGE} (float[1,3,8,8] y)",
        {"w": SQUARE},
        "i = Constant<value_ints=[5,0,2]>()  a = Conv(x, w)  y = Gather<axis=1>(a, i)",
    ),
    "two hard sigmoids": (
        f"{IMAGE} (float[1,6,8,8] y)",
        {"w": (6, 6, 3, 3), "v": SQUARE},
        "a = Conv<pads=[1,1,1,1]>(x, w)  h = HardSwish(a)  c = Conv(h, v)  y = HardSigmoid<alpha=0.16666667>(c)",
    ),
    "a float image beside a rescaled one": (
        f"{IMAGE} (float[1,6,8,8] y)",
        {"w": (6, 6, 3, 3), "v": (8, 6, 3, 3), "t": (8, 6, 2, 2), "u": (6, 12, 3, 3)},
        """
        a = Conv<pads=[1,1,1,1]>(x, w)  m = MaxPool<kernel_shape=[2,2], strides=[2,2]>(a)
        b = Conv<pads=[1,1,1,1]>(m, v)  r = Relu(b)  c = ConvTranspose<strides=[2,2]>(r, t)
        d = Concat<axis=1>(c, a)  y = Conv<pads=[1,1,1,1]>(d, u)
        """,
    ),
    "differences in branches": (
        f"{IMAGE} (float[1,12,8,8] y)",
        {"w": (6, 6, 3, 3), "v": SQUARE, "u": SQUARE},
        """
        a = Conv<pads=[1,1,1,1]>(x, w)  b = Conv(a, v)  d = Sub(b, x)  c = Conv(a, u)  e = Sub(a, c)
        y = Concat<axis=1>(d, e)
        """,
    ),
    "rescaled parts of a concatenation": (
        f"{IMAGE} (float[1,6,8,8] y)",
        {"w": (6, 6, 3, 3), "v": (4, 6, 3, 3), "u": (6, 22, 1, 1)},
        """
        a = Conv<pads=[1,1,1,1]>(x, w)  b = Conv<pads=[1,1,1,1]>(a, v)  r = Relu(a)  c = Concat<axis=1>(a, b, r, x)
        y = Conv(c, u)
        """,
    ),
    "a local response normalization": (
        f"{IMAGE} (float[1,6,8,8] y)",
        {"w": SQUARE},
        "a = Conv(x, w)  r = Relu(a)  y = LRN<size=3>(r)",
    ),
    "a shuffle of channels before a fully connected layer": (
        f"{IMAGE} (float[1,5] y)",
        {"w": SQUARE, "v": (384, 5)},
        """
        s = Constant<value_ints=[1,2,3,8,8]>()  j = Constant<value_ints=[1,6,8,8]>()  a = Conv(x, w)
        b = Reshape(a, s)  t = Transpose<perm=[0,2,1,3,4]>(b)  c = Reshape(t, j)  f = Flatten(c)  y = MatMul(f, v)
        """,
    ),
    "names that end as those of casts": (
        f"{IMAGE} (float[1,12,8,8] y)",
        {"w": SQUARE, "v": (12, 12, 1, 1)},
        "p_dequantized = Conv(x, w)  q = Concat<axis=1>(p_dequantized, x)  y = Conv(q, v)",
    ),
}
FORMS = {
    "qdq": ("onnxruntime", None, "onnx"), "qoperator": ("onnxruntime", None, "onnx"),
    "openvino": ("openvino", None, "onnx"), "litert": ("litert", None, "tflite"),
    "xnnpack": ("litert", "xnnpack", "tflite"), "16x8": ("litert-16x8", None, "tflite"),
}  # fmt: skip


def exported_twice(
    form: str, model: object, samples: list[dict[str, Array]], folder: Path, **options: Any
) -> tuple[bytes, bytes]:
    """The file of a network, and the file of what is read from it. Both programs give the same integers."""
    target, profile, suffix = FORMS[form]
    if form == "qoperator":
        options["onnx_format"] = "qoperator"
    paths = [folder / f"{which}.{suffix}" for which in ("first", "second")]
    first = zp.quantize(model, samples, target=target, profile=profile, effort="none")
    first.export(paths[0], **options)
    second = zp.quantize(paths[0], target=target, profile=profile)
    second.export(paths[1], **options)
    expected, found = (made.interpreted()(**samples[0]) for made in (first, second))
    for output, array in expected.items():
        np.testing.assert_array_equal(found[output], array)
    return paths[0].read_bytes(), paths[1].read_bytes()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_second_export_is_the_same_bytes(name: str, form: str, tmp_path: Path) -> None:
    """Numbers in the names of tensors grew, and casts were written in another order or under another name."""
    model, samples = text_network(*NETWORKS[name], deviation=0.3)
    first, second = exported_twice(form, model, samples, tmp_path)
    assert first == second


@pytest.mark.parametrize("form", ["litert", "16x8"])
@pytest.mark.parametrize("body", ["Tile(c, t)", 'Resize<mode="nearest">(c, , s)'])
def test_results_in_the_order_of_the_model(body: str, form: str, tmp_path: Path) -> None:
    """The reshape before the last transpose was split around it."""
    model, samples = text_network(
        f"{IMAGE} (float[1,6,16,16] y)",
        {"w": SQUARE},
        f"""t = Constant<value_ints=[1,1,2,2]>()  s = Constant<value_floats=[1.0,1.0,2.0,2.0]>()
        c = Conv(x, w)  y = {body}""",
    )
    first, second = exported_twice(form, model, samples, tmp_path, layout="model")
    assert first == second


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_a_table_of_embeddings_keeps_its_type(form: str, tmp_path: Path) -> None:
    """The file of QOperators has no scale for the table; what reads its rows has one. The
    import computed them in floats.
    """
    random = np.random.default_rng(0)
    weights = {"e": (12, 6), "w": (6, 4), "b": (4,)}
    body = "a = Gather(e, x)  m = MatMul(a, w)  y = Add(m, b)"
    model, _ = text_network("(int64[1,5] x) => (float[1,5,4] y)", weights, body)
    first, second = exported_twice(form, model, [{"x": random.integers(0, 12, (1, 5))} for _ in range(4)], tmp_path)
    assert first == second


def test_numbers_are_not_part_of_names(tmp_path: Path) -> None:
    """The metadata says which names got a number; names of the model that look like them stay."""
    weights = {"w": SQUARE, "v": SQUARE}
    model, samples = text_network(
        f"{IMAGE} (float[1,6,8,8] y)", weights, "a_1 = Conv(x, w)  a = Relu(a_1)  a_2 = Conv(a, v)  y = Mul(a_2, a)"
    )
    first, second = exported_twice("litert", model, samples, tmp_path)
    assert first == second
    file = read_model(first)
    names = {tensor.name: file.origin(tensor) for tensor in file.tensors}
    assert (names["x_1"], names["a_2"]) == ("x", "a_2")
    assert len(names) == len(file.tensors)
