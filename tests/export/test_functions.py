"""Float functions that a format lacks are arithmetic in its files: each runtime's results against the interpreter's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from export.float_programs import HEAD, RUNS, TOSA
from interp.programs import upstream
from oracle import mlir
from zeropoint.export import ExportError
from zeropoint.export.litert.model import litert_model
from zeropoint.export.stablehlo import stablehlo_text
from zeropoint.export.tosa.model import tosa_text
from zeropoint.interp import Interpreter
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program

ANY, UNIT, ABOVE_ONE = (-6.0, 6.0), (-1.0, 1.0), (1.0, 30.0)
CHLO = {
    "acos": UNIT, "acosh": ABOVE_ONE, "asin": UNIT, "asinh": ANY, "atan": ANY, "atanh": UNIT, "cosh": ANY, "erf": ANY,
    "erfc": ANY, "sinh": ANY,
}  # fmt: skip
STABLEHLO = {"cbrt": ANY, "round_nearest_afz": ANY, "round_nearest_even": ANY, "sign": ANY, "tan": UNIT}
EXACT = ("round_nearest_afz", "round_nearest_even", "sign")
DIALECTS = {"chlo": CHLO, "stablehlo": STABLEHLO}
DOMAINS = {f"{dialect}.{name}": part for dialect, ops in DIALECTS.items() for name, part in ops.items()}
COUNT = 256


def program(op: str, element: str = "f32") -> str:
    type_ = f"tensor<{COUNT}x{element}>"
    signature = f"{type_} -> {type_}" if op.startswith("chlo.") else type_
    return f"""{HEAD}%x: {type_} {{zeropoint.name = "x"}}) -> ({type_} {{zeropoint.name = "y"}}) {{
  %y = {op} %x : {signature}
  return %y : {type_}
}}
}}"""


def numbers(op: str) -> Array:
    """Numbers of the domain, many of them small, with its ends, zeros of both signs and middles of two integers."""
    low, high = DOMAINS[op]
    spread = np.linspace(low, high, COUNT - 72)
    small = np.exp(np.linspace(-20, -1, 64))
    near = low + small if low == 1.0 else small * np.where(np.arange(64) % 2, -1, 1)
    ends = np.array([low, high, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]) if low == 1.0 else [low, high, 0, -0.0, 0.5, -0.5, 1, -1]
    # At 1, atanh is infinite, which LiteRT's arithmetic is not.
    return (np.concatenate([spread, near, ends]) * (0.999999 if op == "chlo.atanh" else 1.0)).astype(np.float32)


@pytest.mark.parametrize("op", DOMAINS)
@pytest.mark.parametrize("form", ["litert", "onnx", TOSA])
def test_a_function_is_within_a_few_steps_of_its_values(op: str, form: str, tmp_path: Path) -> None:
    x = numbers(op)
    if form == "litert" and op == "stablehlo.round_nearest_even":
        pytest.skip("LiteRT's reference kernels have no ROUND")
    expected = Interpreter(parse_program(program(op)))({"x": x})["y"]
    found = RUNS[form](program(op), {"x": x}, tmp_path)
    if op.partition(".")[2] in EXACT:
        np.testing.assert_array_equal(found, expected)
    else:
        # acos 1 and acosh 1 are 0; the tails of erfc are differences of exponents.
        np.testing.assert_allclose(found, expected, rtol=1e-5 if op == "chlo.erfc" else 2e-6, atol=1e-37)


ANGLE = f"""{HEAD}%y: tensor<64xf32> {{zeropoint.name = "x"}}, %x: tensor<64xf32> {{zeropoint.name = "z"}})
    -> (tensor<64xf32> {{zeropoint.name = "y"}}) {{
  %0 = stablehlo.atan2 %y, %x : tensor<64xf32>
  return %0 : tensor<64xf32>
}}
}}"""


@pytest.mark.parametrize("form", ["litert", "onnx", TOSA])
def test_angles_have_the_signs_of_zeros(form: str, tmp_path: Path) -> None:
    ends = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -3.0, 1e-20, 1e20], np.float32)
    rise, run = (part.reshape(-1) for part in np.meshgrid(ends, ends))
    expected = Interpreter(parse_program(ANGLE))({"x": rise, "z": run})["y"]
    found = RUNS[form](ANGLE, {"x": rise, "z": run}, tmp_path)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-37)


@pytest.mark.parametrize("element", ["f32", "f64", "f16"])
@pytest.mark.parametrize("name", CHLO)
def test_stablehlo_files_have_the_bits_of_the_function(name: str, element: str) -> None:
    text = program(f"chlo.{name}", element)
    exported = stablehlo_text(parse_program(text))
    assert "chlo" not in exported
    x = numbers(f"chlo.{name}").astype({"f16": np.float16, "f32": np.float32, "f64": np.float64}[element])
    expected = Interpreter(parse_program(text))({"x": x})["y"]
    np.testing.assert_array_equal(Interpreter(parse_program(exported))({"x": x})["y"], expected)


@pytest.mark.parametrize("name", CHLO)
def test_c_plus_plus_stablehlo_evaluates_functions(name: str) -> None:
    mlir.require()
    text, x = program(f"chlo.{name}"), numbers(f"chlo.{name}")
    (found,) = upstream(stablehlo_text(parse_program(text)), x)
    expected = Interpreter(parse_program(text))({"x": x})["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-5 if name == "erfc" else 1e-6, atol=1e-37)


def test_a_function_without_arithmetic_is_refused() -> None:
    text = program("chlo.erf").replace("chlo.erf", "chlo.lgamma")
    with pytest.raises(ExportError, match=r"found chlo.lgamma, expected a function that StableHLO has; replace it"):
        stablehlo_text(parse_program(text))
    for name, write in (("LiteRT", litert_model), ("TOSA", tosa_text)):
        with pytest.raises(ExportError, match=f"found chlo.lgamma, expected an op that {name} has in float"):
            write(parse_program(text))


def test_constants_of_elementwise_ops_are_stored_once() -> None:
    """Broadcast to every element, they would make files of megabytes."""
    text = f"""{HEAD}%x: tensor<8x256x256xf32> {{zeropoint.name = "x"}}) -> (tensor<8x256x256xf32>
        {{zeropoint.name = "y"}}) {{
      %y = chlo.erf %x : tensor<8x256x256xf32> -> tensor<8x256x256xf32>
      return %y : tensor<8x256x256xf32>
    }}
    }}"""
    for write in (litert_model, tosa_text, stablehlo_text):
        assert len(write(parse_program(text))) < 30_000
