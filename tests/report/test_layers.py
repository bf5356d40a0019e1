"""Programs that hand out the values in the middle, and comparisons by layer."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from networks import quantized
from property_cases import some
from random_networks import Case, cases
from zeropoint.comparison import compare
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program
from zeropoint.ir.verification import verify
from zeropoint.lower import integer_program
from zeropoint.model import Model
from zeropoint.report.layers import observed_layers

TYPE = "!quant.uniform<i8:f32, 5.000000e-01:3>"


def observed(program: Program, sample: dict[str, Array]) -> dict[str, Array]:
    seen: dict[str, Array] = {}
    instrumented = observed_layers(program)
    verify(instrumented.module)
    Interpreter(instrumented)(sample, observe=seen.__setitem__)
    return seen


def test_an_integer_value_is_observed_as_the_real_one_that_it_stands_for() -> None:
    text = f"""func.func @main(%x: tensor<3xi8> {{zeropoint.name = "x"}}) -> tensor<3xi8> {{
      %0 = stablehlo.constant dense<2> : tensor<256xi8>
      %1 = "fxpmath.table"(%x, %0) {{zeropoint.expressed = {TYPE}}}
           : (tensor<3xi8>, tensor<256xi8>) -> tensor<3xi8> loc("f")
      %2 = stablehlo.add %1, %1 : tensor<3xi8> loc("g")
      return %2 : tensor<3xi8>
    }}"""
    seen = observed(parse_program(text), {"x": np.zeros(3, np.int8)})
    assert list(seen) == ["f"]  # of the sum nobody knows what it stands for
    np.testing.assert_array_equal(seen["f"], np.full(3, (2 - 3) * 0.5, np.float32))


def test_of_several_values_with_one_name_the_last_is_observed() -> None:
    text = """func.func @main(%x: tensor<2xf32> {zeropoint.name = "x"}) -> tensor<2xf32> {
      %0 = stablehlo.negate %x : tensor<2xf32> loc("f")
      %1 = stablehlo.abs %0 : tensor<2xf32> loc("f")
      return %1 : tensor<2xf32>
    }"""
    seen = observed(parse_program(text), {"x": np.array([1, -2], np.float32)})
    assert {name: array.tolist() for name, array in seen.items()} == {"f": [1.0, 2.0]}


@some(5)
@given(case=cases())
def test_layers_of_the_quantized_and_the_integer_program_are_equal(case: Case) -> None:
    reference = quantized(case.program, case.calibration)
    integers = integer_program(reference)
    for sample in case.samples[:2]:
        expected, found = observed(reference, sample), observed(integers, sample)
        for name in expected.keys() & found.keys():
            if expected[name].shape == found[name].shape:
                np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


@some(5)
@given(case=cases())
def test_any_network_can_be_compared_by_layer(case: Case) -> None:
    integers = integer_program(quantized(case.program, case.calibration))
    found = compare(Model(case.program), Model(integers), case.calibration, layers=True)
    assert [row.name for row in found.outputs] == [port.name for port in case.program.outputs]
    assert found.samples == len(case.calibration)
