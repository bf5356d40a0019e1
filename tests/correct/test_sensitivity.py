"""Noise of single kernels, against networks whose noise comes from one known place."""

from __future__ import annotations

import numpy as np
import pytest

import zeropoint as zp
from networks import Network
from zeropoint.correct.sensitivity import Sensitivity, ranked
from zeropoint.interp import ReferenceEngine
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import ConvolutionLayout, ConvolutionOp
from zeropoint.ir.tensors import Array, with_shape
from zeropoint.ir.text import parse_program
from zeropoint.pipeline import Options, sensitivity
from zeropoint.sensitivities import Sensitivities

CHANNELS = 6
LARGE = 60.0


def network(outlier: int | None) -> Program:
    """Four 1x1 convolutions whose weights are whole steps of 8 bits.

    The result of one has a channel that is `LARGE` times the others, and the next one takes that factor off again.
    """
    net = Network([(1, CHANNELS, 8, 8)], seed=2)
    value = net.values[0]
    for number in range(4):
        net.layer("conv")
        weight = net.random.integers(-50, 51, (CHANNELS, CHANNELS, 1, 1)) / 127
        weight[:, 1] = 1.0
        if number == outlier:
            weight[0] *= LARGE
        if outlier is not None and number == outlier + 1:
            weight[:, 0] /= LARGE
        made = ConvolutionOp(
            value, net.constant(weight), with_shape(value, [1, CHANNELS, 8, 8]), ConvolutionLayout.channels_first(2)
        )
        value = net.insert(made)
        net.values.append(value)
    return net.finish([value])


def found(outlier: int | None, target: str = "cpu", *, exact: bool = False) -> list[Sensitivity]:
    random = np.random.default_rng(0)
    samples: list[dict[str, Array]] = [
        {"x0": random.normal(0, 1, (1, CHANNELS, 8, 8)).astype(np.float32)} for _ in range(4)
    ]
    options = Options(target, observer="minmax")
    return sensitivity(network(outlier), samples, options, exact=exact, engine=ReferenceEngine())


@pytest.mark.parametrize("outlier", [0, 2])
def test_the_kernel_behind_an_outlier_inherits_its_noise(outlier: int) -> None:
    kernels = found(outlier)
    assert [one.kernel for one in kernels] == ["convolution"] * 4
    reader = kernels[outlier + 1]
    assert reader.inherited > 20 * reader.added
    for one in kernels:
        assert one.total == pytest.approx(one.inherited + one.added, rel=0.5)


def test_sixteen_bits_gain_what_rounding_the_result_adds() -> None:
    first = found(None)[0]
    # Its weights are exact: all that it adds is rounding its result, which is spread evenly over a step.
    assert first.wide_gain == pytest.approx(10 * np.log10(first.total / first.inherited), rel=0.3)


def test_what_outputs_lose_exactly_is_most_for_the_kernels_on_both_sides_of_the_outlier() -> None:
    kernels = found(1, "litert", exact=True)
    losses = [one.exact_loss for one in kernels]
    assert None not in losses
    # The value between the two is narrow where either is.
    assert {one.name for one in ranked(kernels)[:2]} == {kernels[1].name, kernels[2].name}


def test_the_wider_form_has_16_bits_where_the_target_has_them_and_is_float_elsewhere() -> None:
    """A target with one width was refused."""
    words, floats = found(1, "litert", exact=True), found(1, "cpu", exact=True)
    assert [one.exact_form for one in words] == ["i16"] * 4
    assert [one.exact_form for one in floats] == ["float"] * 4
    assert [one.exact_loss for one in floats] == [None] * 4
    assert None not in [one.exact_gain for one in (*words, *floats)]
    assert "float" in str(Sensitivities(floats))


def test_an_exact_gain_is_that_of_the_program_with_the_kernel_wide() -> None:
    """Against a recipe that keeps it float."""
    random = np.random.default_rng(0)
    samples = [{"x0": random.normal(0, 1, (1, CHANNELS, 8, 8)).astype(np.float32)} for _ in range(4)]
    program = network(1)
    kernels = found(1, "cpu", exact=True)

    def sqnr(recipe: list[dict[str, object]] | None) -> float:
        made = zp.quantize(zp.Model(program), samples, observer="minmax", effort="none", recipe=recipe)
        (output,) = zp.compare(zp.Model(program), made, samples).outputs
        return output.sqnr

    plain = sqnr(None)
    for one in kernels:
        gain = sqnr([{"name": one.name, "quantize": False}]) - plain
        assert one.exact_gain == pytest.approx(gain, abs=1e-6)


def test_the_samples_of_a_model_without_ranges_to_observe_are_read_under_any_effort() -> None:
    text = """func.func @main(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
      %0 = stablehlo.uniform_quantize %x : (tensor<1x4xf32>) -> tensor<1x4x!quant.uniform<i8:f32, 0.1>>
      %1 = stablehlo.uniform_dequantize %0 : (tensor<1x4x!quant.uniform<i8:f32, 0.1>>) -> tensor<1x4xf32>
      %2 = stablehlo.constant dense<0.5> : tensor<4x4xf32>
      %3 = stablehlo.dot_general %1, %2, contracting_dims = [1] x [0]
        : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
      %4 = stablehlo.uniform_quantize %3 : (tensor<1x4xf32>) -> tensor<1x4x!quant.uniform<i8:f32, 0.1>>
      %5 = stablehlo.uniform_dequantize %4 : (tensor<1x4x!quant.uniform<i8:f32, 0.1>>) -> tensor<1x4xf32>
      return %5 : tensor<1x4xf32>
    }"""
    data = np.random.default_rng(0).uniform(-3, 3, (4, 1, 4)).astype(np.float32)
    for effort in ("none", "balanced"):
        assert [one.kernel for one in zp.sensitivity(text, data, effort=effort)] == ["fully_connected"]


def test_the_worst_kernels_have_the_shares_of_all() -> None:
    kernels = found(None)
    assert isinstance(kernels, Sensitivities)
    every, (worst,) = kernels.ranked, kernels.worst(1)
    assert worst == every[0]
    share = f"{100 * worst.at_outputs / sum(one.at_outputs for one in kernels):.1f} %"
    assert share in str(kernels.worst(1))
    assert share != "100.0 %"


def test_the_table_has_a_row_for_each_kernel() -> None:
    kernels = found(None)
    head, _, *rows = [line.split() for line in str(Sensitivities(kernels)).splitlines() if line.strip()]
    assert head[:3] == ["kernel", "of", "SQNR"]
    assert [row[0] for row in rows] == [one.name for one in kernels]


def test_the_noise_of_truth_values_is_the_share_that_differs() -> None:
    program = parse_program("""
func.func @main(%x: tensor<4x64xf32>, %z: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %least = stablehlo.constant dense<0.02> : tensor<4x64xf32>
  %t = stablehlo.add %x, %z : tensor<4x64xf32>
  %p = stablehlo.compare GT, %t, %least : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xi1>
  %y = stablehlo.select %p, %t, %x : tensor<4x64xi1>, tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}""")
    x = np.linspace(-2, 2, 256, dtype=np.float32).reshape(4, 64)
    kernels = sensitivity(program, [{"arg0": x, "arg1": x}], Options(observer="minmax"), engine=ReferenceEngine())
    (compared,) = [one for one in kernels if one.kernel == "compare"]
    # The float sum next to the constant is rounded to the other side of it.
    assert (compared.inherited, compared.added) == (1 / 256, 0.0)
