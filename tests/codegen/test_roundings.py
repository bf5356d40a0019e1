"""What stands in for a math library where there is none: the same bits as NumPy's functions."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest

from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS
from zeropoint.codegen.llvm.machine import Loaded, compile_object
from zeropoint.codegen.llvm.roundings import rounding_functions
from zeropoint.ir.tensors import Array

EDGES = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 2.0**52, 2.0**52 - 0.5, -(2.0**51) - 0.5, 1e30]
EDGES += [0.49999999999999994, -0.49999999999999994, 2.0**23 - 0.5, -(2.0**22) - 0.5]


def away(x: Array) -> Array:
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(x.dtype.type(1), x), whole)


REFERENCES = {"trunc": np.trunc, "floor": np.floor, "ceil": np.ceil, "round": away, "roundeven": np.rint}


@pytest.fixture(scope="module")
def code() -> Loaded:
    isa = INSTRUCTION_SETS["portable"]
    text = re.sub(r"^define (\w+) @", r"define \1 @my_", rounding_functions(), flags=re.MULTILINE)
    return Loaded([compile_object(text, isa)], isa)


@pytest.mark.parametrize("name", [name + ending for ending in ("f", "") for name in REFERENCES])
def test_roundings_give_the_bits_of_a_math_library(code: Loaded, name: str) -> None:
    dtype, kind = (np.float32, ctypes.c_float) if name.endswith("f") else (np.float64, ctypes.c_double)
    call = ctypes.CFUNCTYPE(kind, kind)(code.address(f"my_{name}"))
    with np.errstate(invalid="ignore"):
        x = np.concatenate([EDGES, np.random.default_rng(0).normal(0, 1e3, 300)]).astype(dtype)
        found, wanted = np.array([call(float(value)) for value in x], dtype), REFERENCES[name.removesuffix("f")](x)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))
