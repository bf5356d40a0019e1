"""Wide contractions of many pixels: threads share the pixels, and each computes all channels of its own ones."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, i32

from codegen.contractions import Builder, Output
from codegen.emulation import EVERYWHERE
from codegen.exactness import HERE, assert_native_is_exact
from zeropoint.codegen.kernels.contraction import Contraction
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.lowering import steps_of
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import DotDimensions, DotGeneralOp

OUTPUT = Output("fixed16", True, (-14.0, -11.0), 3, (-128, 127), 1000)


def product(rows: int, terms: int, channels: int) -> Program:
    """Rows times a constant matrix."""
    net = Builder([(rows, terms)], 7)
    weights = net.random.integers(-127, 128, (terms, channels)).astype(np.int8)
    dims = DotDimensions((), (), (1,), (0,))
    sums = net.insert(DotGeneralOp(net.values[0], net.constant(weights), TensorType(i32, (rows, channels)), dims))
    return net.finish(net.requantized(sums, OUTPUT, 1))


def contraction(program: Program, isa: InstructionSet) -> Contraction:
    (kernel,) = (step.kernel for step in steps_of(program, isa).steps if isinstance(step.kernel, Contraction))
    return kernel


@pytest.mark.parametrize("isa", HERE, ids=lambda isa: isa.name)
@pytest.mark.parametrize(("rows", "terms", "channels"), [(9001, 16, 150), (203, 64, 300), (131, 20, 150)])
def test_every_share_has_the_bits_of_the_interpreter(isa: InstructionSet, rows: int, terms: int, channels: int) -> None:
    program = product(rows, terms, channels)
    x = np.random.default_rng(1).integers(-128, 128, (rows, terms)).astype(np.int8)
    assert_native_is_exact(program, [{program.inputs[0].name: x}], isa, threads=(1, 2, 3, 7))


def test_large_images_are_computed_piece_by_piece() -> None:
    isa = EVERYWHERE["avx512-vnni"]
    large, small = contraction(product(9001, 16, 150), isa), contraction(product(203, 64, 300), isa)
    assert large.by_pixels(isa)
    assert 1 < large.piece(isa) < large.most_tiles(isa)
    assert small.by_pixels(isa)
    assert small.piece(isa) == small.most_tiles(isa)


def test_tasks_are_as_many_as_tiles_of_all_groups() -> None:
    """So that many threads have equal shares of a small image."""
    isa = EVERYWHERE["avx512-vnni"]
    kernel = contraction(product(203, 64, 300), isa)
    assert kernel.tasks(isa) == kernel.columns(isa).count * kernel.most_tiles(isa)


@pytest.mark.parametrize(("rows", "terms", "channels"), [(8, 64, 300), (64, 512, 300), (9001, 16, 16)])
def test_threads_share_weights_of_more_bytes_and_the_tiles_of_few_channels(
    rows: int, terms: int, channels: int
) -> None:
    isa = EVERYWHERE["avx512-vnni"]
    kernel = contraction(product(rows, terms, channels), isa)
    assert not kernel.by_pixels(isa)
    assert kernel.tasks(isa) == sum(part.count * kernel.tiles(isa, part.size) for part in kernel.columns(isa).parts)
