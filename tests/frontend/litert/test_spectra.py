"""Fourier transforms of real numbers, and what reads the complex results. LiteRT runs the same files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from frontend.litert.graph_files import File, Graph, litert, options, run, runtime
from zeropoint.frontend import ModelError, load_model
from zeropoint.interp import Interpreter
from zeropoint.ir.stablehlo import DotGeneralOp
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.pipeline import Options, quantize

TOLERANCE = 4e-6
"""LiteRT transforms in f64. The program sums products with a matrix of f32, relative to the largest number."""


def spectrum(shape: tuple[int, ...], length: tuple[int, int], path: Path, *, moved: bool = False) -> Path:
    """The real and imaginary parts, magnitudes and casts of RFFT2D of x, maybe behind moves of the complex numbers."""
    file = File()
    main = Graph(file, "main", ["x"], ["re", "im", "abs", "cast"])
    main.shaped("x", shape)
    main.tensor("length", np.array(length, np.int32))
    found = (*shape[:-2], length[0], length[1] // 2 + 1)
    main.then("RFFT2D", ["x", "length"], [main.shaped("c:0", found)], options("Rfft2d"))
    last = "c:0"
    if moved:
        main.tensor("order", np.array([1, 0, 2], np.int32))
        main.then("TRANSPOSE", [last, "order"], [main.shaped("c:1", [found[i] for i in (1, 0, 2)])])
        main.tensor("wide", np.array([found[1], -1], np.int32))
        found = (found[1], found[0] * found[2])
        main.then("RESHAPE", ["c:1", "wide"], [main.shaped("c:2", found)], options("Reshape"))
        main.tensor("begin", np.array([0, 1], np.int32))
        main.tensor("size", np.array([found[0], found[1] - 2], np.int32))
        found = (found[0], found[1] - 2)
        main.then("SLICE", ["c:2", "begin", "size"], [main.shaped("c:3", found)], options("Slice"))
        last = "c:3"
    for op, name in (("REAL", "re"), ("IMAG", "im"), ("COMPLEX_ABS", "abs"), ("CAST", "cast")):
        main.then(op, [last], [main.shaped(name, found)])
    return file.write(path)


def check(path: Path, x: Array) -> None:
    theirs, program = run(runtime(path), [x]), load_model(path)
    ours = Interpreter(program)({"x": x})
    assert all("complex" not in str(result.type) for op in program.entry.ops for result in op.results)
    for name, expected in zip(("re", "im", "abs", "cast"), theirs, strict=True):
        np.testing.assert_allclose(ours[name], expected, rtol=0, atol=TOLERANCE * np.abs(theirs[2]).max())


@pytest.mark.parametrize(
    ("shape", "length"),
    [((1, 64), (1, 64)), ((3, 1, 16), (1, 16)), ((2, 4, 8), (4, 8)), ((2, 3, 20), (4, 16)), ((5, 6), (2, 16))],
)
def test_the_transform_is_that_of_litert(shape: tuple[int, ...], length: tuple[int, int], tmp_path: Path) -> None:
    """Also of numbers that it crops, or fills with zeros."""
    path = spectrum(shape, length, tmp_path / "m.tflite")
    check(path, np.random.default_rng(0).normal(0, 1, shape).astype(np.float32))


def test_complex_numbers_may_be_moved(tmp_path: Path) -> None:
    path = spectrum((2, 3, 8), (4, 8), tmp_path / "m.tflite", moved=True)
    check(path, np.random.default_rng(0).normal(0, 1, (2, 3, 8)).astype(np.float32))


def test_only_the_part_that_is_read_is_computed(tmp_path: Path) -> None:
    file = File()
    main = Graph(file, "main", ["x"], ["y"])
    main.tensor("length", np.array([1, 4], np.int32))
    main.then("RFFT2D", ["x", "length"], [main.shaped("c:0", [1, 3])], options("Rfft2d"))
    main.then("REAL", ["c:0"], [main.shaped("y", [1, 3])])
    program = load_model(file.write(tmp_path / "m.tflite"))
    (product,) = [op for op in program.entry.ops if isinstance(op, DotGeneralOp)]
    assert shape_of(product.result) == (1, 3)
    samples = [{"x": np.random.default_rng(n).normal(0, 1, (1, 4)).astype(np.float32)} for n in range(4)]
    result = quantize(program, samples, Options(effort="none"))
    floats, integers = (Interpreter(one)(samples[0])["y"] for one in (program, result.integer))
    np.testing.assert_allclose(integers, floats, atol=0.1)


def test_results_may_be_complex(tmp_path: Path) -> None:
    file = File()
    main = Graph(file, "main", ["x"], ["c:0"])
    main.tensor("length", np.array([1, 4], np.int32))
    main.then("RFFT2D", ["x", "length"], [main.shaped("c:0", [1, 3])], options("Rfft2d"))
    path, x = file.write(tmp_path / "m.tflite"), np.array([[1, -2, 3, 0.5]], np.float32)
    (expected,) = run(runtime(path), [x])
    np.testing.assert_allclose(Interpreter(load_model(path))({"x": x})["c:0"], expected, atol=1e-5)


@pytest.mark.parametrize("length", [(0, 4), (1, 0), (-1, 4)])
def test_a_transform_without_elements_is_refused(length: tuple[int, int], tmp_path: Path) -> None:
    file = File()
    main = Graph(file, "main", ["x"], ["y"])
    main.tensor("length", np.array(length, np.int32))
    main.then("RFFT2D", ["x", "length"], [main.shaped("c:0", [1, 3])], options("Rfft2d"))
    main.then("REAL", ["c:0"], [main.shaped("y", [1, 3])])
    with pytest.raises(ModelError, match=r"'c:0' \(RFFT2D\): found a transform of \[-?\d, \d\] elements of shape"):
        load_model(file.write(tmp_path / "m.tflite"))


def test_parts_of_real_numbers_are_refused(tmp_path: Path) -> None:
    file = File()
    Graph(file, "main", ["x"], ["y"]).then("REAL", ["x"], ["y"])
    with pytest.raises(ModelError, match=r"'y' \(REAL\): found an operand of FLOAT32, expected complex numbers"):
        load_model(file.write(tmp_path / "m.tflite"))


assert litert
