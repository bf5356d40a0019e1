"""Convolutions of quantized images with one channel, whose pixels are adjacent bytes: a row's taps are read at once."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import StringAttr

from codegen.exactness import HERE, assert_native_is_exact
from codegen.loop_programs import main
from zeropoint.codegen.kernels.contraction import Contraction
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.lowering import steps_of
from zeropoint.ir.annotations import PROFILE
from zeropoint.ir.program import Program

Size = tuple[int, int]
KIND = "!quant.uniform<i8:f32, 0.05>"


def convolved(image: tuple[int, int, int], taps: Size, stride: Size, pad: Size, dilation: Size = (1, 1)) -> Program:
    """Images (N, 1, H, W) of floats, quantized and convolved to five channels."""
    n, h, w = image
    sizes = [
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, k, s, p, d in zip((h, w), taps, stride, pad, dilation, strict=True)
    ]
    pixels, results = f"{n}x1x{h}x{w}", f"{n}x5x{sizes[0]}x{sizes[1]}"
    weights = np.random.default_rng(0).integers(-127, 128, (5, 1, *taps)).astype(np.int8)
    window = f"stride = {list(stride)}, pad = {[[p, p] for p in pad]}, rhs_dilate = {list(dilation)}"
    program = main(
        f"%x: tensor<{pixels}xf32>",
        f"tensor<{results}xi8>",
        f"%q = stablehlo.uniform_quantize %x : (tensor<{pixels}xf32>) -> tensor<{pixels}x{KIND}>",
        f"%s = quant.scast %q : tensor<{pixels}x{KIND}> to tensor<{pixels}xi8>",
        f"%w = stablehlo.constant dense<{weights.tolist()}> : tensor<5x1x{taps[0]}x{taps[1]}xi8>",
        "%acc = stablehlo.convolution(%s, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], "
        f"window = {{{window}}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : "
        f"(tensor<{pixels}xi8>, tensor<5x1x{taps[0]}x{taps[1]}xi8>) -> tensor<{results}xi32>",
        "%m = stablehlo.constant dense<17000> : tensor<1xi32>",
        "%k = stablehlo.constant dense<9> : tensor<1xi32>",
        '%y = "fxpmath.requantize"(%acc, %m, %k) <{behaviour = "fixed16", storage_max = 127 : i64, '
        "storage_min = -128 : i64, zero_point = 3 : i64}> : "
        f"(tensor<{results}xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<{results}xi8>",
    )
    program.module.attributes[PROFILE] = StringAttr("fixed16")
    return program


CASES = [
    ((1, 1, 300), (1, 64), (1, 16), (0, 0), (1, 1)),
    ((1, 1, 37), (1, 5), (1, 1), (0, 2), (1, 1)),
    ((1, 1, 37), (1, 37), (1, 1), (0, 0), (1, 1)),  # one window, up to the end of the buffer
    ((2, 9, 17), (3, 3), (1, 1), (1, 1), (1, 1)),
    ((3, 8, 11), (2, 7), (2, 3), (0, 3), (1, 1)),
    ((1, 12, 10), (3, 3), (1, 1), (2, 1), (2, 1)),
    ((1, 12, 16), (3, 3), (1, 1), (0, 2), (1, 2)),  # taps that are not adjacent
    ((1, 40, 3), (5, 1), (1, 1), (2, 0), (1, 1)),
]


@pytest.mark.parametrize("isa", HERE[:2], ids=lambda row: row.name)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_images_of_one_channel_are_convolved_exactly(isa: InstructionSet, case: tuple[Size, ...]) -> None:
    program = convolved(*case)  # pyright: ignore[reportArgumentType] (the first tuple has three sizes)
    x = np.random.default_rng(1).normal(0, 4, (case[0][0], 1, *case[0][1:])).astype(np.float32)
    assert_native_is_exact(program, [{"arg0": x}], isa, threads=(1, 2), guarded=True)


def test_the_taps_of_a_row_take_a_quarter_of_the_steps() -> None:
    (kernel,) = (
        step.kernel
        for step in steps_of(convolved((1, 1, 300), (1, 64), (1, 16), (0, 0)), HERE[0]).steps
        if isinstance(step.kernel, Contraction)
    )
    assert kernel.steps == 16
