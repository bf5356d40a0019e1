"""Sizes that a file computes from the shape of an input. LiteRT runs the same files with inputs of the same shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from frontend.litert.graph_files import File, Graph, litert, options, run
from zeropoint.frontend import ModelError, load_model
from zeropoint.interp import Interpreter
from zeropoint.litert_schema import schema


class Sizes:
    """A file that reshapes x of shape [1, 4, 2] with open sizes; a step of it returns the name of its result."""

    def __init__(self) -> None:
        self.file = File()
        self.main = Graph(self.file, "main", ["x"], ["y"])
        self.main.tables.tensors[0].shape = [1, 4, 2]
        for tensor in self.main.tables.tensors:
            tensor.shapeSignature = [-1, -1, 2]
        self.shape = self.step("SHAPE", ["x"], (3,), options("Shape", outType=schema().TensorType.INT32))

    def constant(self, numbers: int | Sequence[int]) -> str:
        name = f"constant{len(self.main.names)}"
        self.main.tensor(name, np.array(numbers, np.int32))
        return name

    def step(self, op: str, inputs: Sequence[str], shape: Sequence[int], given: Any = None) -> str:
        name = f"step{len(self.main.names)}"
        self.main.then(op, inputs, [name], given)
        tensor = self.main.tables.tensors[self.main.tensor(name)]
        tensor.type, tensor.shape = schema().TensorType.INT32, list(shape)
        return name

    def size(self, axis: int) -> str:
        ends = [self.constant([number]) for number in (axis, axis + 1, 1)]
        return self.step("STRIDED_SLICE", [self.shape, *ends], (), options("StridedSlice", shrinkAxisMask=1))

    def pack(self, *sizes: str) -> str:
        return self.step("PACK", sizes, (len(sizes),), options("Pack", valuesCount=len(sizes)))


def _product(sizes: Sizes) -> str:
    """As a dense layer of Keras on more than two dimensions."""
    part = sizes.step("GATHER", [sizes.shape, sizes.constant([0, 1])], (2,), options("Gather"))
    product = sizes.step("REDUCE_PROD", [part, sizes.constant([0])], (), options("Reducer"))
    return sizes.pack(product, sizes.size(2))


def _sum(sizes: Sizes) -> str:
    total = sizes.step("SUM", [sizes.shape, sizes.constant([0])], (), options("Reducer"))
    rest = sizes.step("SUB", [total, sizes.size(1)], (), options("Sub"))
    return sizes.pack(sizes.constant(-1), sizes.step("SUB", [rest, sizes.size(0)], (), options("Sub")))


def _half(sizes: Sizes) -> str:
    half = sizes.step("DIV", [sizes.size(1), sizes.constant(2)], (), options("Div"))
    return sizes.pack(sizes.size(0), half, sizes.constant(-1))


def _bounded(sizes: Sizes) -> str:
    least = sizes.step("MAXIMUM", [sizes.shape, sizes.constant([1, 1, 1])], (3,), options("MaximumMinimum"))
    return sizes.step("MINIMUM", [least, sizes.constant([99, 99, 99])], (3,), options("MaximumMinimum"))


@pytest.mark.parametrize("shape", [(1, 4, 2), (3, 4, 2), (2, 6, 2)])
@pytest.mark.parametrize("computed", [_product, _sum, _half, _bounded])
def test_sizes_are_computed(computed: Callable[[Sizes], str], shape: tuple[int, ...], tmp_path: Path) -> None:
    sizes = Sizes()
    sizes.main.then("RESHAPE", ["x", computed(sizes)], ["y"], options("Reshape"))
    path = sizes.file.write(tmp_path / "m.tflite")
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    theirs = litert.Interpreter(str(path))
    theirs.resize_tensor_input(0, x.shape)
    theirs.allocate_tensors()
    np.testing.assert_array_equal(Interpreter(load_model(path, {"x": shape}))({"x": x})["y"], run(theirs, [x])[0])


def test_sizes_that_are_computed_from_each_other_take_no_time(tmp_path: Path) -> None:
    """Each sum reads the one before twice: without memory, there are 2^60 ways to the shape."""
    sizes = Sizes()
    last = sizes.shape
    for _ in range(60):
        last = sizes.step("SUB", [last, last], (3,), options("Sub"))
    sizes.main.then("RESHAPE", ["x", last], ["y"], options("Reshape"))
    with pytest.raises(ModelError, match=r"found shape \[0, 0, 0\] for 8 elements, expected as many"):
        load_model(sizes.file.write(tmp_path / "m.tflite"))


def test_a_division_by_0_is_no_size(tmp_path: Path) -> None:
    sizes = Sizes()
    quotient = sizes.step("DIV", [sizes.shape, sizes.constant([1, 0, 1])], (3,), options("Div"))
    sizes.main.then("RESHAPE", ["x", quotient], ["y"], options("Reshape"))
    with pytest.raises(ModelError, match=r"found a computed 'shape', expected a constant$"):
        load_model(sizes.file.write(tmp_path / "m.tflite"))
