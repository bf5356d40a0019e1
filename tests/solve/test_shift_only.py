"""The built-in target `shift_only`: power-of-two scales everywhere, so that requantization is a shift."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest

import zeropoint as zp
from digits import DIGITS
from zeropoint.calibrate import samples
from zeropoint.ir.annotations import facts_of
from zeropoint.ir.constants import constant_array
from zeropoint.ir.fxpmath import RequantizeOp
from zeropoint.ir.locations import describe
from zeropoint.ir.program import Program
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.regions import regions_of
from zeropoint.model import Model
from zeropoint.numerics.ranges import held_scale
from zeropoint.solve import rescale_count
from zeropoint.solve.check import violations
from zeropoint.targets import target


@pytest.fixture(scope="module")
def models() -> dict[str, Model]:
    """With all data and the corrections of the default effort where `ZEROPOINT_FIGURES` is set."""
    network, figures = zp.load(DIGITS / "digits.onnx"), "ZEROPOINT_FIGURES" in os.environ
    data = {"image": np.load(DIGITS / "calib.npz")["image"][: None if figures else 12]}
    effort = "balanced" if figures else "none"
    return {name: zp.quantize(network, data, target=name, effort=effort) for name in ("cpu", "shift_only")}


def propagated(model: Model) -> Program:
    assert model.quantization is not None
    return model.quantization.propagated


def scales(program: Program) -> Iterator[float]:
    for region in regions_of(program):
        for spec in (*region.input_specs, *region.output_specs):
            if isinstance(spec, UniformQuantizedType):
                yield from spec.scales.tolist()


def test_every_scale_is_a_power_of_two_and_no_rescale_is_needed(models: dict[str, Model]) -> None:
    program = propagated(models["shift_only"])
    found = list(scales(program))
    assert len(found) > 500
    assert {np.frexp(scale)[0] for scale in found} == {0.5}
    assert rescale_count(program) == 0
    assert violations(program, target("shift_only")) == []


def test_every_requantization_is_a_shift(models: dict[str, Model]) -> None:
    """That of the mean too: its sum is multiplied by round(2^22 / 49) before, an integer in the kernel's weights."""
    program = models["shift_only"].program
    found: set[str] = set()
    for op in program.entry.ops:
        if isinstance(op, RequantizeOp):
            array = constant_array(op.multiplier, program.weights)
            assert array is not None
            assert not (array & (array - 1)).any(), describe(op)
            found |= {fact.value for fact in facts_of(op) if fact.name == "kernel"}
    assert found >= {"convolution", "depthwise_convolution", "mean"}


def test_the_digits_are_read_as_well_as_with_any_scale(models: dict[str, Model]) -> None:
    """The figures of both are printed (`ZEROPOINT_FIGURES=1 pytest -s`).

    README.md of the example and docs/targets.md quote them.
    """
    labels = np.load(DIGITS / "test.npz")["labels"]
    right: dict[str, float] = {}
    for name, model in models.items():
        given = model.native().run_samples(samples(DIGITS / "test.npz", model.inputs))["probabilities"]
        right[name] = 100 * float((given.argmax(1) == labels).mean())
        print(f"{name}: {right[name]:.2f} % of {len(labels)} images")
    assert right["shift_only"] >= right["cpu"] - 1


@pytest.mark.parametrize("scale", [2.0**-149, 0.3, 0.5, 0.5000001, 1.0, 3.0, 2.0**60 + 1e9])
def test_the_least_power_of_two_that_is_not_below(scale: float) -> None:
    held = float(held_scale(scale, "power_of_two"))
    assert np.frexp(held)[0] == 0.5
    assert scale <= held < 2 * scale
