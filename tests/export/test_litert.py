"""Programs as .tflite files compute in LiteRT's reference kernels what we predict, every byte of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from networks import Case, cases
from oracle.litert import evaluate
from zeropoint.calibrate import samples
from zeropoint.export import ExportError, ExportOptions, export_program
from zeropoint.export.litert.model import litert_model
from zeropoint.frontend import load_model
from zeropoint.interp import Interpreter
from zeropoint.ir.tensors import Array
from zeropoint.pipeline import Options, Quantization, quantize

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
AT_FAULT = {"sum"}
"""Kernels that LiteRT 2.3.0 computes wrongly in its reference resolver."""


@pytest.fixture(scope="module")
def digits() -> Quantization:
    program = load_model(DIGITS / "digits.onnx")
    calibration = list(samples(DIGITS / "calib.npz", program.inputs))[:32]
    return quantize(program, calibration, Options(target="litert"))


def images(count: int) -> list[Array]:
    program = load_model(DIGITS / "digits.onnx")
    return [sample["image"] for sample in list(samples(DIGITS / "test.npz", program.inputs))[:count]]


def test_the_demo_in_litert_gives_our_bytes(digits: Quantization) -> None:
    content = litert_model(digits.propagated)
    predict = Interpreter(digits.quantized)
    for image in images(50):
        (found,) = evaluate(content, image.transpose(0, 2, 3, 1))
        np.testing.assert_array_equal(found, predict({"image": image})["probabilities"])


def test_the_model_s_own_layout_takes_the_model_s_own_images(digits: Quantization) -> None:
    content = litert_model(digits.propagated, channels_last=False)
    predict = Interpreter(digits.quantized)
    for image in images(5):
        (found,) = evaluate(content, image)
        np.testing.assert_array_equal(found, predict({"image": image})["probabilities"])


def test_integers_at_inputs_and_outputs(digits: Quantization) -> None:
    content = litert_model(digits.propagated, integer_io=True)
    predict = Interpreter(digits.quantized)
    for image in images(5):
        stored = (np.rint(image / np.float32(1 / 255)) - 128).astype(np.int8)
        (found,) = evaluate(content, stored.transpose(0, 2, 3, 1))
        assert found.dtype == np.int8
        expected = predict({"image": image})["probabilities"]
        np.testing.assert_array_equal((found.astype(np.float32) + 128) / 256, expected)


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(case=cases())
def test_random_networks_are_refused_or_equal(case: Case) -> None:
    result = quantize(case.program, case.calibration, Options(target="litert"))
    try:
        content = litert_model(result.propagated, channels_last=False)
    except ExportError:
        return
    predict, integers = Interpreter(result.quantized), Interpreter(result.integer)
    names = {op.attributes["logical_kernel"].data for op in result.propagated.entry.ops if op.name == "quant.region"}
    for sample in case.samples[:2]:
        expected = predict(sample)
        for name, array in integers(sample).items():
            np.testing.assert_array_equal(array, expected[name])
        if not names & AT_FAULT:
            found = evaluate(content, *(sample[port.name] for port in case.program.inputs))
            for array, prediction in zip(found, expected.values(), strict=True):
                np.testing.assert_array_equal(array, prediction)


def test_a_program_of_another_target_is_refused(tmp_path: Path) -> None:
    program = load_model(DIGITS / "digits.onnx")
    calibration = list(samples(DIGITS / "calib.npz", program.inputs))[:2]
    result = quantize(program, calibration, Options(target="cpu"))
    with pytest.raises(ExportError, match="found a program for target 'cpu', expected one for litert or litert-16x8"):
        export_program(result.propagated, tmp_path / "x.tflite", ExportOptions())
    with pytest.raises(ExportError, match=r"found suffix '\.foo', expected one of: \.tflite"):
        export_program(result.propagated, tmp_path / "x.foo")
    assert not list(tmp_path.iterdir())


def test_an_integer_program_is_refused(digits: Quantization, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="found a program without kernels, expected one with regions"):
        export_program(digits.integer, tmp_path / "x.tflite")
