"""Products of 16-bit activations with weights or each other: pairs in i32, on every instruction set here."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, i16, i32
from xdsl.ir import SSAValue

from codegen.contractions import Builder, Output
from codegen.exactness import HERE, assert_native_is_exact
from zeropoint.codegen.kernels.batched import Batched
from zeropoint.codegen.kernels.contraction import Contraction
from zeropoint.codegen.kernels.integer_arithmetic import Expressed, Integers
from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS, InstructionSet
from zeropoint.codegen.llvm.machine import assembly
from zeropoint.codegen.lowering import steps_of
from zeropoint.codegen.modules import kernels_of
from zeropoint.ir.program import Program
from zeropoint.ir.quant import Storage, StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import (
    ConvertOp,
    ConvolutionLayout,
    ConvolutionOp,
    DotDimensions,
    DotGeneralOp,
    UniformDequantizeOp,
)
from zeropoint.ir.tensors import shape_of, with_element, with_shape

BYTES = Output("fixed16", True, (-15.0, -9.0), 3, (-128, 127), 1 << 20)
ENDINGS = {
    "i8 by fixed16": BYTES,
    "i8 by fixed16, left shifts": Output("fixed16", True, (-2.0, 3.0), -5, (-10, 100), 1000),
    "i8 by fixed32": Output("fixed32", False, (-15.0, -9.0), 0, (-128, 127), 0),
    "i8 by floats": Output("float32-rne", True, (-15.0, -9.0), 7, (-127, 127), 1 << 20),
    "i16 by fixed32": Output("fixed32", True, (-9.0, -4.0), 0, (-128, 127), 1 << 20).wide(),
    "i16 in 13 bits": Output("fixed32", True, (-9.0, -4.0), -99, (-4096, 4095), 1 << 20, bits=16),
    "floats": None,
}


def product(rows: int, terms: int, channels: int, ending: Output | None, weight_bits: int = 8) -> Program:
    """Rows of i16 times a matrix, and what becomes of the sums: requantized, or floats for None."""
    net = Builder([(rows, terms)], terms + channels, i16)
    most = {8: 127, 12: 2047, 16: 300}[weight_bits]
    weights = net.random.integers(-most, most + 1, (terms, channels))
    if weight_bits == 8:
        stored = net.constant(weights.astype(np.int8))
        right = net.insert(ConvertOp(stored, with_element(stored, i16)))
    else:
        right = net.constant(weights.astype(np.int16))
    kind = with_element(with_shape(net.values[0], (rows, channels)), i32)
    sums = net.insert(DotGeneralOp(net.values[0], right, kind, DotDimensions((), (), (1,), (0,))))
    if ending is not None:
        return net.finish(net.requantized(sums, ending, 1))
    scales = net.random.uniform(1e-4, 1e-3, channels).tolist()
    real = UniformQuantizedType.per_channel(Storage.of("i32"), 1, scales)
    return net.finish(net.insert(UniformDequantizeOp(net.insert(StorageCastOp(sums, with_element(sums, real))))))


@pytest.mark.parametrize("isa", HERE, ids=lambda row: row.name)
@pytest.mark.parametrize("ending", ENDINGS)
def test_products_of_words_are_pairs(isa: InstructionSet, ending: str) -> None:
    for rows, terms, channels in ((5, 37, 19), (17, 64, 48), (1, 2, 3)):
        program = product(rows, terms, channels, ENDINGS[ending])
        random = np.random.default_rng(rows)
        ends = [np.full((rows, terms), end) for end in (-(1 << 15), (1 << 15) - 1)]
        samples = [random.integers(-(1 << 15), 1 << 15, (rows, terms)), *ends]
        kernels = [step.kernel for step in steps_of(program, isa).steps if isinstance(step.kernel, Contraction)]
        assert len(kernels) == 1
        assert isinstance(kernels[0].arithmetic, Integers | Expressed)
        assert kernels[0].arithmetic.pairs
        assert_native_is_exact(program, [{"x0": x.astype(np.int16)} for x in samples], isa, threads=(1, 2))


def convolution(channels: int, features: int, ending: Output) -> Program:
    """An image of i16 under windows of 3 x 3 with stored i8 weights."""
    net = Builder([(1, channels, 6, 7)], channels, i16)
    stored = net.constant(net.random.integers(-127, 128, (features, channels, 3, 3)).astype(np.int8))
    weights = net.insert(ConvertOp(stored, with_element(stored, i16)))
    layout = ConvolutionLayout.channels_first(2)
    sums = net.insert(ConvolutionOp(net.values[0], weights, TensorType(i32, (1, features, 4, 5)), layout))
    return net.finish(net.requantized(sums, ending, 1))


@pytest.mark.parametrize("isa", HERE, ids=lambda row: row.name)
@pytest.mark.parametrize("ending", ["i8 by fixed32", "i16 in 13 bits"])
def test_convolutions_of_words_are_pairs(isa: InstructionSet, ending: str) -> None:
    for channels, features in ((3, 5), (16, 40)):
        program = convolution(channels, features, ENDINGS[ending])
        (kernel,) = [step.kernel for step in steps_of(program, isa).steps if isinstance(step.kernel, Contraction)]
        assert isinstance(kernel.arithmetic, Integers)
        assert kernel.arithmetic.pairs
        x = np.random.default_rng(features).integers(-(1 << 13), 1 << 13, (1, channels, 6, 7)).astype(np.int16)
        assert_native_is_exact(program, [{"x0": x}], isa, threads=(1, 2))


@pytest.mark.parametrize("isa", HERE, ids=lambda row: row.name)
def test_weights_of_16_bits(isa: InstructionSet) -> None:
    program = product(7, 50, 20, BYTES, weight_bits=16)
    x = np.random.default_rng(0).integers(-(1 << 13), 1 << 13, (7, 50)).astype(np.int16)
    assert_native_is_exact(program, [{"x0": x}], isa, guarded=True)


@pytest.mark.parametrize("isa", HERE, ids=lambda row: row.name)
@pytest.mark.parametrize("ending", ["i8 by fixed32", "i16 in 13 bits"])
def test_sums_that_only_activations_of_13_bits_keep_within_32_bits_are_pairs(isa: InstructionSet, ending: str) -> None:
    """i16 could overflow the sums, which then wrap around as those of the program do."""
    program = product(6, 384, 24, ENDINGS[ending], weight_bits=12)
    assert any(isinstance(step.kernel, Contraction) for step in steps_of(program, isa).steps)
    random = np.random.default_rng(0)
    samples = [random.integers(-most, most, (6, 384)).astype(np.int16) for most in (1 << 12, 1 << 15)]
    assert_native_is_exact(program, [{"x0": x} for x in [*samples, np.full((6, 384), -(1 << 15), np.int16)]], isa)


@pytest.mark.parametrize("name", ["avx512-vnni", "avx-vnni"])
def test_products_of_words_are_added_by_the_instruction_that_multiplies(name: str) -> None:
    """LLVM takes VPDPWSSD apart into two instructions if it believes that a chain of sums gets shorter."""
    isa = INSTRUCTION_SETS[name]
    texts = kernels_of(steps_of(product(14, 64, 64, ENDINGS["i8 by fixed32"]), isa)).texts.values()
    code = "".join(assembly(text, isa) for text in texts)
    assert "vpdpwssd" in code
    assert "vpmaddwd" not in code


BATCHED = {
    "terms adjacent in both": (((3, 7, 34), (3, 19, 34)), DotDimensions((0,), (0,), (2,), (2,))),
    "channels adjacent on the right": (((2, 5, 24), (2, 24, 40)), DotDimensions((0,), (0,), (2,), (1,))),
    "few channels": (((9, 2), (2, 3)), DotDimensions((), (), (1,), (0,))),
    "heads inside of rows": (((6, 4, 32), (10, 4, 32)), DotDimensions((1,), (1,), (2,), (2,))),
}


@pytest.mark.parametrize("isa", HERE, ids=lambda row: row.name)
@pytest.mark.parametrize("case", BATCHED)
@pytest.mark.parametrize("zero", [0, 300])
def test_two_activations_of_words_are_pairs(isa: InstructionSet, case: str, zero: int) -> None:
    shapes, dims = BATCHED[case]
    for ending in ("i8 by fixed32", "i16 by fixed32"):
        output = ENDINGS[ending]
        assert output is not None
        net = Builder(list(shapes), zero, i16)
        left, right = net.centred(net.values[0], zero), net.centred(net.values[1], 0)
        ending_of = replace(output, bias=0, per_channel=False)
        program = net.finish(net.requantized(_sums(net, left, right, dims), ending_of, 1))
        random = np.random.default_rng(1)
        found = [{f"x{n}": random.integers(low, high, shape).astype(np.int16) for n, shape in enumerate(shapes)}
                 for low, high in ((-2047, 2048), (-2047, -2046), (2046, 2048))]  # fmt: skip
        assert any(isinstance(step.kernel, Batched) for step in steps_of(program, isa).steps)
        assert_native_is_exact(program, found, isa, threads=(1, 2), guarded=True)


def _sums(net: Builder, left: SSAValue, right: SSAValue, dims: DotDimensions) -> SSAValue:
    batch = [shape_of(left)[d] for d in dims.lhs_batching_dimensions]
    free = [
        shape_of(value)[d]
        for value, used in (
            (left, (*dims.lhs_batching_dimensions, *dims.lhs_contracting_dimensions)),
            (right, (*dims.rhs_batching_dimensions, *dims.rhs_contracting_dimensions)),
        )
        for d in range(len(shape_of(value)))
        if d not in used
    ]
    return net.insert(DotGeneralOp(left, right, with_shape(left, [*batch, *free]), dims))
