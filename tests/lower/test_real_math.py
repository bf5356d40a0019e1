"""Real math ops on quantized values as integers: the quantized program, its lowering, standard and native forms."""

from __future__ import annotations

import numpy as np
import pytest

from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.errors import Error
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array, element_of
from zeropoint.ir.text import parse_program
from zeropoint.lower import integer_program
from zeropoint.quant_passes import strip_func_quant_types
from zeropoint.report.counts import count_ops
from zeropoint.standard import expand_fxpmath, lower_to_standard

SHAPE = (5, 9)
FUNCTIONS = ("IDENTITY", "TANH", "SIGMOID", "EXP", "LOG", "NEG", "RSQRT", "SIN", "SQUARE", "SQRT")


def kind(width: int, scale: float, zero_point: int) -> str:
    return f"!quant.uniform<i{width}:f32, {scale!r}:{zero_point}>"


def one(op: str, kinds: list[str], properties: str, shapes: list[tuple[int, ...]], profile: str) -> Program:
    types = [f"tensor<{'x'.join(map(str, shape))}x{each}>" for shape, each in zip(shapes, kinds, strict=True)]
    names = [f"%a{index}" for index in range(len(types) - 1)]
    ports = ", ".join(f"{name}: {each}" for name, each in zip(names, types, strict=False))
    dialect = "" if "." in op else "fxpmath."
    return parse_program(f"""module attributes {{zeropoint.profile = "{profile}"}} {{
    func.func @main({ports}) -> {types[-1]} {{
      %y = "{dialect}{op}"({", ".join(names)}) <{{{properties}}}> : ({", ".join(types[:-1])}) -> {types[-1]}
      return %y : {types[-1]}
    }} }}""")


def arrays_of(program: Program, seed: int = 0) -> list[Array]:
    """Random storage integers, the ends of the storage first."""
    random, found = np.random.default_rng(seed), list[Array]()
    for port in program.inputs:
        width = int(str(port.type).partition("<i")[2].partition(":")[0])
        half = 1 << (width - 1)
        array = random.integers(-half, half, port.type.get_shape()).astype(f"i{width // 8}")
        array.flat[: min(4, array.size)] = [-half, half - 1, 0, 3][: array.size]
        found.append(array)
    return found


def agrees(program: Program, *, native: bool = True, floats: int = 0) -> Program:
    """The integer program, whose results are those of the quantized one, in every form."""
    arrays = arrays_of(program)
    (expected,) = Interpreter(program).run_values(arrays)
    lowered = strip_func_quant_types(integer_program(program))
    assert count_ops(lowered).floats == floats
    expanded = expand_fxpmath(lowered)
    for form in (lowered, expanded, lower_to_standard(lowered), lower_to_standard(expanded)):
        np.testing.assert_array_equal(Interpreter(form).run_values(arrays)[0], expected)
    if native:
        feed = {port.name: array for port, array in zip(lowered.inputs, arrays, strict=True)}
        np.testing.assert_array_equal(next(iter(NativeProgram(lowered)(feed).values())), expected)
    return lowered


TYPES = {
    "8 bits, one type": [kind(8, 0.3, 3)] * 3,
    "8 bits, powers of two": [kind(8, 0.5, 3), kind(8, 0.25, -7), kind(8, 0.5, 1)],
    "8 bits, other scales": [kind(8, 0.5, 3), kind(8, 0.3, -7), kind(8, 0.7, 1)],
    "16 bits, powers of two": [kind(16, 0.5, 3), kind(16, 0.25, -7), kind(16, 0.5, 1)],
    "16 bits, other scales": [kind(16, 0.5, 3), kind(16, 0.3, 0), kind(16, 0.7, 1)],
    "8 and 16 bits to 8": [kind(16, 0.01, 3), kind(8, 0.3, -7), kind(8, 0.7, 1)],
    "8 bits to 16": [kind(8, 0.5, 3), kind(8, 0.25, -7), kind(16, 0.125, 1)],
}


@pytest.mark.parametrize("profile", ["fixed16", "fixed32"])
@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
def test_binary_ops_keep_every_bit(op: str, types: str, profile: str) -> None:
    clamp = "clamp_min = -20.0 : f64, clamp_max = 30.0 : f64"
    program = one(f"real_{op}_ew", TYPES[types], clamp, [SHAPE] * 3, profile)
    agrees(program, native=profile == "fixed16" and types != "8 bits, one type")


@pytest.mark.parametrize("op", ["add", "sub"])
def test_a_profile_that_wraps_clamps_after_it_wrapped(op: str) -> None:
    kinds = [kind(8, 0.3, 3), kind(8, 0.25, -7), kind(8, 0.1, 3)]
    program = one(f"real_{op}_ew", kinds, "clamp_min = -1.0 : f64, clamp_max = 2.0 : f64", [SHAPE] * 3, "upstream")
    agrees(program, native=False, floats=1)


@pytest.mark.parametrize("op", ["add", "sub", "mul"])
def test_bounds_beyond_the_storage_do_not_wrap(op: str) -> None:
    kinds = [kind(8, 0.3, 3), kind(8, 0.25, -7), kind(8, 64.0, 3)]  # no result is beyond the storage
    plain, clamped = (
        one(f"real_{op}_ew", kinds, clamp, [SHAPE] * 3, "upstream")
        for clamp in ("", "clamp_min = -1.0e30 : f64, clamp_max = 1.0e30 : f64")
    )
    arrays = arrays_of(plain)
    (expected,) = Interpreter(plain).run_values(arrays)
    for form in (clamped, integer_program(clamped)):
        np.testing.assert_array_equal(Interpreter(form).run_values(arrays)[0], expected)


@pytest.mark.parametrize("profile", ["fixed32-double", "tosa-double"])
@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
def test_binary_ops_keep_every_bit_under_the_profiles_of_runtimes(op: str, profile: str) -> None:
    for types in ("8 bits, powers of two", "8 bits, other scales"):
        agrees(one(f"real_{op}_ew", TYPES[types], "", [SHAPE] * 3, profile), native=False)


@pytest.mark.parametrize("op", ["add", "sub"])
def test_real_math_that_a_profile_computes_in_float_becomes_stablehlo(op: str) -> None:
    clamp = "clamp_min = -20.0 : f64, clamp_max = 30.0 : f64"
    program = one(f"real_{op}_ew", TYPES["8 and 16 bits to 8"], clamp, [SHAPE] * 3, "onnxruntime")
    arrays = arrays_of(program)
    (expected,) = Interpreter(program).run_values(arrays)
    lowered = strip_func_quant_types(integer_program(program))
    names = {"add": "stablehlo.add", "sub": "stablehlo.subtract"}
    made = [each.name for each in lowered.entry.ops if "zeropoint.float_reason" in each.attributes]
    assert made == [names[op]]
    for form in (lowered, lower_to_standard(lowered)):
        np.testing.assert_array_equal(Interpreter(form).run_values(arrays)[0], expected)
    feed = {port.name: array for port, array in zip(lowered.inputs, arrays, strict=True)}
    np.testing.assert_array_equal(next(iter(NativeProgram(lowered)(feed).values())), expected)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_every_8_bit_value(name: str) -> None:
    program = one("real_unary_ew", [kind(8, 0.05, 3), kind(8, 0.1, 1)], f'fn = "{name}"', [(256,)] * 2, "fixed16")
    lowered = integer_program(program)
    x = np.arange(-128, 128).astype(np.int8)
    np.testing.assert_array_equal(Interpreter(lowered).run_values([x])[0], Interpreter(program).run_values([x])[0])
    agrees(program)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_16_bits(name: str) -> None:
    kinds = [kind(16, 0.0005, 3), kind(16, 0.001, 1)]
    clamp = f'fn = "{name}", clamp_max = 3.0 : f64'
    agrees(one("real_unary_ew", kinds, clamp, [SHAPE] * 2, "fixed16"), native=name in ("EXP", "NEG"))


@pytest.mark.parametrize("name", ["CMPZ", "CMPNZ", "CMPLZ", "CMPGZ"])
def test_comparisons_with_zero_read_storage(name: str) -> None:
    for width in (8, 16):
        program = one("real_unary_ew", [kind(width, 0.5, 3), "i1"], f'fn = "{name}"', [SHAPE] * 2, "fixed16")
        agrees(program, native=width == 8)


@pytest.mark.parametrize("profile", ["fixed16", "fixed32", "fixed32-double"])
@pytest.mark.parametrize("bias", ["", "8", "16", "32"])
@pytest.mark.parametrize("widths", [(8, 8, 8), (16, 16, 16), (16, 8, 16), (8, 8, 16)])
def test_matmuls_keep_every_bit(widths: tuple[int, int, int], bias: str, profile: str) -> None:
    lhs, rhs, result = widths
    kinds = [kind(lhs, 0.02, 3), kind(rhs, 0.03, 0), kind(result, 0.5 if result == 8 else 0.01, 1)]
    shapes: list[tuple[int, ...]] = [(2, 3, 5), (2, 5, 4), (2, 3, 4)]
    if bias:
        kinds.insert(2, kind(int(bias), 0.001, 2 if bias != "32" else 0))
        shapes.insert(2, (4,))
    op = "real_matmul_bias" if bias else "real_matmul"
    agrees(one(op, kinds, "clamp_min = 0.0 : f64", shapes, profile), native=profile == "fixed16" and lhs == rhs)


def test_a_ratio_that_is_a_power_of_two_takes_the_shift() -> None:
    def names(op: str, kinds: list[str], properties: str = "") -> set[str]:
        shapes: list[tuple[int, ...]] = [(3, 3)] * len(kinds)
        lowered = integer_program(one(op, kinds, properties, shapes, "fixed32"))
        requantized = {str(op.properties["behaviour"]) for op in lowered.module.walk() if "behaviour" in op.properties}
        return {op.name for op in lowered.module.walk() if op.name.startswith("fxpmath")} | requantized

    powers = TYPES["8 bits, powers of two"]
    sums = {"fxpmath.rounding_divide_by_pot", "fxpmath.saturating_add"}
    assert names("real_add_ew", powers) == sums
    for op, kinds, properties in (
        ("real_mul_ew", powers, ""),
        ("real_matmul", powers, ""),
        ("real_unary_ew", powers[:2], 'fn = "IDENTITY"'),
        ("real_unary_ew", powers[:2], 'fn = "NEG"'),
        ("real_unary_ew", powers[:2], 'fn = "SQUARE"'),
    ):
        assert names(op, kinds, properties) == {"fxpmath.requantize", '"pot"'}, op
    assert names("real_add_ew", TYPES["8 bits, other scales"]) == {"fxpmath.weighted_sum"}


COMPARED = [
    ("!quant.uniform<i8:f32, 0.5:3>", "!quant.uniform<i8:f32, 0.75>"),
    ("!quant.uniform<i16:f32, 0.1:3>", "!quant.uniform<i16:f32, 0.3:-9>"),
    ("!quant.uniform<i8:f32, 1.0e-06>", "!quant.uniform<i8:f32, 1000.0:5>"),
]


@pytest.mark.parametrize("kinds", COMPARED)
@pytest.mark.parametrize("direction", ["LT", "EQ", "GE"])
def test_values_of_two_scales_are_compared_in_integers(kinds: tuple[str, str], direction: str) -> None:
    properties = f"comparison_direction = #stablehlo<comparison_direction {direction}>"
    agrees(one("stablehlo.compare", [*kinds, "i1"], properties, [SHAPE] * 3, "fixed16"))


@pytest.mark.parametrize("profile", ["fixed32-double", "tosa-double", "xnnpack", "onnxruntime"])
def test_profiles_of_runtimes_compare_values_of_two_scales_in_float(profile: str) -> None:
    direction = "comparison_direction = #stablehlo<comparison_direction GT>"
    lowered = agrees(one("stablehlo.compare", [*COMPARED[0], "i1"], direction, [SHAPE] * 3, profile), floats=1)
    (compare,) = [op for op in lowered.entry.ops if op.name == "stablehlo.compare"]
    assert [str(element_of(operand)) for operand in compare.operands] == ["f32", "f32"]
    assert f"the profile '{profile}' compares" in str(compare.attributes["zeropoint.float_reason"])


@pytest.mark.parametrize("width", [8, 16])
def test_quantized_division_is_an_integer_kernel(width: int) -> None:
    kinds = [kind(width, 0.02, 3), kind(width, 0.03, -4), kind(width, 0.1, 1)]
    lowered = agrees(one("stablehlo.divide", kinds, "", [SHAPE] * 3, "fixed32"))
    assert [op.name for op in lowered.entry.ops if op.name.startswith("fxpmath")] == ["fxpmath.quotient"]


@pytest.mark.parametrize("profile", ["fixed16", "fixed32"])
def test_sums_of_words_that_32_bits_do_not_hold_are_in_64(profile: str) -> None:
    kinds = [kind(16, 1.0, 0), kind(16, 1.0, 0), kind(16, 0.1, 0)]
    lowered = agrees(one("stablehlo.add", kinds, "", [SHAPE] * 3, profile))
    assert "i64" in {str(element_of(op.results[0])) for op in lowered.entry.ops if op.name == "stablehlo.add"}


@pytest.mark.parametrize("width", [8, 16])
@pytest.mark.parametrize(("multiplier", "shift"), [(3, 0), (1 << 30, 30), ((1 << 31) - 1, 44), (1789569707, 36)])
def test_native_quotients_of_every_shift(multiplier: int, shift: int, width: int) -> None:
    half = 1 << (width - 1)
    numbers = f"multiplier = {multiplier} : i64, shift = {shift} : i64, zero_points = array<i64: 3, {-half}>"
    bounds = "zero_point = -2 : i64, storage_min = -32768 : i64, storage_max = 32767 : i64"
    given, made = f"tensor<40x40xi{width}>", "tensor<40x40xi16>"
    program = parse_program(f"""func.func @main(%a: {given}, %b: {given}) -> {made} {{
      %y = "fxpmath.quotient"(%a, %b) <{{{numbers}, {bounds}}}> : ({given}, {given}) -> {made}
      return %y : {made} }}""")
    random = np.random.default_rng(0)
    few = [-half, -half + 1, -half + 2, -1, 0, 1, 3, 4, half - 2, half - 1]
    arrays = [
        np.where(random.random((40, 40)) < 0.5, random.choice(few, (40, 40)), random.integers(-half, half, (40, 40)))
        for _ in range(2)
    ]
    stored = [array.astype(f"i{width // 8}") for array in arrays]
    (expected,) = Interpreter(program).run_values(stored)
    feed = {port.name: array for port, array in zip(program.inputs, stored, strict=True)}
    np.testing.assert_array_equal(next(iter(NativeProgram(program)(feed).values())), expected)


def test_functions_of_words_have_no_table_under_the_profile_of_a_runtime() -> None:
    kinds = [kind(16, 0.0005, 3), kind(16, 0.001, 1)]
    program = one("real_unary_ew", kinds, 'fn = "EXP"', [SHAPE] * 2, "tosa-double")
    with pytest.raises(Error, match=r"found EXP of .* under the profile 'tosa-double', expected 8 bits, or a profile"):
        integer_program(program)
