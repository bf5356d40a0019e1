"""The integer program equals the quantized program under the same profile, on every element of every value."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from networks import Case, cases, quantized
from oracle.mlir import parse
from zeropoint.calibrate import samples
from zeropoint.frontend import load_model
from zeropoint.interp import Interpreter
from zeropoint.ir.annotations import EXPRESSED, PROFILE
from zeropoint.ir.locations import location_text
from zeropoint.ir.program import Program
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.tensors import Array, element_of
from zeropoint.ir.text import print_program
from zeropoint.ir.verification import verify
from zeropoint.lower import integer_program
from zeropoint.report.counts import float_ops

PROFILES = ("fixed16", "fixed32", "fixed32-double", "tosa-double")
DIGITS = Path(__file__).parent.parent / "examples" / "digits"

Stored = dict[str, list[tuple[UniformQuantizedType, Array]]]
"""For each name of the original model its quantized values in program order: type and storage integers."""


def under(program: Program, profile: str) -> Program:
    """The quantized program with another profile."""
    program = program.clone()
    program.module.attributes[PROFILE] = StringAttr(profile)
    return program


def run(interpreter: Interpreter, sample: dict[str, Array]) -> tuple[dict[str, Array], Stored]:
    """The outputs, and the storage integers of every named quantized value."""
    stored: Stored = defaultdict(list)

    def trace(op: Operation, results: tuple[Array, ...]) -> None:
        expressed = op.attributes.get(EXPRESSED)
        if expressed is None and len(op.results) == 1:
            expressed = element_of(op.results[0])
        name = location_text(op.location)
        if isinstance(expressed, UniformQuantizedType) and name is not None:
            stored[name].append((expressed, results[0]))

    return interpreter(sample, trace=trace), stored


def assert_same_values(reference: Program, integers: Program, samples: Iterable[dict[str, Array]]) -> int:
    """Every output, and the last value of each name that both have; how many names there were."""
    interpreters = Interpreter(reference), Interpreter(integers)
    names: set[str] = set()
    for sample in samples:
        (expected, expected_inside), (found, found_inside) = (run(each, sample) for each in interpreters)
        assert list(found) == list(expected)
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array, err_msg=name)
        for name, values in found_inside.items():
            kind, array = values[-1]
            same = [other for its, other in expected_inside[name] if its == kind and other.shape == array.shape]
            assert same, f"'{name}': nothing of type {kind} in the quantized program"
            np.testing.assert_array_equal(array, same[-1], err_msg=name)
        names |= found_inside.keys()
    return len(names)


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(case=cases())
def test_random_networks_compute_the_same_integers_before_and_after_lowering(case: Case) -> None:
    reference = quantized(case.program, case.calibration)
    for profile in PROFILES:
        chosen = under(reference, profile)
        integers = integer_program(chosen)
        verify(integers.module)
        assert not float_ops(integers)
        assert_same_values(chosen, integers, case.samples)


@pytest.fixture(scope="module")
def digits() -> tuple[Program, list[dict[str, Array]]]:
    """The quantized program of the demo model, and test images."""
    program = load_model(DIGITS / "digits.onnx")
    calibration = list(samples(DIGITS / "calib.npz", program.inputs))[:32]
    return quantized(program, calibration), list(samples(DIGITS / "test.npz", program.inputs))[:16]


@pytest.mark.parametrize("profile", PROFILES)
def test_the_demo_model_computes_the_same_integers_before_and_after_lowering(
    digits: tuple[Program, list[dict[str, Array]]], profile: str
) -> None:
    reference = under(digits[0], profile)
    integers = integer_program(reference)
    noise = np.random.default_rng(0).normal(0, 100, (1, 1, 28, 28)).astype(np.float32)
    assert assert_same_values(reference, integers, [*digits[1], {"image": noise}]) >= 9


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(case=cases())
def test_upstream_accepts_the_program_of_every_stage(case: Case) -> None:
    """The quantized program is StableHLO; regions, statistics and fxpmath are ops that it does not know."""
    reference = quantized(case.program, case.calibration)
    assert parse(print_program(reference, inline_weights=True)).text
    for stage in ("fused", "calibrated", "propagated"):
        program = quantized(case.program, case.calibration, stage=stage)
        assert parse(print_program(program, inline_weights=True), allow_unregistered=True).text
    assert parse(print_program(integer_program(reference), inline_weights=True), allow_unregistered=True).text


@settings(max_examples=10, suppress_health_check=list(HealthCheck))
@given(case=cases())
def test_the_same_input_gives_the_same_bytes(case: Case) -> None:
    def texts() -> list[str]:
        reference = quantized(case.program, case.calibration)
        return [
            print_program(program, locations=True, inline_weights=True)
            for program in (reference, integer_program(reference))
        ]

    assert texts() == texts()
