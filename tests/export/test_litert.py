"""Programs as .tflite files compute in LiteRT's reference kernels what we predict, every byte of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from networks import Case, cases
from oracle.litert import evaluate, evaluate_by_default
from zeropoint.calibrate import samples
from zeropoint.export import ExportError, ExportOptions, export_program
from zeropoint.export.litert.model import litert_model
from zeropoint.frontend import load_model
from zeropoint.interp import Interpreter
from zeropoint.ir.tensors import Array
from zeropoint.pipeline import Options, Quantization, quantize

DIGITS = Path(__file__).parents[2] / "examples" / "digits"


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


@pytest.mark.parametrize("profile", ["fixed32-double", "xnnpack"])
def test_random_networks_are_equal_in_every_byte(profile: str) -> None:
    """Prediction, integer program and runtime; `xnnpack` is what the runtime computes by default."""

    messages: set[str] = set()

    @settings(max_examples=20, suppress_health_check=list(HealthCheck))
    @given(case=cases())
    def check(case: Case) -> None:
        result = quantize(case.program, case.calibration, Options(target="litert", profile=profile))
        try:
            content = litert_model(result.propagated, channels_last=False)
        except ExportError as error:
            messages.add(str(error))
            return
        predict, integers = Interpreter(result.quantized), Interpreter(result.integer)
        for sample in case.samples[:2]:
            expected = predict(sample)
            for name, array in integers(sample).items():
                np.testing.assert_array_equal(array, expected[name])
            values = [sample[port.name] for port in case.program.inputs]
            found = evaluate(content, *values) if profile == "fixed32-double" else evaluate_by_default(content, *values)
            for array, prediction in zip(found, expected.values(), strict=True):
                np.testing.assert_array_equal(array, prediction)

    check()
    assert all("found" in text and "expected" in text for text in messages)


def test_the_demo_with_xnnpack_gives_our_bytes() -> None:
    program = load_model(DIGITS / "digits.onnx")
    calibration = list(samples(DIGITS / "calib.npz", program.inputs))[:32]
    result = quantize(program, calibration, Options(target="litert", profile="xnnpack"))
    content = litert_model(result.propagated)
    predict = Interpreter(result.quantized)
    for image in images(50):
        (found,) = evaluate_by_default(content, image.transpose(0, 2, 3, 1))
        np.testing.assert_array_equal(found, predict({"image": image})["probabilities"])


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
