"""Depthwise convolutions whose channels are blocks of different vectors, on every instruction set."""

from __future__ import annotations

import functools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codegen import contractions
from codegen.emulation import EVERYWHERE
from codegen.exactness import assert_native_is_exact
from zeropoint.codegen.kernels.depthwise import Depthwise
from zeropoint.codegen.kernels.requantize import Epilogue
from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS, InstructionSet
from zeropoint.codegen.parameters import ALIGNMENT
from zeropoint.numerics import RequantizeBehaviour

ROWS = pytest.mark.parametrize("isa", EVERYWHERE.values(), ids=lambda row: row.name)
PLACES = pytest.mark.parametrize("name", INSTRUCTION_SETS)


@functools.lru_cache(maxsize=1)
def depthwise(channels: int, kernel: int, height: int, width: int) -> contractions.Case:
    """The same program for all instruction sets."""
    return contractions.depthwise(channels, (height, width), kernel)


@ROWS
@pytest.mark.parametrize(
    ("channels", "kernel", "height", "width"),
    [(48, 5, 3, 96), (48, 3, 3, 192), (112, 5, 3, 96), (240, 5, 12, 80), (48, 5, 112, 112), (48, 5, 28, 28)],
)
def test_blocks_of_narrow_vectors_before_wide_ones(
    isa: InstructionSet, channels: int, kernel: int, height: int, width: int
) -> None:
    """On 64-byte vectors 48 channels are one block of 32, and 16 of several pixels, by 64 bytes again."""
    case = depthwise(channels, kernel, height, width)
    assert_native_is_exact(case.program, case.samples[:1], isa, guarded=True)


@PLACES
@settings(max_examples=100)
@given(
    channels=st.integers(1, 16).map(lambda n: 16 * n),
    rows=st.integers(1, 200),
    width=st.integers(1, 200),
    kernel=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    strides=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    halves=st.integers(1, 2),
    behaviour=st.sampled_from([b for b in RequantizeBehaviour if b is not RequantizeBehaviour.EXACT]),
    left=st.booleans(),
    clamped=st.booleans(),
    offset=st.booleans(),
)
def test_parameters_of_a_block_begin_at_a_multiple_of_its_vectors(
    name: str,
    channels: int,
    rows: int,
    width: int,
    kernel: tuple[int, int],
    strides: tuple[int, int],
    halves: int,
    behaviour: RequantizeBehaviour,
    left: bool,
    clamped: bool,
    offset: bool,
) -> None:
    epilogue = Epilogue(behaviour, left=left, clamped=clamped, offset=offset)
    row = width * channels
    shape = Depthwise(
        rows, width, channels, strides[0] * row, channels, row, channels, kernel, strides, halves, epilogue
    )
    end = first = 0
    for block in shape.blocks(INSTRUCTION_SETS[name]):
        assert block.begin % block.isa.bytes == shape.block_bytes(block.isa) % block.isa.bytes == 0
        assert ALIGNMENT % block.isa.bytes == 0
        assert (block.first, end <= block.begin < end + ALIGNMENT) == (first, True)
        first, end = first + block.count * block.channels, block.begin + block.count * shape.block_bytes(block.isa)
    assert first == channels
