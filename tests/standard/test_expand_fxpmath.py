"""Expanded fixed-point ops compute what the ops do: random multipliers, accumulators at every bound."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import IntegerType, Signedness, TensorType, i8, i16

from interp.programs import one_op
from property_cases import some
from standard.fixed_point_programs import Case, accumulators, cases, requantization
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.errors import Error
from zeropoint.interp import Interpreter
from zeropoint.ir.fxpmath import RequantizeOp, TableOp, WeightedSumOp
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program, print_program
from zeropoint.numerics import CommonScaleSum
from zeropoint.quant_passes.errors import LoweringError
from zeropoint.standard import expand_fxpmath, lower_to_loops, lower_to_standard


def agrees(program: Program, *arrays: Array) -> None:
    expanded = expand_fxpmath(program)
    assert not [op for op in expanded.module.walk() if op.name.startswith("fxpmath.")]
    parse_program(print_program(expanded), weights=expanded.weights)  # verifies
    (expected,), (found,) = (Interpreter(each).run_values(arrays) for each in (program, expanded))
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype


@some(40, deadline=None)
@given(case=cases(), seed=st.integers(0, 2**32 - 1))
def test_every_behaviour_keeps_every_bit(case: Case, seed: int) -> None:
    agrees(requantization(case), accumulators(case, np.random.default_rng(seed)))


@some(20, deadline=None)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_a_weighted_sum_keeps_every_bit(data: st.DataObject, seed: int) -> None:
    count, shift = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 31))
    width, element = data.draw(st.sampled_from([(8, i8), (16, i16)]))
    reach = ((1 << 31) - 1 - (1 << (shift - 1))) // count >> (width + 1)
    factors = tuple(data.draw(st.integers(-reach, reach)) for _ in range(count))
    half = 1 << (width - 1)
    points = tuple(data.draw(st.integers(-half, half - 1)) for _ in range(count))
    total = CommonScaleSum(factors, points, shift, data.draw(st.integers(-half, half - 1)), -half, half - 1)
    kind = TensorType(element, [60])
    random = np.random.default_rng(seed)
    arrays = [random.integers(-half, half, 60).astype(f"i{width // 8}") for _ in range(count)]
    agrees(one_op([kind] * count, lambda *inputs: WeightedSumOp(inputs, kind, total)), *arrays)


@pytest.mark.parametrize("unsigned", [False, True])
def test_a_table_becomes_a_gather(unsigned: bool) -> None:
    element = IntegerType(8, Signedness.UNSIGNED) if unsigned else i8
    entries = np.random.default_rng(0).integers(-(2**15), 2**15, 256).astype(np.int16)
    types = [TensorType(element, [2, 128]), TensorType(i16, [256])]
    x = np.arange(256).reshape(2, 128) - (0 if unsigned else 128)
    program = one_op(types, lambda a, t: TableOp(a, t, TensorType(i16, [2, 128])))
    agrees(program, x.astype(np.uint8 if unsigned else np.int8), entries)


def test_multipliers_that_are_not_constant_are_refused_with_the_op() -> None:
    text = """
    func.func @main(%a: tensor<4xi32>, %m: tensor<1xi32>, %n: tensor<1xi32>) -> tensor<4xi8> {
      %y = "fxpmath.requantize"(%a, %m, %n) <{behaviour = "fixed32", zero_point = 0 : i64, storage_min = -128 : i64,
        storage_max = 127 : i64}> : (tensor<4xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<4xi8>
      return %y : tensor<4xi8>
    }"""
    with pytest.raises(Error, match=r"fxpmath\.requantize: found multipliers that are not constant") as error:
        expand_fxpmath(parse_program(text))
    assert isinstance(getattr(error.value, "op", None), RequantizeOp)


def paired(weight: int, form: str) -> Program:
    return parse_program(f"""func.func @main(%x: tensor<2x4xi8>) -> tensor<2x3xi32> {{
      %w = stablehlo.constant dense<{weight}> : tensor<4x3xi8>
      %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {{zeropoint.dot_form = "{form}"}}
        : (tensor<2x4xi8>, tensor<4x3xi8>) -> tensor<2x3xi32> loc("fc")
      return %y : tensor<2x3xi32>
    }}""")


@pytest.mark.parametrize("lowering", [expand_fxpmath, lower_to_standard, lower_to_loops])
def test_a_dot_form_whose_sums_saturate_is_refused_and_others_are_exact(
    lowering: Callable[[Program], Program],
) -> None:
    x = np.full((2, 4), 127, np.int8)
    (simulated,) = Interpreter(paired(127, "u8s8_pairs")).run_values([x])
    assert int(simulated[0, 0]) != 4 * 127 * 127
    message = "'fc'.*found dot form .u8s8_pairs. with sums of two products up to 64770.*remove zeropoint.dot_form"
    with pytest.raises(LoweringError, match=message):
        lowering(paired(127, "u8s8_pairs"))
    for weight, form in ((64, "u8s8_pairs"), (127, "u8s8_pairs_split"), (-128, "u8s8_quads")):
        program = paired(weight, form)
        (expected,), (found,) = (Interpreter(each).run_values([x]) for each in (program, lowering(program)))
        np.testing.assert_array_equal(found, expected)
        assert int(found[0, 0]) == 4 * 127 * weight


@pytest.mark.parametrize("form", ["u8s8_pairs", "u8s8_pairs_split"])
@pytest.mark.parametrize("less", ["x", "w"])
def test_a_dot_form_of_numbers_less_a_zero_point_is_refused_because_it_saturates(form: str, less: str) -> None:
    """They need nine bits: x less a computed number, for which no instruction has an offset, or w less -128."""
    types = {name: f"tensor<{shape}x" for name, shape in (("x", "2x4"), ("w", "4x3"))}
    point = "%z" if less == "x" else "%c"
    narrow = {
        name: f"""%{name}32 = stablehlo.convert %{name} : ({kind}i8>) -> {kind}i32>
          %{name}1 = stablehlo.subtract %{name}32, {point if name == less else "%zero" + name} : {kind}i32>"""
        for name, kind in types.items()
    }
    program = parse_program(f"""func.func @main(%x: {types["x"]}i8>, %w: {types["w"]}i8>, %z: {types["x"]}i32>)
        -> tensor<2x3xi32> {{
      %c = stablehlo.constant dense<-128> : {types["w"]}i32>
      %zerox = stablehlo.constant dense<0> : {types["x"]}i32>
      %zerow = stablehlo.constant dense<0> : {types["w"]}i32>
      {narrow["x"]}
      {narrow["w"]}
      %y = stablehlo.dot_general %x1, %w1, contracting_dims = [1] x [0] {{zeropoint.dot_form = "{form}"}}
        : ({types["x"]}i32>, {types["w"]}i32>) -> tensor<2x3xi32> loc("fc")
      return %y : tensor<2x3xi32>
    }}""")
    arrays = np.full((2, 4), 127, np.int8), np.full((4, 3), 127, np.int8), np.full((2, 4), -128, np.int32)
    assert int(Interpreter(program).run_values(arrays)[0][0, 0]) != 4 * 255 * 127
    with pytest.raises(LoweringError, match=f"'fc'.*found dot form .{form}. with sums of two products up to"):
        lower_to_standard(program)
    with pytest.raises(CodegenError, match=r"found dot form 'u8s8_pairs\w*' on a product that no kernel of bytes"):
        NativeProgram(program)
