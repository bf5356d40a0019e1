"""Comparisons of .tflite files, imported and exported again, are the same operators."""

from __future__ import annotations

from pathlib import Path

import pytest

import zeropoint as zp
from export.text_networks import text_network

WEIGHTS = {"w": (6, 6), "u": (6, 6)}
NETWORKS = {
    "NaN of an error function": (
        "(float[2,6] x) => (float[2,6] y)",
        WEIGHTS,
        "c = MatMul(x, w)  s = Add(c, x)  y = Erf(s)",
    ),
    "booleans": (
        "(float[2,6] x) => (bool[2,6] y)",
        WEIGHTS,
        "c = MatMul(x, w)  d = MatMul(x, u)  e = Less(c, d)  f = Less(x, c)  y = Xor(e, f)",
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_comparisons_are_the_same_file_after_an_import(name: str, tmp_path: Path) -> None:
    """NOT_EQUAL came back as EQUAL and LOGICAL_NOT."""
    model, samples = text_network(*NETWORKS[name])
    first, second = (tmp_path / f"{which}.tflite" for which in ("first", "second"))
    zp.quantize(model, samples, target="litert", effort="none").export(first)
    zp.quantize(first, target="litert").export(second)
    assert first.read_bytes() == second.read_bytes()
