"""Native code computes what the interpreter computes, every bit of it.

`ZEROPOINT_FUZZ_CASES=1000` runs so many cases of each property, `ZEROPOINT_KERNEL_CASES=1000` so many guarded programs
of each kind of kernel on each instruction set.
"""

from __future__ import annotations

import zlib
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import StringAttr

from codegen import contractions
from codegen.emulation import EVERYWHERE
from codegen.exactness import BOTH_VNNI, EVEX, HERE, KERNEL_CASES, assert_native_is_exact
from digits import images, quantized_digits
from networks import quantized
from property_cases import some
from random_networks import Case, cases
from zeropoint.calibrate import collect, instrument, state_ranges
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.fuse import fuse
from zeropoint.ir.annotations import PROFILE
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.fxpmath import TableOp
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import UniformDequantizeOp
from zeropoint.ir.tensors import element_dtype
from zeropoint.ir.text import parse_program
from zeropoint.lower import integer_io, integer_program
from zeropoint.lower.context import LoweringError
from zeropoint.materialize import express_accumulators, materialize
from zeropoint.simplify import simplify
from zeropoint.solve import move_rescales, propagate
from zeropoint.targets import target

INSTRUCTION_SETS = pytest.mark.parametrize("isa", BOTH_VNNI, ids=lambda row: row.name)


PROFILES = ("fixed16", "fixed32", "fixed32-double", "tosa-double")
KERNELS = {
    "convolution": (contractions.convolutions("dense"), 4, (1, 2)),
    "depthwise convolution": (contractions.convolutions("depthwise"), 4, (1, 3)),
    "grouped convolution": (contractions.convolutions("grouped"), 4, (2,)),
    "convolution of 16 bits": (contractions.convolutions("dense of 16 bits"), 4, (1, 2)),
    "grouped, transposed convolution of 16 bits": (contractions.convolutions("grouped transposed of 16 bits"), 3, (2,)),
    "convolution on a line": (contractions.convolutions("dense on a line"), 3, (1, 2)),
    "depthwise convolution on a line": (contractions.convolutions("depthwise on a line"), 3, (1, 2)),
    "transposed convolution": (contractions.convolutions("dense transposed"), 4, (1, 2)),
    "transposed depthwise convolution": (contractions.convolutions("depthwise transposed"), 4, (2,)),
    "matrix product": (contractions.products(), 4, (1, 2)),
    "product of two activations": (contractions.batches(), 4, (1, 3)),
}
"""Programs of one contraction, how many of them, and by how many threads.

The test of the buffers has two more of each kind for each instruction set.
"""


def under(program: Program, profile: str) -> Program:
    program = program.clone()
    program.module.attributes[PROFILE] = StringAttr(profile)
    return program


@INSTRUCTION_SETS
@pytest.mark.parametrize("kind", KERNELS)
def test_generated_kernels(isa: InstructionSet, kind: str) -> None:
    strategy, count, threads = KERNELS[kind]

    # LLVM takes its time over the portable dot product.
    @some(2 if isa.name == "portable" else count // 2 if isa is EVEX or isa.brief else count)
    @given(case=strategy)
    def exact(case: contractions.Case) -> None:
        assert_native_is_exact(case.program, case.samples, isa, threads)

    exact()


@pytest.mark.parametrize("name", EVERYWHERE)
@pytest.mark.parametrize("kind", KERNELS)
def test_generated_kernels_stay_inside_of_their_buffers(name: str, kind: str) -> None:
    """Programs of its own for every instruction set; not optimized, which takes a twentieth of the time."""

    @seed(zlib.crc32(f"{name} {kind}".encode()))
    @settings(max_examples=KERNEL_CASES, suppress_health_check=list(HealthCheck))
    @given(case=KERNELS[kind][0])
    def exact(case: contractions.Case) -> None:
        assert_native_is_exact(case.program, case.samples, EVERYWHERE[name], guarded=True)

    exact()


@pytest.mark.parametrize("profile", PROFILES)
@some(4)
@given(case=cases())
def test_random_networks(profile: str, case: Case) -> None:
    program = integer_program(under(quantized(case.program, case.calibration), profile))
    assert_native_is_exact(program, case.samples, HERE[0], threads=(1, 3))


@INSTRUCTION_SETS
@some(2)
@given(case=cases())
def test_random_networks_on_every_instruction_set(isa: InstructionSet, case: Case) -> None:
    program = integer_program(quantized(case.program, case.calibration))
    assert_native_is_exact(program, case.samples, isa, threads=(2,))


@pytest.mark.parametrize("name", EVERYWHERE)
def test_random_networks_stay_inside_of_their_buffers(name: str) -> None:
    @seed(zlib.crc32(name.encode()))
    @settings(max_examples=max(2, KERNEL_CASES // 4), suppress_health_check=list(HealthCheck))
    @given(case=cases())
    def exact(case: Case) -> None:
        program = integer_program(quantized(case.program, case.calibration))
        assert_native_is_exact(program, case.samples, EVERYWHERE[name], guarded=True)

    exact()


@pytest.mark.parametrize("isa", EVERYWHERE.values(), ids=lambda row: row.name)
@some(3)
@given(case=cases(islands=True), profile=st.sampled_from([None, *PROFILES]), expressed=st.booleans())
def test_random_networks_with_floats_between_integers(
    isa: InstructionSet, case: Case, profile: str | None, expressed: bool
) -> None:
    """Softmax, layer norm and functions: sums and functions of floats decide what is requantized."""
    asked = instrument(fuse(simplify(case.program)))
    calibrated = state_ranges(asked, collect(asked, case.calibration))
    propagated = move_rescales(propagate(calibrated, target("cpu"), profile), target("cpu"))
    program = integer_program(materialize(express_accumulators(propagated, target("cpu")) if expressed else propagated))
    with suppress(LoweringError):
        program = integer_io(program)
    random = np.random.default_rng(0)
    stored = {port.name: element_dtype(port.type.element_type) for port in program.inputs}
    samples = [
        {
            name: array if stored[name].kind == "f" else random.integers(-128, 128, array.shape).astype(stored[name])
            for name, array in sample.items()
        }
        for sample in case.samples
    ]
    assert_native_is_exact(program, samples, isa, threads=(1, 3))


LINE = """
func.func @main(%x: tensor<1x4x9xf32> {zeropoint.name = "x"}) -> (tensor<1x1x2xf32> {zeropoint.name = "y"}) {
  %w = stablehlo.constant dense<0.25> : tensor<1x9x2xf32>
  %c = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f],
    window = {stride = [1], pad = [[0, 0]], rhs_dilate = [1]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x4x9xf32>, tensor<1x9x2xf32>) -> tensor<1x4x2xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %r = stablehlo.reduce(%c init: %z) applies stablehlo.add across dimensions = [1]
    : (tensor<1x4x2xf32>, tensor<f32>) -> tensor<1x2xf32>
  %s = stablehlo.reshape %r : (tensor<1x2xf32>) -> tensor<1x1x2xf32>
  %n = stablehlo.constant dense<4.0> : tensor<1x1x2xf32>
  %d = stablehlo.divide %s, %n : tensor<1x1x2xf32>
  return %d : tensor<1x1x2xf32>
}
"""
"""The mean along a line, whose dimension is kept."""


def test_a_mean_along_a_line_that_keeps_its_dimension() -> None:
    random = np.random.default_rng(0)
    samples = [{"x": random.normal(size=(1, 4, 9)).astype(np.float32)} for _ in range(4)]
    program = integer_program(quantized(parse_program(LINE), samples))
    assert_native_is_exact(program, samples, HERE[0], threads=(1, 3))


@pytest.mark.parametrize("profile", PROFILES)
def test_the_demo_model(profile: str) -> None:
    integers = integer_program(under(quantized_digits().quantized, profile))
    if profile == PROFILES[0]:
        assert_native_is_exact(integers, images("test", 4), HERE[0])  # a softmax of floats is at its end
    assert_native_is_exact(before_softmax(integers), images("test", 4), HERE[0], threads=(1, 3))


def before_softmax(program: Program) -> Program:
    """The program that returns what its last integers express."""
    program = program.clone()
    returned = program.entry.last_op
    (logits,) = (op.result for op in program.entry.ops if isinstance(op, UniformDequantizeOp))
    assert returned is not None
    returned.operands[0] = logits
    remove_dead_ops(program.entry)
    return program


TABLES = pytest.mark.parametrize("shape", [(1, 3, 5, 17), (2, 9, 4, 48), (1, 7), (3, 70), (2, 3, 33), (64,)], ids=str)


def table_of(shape: tuple[int, ...]) -> contractions.Case:
    net = contractions.Builder([shape], seed=len(shape))
    entries = net.constant(net.random.integers(-128, 128, 256).astype(np.int8))
    y = net.insert(TableOp(net.values[0], entries, net.values[0].type))
    return contractions.Case(net.finish(y), contractions.samples_of(net, [shape]))


@pytest.mark.parametrize("isa", HERE, ids=lambda row: row.name)
@TABLES
def test_tables(isa: InstructionSet, shape: tuple[int, ...]) -> None:
    case = table_of(shape)
    assert_native_is_exact(case.program, case.samples, isa, threads=(1, 3))


@pytest.mark.parametrize("isa", EVERYWHERE.values(), ids=lambda row: row.name)
@TABLES
def test_tables_stay_inside_of_their_buffers(isa: InstructionSet, shape: tuple[int, ...]) -> None:
    case = table_of(shape)
    assert_native_is_exact(case.program, case.samples, isa, guarded=True)


@pytest.mark.parametrize("isa", HERE, ids=lambda row: row.name)
@pytest.mark.parametrize(
    ("multipliers", "shifts"),
    [
        ((24471, 1, 32767), (23, 20, 15)),  # of 15 bits, as for results of 16 bits
        ((1, 3, 1 << 30), (62, 61, 62)),  # next to nothing, with the greatest shifts
        ((0, 1, 5), (9, 0, 1)),
        ((1 << 20, 3, 1), (-2, -1, 0)),  # to the left
        (((1 << 31) - 1, 1, 2), (33, 33, 32)),
    ],
)
def test_small_multipliers_of_fixed32(
    isa: InstructionSet, multipliers: tuple[int, ...], shifts: tuple[int, ...]
) -> None:
    program = parse_program(f"""
    func.func @main(%x: tensor<7x4xi8>) -> tensor<7x3xi16> {{
      %w = stablehlo.constant dense<[[97, -128, 127], [-3, -128, 127], [85, -128, 127], [1, -128, 127]]>
        : tensor<4x3xi8>
      %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
        : (tensor<7x4xi8>, tensor<4x3xi8>) -> tensor<7x3xi32>
      %m = stablehlo.constant dense<{list(multipliers)}> : tensor<3xi32>
      %n = stablehlo.constant dense<{list(shifts)}> : tensor<3xi32>
      %q = "fxpmath.requantize"(%y, %m, %n) <{{axis = 1 : i64, behaviour = "fixed32", zero_point = -7 : i64,
        storage_min = -32768 : i64, storage_max = 32767 : i64}}>
        : (tensor<7x3xi32>, tensor<3xi32>, tensor<3xi32>) -> tensor<7x3xi16>
      return %q : tensor<7x3xi16>
    }}
    """)
    random = np.random.default_rng(0)
    inputs = [{"arg0": np.full((7, 4), number, np.int8)} for number in (-128, -1, 0, 1, 127)]
    inputs.append({"arg0": random.integers(-128, 128, (7, 4)).astype(np.int8)})
    assert_native_is_exact(program, inputs, isa)


@pytest.mark.parametrize("isa", HERE, ids=lambda row: row.name)
@pytest.mark.parametrize("least", [28, 31, 33])
def test_shifts_of_fixed32_that_are_far_apart(isa: InstructionSet, least: int) -> None:
    """Of a channel whose weights are next to nothing beside one whose weights are not."""
    program = parse_program(f"""
    func.func @main(%x: tensor<1x3xi8>) -> tensor<1x3xi8> {{
      %w = stablehlo.constant dense<[[97, -128, 127], [-3, -128, 127], [85, -128, 127], [1, -128, 127]]>
        : tensor<4x3xi8>
      %p = stablehlo.constant dense<0> : tensor<i8>
      %z = stablehlo.pad %x, %p, low = [0, 0], high = [0, 1], interior = [0, 0]
        : (tensor<1x3xi8>, tensor<i8>) -> tensor<1x4xi8>
      %y = stablehlo.dot_general %z, %w, contracting_dims = [1] x [0]
        : (tensor<1x4xi8>, tensor<4x3xi8>) -> tensor<1x3xi32>
      %m = stablehlo.constant dense<[1073741824, 2147483647, 2147483647]> : tensor<3xi32>
      %n = stablehlo.constant dense<[{least}, 62, 61]> : tensor<3xi32>
      %q = "fxpmath.requantize"(%y, %m, %n) <{{axis = 1 : i64, behaviour = "fixed32", zero_point = 0 : i64,
        storage_min = -128 : i64, storage_max = 127 : i64}}>
        : (tensor<1x3xi32>, tensor<3xi32>, tensor<3xi32>) -> tensor<1x3xi8>
      return %q : tensor<1x3xi8>
    }}
    """)
    inputs = [{"arg0": np.full((1, 3), number, np.int8)} for number in (-128, -1, 0, 5, 127)]
    assert_native_is_exact(program, inputs, isa)
