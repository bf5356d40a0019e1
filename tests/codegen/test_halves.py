"""f16 and bf16 in native code: every bit is the interpreter's."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from codegen.exactness import HERE, assert_native_is_exact, kernels_of_steps
from codegen.loop_programs import main
from codegen.region_programs import compared, sort
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program

pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered")  # NumPy's, of signalling NaN
DTYPES = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
FORMATS = pytest.mark.parametrize("type_", DTYPES)


def every(type_: str) -> Array:
    """All 65,536 numbers of a format."""
    return np.arange(1 << 16, dtype=np.uint16).view(DTYPES[type_])


def pairs(type_: str) -> tuple[Array, Array]:
    """Numbers of all magnitudes and near each other, with the special ones."""
    random = np.random.default_rng(0)
    bits = random.integers(0, 1 << 16, (2, 20000)).astype(np.uint16)
    near = np.clip(bits[0, :4000].astype(np.int64) + random.integers(-40, 40, 4000), 0, 65535).astype(np.uint16)
    special = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 65504, 6e-8, -6e-8, 6.1e-5], DTYPES[type_])
    grid = [part.ravel().view(np.uint16) for part in np.meshgrid(special, special)]
    left, right = (np.concatenate(parts).view(DTYPES[type_]) for parts in ([bits[0], bits[0, :4000], grid[0]],
                                                                          [bits[1], near, grid[1]]))  # fmt: skip
    return left, right


def check(program: Program, inputs: dict[str, Array], isa: InstructionSet = HERE[0]) -> None:
    """Every bit of what is no NaN."""
    (expected,), (found,) = Interpreter(program)(inputs).values(), NativeProgram(program, isa=isa)(inputs).values()
    assert found.dtype == expected.dtype
    unknown = np.isnan(expected.astype(np.float64))
    np.testing.assert_array_equal(np.isnan(found.astype(np.float64)), unknown)
    word = np.dtype(f"u{expected.dtype.itemsize}")
    np.testing.assert_array_equal(found.view(word)[~unknown], expected.view(word)[~unknown])


UNARY = ["abs", "ceil", "floor", "negate", "round_nearest_afz", "round_nearest_even", "sign", "sqrt"]
BINARY = ["add", "divide", "maximum", "minimum", "multiply", "remainder", "subtract"]


def on_all(names: list[str], everywhere: str) -> pytest.MarkDecorator:
    """Every op by the best instruction set, one of them by every other one."""
    rows = [(name, HERE[0]) for name in names] + [(everywhere, isa) for isa in HERE[1:]]
    return pytest.mark.parametrize(("name", "isa"), rows, ids=lambda part: getattr(part, "name", part))


@FORMATS
@on_all(UNARY, "sqrt")
def test_what_is_rounded_correctly_of_every_number(name: str, type_: str, isa: InstructionSet) -> None:
    tensor = f"tensor<65536x{type_}>"
    check(main(f"%x: {tensor}", tensor, f"%y = stablehlo.{name} %x : {tensor}"), {"arg0": every(type_)}, isa)


@FORMATS
@on_all(BINARY, "divide")
def test_what_is_rounded_correctly_of_two(name: str, type_: str, isa: InstructionSet) -> None:
    left, right = pairs(type_)
    tensor = f"tensor<{left.size}x{type_}>"
    program = main(f"%x: {tensor}, %z: {tensor}", tensor, f"%y = stablehlo.{name} %x, %z : {tensor}")
    check(program, {"arg0": left, "arg1": right}, isa)


@FORMATS
def test_every_op_of_a_chain_is_rounded(type_: str) -> None:
    left, right = pairs(type_)
    tensor = f"tensor<{left.size}x{type_}>"
    program = main(
        f"%x: {tensor}, %z: {tensor}", tensor, f"%a = stablehlo.multiply %x, %z : {tensor}",
        f"%b = stablehlo.add %a, %x : {tensor}", f"%c = stablehlo.subtract %b, %a : {tensor}",
        f"%y = stablehlo.divide %c, %z : {tensor}",
    )  # fmt: skip
    assert len(kernels_of_steps(program)) == 1
    check(program, {"arg0": left, "arg1": right})


@FORMATS
@pytest.mark.parametrize("name", ["cosine", "exponential", "log", "logistic", "rsqrt", "sine", "tanh"])
def test_functions_are_rounded_as_by_the_interpreter(name: str, type_: str) -> None:
    tensor = f"tensor<65536x{type_}>"
    check(main(f"%x: {tensor}", tensor, f"%y = stablehlo.{name} %x : {tensor}"), {"arg0": every(type_)})


@FORMATS
@pytest.mark.parametrize("other", ["f32", "f64", "i8", "i32", "i64", "ui16", "i1", "f16", "bf16"])
def test_conversions_from_and_to_other_numbers(type_: str, other: str) -> None:
    random = np.random.default_rng(1)
    if other in DTYPES:
        values = every(other)
    elif other[0] == "f":
        near = every("f16").astype(np.float64) * (1 + random.choice([0, 2.0**-11, -(2.0**-12), 2.0**-40], 1 << 16))
        values = np.concatenate([near, random.normal(size=1000) * 1e5]).astype(
            {"f32": np.float32, "f64": np.float64}[other]
        )
    elif other == "i1":
        values = random.random(50) < 0.5
    else:
        dtype = np.dtype(f"{'u' if other[0] == 'u' else ''}int{other.strip('ui')}")
        info = np.iinfo(dtype)
        values = np.concatenate(
            [random.integers(info.min, info.max, 500, dtype), random.integers(0, 100, 99).astype(dtype)]
        )
    for source, target, array in ((other, type_, values), (type_, other, every(type_))):
        made, result = f"tensor<{array.size}x{source}>", f"tensor<{array.size}x{target}>"
        program = main(f"%x: {made}", result, f"%y = stablehlo.convert %x : ({made}) -> {result}")
        check(program, {"arg0": array})


@FORMATS
@pytest.mark.parametrize("op", ["add", "maximum", "multiply"])
def test_reductions_are_the_interpreters(type_: str, op: str) -> None:
    program = parse_program(f"""
    func.func @main(%x: tensor<5x37x{type_}>, %i: tensor<{type_}>) -> tensor<5x{type_}> {{
      %a = stablehlo.negate %x : tensor<5x37x{type_}>
      %y = stablehlo.reduce(%a init: %i) applies stablehlo.{op} across dimensions = [1] :
        (tensor<5x37x{type_}>, tensor<{type_}>) -> tensor<5x{type_}>
      return %y : tensor<5x{type_}>
    }}""")
    x = np.random.default_rng(0).normal(size=(5, 37)).astype(DTYPES[type_])
    check(program, {"arg0": x, "arg1": np.array(0.5, DTYPES[type_])})


@FORMATS
def test_movement_selection_and_sorting(type_: str) -> None:
    whole, part = f"tensor<4x9x{type_}>", f"tensor<9x5x{type_}>"
    program = main(
        f"%x: {whole}, %p: tensor<9x5xi1>", part,
        f"%t = stablehlo.transpose %x, dims = [1, 0] : ({whole}) -> tensor<9x4x{type_}>",
        f"%v = stablehlo.constant dense<-1.5> : tensor<{type_}>",
        f"%w = stablehlo.pad %t, %v, low = [0, 0], high = [0, 1], interior = [0, 0] : "
        f"(tensor<9x4x{type_}>, tensor<{type_}>) -> {part}",
        f"%r = stablehlo.reverse %w, dims = [1] : {part}",
        f"%y = stablehlo.select %p, %r, %w : tensor<9x5xi1>, {part}",
    )  # fmt: skip
    random = np.random.default_rng(0)
    x = random.normal(size=(4, 9)).astype(DTYPES[type_])
    assert_native_is_exact(program, [{"arg0": x, "arg1": random.random((9, 5)) < 0.5}], HERE[0])
    assert_native_is_exact(sort(compared("LT", type_), "4x9", type_), [{"arg0": x}], HERE[0])


def test_sums_of_products_are_refused_by_name() -> None:
    program = main(
        "%x: tensor<2x3xf16>, %z: tensor<3x2xf16>", "tensor<2x2xf16>",
        "%y = stablehlo.dot_general %x, %z, contracting_dims = [1] x [0] : "
        '(tensor<2x3xf16>, tensor<3x2xf16>) -> tensor<2x2xf16> loc("mm")',
    )  # fmt: skip
    with pytest.raises(CodegenError, match=r"stablehlo.dot_general 'mm': found tensor<2x2xf16>; native code has sums"):
        NativeProgram(program)
