"""From programs to steps: group, layout and schedule, each from the text that the one before prints."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from codegen import contractions
from codegen.classifier import classifier, image
from networks import quantized
from property_cases import some
from random_networks import Case, cases
from zeropoint.codegen.graph import Buffer, Graph, Parameters, Space, View
from zeropoint.codegen.group import group
from zeropoint.codegen.layout import layout
from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS
from zeropoint.codegen.llvm.machine import CodegenError, host
from zeropoint.codegen.lowering import steps_of
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.native import KernelOp
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import element_dtype, element_of
from zeropoint.ir.text import parse_program, print_program
from zeropoint.ir.verification import verify
from zeropoint.lower import integer_program

AVX2 = INSTRUCTION_SETS["avx2"]


def dead_steps(graph: Graph) -> list[str]:
    """The steps of which nobody reads anything, in order."""
    wanted = {view.buffer for view in graph.results}
    dead: list[str] = []
    for step in reversed(graph.steps):
        if not wanted & {*step.writes}:
            dead.append(f"{step.name}: {type(step.kernel).__name__}")
        wanted |= {*step.reads}
    return dead[::-1]


def said(graph: Graph) -> list[object]:
    """Steps without the names of buffers, which are in the order of their first use."""
    numbers: dict[Buffer, int] = {}

    def place(argument: View | Parameters) -> object:
        if isinstance(argument, Parameters) or argument.buffer.space is Space.WEIGHTS:
            offset = argument.offset if isinstance(argument, Parameters) else argument.buffer.offset
            size = argument.size if isinstance(argument, Parameters) else argument.buffer.size
            return graph.weights.array[offset : offset + size].tobytes()
        number = numbers.setdefault(argument.buffer, len(numbers))
        return number, argument.buffer.size, argument.offset, argument.shape, argument.strides, argument.dtype

    return [(step.kernel, [place(argument) for argument in step.arguments], step.halo) for step in graph.steps]


def parsed(program: Program) -> Program:
    """The program of the printed text."""
    return parse_program(print_program(program, inline_weights=True))


def check(program: Program) -> None:
    """Printed stages give the steps of the program itself, none of them dead. A loop nest says why it took its ops."""
    graph = steps_of(program, AVX2)
    assert dead_steps(graph) == []
    grouped = parsed(group(program, isa="avx2"))
    for kernel in grouped.entry.ops:
        assert not isinstance(kernel, KernelOp) or kernel.kind.data not in ("nest", "fold") or kernel.reasons
    assert said(steps_of(grouped, AVX2)) == said(graph)
    laid = parsed(layout(grouped))
    assert said(steps_of(laid, AVX2)) == said(graph)


@some(5)
@given(cases(most_layers=10))
def test_no_step_of_a_random_network_is_dead_and_stages_are_resumed_from_text(case: Case) -> None:
    check(integer_program(quantized(case.program, case.calibration)))


@some(3)
@given(cases())
def test_no_step_of_a_random_float_network_is_dead(case: Case) -> None:
    check(case.program)


CONTRACTIONS = {
    **{kind: contractions.convolutions(kind) for kind in ("dense", "depthwise", "grouped", "dense transposed")},
    "products": contractions.products(),
    "batches": contractions.batches(),
}


@pytest.mark.parametrize("kind", CONTRACTIONS)
def test_no_step_of_a_contraction_is_dead(kind: str) -> None:
    @some(2)
    @given(CONTRACTIONS[kind])
    def run(case: contractions.Case) -> None:
        check(case.program)

    run()


def windowed(kind: str, element: str, sides: list[list[int]], dilation: int) -> str:
    """A window op of each kind over a computed value of 5x5 pixels, with padding that may crop."""
    (top, bottom), (left, right) = sides
    reach = 4 * dilation + 1
    result = f"tensor<1x4x{reach + top + bottom}x{reach + left + right}x"
    number = "1" if element == "i8" else "1.0"
    if kind == "convolution":
        result += ("i32" if element == "i8" else "f32") + ">"
        made = f"""%w = stablehlo.constant dense<{number}> : tensor<4x4x1x1x{element}>
      %y = stablehlo.convolution(%s, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
        window = {{pad = {sides}, lhs_dilate = [{dilation}, {dilation}]}}
        {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
        : (tensor<1x4x5x5x{element}>, tensor<4x4x1x1x{element}>) -> {result}"""
    else:
        result += f"{element}>"
        made = f"""%v = stablehlo.constant dense<{number}> : tensor<{element}>
      %y = "stablehlo.reduce_window"(%s, %v) <{{window_dimensions = array<i64: 1, 1, 1, 1>,
        base_dilations = array<i64: 1, 1, {dilation}, {dilation}>,
        padding = dense<[[0, 0], [0, 0], {sides[0]}, {sides[1]}]> : tensor<4x2xi64>}}> ({{
      ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):
        %m = stablehlo.maximum %a, %b : tensor<{element}>
        stablehlo.return %m : tensor<{element}>
      }}) : (tensor<1x4x5x5x{element}>, tensor<{element}>) -> {result}"""
    return f"""
    func.func @main(%x: tensor<1x4x5x5x{element}>) -> {result} {{
      %s = stablehlo.abs %x : tensor<1x4x5x5x{element}>
      {made}
      return %y : {result}
    }}
    """


SIDES = st.lists(st.lists(st.integers(-7, 9), min_size=2, max_size=2).filter(lambda ends: sum(ends) > -5),
                 min_size=2, max_size=2)  # fmt: skip
KINDS = st.sampled_from(["convolution", "reduce_window"])


@some(15)
@example("convolution", "i8", [[-5, 6], [0, 0]], 1)
@given(KINDS, st.sampled_from(["i8", "f32"]), SIDES, st.integers(1, 2))
def test_no_step_around_padding_that_crops_is_dead(kind: str, element: str, sides: list[list[int]], by: int) -> None:
    check(parse_program(windowed(kind, element, sides, by)))


@pytest.mark.parametrize("kind", ["convolution", "reduce_window"])
def test_a_window_that_crops_its_whole_input_gives_what_the_interpreter_gives(kind: str) -> None:
    program = parse_program(windowed(kind, "i8", [[-5, 6], [0, 1]], 1))
    x = np.arange(100, dtype=np.int8).reshape(1, 4, 5, 5)
    np.testing.assert_array_equal(
        NativeProgram(program)({"arg0": x})["result0"], Interpreter(program)({"arg0": x})["result0"]
    )


WIDENED = """
func.func @main(%x: tensor<1x16x6x6xi8>) -> tensor<1x16x6x6xi32> {
  %zp = stablehlo.constant dense<3> : tensor<i8>
  %p = stablehlo.pad %x, %zp, low = [0, 0, 1, 1], high = [0, 0, 1, 1], interior = [0, 0, 0, 0]
    : (tensor<1x16x6x6xi8>, tensor<i8>) -> tensor<1x16x8x8xi8>
  %w = stablehlo.constant dense<1> : tensor<16x16x3x3xi8>
  %a = stablehlo.convolution(%p, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x16x8x8xi8>, tensor<16x16x3x3xi8>) -> tensor<1x16x6x6xi32>
  %m = stablehlo.constant dense<1073741824> : tensor<1xi32>
  %n = stablehlo.constant dense<32> : tensor<1xi32>
  %y = "fxpmath.requantize"(%a, %m, %n) <{behaviour = "fixed32", zero_point = 0 : i64, storage_min = -128 : i64,
    storage_max = 127 : i64}> : (tensor<1x16x6x6xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<1x16x6x6xi32>
  return %y : tensor<1x16x6x6xi32>
}
"""


def test_a_kernel_that_declines_leaves_nothing_behind() -> None:
    """A convolution whose result has 32 bits is padded and computed by one loop nest; no other kernel is begun."""
    program = parse_program(WIDENED)
    check(program)
    assert [type(step.kernel).__name__ for step in steps_of(program, AVX2).steps] == ["Nest"] * 3  # fill, copy, compute
    (kernel,) = (op for op in group(program, isa="avx2").entry.ops if isinstance(op, KernelOp) and op.reasons)
    assert kernel.reasons == ["requantize: fxpmath.requantize: found a result of i32, expected i8 or i16"]


CROPPED = """
func.func @main(%x: tensor<4x4xi8>) -> tensor<4x6xi8> {
  %c = stablehlo.constant dense<3> : tensor<i8>
  %s = stablehlo.add %x, %x : tensor<4x4xi8>
  %p = stablehlo.pad %s, %c, low = [0, -1], high = [0, 0], interior = [0, 0]
    : (tensor<4x4xi8>, tensor<i8>) -> tensor<4x3xi8>
  %q = stablehlo.concatenate %p, %p, dim = 1 : (tensor<4x3xi8>, tensor<4x3xi8>) -> tensor<4x6xi8>
  return %q : tensor<4x6xi8>
}
"""


def test_padding_that_only_crops_fills_nothing() -> None:
    """All that a fill writes would be overwritten before anybody reads it."""
    laid = print_program(layout(group(parse_program(CROPPED), isa="avx2")))
    assert 'kind = "copy"' in laid
    assert 'kind = "fill"' not in laid


def test_an_update_of_a_whole_value_is_the_update_and_copies_nothing() -> None:
    """Every element of a copy of the operand would be overwritten."""
    program = parse_program("""
    func.func @main(%x: tensor<4x6xi8>, %i: tensor<i32>) -> tensor<4x6xi8> {
      %n = stablehlo.negate %x : tensor<4x6xi8>
      %a = stablehlo.abs %x : tensor<4x6xi8>
      %y = stablehlo.dynamic_update_slice %n, %a, %i, %i
        : (tensor<4x6xi8>, tensor<4x6xi8>, tensor<i32>, tensor<i32>) -> tensor<4x6xi8>
      return %y : tensor<4x6xi8>
    }
    """)
    check(program)
    assert [step.name for step in steps_of(program, AVX2).steps] == ["stablehlo.abs"]
    data = {"arg0": np.arange(-12, 12, dtype=np.int8).reshape(4, 6), "arg1": np.array(3, np.int32)}
    np.testing.assert_array_equal(NativeProgram(program)(data)["result0"], Interpreter(program)(data)["result0"])


def test_integers_that_are_returned_as_quantized_values_are_not_copied() -> None:
    """The kernel writes to the caller's array, whatever the type under which the integers are returned."""
    type_ = "tensor<4x6x!quant.uniform<i16:f32, 0.5>>"
    program = parse_program(f"""
    func.func @main(%x: {type_}) -> {type_} {{
      %i = "quant.scast"(%x) : ({type_}) -> tensor<4x6xi16>
      %n = stablehlo.negate %i : tensor<4x6xi16>
      %y = "quant.scast"(%n) : (tensor<4x6xi16>) -> {type_}
      return %y : {type_}
    }}
    """)
    check(program)
    assert [step.name for step in steps_of(program, AVX2).steps] == ["stablehlo.negate"]
    data = {"arg0": np.arange(-12, 12, dtype=np.int16).reshape(4, 6)}
    np.testing.assert_array_equal(NativeProgram(program)(data)["result0"], Interpreter(program)(data)["result0"])


@pytest.mark.parametrize("storage", ["i8", "u8", "i4", "u4<1:15>", "i16"])
def test_quantized_inputs_constants_and_results_are_integers_in_memory(storage: str) -> None:
    type_, stored = f"tensor<2x3x!quant.uniform<{storage}:f32, 0.5:3>>", storage.split("<")[0].replace("u", "i")
    program = parse_program(f"""
    func.func @main(%x: {type_}, %f: tensor<2x3xf32>) -> ({type_}, {type_}, {type_}, tensor<2x3xf32>) {{
      %c = "stablehlo.constant"() <{{value = dense<5> : tensor<2x3x{stored}>}}> : () -> {type_}
      %q = stablehlo.uniform_quantize %f : (tensor<2x3xf32>) -> {type_}
      %d = stablehlo.uniform_dequantize %x : ({type_}) -> tensor<2x3xf32>
      return %x, %c, %q, %d : {type_}, {type_}, {type_}, tensor<2x3xf32>
    }}
    """)
    check(program)
    verify(layout(group(program, isa="avx2")).module)
    x = np.full((2, 3), 4, element_dtype(element_of(program.inputs[0].type)))
    data = {"arg0": x, "arg1": np.linspace(-3, 3, 6, dtype=np.float32).reshape(2, 3)}
    expected = Interpreter(program)(data)
    resumed = NativeProgram(parsed(layout(group(program, isa=host().name))))(data)
    for name, array in expected.items():
        np.testing.assert_array_equal(resumed[name], array, strict=True)


def test_native_code_is_made_of_grouped_and_of_laid_out_text() -> None:
    expected = Interpreter(classifier())(image(0))["y0"]
    grouped = parsed(group(classifier(), isa=host().name))
    for program in (grouped, parsed(layout(grouped))):
        np.testing.assert_array_equal(NativeProgram(program)(image(0))["y0"], expected)


def test_a_program_that_is_grouped_for_another_instruction_set_is_refused() -> None:
    with pytest.raises(CodegenError, match="found a program grouped for portable, expected avx2; group it again"):
        steps_of(group(classifier(), isa="portable"), AVX2)


@pytest.mark.parametrize(
    "body",
    [
        "%y = stablehlo.add %a, %x : tensor<1x16x6x6xf32>",
        "%y = stablehlo.add %x, %a : tensor<1x16x6x6xf32>",
    ],
)
def test_a_convolution_may_add_what_it_reads(body: str) -> None:
    type_ = "tensor<1x16x6x6xf32>"
    window = "window = {pad = [[1, 1], [1, 1]]}"
    program = parse_program(f"""
    func.func @main(%x: {type_}) -> {type_} {{
      %w = stablehlo.constant dense<0.5> : tensor<16x16x3x3xf32>
      %a = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], {window}
        {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : ({type_}, tensor<16x16x3x3xf32>) -> {type_}
      {body}
      return %y : {type_}
    }}
    """)
    check(program)
    x = np.random.default_rng(0).integers(-8, 8, (1, 16, 6, 6)).astype(np.float32)
    (kernel,) = (op for op in group(program, isa="avx2").entry.ops if isinstance(op, KernelOp))
    assert len(kernel.inputs) == 1
    np.testing.assert_array_equal(
        NativeProgram(program)({"arg0": x})["result0"], Interpreter(program)({"arg0": x})["result0"]
    )


def test_a_weight_that_two_products_read_is_packed_once() -> None:
    def text(second: str) -> str:
        return f"""
        func.func @main(%x: tensor<2x64xf32>) -> tensor<2x64xf32> {{
          %w = stablehlo.constant dense<0.25> : tensor<64x64xf32>
          %v = stablehlo.constant dense<0.5> : tensor<64x64xf32>
          %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
            : (tensor<2x64xf32>, tensor<64x64xf32>) -> tensor<2x64xf32>
          %1 = stablehlo.dot_general %0, {second}, contracting_dims = [1] x [0]
            : (tensor<2x64xf32>, tensor<64x64xf32>) -> tensor<2x64xf32>
          return %1 : tensor<2x64xf32>
        }}"""

    shared, apart = (parse_program(text(second)) for second in ("%w", "%v"))
    assert 2 * len(steps_of(shared, host()).weights) == len(steps_of(apart, host()).weights)
    x = {"arg0": np.random.default_rng(0).standard_normal((2, 64), np.float32)}
    np.testing.assert_array_equal(NativeProgram(shared)(x)["result0"], Interpreter(shared)(x)["result0"])
