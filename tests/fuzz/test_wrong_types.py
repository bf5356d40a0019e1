"""Every argument of the public API with values of wrong types: accepted, or a `zp.Error`, never another exception.

`make fuzz` tries every value for every argument; `make test` some of them.
"""

from __future__ import annotations

import array
import inspect
import random
import sys
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zeropoint as zp
from fuzz.survey import CASES, SEED

TEXT = """func.func @main(%x: tensor<1x4xf32> {zeropoint.name = "x"}) -> (tensor<1x4xf32> {zeropoint.name = "y"}) {
  %0 = stablehlo.tanh %x : tensor<1x4xf32>
  return %0 : tensor<1x4xf32>
}
"""
ROWS = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)
FEW = 150
"""Cases of `make test`, of some 9,000."""


class Odd:
    """An object of the user's that has nothing that is expected."""


def wrong() -> list[Any]:
    """Values of all kinds; some of them are right for some arguments."""
    return [
        *(None, True, 3, -1, 0, 10**40, 1.5, float("nan"), 1j, Decimal(1), Fraction(1, 2), np.float32(1)),
        *("", "text", "a\0b", "\ud800", "x" * 5000, b"", b"abc", bytearray(b"abc"), memoryview(b"abcd")),
        *(memoryview(ROWS), array.array("f", [1.0]), Path("folder"), "folder", Path("none"), Path("x" * 300)),
        *([], (), {}, [None], [[]], [{}], set[int](), {1}, {1: 2}, {None: None}, {"x": None}, {"x": {}}, {"x": []}),
        *(range(3), iter(()), slice(None), Ellipsis, NotImplemented, object(), Odd(), sys, Exception("e")),
        *(np.array(None), np.array("a"), np.array([object()]), np.zeros(0), np.zeros((2, 4), complex)),
        *(np.datetime64("2020"), np.rec.array([(1, 2.0)], dtype=[("x", int), ("y", float)])),
        *([ROWS, "a"], [ROWS, None], {"x": ROWS, "y": None}, [{"x": ROWS[0]}, {"x": "a"}], [{"x": ROWS[0]}, {}]),
        *({"x": ROWS[:0]}, zp.load(TEXT), len, Odd, lambda: None, lambda: 3),
    ]


def called(model: Any) -> Callable[..., Any]:
    return lambda x: model(x)


def called_by_name(model: Any) -> Callable[..., Any]:
    return lambda x: model(x=x)


def calls() -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """The functions by name, each with arguments that it accepts."""
    floats, made = zp.load(TEXT), zp.quantize(TEXT, ROWS, effort="none")
    several, native = zp.Specializations([made]), made.native()
    found: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
        "load": (zp.load, {"model": TEXT}),
        "quantize": (zp.quantize, {"model": TEXT, "data": ROWS, "effort": "none"}),
        "compare": (zp.compare, {"reference": TEXT, "model": made, "data": ROWS}),
        "sensitivity": (zp.sensitivity, {"model": TEXT, "data": ROWS}),
        "Images": (zp.Images, {"folder": "folder"}),
        "Model": (zp.Model, {"program": made.program}),
        "Specializations": (zp.Specializations, {"models": [made]}),
        "Specializations.load": (zp.Specializations.load, {"folder": "folder"}),
        "Specializations.quantize": (zp.Specializations.quantize, {"model": TEXT, "data": ROWS, "shapes": [{}]}),
        "natives": (zp.Model.natives, {"models": [made]}),
        "iterate": (lambda samples, progress=False: [*made.iterate(samples, progress=progress)], {"samples": ROWS}),
        "profile": (lambda x, rounds=1: made.profile(x, rounds=rounds), {"x": ROWS}),
        "a second array": (lambda x: made(ROWS, x), {"x": ROWS}),
        "an unknown array": (lambda x: made(ROWS, z=x), {"x": ROWS}),
        "several.parts_of": (several.parts_of, {"data": ROWS}),
        "several.fitting": (lambda x: several.fitting(x), {"x": ROWS}),
        "several.save": (several.save, {"folder": "out"}),
        "floats.explain": (floats.explain, {}),
    }
    ways: dict[str, dict[str, Any]] = {
        "run_samples": {"samples": ROWS},
        "save": {"path": "a.mlir"},
        "export": {"path": "a.onnx"},
        "explain": {},
        "report": {"path": "r.json", "timing": False, "trials": False},
        "native": {},
        "compile": {"path": "c.o"},
    }
    found |= {name: (getattr(made, name), given) for name, given in ways.items()}
    found |= {f"several.{name}": (getattr(several, name), ways[name]) for name in ("native", "compile")}
    for name, model in {"made": made, "floats": floats, "native": native, "several": several}.items():
        found[f"{name}()"] = called(model), {"x": ROWS}
        found[f"{name}() by name"] = called_by_name(model), {"x": ROWS}
    return found


def arguments(call: Callable[..., Any], given: Mapping[str, Any]) -> list[str]:
    """The names of a function's arguments, and of those that it is given besides."""
    named = inspect.signature(call).parameters.values()
    many = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [*dict.fromkeys([*(one.name for one in named if one.kind not in many), *given])]


@pytest.mark.filterwarnings("ignore")
def test_values_of_wrong_types_are_accepted_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    every = calls()
    places = [(name, argument) for name, (call, given) in every.items() for argument in arguments(call, given)]
    cases = [(*place, number) for place in places for number in range(len(wrong()))]
    bugs: list[str] = []
    for name, argument, number in cases if CASES else random.Random(SEED).sample(cases, FEW):
        (call, given), value = every[name], wrong()[number]
        if argument == "progress" and callable(value):
            continue  # what a function of the user's raises is the user's
        try:
            call(**{**given, argument: value})
        except zp.Error:
            pass
        except Exception as error:
            bugs.append(f"{name} {argument}={value!r:.60}: {type(error).__name__}: {error}")
    assert not bugs, "\n".join(bugs)
