"""Contractions whose requantized results a runtime adds to others, or gates, before it rounds again: one kernel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codegen.contractions import Output
from codegen.exactness import HERE, KERNEL_CASES, assert_native_is_exact
from codegen.runtime_sums import FULL, Rounding, Tail, bytes_for, convolution, product
from zeropoint.codegen.group import group
from zeropoint.codegen.kernels.computed import ComputedEpilogue
from zeropoint.codegen.kernels.contraction import Contraction
from zeropoint.codegen.kernels.depthwise import Depthwise
from zeropoint.codegen.kernels.integer_arithmetic import Integers
from zeropoint.codegen.kernels.loops import Nest
from zeropoint.codegen.layout import layout
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.lowering import steps_of
from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program, print_program
from zeropoint.pipeline import Options, quantize

ON_ALL = pytest.mark.parametrize("isa", HERE, ids=lambda row: row.name)
ON_TWO = pytest.mark.parametrize("isa", HERE[:2], ids=lambda row: row.name)

FLOATS = Output("float32-rne", True, (-9.0, -6.0), 11, FULL, 1000)
TWICE = Output("fixed32-double", True, (-9.0, -6.0), 11, FULL, 1000)
ONCE = Output("fixed32", True, (-9.0, -6.0), 11, FULL, 1000)
AWAY = Output("float64-away", False, (-9.0, -6.0), 11, FULL, 1000)
TOSA = Output("tosa-double", True, (-9.0, -6.0), 11, FULL, 1000)
POT = Output("pot", True, (-9.0, -6.0), 11, FULL, 1000)
LARGE = Output("float32-rne", True, (0.0, 12.0), 11, FULL, 1 << 29)
RELU = Output("fixed32-double", True, (-9.0, -6.0), -128, FULL, 1000)
NARROW = Output("float32-rne", False, (-9.0, -6.0), 11, (-100, 90), 0)

IN_FLOATS = Tail("floats", Rounding("float32-rne", 1.0, 8))
LITERT = Tail("rescaled", Rounding("fixed32-double", 0.9, 8))

ENDS = {
    "onnxruntime": (FLOATS, IN_FLOATS),
    "onnxruntime, the other one first": (FLOATS, Tail("floats", Rounding("float32-rne", 1.0, -3), turned=True)),
    "onnxruntime, sums far beyond 2^22": (LARGE, IN_FLOATS),
    "onnxruntime, narrow storage": (NARROW, Tail("floats", Rounding("float32-rne", 1.0, -100, (-100, 60)))),
    "LiteRT": (TWICE, LITERT),
    "LiteRT after a ReLU, before a ReLU": (RELU, Tail("rescaled", Rounding("fixed32-double", 0.9, -128))),
    "LiteRT, the other one first": (TWICE, Tail("rescaled", Rounding("fixed32-double", 0.3, 5, (5, 80)), turned=True)),
    "LiteRT, one rounding": (ONCE, Tail("rescaled", Rounding("fixed32", 0.9, 8))),
    "LiteRT, a product in f64": (AWAY, LITERT),
    "TOSA": (TOSA, Tail("rescaled", Rounding("tosa-double", 0.9, 8), (0.5, 0.9))),
    "powers of two": (POT, Tail("rescaled", Rounding("pot", 0.5, 8), (0.5, 0.25))),
    "a gate": (FLOATS, Tail("gate", Rounding("float32-rne", 1.0, -100))),
    "a gate without a sign": (FLOATS, Tail("unsigned gate", Rounding("float32-rne", 1.0, -100))),
}
"""Contractions' ends: how accumulators are requantized, and what follows."""
FUSED = [name for name, (output, tail) in ENDS.items() if output.behaviour == "float32-rne"]
"""Those that are one kernel. Another rounding of sums takes as long in an epilogue as in a loop nest."""


def computes_apart(program: Program, isa: InstructionSet) -> bool:
    """Whether a loop nest does more than copy."""
    return any(isinstance(step.kernel, Nest) and len(step.kernel.body) > 3 for step in steps_of(program, isa).steps)


def epilogues(program: Program, isa: InstructionSet) -> list[object]:
    """The epilogues of a program's contractions."""
    kernels = [step.kernel for step in steps_of(program, isa).steps]
    sums = [kernel.arithmetic for kernel in kernels if isinstance(kernel, Contraction)]
    found: list[object] = [each.epilogue for each in sums if isinstance(each, Integers)]
    return found + [kernel.epilogue for kernel in kernels if isinstance(kernel, Depthwise)]


@ON_ALL
@pytest.mark.parametrize("name", ENDS)
def test_requantized_sums_of_products_are_added_and_rounded_again(isa: InstructionSet, name: str) -> None:
    output, tail = ENDS[name]
    # Portable code takes seconds to compile if there is much of it.
    for channels in (5, 24, 70) if isa.fused else (5,):
        program = product(tail, output, channels, count=7 if isa.fused else 2)
        (epilogue,) = epilogues(program, isa)
        assert isinstance(epilogue, ComputedEpilogue) == (name in FUSED) != computes_apart(program, isa)
        assert_native_is_exact(program, bytes_for(program), isa)


@ON_TWO
@pytest.mark.parametrize("name", ["onnxruntime", "onnxruntime, the other one first", "a gate"])
@pytest.mark.parametrize(("groups", "channels", "kernel"), [(1, 20, 1), (1, 130, 3), (4, 40, 1)])
def test_convolutions_are_added_and_rounded_again(
    isa: InstructionSet, name: str, groups: int, channels: int, kernel: int
) -> None:
    output, tail = ENDS[name]
    program = convolution(tail, output, channels, groups, images=2, kernel=kernel)
    assert all(isinstance(epilogue, ComputedEpilogue) for epilogue in epilogues(program, isa))
    assert not computes_apart(program, isa)
    assert_native_is_exact(program, bytes_for(program), isa, threads=(1, 2))


@ON_TWO
@pytest.mark.parametrize("channels", [40, 130])
def test_a_depthwise_convolution_is_gated_in_its_kernel(isa: InstructionSet, channels: int) -> None:
    output, tail = ENDS["a gate"]
    program = convolution(tail, output, channels, channels, kernel=3)
    (epilogue,) = epilogues(program, isa)
    assert isinstance(epilogue, ComputedEpilogue)
    assert not computes_apart(program, isa)
    assert_native_is_exact(program, bytes_for(program), isa, threads=(1, 2))


@ON_TWO
def test_a_depthwise_convolution_has_its_sum_apart(isa: InstructionSet) -> None:
    output, tail = ENDS["onnxruntime"]
    program = convolution(tail, output, 40, 40, kernel=3)
    assert computes_apart(program, isa)
    assert_native_is_exact(program, bytes_for(program), isa)


@ON_TWO
@pytest.mark.parametrize("name", ["onnxruntime", "a gate"])
def test_a_requantized_value_that_is_read_elsewhere_stays_apart(isa: InstructionSet, name: str) -> None:
    output, tail = ENDS[name]
    program = convolution(tail, output, 24, read=True)
    assert computes_apart(program, isa)
    assert_native_is_exact(program, bytes_for(program), isa)


@ON_TWO
@pytest.mark.parametrize("behaviour", ["fixed16", "exact"])
def test_integers_that_are_added_in_floats_stay_apart(isa: InstructionSet, behaviour: str) -> None:
    program = product(IN_FLOATS, Output(behaviour, True, (-9.0, -6.0), 11, FULL, 1000), 24)
    assert computes_apart(program, isa)
    assert_native_is_exact(program, bytes_for(program), isa)


@pytest.mark.parametrize("name", ENDS)
def test_the_text_of_a_kernel_is_read_again(name: str) -> None:
    output, tail = ENDS[name]
    isa = HERE[0]
    program = convolution(tail, output, 24)
    grouped = group(program, isa=isa.name)
    for made in (grouped, layout(grouped)):
        again = parse_program(print_program(made, inline_weights=True))
        expected = [step.kernel for step in steps_of(program, isa).steps]
        assert [step.kernel for step in steps_of(again, isa).steps] == expected


def test_an_edited_tail_is_refused() -> None:
    """Without its tail, a kernel would store what the contraction gives."""
    text = print_program(group(product(IN_FLOATS, FLOATS, 24), isa=HERE[0].name), inline_weights=True)
    assert "stablehlo.round_nearest_even" in text
    with pytest.raises(CodegenError, match="found a body that is not a contraction"):
        layout(parse_program(text.replace("stablehlo.round_nearest_even", "stablehlo.floor")))


@ON_TWO
def test_other_bytes_wrap_around_before_they_are_added(isa: InstructionSet) -> None:
    """A kernel has bytes in 32 bits, so a sum of bytes is another kernel."""
    program = product(replace(IN_FLOATS, kind="doubled"), FLOATS, 24)
    assert computes_apart(program, isa)
    assert_native_is_exact(program, bytes_for(program), isa)


@pytest.mark.parametrize("isa", HERE[:1], ids=lambda row: row.name)
def test_the_bias_of_a_contraction_with_a_tail_may_change(isa: InstructionSet) -> None:
    output, tail = ENDS["onnxruntime"]
    program = product(tail, output, 24)
    (contraction,) = steps_of(program, isa).contractions
    assert np.array_equal(contraction.bias.shape, (24,))
    assert len(contraction.with_bias(contraction.bias + 5).steps) == 1


RESIDUAL = """
func.func @main(%x: tensor<1x24x6x6xf32> {zeropoint.name = "x"}) -> tensor<1x24x6x6xf32> {
  %w = stablehlo.constant dense<WEIGHTS> : tensor<24x24x1x1xf32>
  %a = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x24x6x6xf32>, tensor<24x24x1x1xf32>) -> tensor<1x24x6x6xf32>
  %b = stablehlo.convolution(%a, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x24x6x6xf32>, tensor<24x24x1x1xf32>) -> tensor<1x24x6x6xf32>
  %y = stablehlo.add %a, %b : tensor<1x24x6x6xf32>
  func.return %y : tensor<1x24x6x6xf32>
}
"""


@pytest.mark.parametrize(
    ("target", "kernels"), [("onnxruntime", 2), ("onnxruntime-vnni", 2), ("cpu", 2), ("litert", 3)]
)
def test_a_residual_block_has_a_kernel_for_each_convolution(target: str, kernels: int) -> None:
    random = np.random.default_rng(0)
    weights = random.normal(0, 0.2, (24, 24, 1, 1)).round(3).tolist()
    samples = [{"x": random.normal(size=(1, 24, 6, 6)).astype(np.float32)} for _ in range(2)]
    program = parse_program(RESIDUAL.replace("WEIGHTS", str(weights)))
    made = quantize(program, samples, Options(target=target, effort="none")).integer
    found = [type(step.kernel).__name__ for step in steps_of(made, HERE[0]).steps]
    assert len([name for name in found if name in ("Contraction", "Nest")]) == kernels, found
    assert_native_is_exact(made, samples, HERE[0])


def drawn(seed: int) -> Program:
    """A convolution with any end and any tail in floats."""
    random = np.random.default_rng(seed)

    def bounds() -> tuple[int, int]:
        low, high = sorted(int(end) for end in random.integers(-128, 128, 2))
        return FULL if random.random() < 0.5 else (low, high)

    low = random.uniform(-14, 4)
    zero, end = (int(number) for number in random.integers(-128, 128, 2))
    output = Output(
        "float32-rne", bool(random.random() < 0.5), (low, low + 4), zero, bounds(), 1 << random.integers(4, 30)
    )
    reals = (float(2.0 ** random.uniform(-12, 3)), float(2.0 ** random.uniform(-12, 3)))
    kind = str(random.choice(["floats", "floats", "gate"]))
    tail = Tail(kind, Rounding("float32-rne", 1.0, end, bounds()), reals, turned=bool(random.random() < 0.5))
    channels = int(random.integers(1, 90))
    return convolution(tail, output, channels, images=int(random.integers(1, 3)), kernel=int(random.choice([1, 3])))


@ON_TWO
@pytest.mark.parametrize("seed", range(3 * KERNEL_CASES))
def test_any_tail_in_floats_is_exact(isa: InstructionSet, seed: int) -> None:
    program = drawn(seed)
    assert all(isinstance(epilogue, ComputedEpilogue) for epilogue in epilogues(program, isa))
    assert_native_is_exact(program, bytes_for(program), isa)
