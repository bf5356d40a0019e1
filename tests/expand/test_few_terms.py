"""Products of images with matrices of few nonzero terms: the same bits as sums, and one loop nest without the zeros."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.exactness import HERE, assert_native_is_exact
from codegen.loop_programs import inputs_for, main
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.lowering import steps_of
from zeropoint.expand import with_few_terms
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.ir.verification import verify

SIZES = (2, 20, 12, 14)
"""Batch, channels, rows, columns."""


def matrix(terms: int, columns: int, most: int, low: int = -128, high: int = 128) -> Array:
    """Columns of 0 to `most` nonzero terms, one of them without any, one with all that are allowed."""
    random = np.random.default_rng(terms + columns)
    made = np.zeros((terms, columns), np.int64)
    for column, count in enumerate([0, most, *random.integers(1, most + 1, columns - 2)]):
        numbers = random.integers(low, high, count)
        made[random.permutation(terms)[:count], column] = np.where(numbers == 0, low, numbers)
    return made


def product(
    weights: Array, dimension: int, elements: tuple[str, str, str] = ("i8", "i8", "i32"), *, channel: int = 1
) -> Program:
    """A product of an image along one dimension. A convolution, which nothing reads, makes values of rank 4 images."""
    given, factors, sums = elements
    shape = SIZES if channel == 1 else (SIZES[0], SIZES[2], SIZES[3], SIZES[1])
    made = [size for d, size in enumerate(shape) if d != dimension] + [weights.shape[1]]
    image, result = (f"tensor<{'x'.join(map(str, (*sizes, of)))}>" for sizes, of in ((shape, given), (made, sums)))
    table = f"tensor<{weights.shape[0]}x{weights.shape[1]}x{factors}>"
    order, kernel = ("b, f, 0, 1", "o, i, 0, 1") if channel == 1 else ("b, 0, 1, f", "o, 0, 1, i")
    small, one = "tensor<1x1x1x1xi8>", "tensor<1x1x1x1xi32>"
    return main(
        f"%x: {image}", result,
        f"%w = stablehlo.constant dense<{weights.tolist()}> : {table}",
        f"%s = stablehlo.constant dense<3> : {small}",
        f"%y = stablehlo.dot_general %x, %w, contracting_dims = [{dimension}] x [0] : ({image}, {table}) -> {result}",
        f"%c = stablehlo.convolution(%s, %s) dim_numbers = [{order}]x[{kernel}]->[{order}], window = {{}} "
        f"{{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : ({small}, {small}) -> {one}",
    )  # fmt: skip


def ops(program: Program) -> list[str]:
    return [op.name for op in program.entry.ops]


@pytest.mark.parametrize("isa", HERE, ids=lambda row: row.name)
@pytest.mark.parametrize(("dimension", "channel"), [(2, 1), (3, 1), (1, 3), (2, 3)])
def test_few_terms_of_an_image_are_summed(dimension: int, channel: int, isa: InstructionSet) -> None:
    program = product(matrix(SIZES[dimension if channel == 1 else dimension + 1], 21, 3), dimension, channel=channel)
    changed = with_few_terms(program, channel)
    verify(changed.module)
    assert ops(changed).count("stablehlo.gather") == 3
    assert "stablehlo.dot_general" not in ops(changed)
    sample = inputs_for(program)
    for wanted, found in zip(Interpreter(program)(sample).values(), Interpreter(changed)(sample).values(), strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert_native_is_exact(program, [sample], isa, threads=(1, 2))


@pytest.mark.parametrize("elements", [("i16", "i16", "i32"), ("i16", "i16", "i64"), ("i8", "i8", "i8")], ids=str)
def test_sums_wrap_around_as_those_of_the_product(elements: tuple[str, str, str]) -> None:
    low = -128 if elements[1] == "i8" else -(2**15)
    program = product(matrix(SIZES[2], 9, 4, low, -low), 2, elements)
    sample = inputs_for(program)
    sample["arg0"][0] = np.iinfo(sample["arg0"].dtype).min
    assert_native_is_exact(program, [sample], HERE[0])


def test_columns_of_many_terms_and_other_dimensions_stay_products() -> None:
    many, few = np.ones((SIZES[2], 9), np.int64), matrix(SIZES[2], 9, 2)
    for program, channel in (
        (product(many, 2), 1),
        (product(few, 2), None),
        (product(matrix(SIZES[1], 9, 2), 1), 1),
    ):
        assert with_few_terms(program, channel) is program


def test_a_product_of_few_terms_is_one_loop_nest_without_the_zeros() -> None:
    graph = steps_of(product(matrix(SIZES[2], 21, 2), 2), HERE[0])
    assert [type(step.kernel).__name__ for step in graph.steps] == ["Nest"]
    (step,) = graph.steps
    assert [type(scalar.what).__name__ for scalar in step.kernel.body].count("Gather") == 2
