"""Integer layer normalization in native code: products of 16-bit numbers, with the interpreter's bits."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest

from codegen.exactness import BOTH_VNNI, HERE, assert_native_is_exact
from codegen.normalized_programs import extreme_rows, integer_layer_norm
from zeropoint.codegen.kernels.row_shape import STACK
from zeropoint.codegen.kernels.rows import Rows
from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS, InstructionSet
from zeropoint.codegen.lowering import steps_of
from zeropoint.codegen.modules import kernels_of
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program, print_program
from zeropoint.numerics.layer_norm import LayerNorm

AVX512 = INSTRUCTION_SETS["avx512-vnni"]


def text_of(program: Program, isa: InstructionSet) -> str:
    """The text of the only kernel, which is one of rows."""
    graph = steps_of(program, isa)
    assert [type(step.kernel) for step in graph.steps] == [Rows]
    (text,) = kernels_of(graph).texts.values()
    return text


def has_words(text: str) -> bool:
    """Whether elements are multiplied as 16-bit numbers: no upper halves of products, but for numbers of a row."""
    return "pmadd" in text and not re.search(r"mul <([2-9]|[0-9]{2,}) x i64>", text)


@functools.cache
def bytes_and_words(case: str) -> tuple[Program, Array]:
    """A program and its input: rows of a size, of and to a type."""
    size, epsilon, given, made = CASES[case]
    x = extreme_rows(size, given)
    return integer_layer_norm(len(x), LayerNorm(size, epsilon), given, made), x


# Without epsilon, rows of hardly any deviation have the greatest shift.
CASES = {
    "whole vectors": (384, 384**2 << 9, "i16", "i16"),
    "a part of a vector, no epsilon": (131, 0, "i16", "i16"),
    "an odd element, no epsilon": (129, 1, "i16", "i8"),
    "bytes": (138, 138**2 << 9, "i8", "i16"),
    "bytes, no epsilon": (191, 0, "i8", "i8"),
    "a short row": (9, 1, "i16", "i16"),
}


@pytest.mark.parametrize("isa", BOTH_VNNI, ids=lambda row: row.name)
@pytest.mark.parametrize("case", CASES)
def test_rows_of_every_deviation_are_the_interpreters(isa: InstructionSet, case: str) -> None:
    program, x = bytes_and_words(case)
    assert has_words(text_of(program, isa)) == (isa.multiply_add is not None and x.shape[1] >= 8 * isa.width)
    assert_native_is_exact(program, [{"arg0": x}], isa)


def test_rows_of_one_deviation_take_no_steps_for_another() -> None:
    """Whether the shift may be so great that a row has to be rebased is known from epsilon."""
    for epsilon, branches in ((0, True), (384**2 << 9, False)):
        text = text_of(integer_layer_norm(4, LayerNorm(384, epsilon)), AVX512)
        assert bool(re.search(r"mul <[0-9]+ x i16>", text)) == branches


@pytest.mark.parametrize("isa", HERE, ids=lambda row: row.name)
def test_integers_added_after_the_normalization(isa: InstructionSet) -> None:
    x = extreme_rows(193, "i16")
    residual = np.random.default_rng(0).integers(-(1 << 15), 1 << 15, x.shape).astype(np.int16)
    program = integer_layer_norm(len(x), LayerNorm(193, 5), residual=True)
    assert has_words(text_of(program, isa)) == (isa.multiply_add is not None)
    assert_native_is_exact(program, [{"arg0": x, "arg1": residual}], isa, threads=(1, 3))


def test_results_without_bounds_and_rows_of_other_steps_keep_their_ops() -> None:
    """Packing saturates, and the bounds of the sums hold of the definition only."""
    norm = LayerNorm(140, 5)
    programs = [integer_layer_norm(5, norm, clamped=False)]
    # Another number of terms, another line of the root, half of the mean.
    whole = integer_layer_norm(5, norm)
    lines = print_program(whole)
    for before, after in (("dense<4981>", "dense<4980>"), ("dense<-2>", "dense<-4>"), ("dense<140>", "dense<141>")):
        assert before in lines
        programs.append(parse_program(lines.replace(before, after), weights=whole.weights))
    for program in programs:
        assert not has_words(text_of(program, AVX512))
        assert_native_is_exact(program, [{"arg0": extreme_rows(140, "i16")[-5:]}], HERE[0])


def test_few_rows_and_rows_too_long_for_the_stack() -> None:
    """Numbers of channels are brought into their order ahead of the rows, if there are enough, and there is room."""
    for rows, size, words in ((3, 165, False), (4, 165, True), (4, STACK // 12 + 1, False)):
        x = extreme_rows(size, "i16")[-rows:]
        program = integer_layer_norm(rows, LayerNorm(size, 7))
        assert has_words(text_of(program, AVX512)) == words
        assert_native_is_exact(program, [{"arg0": x}], HERE[0], guarded=size < 1000)
