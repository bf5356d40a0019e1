"""Requantizations of i64 accumulators of any magnitude: native code and the emitted ops, against the interpreter."""

import numpy as np
import pytest

from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.text import parse_program
from zeropoint.standard import expand_fxpmath

ACCUMULATORS = [2**62, -(2**62), 2**63 - 1, -(2**63), 2**50 + 1, -(2**47), 2**33, -(2**31) - 1, 3, -1]


@pytest.mark.parametrize(
    ("behaviour", "multiplier", "shift", "expected"),
    [
        ("fixed32", 2**31 - 1, 62, [2**31 - 1, -(2**31) + 1, 2**31 - 1, -(2**31), 2**19, -(2**16), 4, -1, 0, 0]),
        ("fixed32", 30000, 62, [30000, -30000, 60000, -60000, 7, -1, 0, 0, 0, 0]),
        ("fixed32", 1, 10, [2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 2**23, -(2**21), 0, 0]),
        ("tosa-double", 2**30, 40, [2**21, -(2**21), 2**21, -(2**21), 2**21, -(2**21), 2**21, -(2**21), 0, 0]),
        ("pot", 1, 40, [2**22, -(2**22), 2**23, -(2**23), 2**10, -(2**7), 0, 0, 0, 0]),
        ("pot", 1, -20, [*[2**31 - 1, -(2**31)] * 4, 3 << 20, -(1 << 20)]),
    ],
)  # fmt: skip
def test_a_wide_accumulator_never_wraps_around(behaviour, multiplier, shift, expected):
    program = parse_program(f"""func.func @main(%a: tensor<10xi64>) -> tensor<10xi32> {{
      %m = stablehlo.constant dense<{multiplier}> : tensor<1xi32>
      %s = stablehlo.constant dense<{shift}> : tensor<1xi32>
      %y = "fxpmath.requantize"(%a, %m, %s) <{{behaviour = "{behaviour}", zero_point = 0 : i64,
        storage_min = -2147483648 : i64, storage_max = 2147483647 : i64}}>
        : (tensor<10xi64>, tensor<1xi32>, tensor<1xi32>) -> tensor<10xi32>
      return %y : tensor<10xi32>
    }}""")
    accumulators = np.array(ACCUMULATORS, np.int64)
    (interpreted,) = Interpreter(program).run_values([accumulators])
    assert interpreted.tolist() == expected
    (expanded,) = Interpreter(expand_fxpmath(program)).run_values([accumulators])
    assert expanded.tolist() == expected
    compiled = NativeProgram(program)
    (native,) = compiled({compiled.inputs[0].name: accumulators}).values()
    assert native.tolist() == expected
