"""Ops that a loop nest computes: each compared with the interpreter, every bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from codegen.exactness import HERE, assert_native_is_exact, kernels_of_steps
from codegen.loop_programs import INTEGERS, SPECIAL, check_ulp, inputs_for, main, reals
from property_cases import some
from random_networks import Case, cases
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program
from zeropoint.simplify import simplify

F = "tensor<3x5x19xf32>"


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_are_the_interpreters(name: str) -> None:
    program = INTEGERS[name]
    assert_native_is_exact(program, [inputs_for(program, seed) for seed in (0, 1)], HERE[0], threads=(1, 2))


@pytest.mark.parametrize("isa", HERE[1:], ids=lambda row: row.name)
@pytest.mark.parametrize(
    "name", ["clamp of bytes", "pad", "maximum over the first dimensions", "product of two batches"]
)
def test_integers_are_the_interpreters_on_every_instruction_set(name: str, isa: InstructionSet) -> None:
    program = INTEGERS[name]
    assert_native_is_exact(program, [inputs_for(program)], isa)


FUNCTIONS = [
    "abs", "cbrt", "ceil", "exponential", "exponential_minus_one", "floor", "log", "log_plus_one", "logistic", "negate",
    "round_nearest_afz", "round_nearest_even", "rsqrt", "sign", "sqrt", "tanh",
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "type_"), [(np.float32, "f32"), (np.float64, "f64")])
@pytest.mark.parametrize("name", [*FUNCTIONS, "chlo.erf"])
def test_functions_are_the_interpreters(name: str, dtype: type[np.floating], type_: str) -> None:
    x = reals(dtype)
    tensor = f"tensor<{x.size}x{type_}>"
    op = f"chlo.erf %x : {tensor} -> {tensor}" if name == "chlo.erf" else f"stablehlo.{name} %x : {tensor}"
    program = main(f"%x: {tensor}", tensor, f"%y = {op}")
    check_ulp(program, {"arg0": x}, 0)


@pytest.mark.parametrize(("dtype", "type_"), [(np.float32, "f32"), (np.float64, "f64")])
@pytest.mark.parametrize("name", ["add", "divide", "maximum", "minimum", "multiply", "power", "subtract"])
def test_functions_of_two_are_the_interpreters(name: str, dtype: type[np.floating], type_: str) -> None:
    values = np.concatenate([SPECIAL.astype(dtype), reals(dtype)[::150]])
    pairs = [part.ravel() for part in np.meshgrid(values, values)]
    tensor = f"tensor<{pairs[0].size}x{type_}>"
    program = main(f"%x: {tensor}, %z: {tensor}", tensor, f"%y = stablehlo.{name} %x, %z : {tensor}")
    check_ulp(program, dict(zip(("arg0", "arg1"), pairs, strict=True)), 0)


@some(6)
@given(case=cases())
def test_float_networks_are_the_interpreters(case: Case) -> None:
    assert_native_is_exact(simplify(case.program), case.samples[:2], HERE[0], threads=(2,))


def test_float_functions_become_one_step_with_what_follows_them() -> None:
    program = main(
        f"%x: {F}", F, f"%a = stablehlo.exponential %x : {F}", f"%b = stablehlo.add %a, %x : {F}",
        f"%y = stablehlo.multiply %a, %b : {F}",
    )  # fmt: skip
    assert len(kernels_of_steps(program)) == 1
    assert_native_is_exact(program, [inputs_for(program)], HERE[0])


def test_a_softmax_is_one_step() -> None:
    row = "tensor<3x5xf32>"
    reduced = f"across dimensions = [2] : ({F}, tensor<f32>) -> {row}"
    program = main(
        f"%x: {F}", F,
        "%l = stablehlo.constant dense<0xFF800000> : tensor<f32>",
        "%i = stablehlo.constant dense<0.0> : tensor<f32>",
        f"%m = stablehlo.reduce(%x init: %l) applies stablehlo.maximum {reduced}",
        f"%n = stablehlo.broadcast_in_dim %m, dims = [0, 1] : ({row}) -> {F}",
        f"%d = stablehlo.subtract %x, %n : {F}",
        f"%e = stablehlo.exponential %d : {F}",
        f"%s = stablehlo.reduce(%e init: %i) applies stablehlo.add {reduced}",
        f"%t = stablehlo.broadcast_in_dim %s, dims = [0, 1] : ({row}) -> {F}",
        f"%y = stablehlo.divide %e, %t : {F}",
    )  # fmt: skip
    assert len(kernels_of_steps(program)) == 1
    assert_native_is_exact(program, [inputs_for(program)], HERE[0], threads=(1, 3))


def test_a_value_may_be_returned_twice_and_used() -> None:
    program = parse_program(f"""func.func @main(%x: {F}) -> ({F}, {F}, {F}) {{
      %a = stablehlo.negate %x : {F}
      %b = stablehlo.add %a, %x : {F}
      func.return %a, %b, %a : {F}, {F}, {F} }}""")
    assert_native_is_exact(program, [inputs_for(program)], HERE[0], threads=(1, 2))


def test_a_long_chain_of_waiting_ops_does_not_recurse_through_all_of_them() -> None:
    lines = [f"%v0 = stablehlo.add %x, %x : {F}"]
    lines += [f"%v{n + 1} = stablehlo.negate %v{n} : {F}" for n in range(1500)]
    program = main(f"%x: {F}", F, *lines, f"%y = stablehlo.negate %v1500 : {F}")
    assert len(kernels_of_steps(program)) < 40


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (main("%x: tensor<4xf32>", "tensor<4xf32>",
              '%y = chlo.lgamma %x : tensor<4xf32> -> tensor<4xf32> loc("wave")'),
         r"chlo.lgamma 'wave': found no native form of it; run it with the interpreter"),
        (main("%x: tensor<4x!quant.uniform<i8:f32, 0.5:3>>", "tensor<4x!quant.uniform<i8:f32, 0.5:3>>",
              "%y = stablehlo.add %x, %x : tensor<4x!quant.uniform<i8:f32, 0.5:3>>"),
         r"stablehlo.add: found tensor<4x!quant.uniform<i8:f32, .*:3>>; expected numbers: native code is made of "),
        (main("%x: tensor<4xi4>", "tensor<4xi4>", "%y = stablehlo.add %x, %x : tensor<4xi4>"),
         r"stablehlo.add: found elements i4; native code has i1, integers of 8 to 64 bits, f16, bf16, f32, f64"),
    ],
)  # fmt: skip
def test_an_op_without_native_form_is_named_with_its_place_and_the_fix(program: Program, message: str) -> None:
    with pytest.raises(CodegenError, match=message):
        NativeProgram(program)


@pytest.mark.parametrize("isa", HERE, ids=lambda row: row.name)
@pytest.mark.parametrize(
    ("lhs", "rhs", "dims"),
    [
        ((2, 5, 33), (2, 7, 33), "batching_dims = [0] x [0], contracting_dims = [2] x [2]"),
        ((2, 3, 9, 17), (2, 3, 17, 70), "batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2]"),
        ((40, 6), (6, 128), "contracting_dims = [1] x [0]"),
        ((6, 40), (48, 6), "contracting_dims = [0] x [1]"),
    ],
    ids=str,
)
def test_products_of_two_floats(isa: InstructionSet, lhs: tuple[int, ...], rhs: tuple[int, ...], dims: str) -> None:
    left, right = ("x".join(map(str, shape)) for shape in (lhs, rhs))
    column = rhs[-2] if dims.endswith(f"x [{len(rhs) - 1}]") else rhs[-1]
    rows = lhs[-1] if "= [0] x [1]" in dims else lhs[-2]
    shape = (*lhs[:-2], rows, column)
    result = "tensor<" + "x".join(map(str, shape)) + "xf32>"
    order = [*reversed(range(len(shape) - 1)), len(shape) - 1]
    turned = "tensor<" + "x".join(str(shape[d]) for d in order) + "xf32>"
    program = main(
        f"%a: tensor<{left}xf32>, %b: tensor<{right}xf32>", turned,
        f"%n = stablehlo.negate %a : tensor<{left}xf32>",
        f"%p = stablehlo.dot_general %n, %b, {dims} : (tensor<{left}xf32>, tensor<{right}xf32>) -> {result}",
        f"%t = stablehlo.transpose %p, dims = {order} : ({result}) -> {turned}",
        f"%y = stablehlo.negate %t : {turned}",
    )  # fmt: skip
    assert_native_is_exact(program, [inputs_for(program)], isa, threads=(1, 3))
