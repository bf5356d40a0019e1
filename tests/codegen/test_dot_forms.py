"""The forms in which 8-bit products are added: chosen, obeyed by native code, simulated by the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import StringAttr, TensorType, i32

from codegen.contractions import Builder, Output
from codegen.exactness import HERE
from zeropoint.codegen.dot_forms import choose_dot_forms, forms_of
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.annotations import DOT_FORM
from zeropoint.ir.contractions import ContractionOp
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import DotDimensions, DotGeneralOp
from zeropoint.ir.text import parse_program
from zeropoint.ir.verification import InvalidProgram
from zeropoint.numerics.dot_forms import FORMS
from zeropoint.ranges import obligations, ranges_of

RANDOM = np.random.default_rng(3)
ROWS, TERMS, CHANNELS = 5, 7, 3


def product(weights: np.ndarray, form: str | None = None) -> Program:
    named = "" if form is None else f'{{zeropoint.dot_form = "{form}"}} '
    rows = ", ".join(str(row.tolist()) for row in weights)
    return parse_program(f"""func.func @main(%x: tensor<{ROWS}x{TERMS}xi8>) -> tensor<{ROWS}x{CHANNELS}xi8> {{
      %w = stablehlo.constant dense<[{rows}]> : tensor<{TERMS}x{CHANNELS}xi8>
      %m = stablehlo.constant dense<1073741824> : tensor<1xi32>
      %n = stablehlo.constant dense<38> : tensor<1xi32>
      %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {named}
         : (tensor<{ROWS}x{TERMS}xi8>, tensor<{TERMS}x{CHANNELS}xi8>) -> tensor<{ROWS}x{CHANNELS}xi32>
      %q = "fxpmath.requantize"(%y, %m, %n) <{{behaviour = "fixed32", zero_point = 0 : i64, storage_min = -128 : i64,
           storage_max = 127 : i64}}> : (tensor<{ROWS}x{CHANNELS}xi32>, tensor<1xi32>, tensor<1xi32>)
           -> tensor<{ROWS}x{CHANNELS}xi8>
      return %q : tensor<{ROWS}x{CHANNELS}xi8> }}""")


def weights(greatest: int) -> np.ndarray:
    found = RANDOM.integers(-greatest, greatest + 1, (TERMS, CHANNELS))
    found[0] = greatest
    return found


def named(program: Program) -> str:
    return next(op.attributes[DOT_FORM].data for op in program.entry.ops if isinstance(op, ContractionOp))


@pytest.mark.parametrize(
    ("isa", "greatest", "form"),
    [
        ("avx512-vnni", 127, "u8s8_quads"),
        ("neon-i8mm", 127, "u8s8_quads"),
        ("neon-dotprod", 127, "s8s8_quads"),
        ("avx2", 64, "u8s8_pairs"),
        ("avx2", 65, "u8s16_pairs"),
    ],
)
def test_the_form_follows_from_the_instruction_set_and_the_greatest_weight(isa: str, greatest: int, form: str) -> None:
    assert named(choose_dot_forms(product(weights(greatest)), isa)) == form


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("terms", [7, 8])
def test_no_form_saturates_up_to_its_limit(form: str, terms: int) -> None:
    """At the extremes of activations, too: all 127, all -128."""
    limit = min(FORMS[form].weight_limit, 127)
    w = np.concatenate(
        [np.full((terms, 1), limit), np.full((terms, 1), -limit), RANDOM.integers(-limit, limit + 1, (terms, 9))], 1
    )
    x = np.concatenate([np.full((1, terms), 127), np.full((1, terms), -128), RANDOM.integers(-128, 128, (50, terms))])
    np.testing.assert_array_equal(FORMS[form].products(x, w), x @ w)


def test_pairs_saturate_beyond_their_limit() -> None:
    """65 * (127 + 128) * 2 = 33150 becomes 32767, as in the instruction: the simulation is not just the exact sum."""
    x, w = np.full((1, 2), 127), np.full((2, 1), 65)
    assert FORMS["u8s8_pairs"].products(x, w).item() == 32767 - 128 * 130
    assert FORMS["u8s8_pairs"].weight_limit == 64
    assert FORMS["u8s8_pairs_split"].weight_limit == 128


@pytest.mark.parametrize("greatest", [64, 127])
def test_the_interpreter_and_native_code_obey_the_form_that_is_named(greatest: int) -> None:
    plain = product(weights(greatest))
    x = {plain.inputs[0].name: RANDOM.integers(-128, 128, (ROWS, TERMS)).astype(np.int8)}
    expected = next(iter(Interpreter(plain)(x).values()))
    for form in FORMS if greatest <= 64 else FORMS.keys() - {"u8s8_pairs"}:
        program = plain.clone()
        for op in program.entry.ops:
            if isinstance(op, ContractionOp):
                op.attributes[DOT_FORM] = StringAttr(form)
        np.testing.assert_array_equal(next(iter(Interpreter(program)(x).values())), expected)
        if form in forms_of(HERE[0]):
            np.testing.assert_array_equal(next(iter(NativeProgram(program, isa=HERE[0])(x).values())), expected)


@pytest.mark.parametrize("kernel", [(1, 1, 7, 3), (2, 2, 3, 2), (2, 2, 1, 4)], ids=["one tap", "taps", "depthwise"])
@pytest.mark.parametrize("form", FORMS)
def test_convolutions_add_products_of_activations_and_weights_in_that_order(form: str, kernel: tuple[int, ...]) -> None:
    """Weights of 1 with activations of -128, which would saturate if they were the operand that is read as u8."""
    features = kernel[2] if kernel[2] > 1 else kernel[3]
    text = f"""func.func @main(%x: tensor<1x3x3x{features}xi8>) -> tensor<1x{4 - kernel[0]}x{4 - kernel[1]}x{kernel[3]}xi32> {{
      %w = stablehlo.constant dense<1> : tensor<{"x".join(map(str, kernel))}xi8>
      %y = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {{}}
        {{batch_group_count = 1 : i64, feature_group_count = {features // kernel[2]} : i64 FORM}}
        : (tensor<1x3x3x{features}xi8>, tensor<{"x".join(map(str, kernel))}xi8>)
        -> tensor<1x{4 - kernel[0]}x{4 - kernel[1]}x{kernel[3]}xi32>
      return %y : tensor<1x{4 - kernel[0]}x{4 - kernel[1]}x{kernel[3]}xi32> }}"""  # noqa: E501 (one line of MLIR)
    x = np.random.default_rng(0).choice(np.array([-128, 127], np.int8), (1, 3, 3, features))
    x[0, 0] = -128
    plain, named = (parse_program(text.replace("FORM", each)) for each in ("", f', zeropoint.dot_form = "{form}"'))
    np.testing.assert_array_equal(Interpreter(named).run_values([x])[0], Interpreter(plain).run_values([x])[0])


def test_the_proof_is_an_obligation_of_the_op() -> None:
    program = choose_dot_forms(product(weights(65)), "avx2")
    ranges = ranges_of(program)
    (op,) = [op for op in program.entry.ops if isinstance(op, ContractionOp)]
    assert len(obligations(ranges, op)) == 1  # numbers of 16 bits have no narrower sums
    op.attributes[DOT_FORM] = StringAttr("u8s8_pairs_split")
    pair = obligations(ranges, op)[1]
    assert (pair.what, pair.bits, int(pair.range.high.max()), pair.holds) == (
        "sums of two products",
        16,
        2 * 255 * 33,
        True,
    )
    op.attributes[DOT_FORM] = StringAttr("u8s8_pairs")
    assert not obligations(ranges, op)[1].holds


@pytest.mark.parametrize(
    ("form", "isa", "greatest", "message"),
    [
        ("u8s8_pairs", "avx2", 65, "found weights up to 65, expected at most 64 in dot form 'u8s8_pairs'"),
        (
            "u8s8_quads",
            "avx2",
            9,
            "found dot form 'u8s8_quads', expected one of avx2: u8s8_pairs, u8s16_pairs, u8s8_pairs_split",
        ),
        ("fast", "avx2", 9, "found dot form 'fast', expected one of: u8s8_quads, s8s8_quads, u8s8_pairs"),
    ],
)
def test_forms_that_saturate_or_do_not_exist_are_refused(form: str, isa: str, greatest: int, message: str) -> None:
    with pytest.raises((CodegenError, InvalidProgram), match=message):
        choose_dot_forms(product(weights(greatest), form), isa)


def of_activations(zero: int, other: int = 0, terms: int = 8) -> Program:
    """A batch of products of two activations, less their zero points, requantized."""
    left, right = f"tensor<2x5x{terms}x", f"tensor<2x{terms}x6x"

    def less(name: str, kind: str, number: int) -> str:
        return f"""%{name}w = stablehlo.convert %{name} : ({kind}i8>) -> {kind}i32>
          %{name}z = stablehlo.constant dense<{number}> : {kind}i32>
          %{name}c = stablehlo.subtract %{name}w, %{name}z : {kind}i32>"""

    return parse_program(f"""func.func @main(%x: {left}i8>, %w: {right}i8>) -> tensor<2x5x6xi8> {{
      {less("x", left, zero)}
      {less("w", right, other)}
      %y = stablehlo.dot_general %xc, %wc, batching_dims = [0] x [0], contracting_dims = [2] x [1]
         : ({left}i32>, {right}i32>) -> tensor<2x5x6xi32>
      %m = stablehlo.constant dense<1073741824> : tensor<1xi32>
      %n = stablehlo.constant dense<40> : tensor<1xi32>
      %q = "fxpmath.requantize"(%y, %m, %n) <{{behaviour = "fixed32", zero_point = 0 : i64, storage_min = -128 : i64,
           storage_max = 127 : i64}}> : (tensor<2x5x6xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<2x5x6xi8>
      return %q : tensor<2x5x6xi8> }}""")


@pytest.mark.parametrize(
    ("isa", "form"),
    [("avx512-vnni", "u8s8_quads"), ("neon-dotprod", "s8s8_quads"), ("avx2", "u8s8_pairs_split")],
)
@pytest.mark.parametrize("zero", [0, -128, 127])
def test_products_of_two_activations_have_a_form(isa: str, form: str, zero: int) -> None:
    program = choose_dot_forms(of_activations(zero), isa)
    assert named(program) == form
    ranges = ranges_of(program)
    (op,) = [op for op in program.entry.ops if isinstance(op, ContractionOp)]
    shown = obligations(ranges, op)
    assert [each.what for each in shown][1:] == ["sums of two products"] * form.startswith("u8s8_pairs")
    assert all(each.holds for each in shown)


@pytest.mark.parametrize("zero", [0, -128, 127, 3])
def test_products_of_two_activations_obey_their_form(zero: int) -> None:
    plain = of_activations(zero)
    x = RANDOM.integers(-128, 128, (2, 5, 8)).astype(np.int8)
    w = RANDOM.integers(-128, 128, (2, 8, 6)).astype(np.int8)
    x[0, 0], x[0, 1], w[0, :, 0], w[0, :, 1] = 127, -128, 127, -128
    expected = Interpreter(plain).run_values([x, w])[0]
    for form in FORMS:
        if form == "u8s8_pairs":
            continue
        program = plain.clone()
        for op in program.entry.ops:
            if isinstance(op, ContractionOp):
                op.attributes[DOT_FORM] = StringAttr(form)
        np.testing.assert_array_equal(Interpreter(program).run_values([x, w])[0], expected)
        if form in forms_of(HERE[0]):
            feed = {port.name: array for port, array in zip(program.inputs, (x, w), strict=True)}
            np.testing.assert_array_equal(next(iter(NativeProgram(program, isa=HERE[0])(feed).values())), expected)


def test_pairs_of_activations_saturate_in_the_interpreter_and_are_refused() -> None:
    """Two products of 255 by 127 do not fit i16."""
    program = of_activations(-128)
    (op,) = [op for op in program.entry.ops if isinstance(op, ContractionOp)]
    x, w = np.full((2, 5, 8), 127, np.int8), np.full((2, 8, 6), 127, np.int8)
    w[:, 2:] = 0
    exact = Interpreter(program).run_values([x, w])[0]
    op.attributes[DOT_FORM] = StringAttr("u8s8_pairs")
    assert not obligations(ranges_of(program), op)[1].holds
    assert (Interpreter(program).run_values([x, w])[0] < exact).all()
    isas = [isa for isa in HERE if "u8s8_pairs" in forms_of(isa)]
    if not isas:
        pytest.skip("no instruction set of this machine has the form")
    with pytest.raises(CodegenError, match="found weights up to 128, expected at most 64 in dot form 'u8s8_pairs'"):
        NativeProgram(program, isa=isas[0])


@pytest.mark.parametrize(("other", "terms"), [(1, 8), (0, 6)])
def test_products_that_kernels_do_not_multiply_as_bytes_have_no_form(other: int, terms: int) -> None:
    program = choose_dot_forms(of_activations(0, other, terms), "avx2")
    (op,) = [op for op in program.entry.ops if isinstance(op, ContractionOp)]
    assert DOT_FORM not in op.attributes


def test_a_product_of_two_activations_has_no_form_of_16_bits() -> None:
    net = Builder([(3, 1, 36), (3, 36, 16)], seed=1)
    product = net.insert(
        DotGeneralOp(
            *(net.centred(value, 0) for value in net.values),
            TensorType(i32, (3, 1, 16)),
            DotDimensions((0,), (0,), (2,), (1,)),
        )
    )
    product.owner.attributes[DOT_FORM] = StringAttr("u8s16_pairs")
    output = Output("fixed32", False, (-12.0, -9.0), 3, (-128, 127), 0)
    program = net.finish(net.requantized(product, output, 2))
    with pytest.raises(CodegenError, match="constant weights in one group"):
        choose_dot_forms(program, "avx2")
