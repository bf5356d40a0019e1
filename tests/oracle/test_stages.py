"""Every stage of a real network: C++ MLIR parses and verifies what we print, and we read what it prints."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from oracle import mlir
from zeropoint.frontend import load_model
from zeropoint.ir.program import Program
from zeropoint.pipeline import Quantization, quantize

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
STAGES = ["fused", "calibrated", "propagated", "quantized", "integer"]


@pytest.fixture(scope="module")
def network() -> Program:
    return load_model(DIGITS / "digits.onnx")


@pytest.fixture(scope="module")
def stages(network: Program) -> Quantization:
    (port,) = network.inputs
    random = np.random.default_rng(0)
    samples = [{port.name: random.random(port.type.get_shape(), np.float32)} for _ in range(4)]
    return quantize(network, samples)


def test_the_float_program_goes_through_upstream(network: Program) -> None:
    mlir.checked(network)


@pytest.mark.parametrize("stage", STAGES)
def test_each_stage_goes_through_upstream(stages: Quantization, stage: str) -> None:
    mlir.checked(getattr(stages, stage))


def test_the_quantized_program_needs_nothing_but_stablehlo(stages: Quantization) -> None:
    text = mlir.print_program(stages.quantized)
    assert not mlir.needs_unregistered(text)
    assert "!quant.uniform" in mlir.canonical(text)
